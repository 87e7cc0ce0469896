//! A disk that a test watches.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leveret_log::{Disk, MemoryDisk};

/// Counts the bytes that are read, and lends copies of its files.
pub(crate) struct Watched {
    disk: MemoryDisk,
    pub(crate) bytes_read: AtomicUsize,
}

impl Watched {
    pub(crate) fn new(disk: &MemoryDisk) -> Self {
        Self { disk: disk.clone(), bytes_read: AtomicUsize::new(0) }
    }
}

impl Disk for Watched {
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

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes_read.fetch_add(buffer.len(), Ordering::Relaxed);
        self.disk.read_at(name, offset, buffer)
    }

    fn lend(&self, name: &str, offset: u64, length: u64) -> io::Result<Option<Arc<dyn Any + Send + Sync>>> {
        assert!(offset + length <= self.disk.len(name)?, "{name} is shorter");
        Ok(Some(Arc::new(self.disk.read_new(name, 0, self.disk.len(name)? as usize)?)))
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.disk.len(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
}
