//! The on-disk formats of `docs/storage.md`: one module per structure, with encoding and decoding side by side.
//! Decoders accept arbitrary bytes, never panic, and never allocate by a length that they read.

pub mod batch;
pub mod batch_check;
pub(crate) mod body;
pub(crate) mod checkpoint;
pub(crate) mod closed;
pub(crate) mod copies;
pub mod entry;
pub mod file_header;
pub mod record;
pub(crate) mod segment_index;
pub(crate) mod version;

/// Version of all formats.
pub const VERSION: u16 = 1;
/// Alignment of all writes: no write touches a sector that holds other synced bytes.
pub const SECTOR: u64 = 512;
/// Longest run in bytes, unless a single record is longer.
pub const RUN_BYTES_MAX: usize = 64 << 10;

/// The next multiple of [`SECTOR`].
#[must_use]
pub fn pad(length: u64) -> u64 {
    length.div_ceil(SECTOR) * SECTOR
}

/// The finalizer of SplitMix64, a bijection.
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The values that a reader expects in a file: writer and salts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Id of the node.
    pub node_id: u64,
    /// Id of the WAL.
    pub wal_id: u16,
    /// Salt of the file.
    pub salt: u64,
    /// Start of the batch seeds.
    pub seed: u32,
}

impl Identity {
    /// The identity of the WAL file with this sequence.
    #[must_use]
    pub fn wal(node_id: u64, wal_id: u16, sequence: u64) -> Identity {
        let base = mix(node_id ^ mix(0x57 + ((wal_id as u64) << 8)));
        Identity { node_id, wal_id, salt: base ^ sequence, seed: mix(base) as u32 }
    }

    /// The identity of the file of the entry log with this sequence.
    #[must_use]
    pub fn entries(node_id: u64, wal_id: u16, sequence: u64) -> Identity {
        let base = mix(node_id ^ mix(0x54 + ((wal_id as u64) << 8)));
        Identity { node_id, wal_id, salt: base ^ sequence, seed: mix(base) as u32 }
    }

    /// The identity of the segment with this id.
    #[must_use]
    pub fn segment(node_id: u64, wal_id: u16, id: u64) -> Identity {
        let salt = mix(node_id ^ mix(0x53 + ((wal_id as u64) << 8))) ^ id;
        Identity { node_id, wal_id, salt, seed: mix(salt) as u32 }
    }

    /// The identity of the body file with this id.
    #[must_use]
    pub fn body(node_id: u64, wal_id: u16, id: u64) -> Identity {
        let salt = mix(node_id ^ mix(0x42 + ((wal_id as u64) << 8))) ^ id;
        Identity { node_id, wal_id, salt, seed: mix(salt) as u32 }
    }

    /// Seed for the checksums of a batch's runs and records. The odd factor keeps the seeds of different sequences
    /// different.
    #[must_use]
    pub fn batch_seed(&self, sequence: u64) -> u32 {
        self.seed ^ (sequence as u32).wrapping_mul(0x9e37_79b1)
    }
}

/// Reads an integer at `at`; the caller has checked the length.
macro_rules! reader {
    ($name:ident, $type:ty) => {
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $type {
            const SIZE: usize = size_of::<$type>();
            let mut field = [0; SIZE];
            field.copy_from_slice(&bytes[at..at + SIZE]);
            <$type>::from_le_bytes(field)
        }
    };
}
reader!(u16_at, u16);
reader!(u32_at, u32);
reader!(u64_at, u64);

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn padding_is_to_sectors() {
        assert_eq!([pad(0), pad(1), pad(512), pad(513)], [0, 512, 512, 1024]);
    }

    #[test]
    fn salts_and_seeds_differ() {
        let mut salts = HashSet::new();
        for node in 0..4 {
            for wal in 0..3 {
                for sequence in 1..50 {
                    assert!(salts.insert(Identity::wal(node, wal, sequence).salt));
                    assert!(salts.insert(Identity::segment(node, wal, sequence).salt));
                    assert!(salts.insert(Identity::entries(node, wal, sequence).salt));
                }
            }
        }
        let identity = Identity::wal(1, 0, 1);
        let seeds: HashSet<u32> = (0..10_000).map(|n| identity.batch_seed(n)).collect();
        assert_eq!(seeds.len(), 10_000);
        // The seed doesn't depend on the file, because records are checksummed before their file is known.
        assert_eq!(identity.batch_seed(5), Identity::wal(1, 0, 2).batch_seed(5));
    }
}
