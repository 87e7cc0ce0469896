//! Making certain that what recovery read is on the disk.
//!
//! After a sync that failed, the operating system may call pages clean that it never wrote: readers see them as long as
//! they stay in memory, and no later sync brings them to the disk. Only writing them again does. What a life before
//! wrote last and may not have synced is the last batch of the WAL, with those before it of which it says so, and the
//! checkpoint in force, if what it replaces is still there: all else was followed by something that came after its sync.

use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::DiskError;

/// Bytes of a checkpoint that are written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A batch as it was read, whole, that may not be durable.
#[derive(Debug)]
pub(super) struct DoubtfulBatch {
    pub sequence: u64,
    pub file: Arc<str>,
    pub offset: u64,
    pub bytes: Bytes,
}

impl DoubtfulBatch {
    /// Writes it where it is. Nothing else shares its sectors.
    pub(super) fn write_again(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        disk::write(disk, &self.file, self.offset, &[&self.bytes])
    }
}

/// Writes a file as it is read, and syncs it.
pub(super) fn write_again(disk: &dyn Disk, file: &str) -> Result<(), DiskError> {
    let length = disk::length(disk, file)?;
    let mut offset = 0;
    while offset < length {
        let piece = disk::read(disk, file, offset, PIECE_BYTES)?;
        if piece.is_empty() {
            break;
        }
        disk::write(disk, file, offset, &[&piece])?;
        offset += piece.len() as u64;
    }
    disk::sync(disk, file)
}
