//! The content of the `closed-` file: how far the log had come when it was closed.
//!
//! It is a lower bound: a log that ends before it has lost something, which nothing else would reveal.

use super::{VERSION, is_zero, put, u16_at, u32_at, u64_at};
use crate::types::Position;

/// Bytes of the file.
pub(crate) const CLOSED_BYTES: usize = 64;

const MAGIC: &[u8; 4] = b"LVRZ";

/// Content of the `closed-` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Sequence of the closing batch.
    pub batch: u64,
    /// Position of its last record.
    pub position: Position,
    /// Sequence of its WAL file.
    pub file: u64,
    /// Sequence of the checkpoint in force, 0 if there was none.
    pub checkpoint: u64,
    /// From this position on there is no metadata record; 0 if it isn't known.
    pub metadata_mark: Position,
}

impl Closed {
    pub(crate) fn encode(&self, node_id: u64, wal_id: u16) -> [u8; CLOSED_BYTES] {
        let mut bytes = [0; CLOSED_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &wal_id.to_le_bytes());
        put(&mut bytes, 8, &node_id.to_le_bytes());
        put(&mut bytes, 16, &self.batch.to_le_bytes());
        put(&mut bytes, 24, &self.position.to_le_bytes());
        put(&mut bytes, 32, &self.file.to_le_bytes());
        put(&mut bytes, 40, &self.checkpoint.to_le_bytes());
        put(&mut bytes, 48, &self.metadata_mark.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CLOSED_BYTES - 4]);
        put(&mut bytes, CLOSED_BYTES - 4, &crc.to_le_bytes());
        bytes
    }

    /// The content, if it is valid and belongs to this WAL.
    pub(crate) fn decode(bytes: &[u8], node_id: u64, wal_id: u16) -> Option<Closed> {
        let whole = bytes.len() == CLOSED_BYTES
            && &bytes[..4] == MAGIC
            && u32_at(bytes, CLOSED_BYTES - 4) == crc32c::crc32c(&bytes[..CLOSED_BYTES - 4])
            && u16_at(bytes, 4) == VERSION
            && u16_at(bytes, 6) == wal_id
            && u64_at(bytes, 8) == node_id
            && is_zero(&bytes[56..CLOSED_BYTES - 4]);
        whole.then(|| Closed {
            batch: u64_at(bytes, 16),
            position: u64_at(bytes, 24),
            file: u64_at(bytes, 32),
            checkpoint: u64_at(bytes, 40),
            metadata_mark: u64_at(bytes, 48),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let closed = Closed { batch: 7, position: 100, file: 3, checkpoint: 2, metadata_mark: 99 };
        let bytes = closed.encode(5, 1);
        assert_eq!(Closed::decode(&bytes, 5, 1), Some(closed));
        assert_eq!(Closed::decode(&bytes, 5, 2), None);
        assert_eq!(Closed::decode(&bytes[..63], 5, 1), None);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Closed::decode(&bytes, 5, 1), None);
        }
    }
}
