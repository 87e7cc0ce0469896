//! The publisher of a chunk whose sequence is kept with it: a publisher with a name, whose messages are numbered. The last number is
//! in the chunk's trailer, so that messages and number are on disk together or not at all.
//!
//! The trailer has the layout of RabbitMQ's: one byte type (0 for a sequence), one byte length of the name, the name, and eight bytes
//! number, all big endian.

use super::{ChunkError, ChunkHeader};

/// Longest name in bytes.
pub const WRITER_NAME_BYTES_MAX: usize = u8::MAX as usize;

/// The type of an entry that holds a sequence.
const SEQUENCE: u8 = 0;

/// A named publisher, and the number of its last message in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkWriter<'a> {
    /// Its name, of at most [`WRITER_NAME_BYTES_MAX`] bytes.
    pub name: &'a str,
    /// The number of its last message.
    pub sequence: u64,
}

impl ChunkWriter<'_> {
    /// Length of the trailer in bytes.
    pub(super) fn trailer_bytes(&self) -> u32 {
        2 + self.name.len() as u32 + 8
    }

    /// Appends the trailer.
    ///
    /// # Panics
    /// If the name is too long.
    pub(super) fn write_trailer(&self, out: &mut Vec<u8>) {
        out.push(SEQUENCE);
        out.push(u8::try_from(self.name.len()).expect("longer names are refused"));
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
    }
}

/// The publisher in the trailer of a chunk; `None` if it has none. A chunk has at most one.
///
/// # Errors
/// [`ChunkError`] if the chunk or its trailer is damaged.
pub fn writer(chunk: &[u8]) -> Result<Option<ChunkWriter<'_>>, ChunkError> {
    let header = ChunkHeader::decode(chunk)?;
    header.check_length(chunk.len())?;
    let at = chunk.len() - header.trailer_length as usize;
    let trailer = &chunk[at..];
    if trailer.is_empty() {
        return Ok(None);
    }
    let truncated = || ChunkError::Truncated {
        part: "trailer",
        at: at as u64,
        need: 2 + u64::from(trailer.get(1).copied().unwrap_or(0)) + 8,
        have: trailer.len() as u64,
    };
    let [SEQUENCE, length, rest @ ..] = trailer else { return Err(truncated()) };
    let (name, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(truncated)?;
    let sequence = rest.first_chunk::<8>().ok_or_else(truncated)?;
    let name = std::str::from_utf8(name).map_err(|_| truncated())?;
    Ok(Some(ChunkWriter { name, sequence: u64::from_be_bytes(*sequence) }))
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkBuilder, decode};
    use super::*;

    #[test]
    fn a_writer_comes_back_and_the_messages_with_it() {
        let mut builder = ChunkBuilder::new(16);
        builder.push_entry(b"\0\0\0\x05\0\x53\x75\xa0\0", 1).expect("it is small");
        let writer_of = ChunkWriter { name: "orders", sequence: 77 };
        let chunk = builder.finish_of(Some(&writer_of)).to_bytes();
        assert_eq!(writer(&chunk), Ok(Some(writer_of)));
        assert_eq!(decode(&chunk, "").expect("a chunk").len(), 1);
        for end in 0..chunk.len() {
            assert!(writer(&chunk[..end]).is_err());
        }
        builder.push_entry(b"\0\0\0\x05\0\x53\x75\xa0\0", 1).expect("it is small");
        assert_eq!(writer(&builder.finish().to_bytes()), Ok(None));
    }
}
