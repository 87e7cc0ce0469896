//! Makes certain that everything that recovery read is on the disk.
//!
//! After a failed sync, the operating system may mark pages as clean that it never wrote: readers see them as long as
//! they stay in the page cache, and no later sync writes them. Only writing them again does. The previous process may
//! have written and not synced only these: the last batch of the WAL, the batches before it that it marks as
//! unsynced, and the checkpoint in force, if the files it replaces still exist. Everything else was synced before
//! something later was written.

use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::DiskError;

/// Bytes of a checkpoint written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A whole batch, as read, that may not be durable.
#[derive(Debug)]
pub(super) struct DoubtfulBatch {
    pub sequence: u64,
    pub file: Arc<str>,
    pub offset: u64,
    pub bytes: Bytes,
}

impl DoubtfulBatch {
    /// Rewrites the batch in place. Nothing else shares its sectors.
    pub(super) fn write_again(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        disk::write(disk, &self.file, self.offset, &[&self.bytes])
    }
}

/// Rewrites a file with the bytes read from it, and syncs it.
pub(super) fn write_again(disk: &dyn Disk, file: &str) -> Result<(), DiskError> {
    let length = disk::length(disk, file)?;
    let mut offset = 0;
    while offset < length {
        // A wrong bit of one read must not get onto the disk.
        let mut piece = disk::read(disk, file, offset, PIECE_BYTES)?;
        loop {
            let again = disk::read(disk, file, offset, PIECE_BYTES)?;
            if again == piece {
                break;
            }
            piece = again;
        }
        if piece.is_empty() {
            break;
        }
        disk::write(disk, file, offset, &[&piece])?;
        offset += piece.len() as u64;
    }
    disk::sync(disk, file)
}
