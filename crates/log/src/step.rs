//! Operations on files.

use std::ops::Range;
use std::sync::Arc;

use crate::disk::{self, Disk};
use crate::error::DiskError;

/// One operation on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a file of this length.
    Create(Arc<str>, u64),
    /// Rename a file.
    Rename(Arc<str>, Arc<str>),
    /// Write to the start of a file.
    WriteStart(Arc<str>, Vec<u8>),
    /// Write zeros to these bytes of a file.
    WriteZeros(Arc<str>, Range<u64>),
    /// Make a file durable.
    Sync(Arc<str>),
    /// Make the names durable.
    SyncDirectory,
    /// Unlink a file.
    Remove(Arc<str>),
    /// Unlink a file that may not be there.
    Discard(Arc<str>),
}

impl Step {
    pub(crate) fn run(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        match self {
            Step::Create(name, length) => disk::create(disk, name, *length),
            Step::Rename(from, to) => disk::rename(disk, from, to),
            Step::WriteStart(name, bytes) => disk::write(disk, name, 0, &[bytes]),
            Step::WriteZeros(name, range) => write_zeros(disk, name, range.clone()),
            Step::Sync(name) => disk::sync(disk, name),
            Step::SyncDirectory => disk::sync_directory(disk),
            Step::Remove(name) => disk::remove(disk, name),
            Step::Discard(name) => match disk::remove(disk, name) {
                Err(error) if error.error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            },
        }
    }
}

fn write_zeros(disk: &dyn Disk, name: &str, range: Range<u64>) -> Result<(), DiskError> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let count = range.end - range.start;
    let whole = (count / ZEROS.len() as u64) as usize;
    let rest = (count % ZEROS.len() as u64) as usize;
    let mut slices = vec![&ZEROS[..]; whole];
    slices.push(&ZEROS[..rest]);
    disk::write(disk, name, range.start, &slices)
}
