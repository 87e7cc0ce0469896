//! The first 512 bytes of WAL files, files of the entry log, segments and body files.

use super::{Identity, SECTOR, VERSION, is_zero, put, u16_at, u32_at, u64_at};

/// Bytes before the first batch.
pub const FILE_HEADER_BYTES: u64 = SECTOR;

const USED: usize = 64;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file of the write-ahead log.
    Wal,
    /// A segment.
    Segment,
    /// A large body.
    Body,
    /// A file of the entry log.
    Entries,
}

impl FileKind {
    fn magic(self) -> &'static [u8; 4] {
        match self {
            FileKind::Wal => b"LVRW",
            FileKind::Segment => b"LVRS",
            FileKind::Body => b"LVRD",
            FileKind::Entries => b"LVRT",
        }
    }
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// WAL file, file of the entry log, segment or body file.
    pub kind: FileKind,
    /// Id of the node.
    pub node_id: u64,
    /// Id of the WAL.
    pub wal_id: u16,
    /// File sequence, or id of the segment or body.
    pub sequence: u64,
    /// Salt of this use of the file.
    pub salt: u64,
    /// Length of the file when it was created; for a body file, of the body; for a segment whose batches are in a WAL
    /// file, their end there.
    pub length: u64,
    /// Of a segment: sequence of the WAL file that has its batches; 0 if it has them itself. Of a WAL file: sequence of the one that had
    /// a durable batch, the last one, when this one was prepared; 0 if that isn't known.
    pub batches_in: u64,
}

impl FileHeader {
    pub(crate) fn new(kind: FileKind, identity: &Identity, sequence: u64, length: u64) -> Self {
        let Identity { node_id, wal_id, salt, .. } = *identity;
        FileHeader { kind, node_id, wal_id, sequence, salt, length, batches_in: 0 }
    }

    /// The header of a segment whose batches are in this WAL file, up to `end`.
    pub(crate) fn of_kept_file(identity: &Identity, id: u64, file: u64, end: u64) -> Self {
        FileHeader { batches_in: file, ..FileHeader::new(FileKind::Segment, identity, id, end) }
    }

    /// The 512 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        put(&mut bytes, 0, self.kind.magic());
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &self.wal_id.to_le_bytes());
        put(&mut bytes, 8, &self.node_id.to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &self.salt.to_le_bytes());
        put(&mut bytes, 32, &self.length.to_le_bytes());
        put(&mut bytes, 40, &self.batches_in.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..USED - 4]);
        put(&mut bytes, USED - 4, &crc.to_le_bytes());
        bytes
    }

    /// The header in these bytes, if it is valid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<FileHeader> {
        let bytes = bytes.get(..FILE_HEADER_BYTES as usize)?;
        let kinds = [FileKind::Wal, FileKind::Segment, FileKind::Body, FileKind::Entries];
        let kind = kinds.into_iter().find(|kind| bytes[..4] == *kind.magic())?;
        let whole = u16_at(bytes, 4) == VERSION
            && u32_at(bytes, USED - 4) == crc32c::crc32c(&bytes[..USED - 4])
            && is_zero(&bytes[48..USED - 4])
            && is_zero(&bytes[USED..]);
        whole.then(|| FileHeader {
            kind,
            wal_id: u16_at(bytes, 6),
            node_id: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            salt: u64_at(bytes, 24),
            length: u64_at(bytes, 32),
            batches_in: u64_at(bytes, 40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let header = FileHeader::new(FileKind::Wal, &Identity::wal(3, 1, 9), 9, 1 << 20);
        let entries = FileHeader::new(FileKind::Entries, &Identity::entries(3, 1, 9), 9, 1 << 20);
        for header in [header, entries, FileHeader::of_kept_file(&Identity::segment(3, 1, 7), 7, 9, 60 << 10)] {
            let bytes = header.encode();
            assert_eq!(FileHeader::decode(&bytes), Some(header));
            assert_eq!(FileHeader::decode(&bytes[..511]), None);
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(FileHeader::decode(&bytes), None, "bit {bit}");
            }
        }
    }
}
