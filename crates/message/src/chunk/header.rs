//! The fixed header of a chunk.

use super::{CHUNK_BYTES_MAX, ChunkError};

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 48;
const MAGIC: u8 = 5;
const VERSION: u8 = 0;
/// The type of chunks with messages; others hold the positions of publishers and consumers.
const TYPE_USER: u8 = 0;

/// The header of a chunk of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkHeader {
    /// Number of entries.
    pub entries: u16,
    /// Number of messages.
    pub messages: u32,
    /// When the chunk was written, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The term of the writer.
    pub epoch: u64,
    /// Offset of the first message in the stream.
    pub first: u64,
    /// CRC-32 (IEEE) of the entries.
    pub crc: u32,
    /// Length of the entries in bytes.
    pub data_length: u32,
    /// Length of the trailer in bytes.
    pub trailer_length: u32,
    /// Length of the Bloom filter in bytes; 0 without one.
    pub filter_length: u8,
}

impl ChunkHeader {
    /// Reads the header at the beginning of a chunk.
    ///
    /// # Errors
    /// [`ChunkError`] if there are too few bytes, or if they aren't the header of a chunk of messages.
    pub fn decode(bytes: &[u8]) -> Result<Self, ChunkError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(ChunkError::Truncated {
                part: "header",
                at: 0,
                need: HEADER_BYTES as u64,
                have: bytes.len() as u64,
            });
        };
        let (magic, version) = (head[0] >> 4, head[0] & 0x0f);
        if magic != MAGIC {
            return Err(ChunkError::Magic(magic));
        }
        if version != VERSION {
            return Err(ChunkError::Version(version));
        }
        if head[1] != TYPE_USER {
            return Err(ChunkError::Type(head[1]));
        }
        Ok(Self {
            entries: u16::from_be_bytes(field(head, 2)),
            messages: u32::from_be_bytes(field(head, 4)),
            timestamp_ms: i64::from_be_bytes(field(head, 8)),
            epoch: u64::from_be_bytes(field(head, 16)),
            first: u64::from_be_bytes(field(head, 24)),
            crc: u32::from_be_bytes(field(head, 32)),
            data_length: u32::from_be_bytes(field(head, 36)),
            trailer_length: u32::from_be_bytes(field(head, 40)),
            filter_length: head[44],
        })
    }

    /// The encoded header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut head = [0; HEADER_BYTES];
        head[0] = MAGIC << 4 | VERSION;
        head[1] = TYPE_USER;
        head[2..4].copy_from_slice(&self.entries.to_be_bytes());
        head[4..8].copy_from_slice(&self.messages.to_be_bytes());
        head[8..16].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        head[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        head[24..32].copy_from_slice(&self.first.to_be_bytes());
        head[32..36].copy_from_slice(&self.crc.to_be_bytes());
        head[36..40].copy_from_slice(&self.data_length.to_be_bytes());
        head[40..44].copy_from_slice(&self.trailer_length.to_be_bytes());
        head[44] = self.filter_length;
        head
    }

    /// Length of the whole chunk in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.data_at() as u64 + u64::from(self.data_length) + u64::from(self.trailer_length)
    }

    /// Where the entries begin in the chunk.
    pub fn data_at(&self) -> usize {
        HEADER_BYTES + usize::from(self.filter_length)
    }

    /// Offset of the message behind the last one.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.messages))
    }

    /// Compares the header's lengths with `have`, the length of the chunk in bytes.
    ///
    /// # Errors
    /// [`ChunkError::Length`] if they differ, or [`ChunkError::TooLong`].
    pub fn check_length(&self, have: usize) -> Result<(), ChunkError> {
        let need = self.chunk_bytes();
        if need > CHUNK_BYTES_MAX as u64 {
            return Err(ChunkError::TooLong(need));
        }
        if need != have as u64 { Err(ChunkError::Length { need, have: have as u64 }) } else { Ok(()) }
    }

    /// Checks the lengths of a chunk, and the checksum of its entries.
    ///
    /// # Errors
    /// [`ChunkError`] if it is damaged.
    pub fn check(&self, chunk: &[u8]) -> Result<(), ChunkError> {
        self.check_length(chunk.len())?;
        self.check_entries(&chunk[self.data_at()..self.data_at() + self.data_length as usize])
    }

    /// Compares the checksum with that of these bytes, the entries.
    ///
    /// # Errors
    /// [`ChunkError::Crc`] if they differ.
    pub(super) fn check_entries(&self, entries: &[u8]) -> Result<(), ChunkError> {
        let found = crc32fast::hash(entries);
        if found != self.crc { Err(ChunkError::Crc { expected: self.crc, found }) } else { Ok(()) }
    }
}

fn field<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    *head[at..].first_chunk().expect("fields lie within the header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let header = ChunkHeader {
            entries: 2,
            messages: 3,
            timestamp_ms: 1_700_000_000_000,
            epoch: 1,
            first: 1 << 40,
            crc: 0xdead_beef,
            data_length: 5,
            trailer_length: 6,
            filter_length: 16,
        };
        let mut bytes = header.encode().to_vec();
        assert_eq!(ChunkHeader::decode(&bytes), Ok(header));
        assert_eq!((header.data_at(), header.chunk_bytes(), header.end()), (64, 75, (1 << 40) + 3));
        for end in 0..HEADER_BYTES {
            assert!(matches!(ChunkHeader::decode(&bytes[..end]), Err(ChunkError::Truncated { part: "header", .. })));
        }
        bytes[1] = 2;
        assert_eq!(ChunkHeader::decode(&bytes), Err(ChunkError::Type(2)));
        bytes[0] = 0x51;
        assert_eq!(ChunkHeader::decode(&bytes), Err(ChunkError::Version(1)));
        bytes[0] = 0x40;
        assert_eq!(ChunkHeader::decode(&bytes), Err(ChunkError::Magic(4)));
    }

    #[test]
    fn lengths_and_the_checksum_are_compared() {
        let mut chunk =
            ChunkHeader { data_length: 4, crc: crc32fast::hash(b"data"), ..ChunkHeader::default() }.encode().to_vec();
        chunk.extend_from_slice(b"data");
        let header = ChunkHeader::decode(&chunk).unwrap();
        assert_eq!(header.check(&chunk), Ok(()));
        assert_eq!(header.check_length(51), Err(ChunkError::Length { need: 52, have: 51 }));
        chunk[50] ^= 1;
        assert!(matches!(header.check(&chunk), Err(ChunkError::Crc { .. })));
        let long = ChunkHeader { data_length: u32::MAX, trailer_length: u32::MAX, ..header };
        assert!(matches!(long.check_length(52), Err(ChunkError::TooLong(length)) if length > u64::from(u32::MAX)));
    }
}
