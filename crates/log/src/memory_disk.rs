//! A disk in memory without faults, for tests and benchmarks. Faults and power cuts are in `sim`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use crate::disk::Disk;

/// A [`Disk`] whose every write is durable at once.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryDisk {
    /// An empty one.
    #[must_use]
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// The bytes of a file, if it is there.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.with(|files| files.get(name).cloned())
    }

    /// Replaces a file, or makes it.
    pub fn put(&self, name: &str, content: Vec<u8>) {
        self.with(|files| files.insert(name.to_owned(), content));
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        act(&mut self.files.lock().unwrap_or_else(|error| error.into_inner()))
    }

    fn with_file<T>(&self, name: &str, act: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        self.with(|files| {
            let file = files.get_mut(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            Ok(act(file))
        })
    }
}

impl Clone for MemoryDisk {
    fn clone(&self) -> MemoryDisk {
        MemoryDisk { files: Mutex::new(self.with(|files| files.clone())) }
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        self.put(name, vec![0; length as usize]);
        Ok(())
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        self.with_file(name, |file| {
            let mut at = offset as usize;
            for slice in slices {
                if file.len() < at + slice.len() {
                    file.resize(at + slice.len(), 0);
                }
                file[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
        })
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.with_file(name, |_| ())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with_file(name, |file| {
            let rest = file.get(offset as usize..).unwrap_or(&[]);
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            count
        })
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        self.with_file(name, |file| file.len() as u64)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with(|files| files.remove(name)).map(|_| ()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with(|files| {
            let file = files.remove(from).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            files.insert(to.to_owned(), file);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_are_read() {
        let disk = MemoryDisk::new();
        disk.create("a", 4).unwrap();
        disk.write_at("a", 2, &[b"xy", b"z"]).unwrap();
        let mut buffer = [9; 8];
        assert_eq!(disk.read_at("a", 1, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"\0xyz");
        disk.rename("a", "b").unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        assert_eq!(disk.len("b").unwrap(), 5);
        disk.remove("b").unwrap();
        assert!(disk.sync("b").is_err());
    }
}
