//! What the log needs of a disk: one flat directory of files.

use std::io;

use crate::error::{DiskError, Operation};

/// A directory of files, reached by name. `node` implements it on the real disk, `sim` in memory.
///
/// Nothing is durable before the matching sync returned: bytes and length of a file after [`Disk::sync`], its
/// name (made, removed, renamed) after [`Disk::sync_directory`]. After an error from a write or sync the state of the
/// file is unknown; the log never tries again.
pub trait Disk: Send + Sync {
    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// What the operating system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file of `length` bytes that read as zero, with its blocks allocated. An existing one is emptied first.
    ///
    /// # Errors
    /// What the operating system says.
    fn create(&self, name: &str, length: u64) -> io::Result<()>;

    /// Writes the slices one after the other from `offset` on, all of them. The file grows if needed.
    ///
    /// # Errors
    /// What the operating system says; a short write is one.
    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()>;

    /// Makes the bytes and the length of the file durable.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_directory(&self) -> io::Result<()>;

    /// Reads into `buffer` from `offset` on; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads `length` bytes from `offset` on; fewer only at the end of the file. A disk that can does without clearing
    /// the memory before.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_new(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.read_at(name, offset + filled as u64, &mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    /// Length of the file.
    ///
    /// # Errors
    /// What the operating system says.
    fn len(&self, name: &str) -> io::Result<u64>;

    /// Unlinks the file.
    ///
    /// # Errors
    /// What the operating system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames the file; one that has the new name is replaced.
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
}

/// Slices in one `write_at`: within `IOV_MAX` (1024) of Linux.
const SLICES_MAX: usize = 512;

pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<String>, DiskError> {
    disk.list().map_err(|error| DiskError::new(Operation::List, ".", 0, error))
}

pub(crate) fn create(disk: &dyn Disk, name: &str, length: u64) -> Result<(), DiskError> {
    disk.create(name, length).map_err(|error| DiskError::new(Operation::Create, name, 0, error))
}

pub(crate) fn write(disk: &dyn Disk, name: &str, mut offset: u64, slices: &[&[u8]]) -> Result<(), DiskError> {
    for slices in slices.chunks(SLICES_MAX) {
        disk.write_at(name, offset, slices).map_err(|error| DiskError::new(Operation::Write, name, offset, error))?;
        offset += slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
    }
    Ok(())
}

pub(crate) fn sync(disk: &dyn Disk, name: &str) -> Result<(), DiskError> {
    disk.sync(name).map_err(|error| DiskError::new(Operation::Sync, name, 0, error))
}

pub(crate) fn sync_directory(disk: &dyn Disk) -> Result<(), DiskError> {
    disk.sync_directory().map_err(|error| DiskError::new(Operation::SyncDirectory, ".", 0, error))
}

pub(crate) fn length(disk: &dyn Disk, name: &str) -> Result<u64, DiskError> {
    disk.len(name).map_err(|error| DiskError::new(Operation::Length, name, 0, error))
}

pub(crate) fn remove(disk: &dyn Disk, name: &str) -> Result<(), DiskError> {
    disk.remove(name).map_err(|error| DiskError::new(Operation::Remove, name, 0, error))
}

pub(crate) fn rename(disk: &dyn Disk, from: &str, to: &str) -> Result<(), DiskError> {
    disk.rename(from, to).map_err(|error| DiskError::new(Operation::Rename, from, 0, error))
}

/// Bytes that are read, or not, together.
const PIECE_BYTES: usize = 4096;

/// As [`read`], with zeros in place of what can't be read, and whether there is none of it.
pub(crate) fn read_around(
    disk: &dyn Disk,
    name: &str,
    offset: u64,
    length: usize,
) -> Result<(Vec<u8>, bool), DiskError> {
    match read(disk, name, offset, length) {
        Err(error) if error.is_unreadable() => {}
        read => return Ok((read?, true)),
    }
    let end = self::length(disk, name)?.min(offset + length as u64);
    let mut bytes = Vec::new();
    let mut at = offset;
    while at < end {
        // Pieces are those of the device, not of what is asked for.
        let next = (at / PIECE_BYTES as u64 + 1) * PIECE_BYTES as u64;
        let count = (next.min(end) - at) as usize;
        let mut piece = read(disk, name, at, count).unwrap_or_default();
        piece.resize(count, 0);
        bytes.extend_from_slice(&piece);
        at += count as u64;
    }
    Ok((bytes, false))
}

/// Reads up to `length` bytes; fewer only at the end of the file.
pub(crate) fn read(disk: &dyn Disk, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
    disk.read_new(name, offset, length).map_err(|error| DiskError::new(Operation::Read, name, offset, error))
}
