//! Header, segment rows, log entries and footer of a checkpoint.

use super::{VERSION, is_zero, put, u16_at, u32_at, u64_at};
use crate::types::{LogId, Position};

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 96;
/// Bytes of a segment row.
pub(crate) const SEGMENT_ROW_BYTES: usize = 16;
/// Bytes of a log entry before its live set.
pub(crate) const ENTRY_BYTES: usize = 64;
/// Value of `next` for a deleted log.
pub(crate) const NEXT_DELETED: u64 = u64::MAX;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 16;

const MAGIC: &[u8; 4] = b"LVRC";
const FOOTER_MAGIC: &[u8; 4] = b"LVRE";

/// The header of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub sequence: u64,
    pub floor: u64,
    pub position: Position,
    pub batch: u64,
    pub next_file: u64,
    pub next_segment: u64,
    pub segments: u32,
    pub logs: u32,
    pub length: u64,
    pub rows_crc: u32,
    /// Sequence of the file with the second copy of the metadata's entry; 0 if there is none.
    pub metadata: u64,
}

impl Header {
    pub(crate) fn encode(&self, node_id: u64, wal_id: u16) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &wal_id.to_le_bytes());
        put(&mut bytes, 8, &node_id.to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &self.floor.to_le_bytes());
        put(&mut bytes, 32, &self.position.to_le_bytes());
        put(&mut bytes, 40, &self.batch.to_le_bytes());
        put(&mut bytes, 48, &self.next_file.to_le_bytes());
        put(&mut bytes, 56, &self.next_segment.to_le_bytes());
        put(&mut bytes, 64, &self.segments.to_le_bytes());
        put(&mut bytes, 68, &self.logs.to_le_bytes());
        put(&mut bytes, 72, &self.length.to_le_bytes());
        put(&mut bytes, 80, &self.metadata.to_le_bytes());
        put(&mut bytes, 88, &self.rows_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..92]);
        put(&mut bytes, 92, &crc.to_le_bytes());
        bytes
    }

    /// The header in these bytes, and the id of the node that wrote it.
    pub(crate) fn decode(bytes: &[u8], wal_id: u16) -> Option<(Header, u64)> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let whole = &bytes[..4] == MAGIC
            && u32_at(bytes, 92) == crc32c::crc32c(&bytes[..92])
            && u16_at(bytes, 4) == VERSION
            && u16_at(bytes, 6) == wal_id;
        whole.then(|| {
            let header = Header {
                sequence: u64_at(bytes, 16),
                floor: u64_at(bytes, 24),
                position: u64_at(bytes, 32),
                batch: u64_at(bytes, 40),
                next_file: u64_at(bytes, 48),
                next_segment: u64_at(bytes, 56),
                segments: u32_at(bytes, 64),
                logs: u32_at(bytes, 68),
                length: u64_at(bytes, 72),
                rows_crc: u32_at(bytes, 88),
                metadata: u64_at(bytes, 80),
            };
            (header, u64_at(bytes, 8))
        })
    }

    pub(crate) fn footer(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        put(&mut bytes, 0, &self.logs.to_le_bytes());
        put(&mut bytes, 4, FOOTER_MAGIC);
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        bytes
    }
}

/// The head of a log's entry; live set and state follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub log: LogId,
    pub next: u64,
    pub position: Position,
    pub bytes: u64,
    pub live_length: u64,
    pub state_length: u64,
}

impl Entry {
    /// Bytes of the whole entry.
    pub(crate) fn length(&self) -> Option<u64> {
        (ENTRY_BYTES as u64).checked_add(self.live_length)?.checked_add(self.state_length)
    }

    /// The head, with the checksum over both parts of the content.
    pub(crate) fn encode(&self, live: &[u8], state: &[u8]) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &self.log.0.to_le_bytes());
        put(&mut bytes, 8, &self.next.to_le_bytes());
        put(&mut bytes, 16, &self.position.to_le_bytes());
        put(&mut bytes, 24, &self.bytes.to_le_bytes());
        put(&mut bytes, 32, &self.live_length.to_le_bytes());
        put(&mut bytes, 40, &self.state_length.to_le_bytes());
        let head = crc32c::crc32c(&bytes[..56]);
        let content = crc32c::crc32c_append(crc32c::crc32c_append(head, live), state);
        put(&mut bytes, 56, &content.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        put(&mut bytes, 60, &crc.to_le_bytes());
        bytes
    }

    /// The head of a log whose state is lost: the sum of its content is wrong, so that each start finds that.
    pub(crate) fn encode_lost(log: LogId) -> [u8; ENTRY_BYTES] {
        let entry = Entry { log, next: 0, position: 0, bytes: 0, live_length: 0, state_length: 0 };
        let mut bytes = entry.encode(&[], &[]);
        bytes[56..60].iter_mut().for_each(|byte| *byte = !*byte);
        let crc = crc32c::crc32c(&bytes[..60]);
        put(&mut bytes, 60, &crc.to_le_bytes());
        bytes
    }

    /// The head in these bytes, if it is valid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Entry> {
        let bytes = bytes.get(..ENTRY_BYTES)?;
        let whole = u32_at(bytes, 60) == crc32c::crc32c(&bytes[..60]) && is_zero(&bytes[48..56]);
        whole.then(|| Entry {
            log: LogId(u64_at(bytes, 0)),
            next: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            bytes: u64_at(bytes, 24),
            live_length: u64_at(bytes, 32),
            state_length: u64_at(bytes, 40),
        })
    }

    /// The head of the whole entry in `bytes`, if one byte of it is wrong and no other byte of the entry: the sum of the head and that
    /// of the content, which has the head, too, are right with another byte there.
    pub(crate) fn mend(bytes: &[u8]) -> Option<Entry> {
        let mut mended = bytes.to_vec();
        let head = bytes.get(..ENTRY_BYTES)?;
        for (at, wrong) in head.iter().enumerate() {
            for byte in (0..=u8::MAX).filter(|byte| byte != wrong) {
                mended[at] = byte;
                if let Some(entry) = Entry::decode(&mended)
                    && entry.length() == Some(bytes.len() as u64)
                    && Entry::content_is_whole(&mended)
                {
                    return Some(entry);
                }
            }
            mended[at] = *wrong;
        }
        None
    }

    /// Whether the content after the head in `bytes` is as written.
    pub(crate) fn content_is_whole(bytes: &[u8]) -> bool {
        let head = crc32c::crc32c(&bytes[..56]);
        u32_at(bytes, 56) == crc32c::crc32c_append(head, &bytes[ENTRY_BYTES..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let header = Header {
            sequence: 4,
            floor: 9,
            position: 1000,
            batch: 70,
            next_file: 13,
            next_segment: 3,
            segments: 2,
            logs: 5,
            length: 4000,
            rows_crc: 77,
            metadata: 3,
        };
        let bytes = header.encode(6, 1);
        assert_eq!(Header::decode(&bytes, 1), Some((header, 6)));
        assert_eq!(Header::decode(&bytes, 2), None);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes, 1), None);
        }
    }

    #[test]
    fn every_flipped_bit_of_an_entry_is_found() {
        let entry = Entry { log: LogId(8), next: 12, position: 40, bytes: 99, live_length: 4, state_length: 3 };
        assert_eq!(entry.length(), Some(71));
        let mut bytes = entry.encode(b"live", b"abc").to_vec();
        bytes.extend_from_slice(b"liveabc");
        assert_eq!(Entry::decode(&bytes), Some(entry));
        assert!(Entry::content_is_whole(&bytes));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&bytes).is_none() || !Entry::content_is_whole(&bytes));
        }
    }
}
