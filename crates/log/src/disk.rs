//! The log's interface to the disk: one flat directory of files.

use std::any::Any;
use std::io;
use std::sync::Arc;

use crate::error::{DiskError, Operation};

/// A directory of files, reached by name. `node` implements it on the real disk, `sim` in memory.
///
/// Bytes and length of a file are durable once [`Disk::sync`] returned; its name (created, removed or renamed) once
/// [`Disk::sync_directory`] returned. After a failed write or sync the state of the file is unknown; the log never
/// retries.
pub trait Disk: Send + Sync {
    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file of `length` bytes that read as zero, with its blocks allocated. An existing one is emptied
    /// first.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, name: &str, length: u64) -> io::Result<()>;

    /// Writes all slices one after the other from `offset` on. The file grows if needed.
    ///
    /// # Errors
    /// The operating system's; a short write is an error.
    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()>;

    /// Makes the bytes and the length of the file durable.
    ///
    /// # Errors
    /// The operating system's.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Makes the names of all files durable.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_directory(&self) -> io::Result<()>;

    /// Reads into `buffer` from `offset` on. Returns fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads `length` bytes from `offset` on; fewer only at the end of the file. Implementations avoid zeroing the
    /// buffer if they can.
    ///
    /// # Errors
    /// The operating system's.
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

    /// Reads these bytes again, because what was read is wrong or could not be read: a second look that doesn't come from the
    /// same cached pages, nor from an open file whose name may belong to another one by now. `attempt` counts the repetitions
    /// from 1; an implementation may wait before later ones. Only disk threads call this.
    ///
    /// # Errors
    /// The operating system's.
    fn read_again(&self, name: &str, offset: u64, length: usize, _attempt: u32) -> io::Result<Vec<u8>> {
        self.read_new(name, offset, length)
    }

    /// Lends a file out of which others send these bytes by themselves, however late: it stays readable, even when it was removed
    /// meanwhile. The bytes are in memory when this returns, as far as that can be told. `None` if this disk lends nothing.
    ///
    /// # Errors
    /// The operating system's.
    fn lend(&self, _name: &str, _offset: u64, _length: u64) -> io::Result<Option<Arc<dyn Any + Send + Sync>>> {
        Ok(None)
    }

    /// Length of the file.
    ///
    /// # Errors
    /// The operating system's.
    fn len(&self, name: &str) -> io::Result<u64>;

    /// Unlinks the file.
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames the file, replacing an existing one with the new name.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
}

/// The methods of a [`Disk`] that read no bytes, for one whose field `disk` is another disk: they are that one's.
macro_rules! all_but_reads {
    () => {
        fn list(&self) -> io::Result<Vec<String>> {
            self.disk.list()
        }

        fn create(&self, name: &str, length: u64) -> io::Result<()> {
            self.disk.create(name, length)
        }

        fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
            self.disk.write_at(name, offset, slices)
        }

        fn sync(&self, name: &str) -> io::Result<()> {
            self.disk.sync(name)
        }

        fn sync_directory(&self) -> io::Result<()> {
            self.disk.sync_directory()
        }

        fn lend(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Arc<dyn Any + Send + Sync>>> {
            self.disk.lend(name, offset, length)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.disk.remove(name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename(from, to)
        }
    };
}

pub(crate) use all_but_reads;

/// A disk whose reads are repetitions, if there was one before: see [`Disk::read_again`]. Everything else is the disk's.
pub(crate) struct Repeated<'a> {
    pub disk: &'a dyn Disk,
    /// How often the bytes have been read before.
    pub before: u32,
}

impl Disk for Repeated<'_> {
    all_but_reads!();

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read_new(name, offset, buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn read_new(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self.before {
            0 => self.disk.read_new(name, offset, length),
            attempt => self.disk.read_again(name, offset, length, attempt),
        }
    }

    fn read_again(&self, name: &str, offset: u64, length: usize, attempt: u32) -> io::Result<Vec<u8>> {
        self.disk.read_again(name, offset, length, self.before + attempt)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }
}

/// Calls `read` until it gives something right, up to [`READS_MAX`] times, with repetitions of its reads. Bytes that are wrong, or
/// can't be read, may be right the next time.
pub(crate) fn repeat<T, E>(disk: &dyn Disk, mut read: impl FnMut(&dyn Disk) -> Result<T, E>) -> Result<T, E> {
    let mut before = 0;
    loop {
        let result = read(&Repeated { disk, before });
        before += 1;
        if result.is_ok() || before == READS_MAX {
            return result;
        }
    }
}

/// Number of reads of wrong bytes before they count as damage: a single misread must not be recorded as damage.
pub(crate) const READS_MAX: u32 = 3;

/// Most slices passed to one `write_at`: within `IOV_MAX` (1024) of Linux.
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

/// Granularity of read errors: a piece of this size is readable or not.
const PIECE_BYTES: usize = 4096;

/// As [`read`], with zeros in place of unreadable bytes. Also returns whether all bytes were readable.
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
        // Pieces are aligned to the device, not to the requested offset.
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
