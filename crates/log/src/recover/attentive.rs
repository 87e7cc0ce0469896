//! The disk as a start reads it: what can't be read is read again, and remembered.
//!
//! An error of the device or of the operating system says nothing about the bytes. So a start that meets one changes nothing and
//! is refused, instead of taking what it can't read for damaged.

use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, READS_MAX, all_but_reads};
use crate::error::{DiskError, Operation, StorageError};

pub(super) struct AttentiveDisk<'a> {
    disk: &'a dyn Disk,
    /// The first error that came again each time.
    failed: Mutex<Option<DiskError>>,
}

impl<'a> AttentiveDisk<'a> {
    pub(super) fn new(disk: &'a dyn Disk) -> AttentiveDisk<'a> {
        AttentiveDisk { disk, failed: Mutex::default() }
    }

    /// # Errors
    /// Something couldn't be read.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let failed = self.failed.lock().unwrap_or_else(|error| error.into_inner()).take();
        failed.map_or(Ok(()), |error| Err(StorageError::Unreadable(error)))
    }

    fn again<T>(
        &self,
        operation: Operation,
        name: &str,
        offset: u64,
        mut read: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut result = read();
        for _ in 1..READS_MAX {
            match &result {
                // A file that isn't there can't come back: that is damage.
                Err(error) if error.kind() != io::ErrorKind::NotFound => result = read(),
                _ => break,
            }
        }
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::NotFound
        {
            let same = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            let mut failed = self.failed.lock().unwrap_or_else(|error| error.into_inner());
            failed.get_or_insert_with(|| DiskError::new(operation, name, offset, same));
        }
        result
    }
}

impl Disk for AttentiveDisk<'_> {
    all_but_reads!();

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.again(Operation::Read, name, offset, || self.disk.read_at(name, offset, buffer))
    }

    fn read_new(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.again(Operation::Read, name, offset, || self.disk.read_new(name, offset, length))
    }

    fn read_again(&self, name: &str, offset: u64, length: usize, attempt: u32) -> io::Result<Vec<u8>> {
        self.again(Operation::Read, name, offset, || self.disk.read_again(name, offset, length, attempt))
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.again(Operation::Length, name, 0, || self.disk.len(name))
    }
}
