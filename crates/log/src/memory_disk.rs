//! A disk in memory, for tests and benchmarks. It can be full, and bytes can be unreadable or be misread once. Power
//! cuts are simulated in `sim`.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crate::disk::Disk;

/// Linux's error numbers: no space left on the device, and a device error.
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

#[derive(Clone, Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// Limit on the bytes of all files together, if there is one.
    capacity: Option<u64>,
    unreadable: Vec<(String, Range<u64>)>,
    /// Bytes that are read wrong until they are read again.
    stale: Vec<(String, u64)>,
    /// Number of reads until one returns a wrong bit.
    misread: Option<u64>,
}

impl State {
    fn grow(&self, bytes: u64) -> io::Result<()> {
        let used: u64 = self.files.values().map(|file| file.len() as u64).sum();
        match self.capacity {
            Some(capacity) if bytes > 0 && used + bytes > capacity => Err(io::Error::from_raw_os_error(ENOSPC)),
            _ => Ok(()),
        }
    }

    fn file(&mut self, name: &str) -> io::Result<&mut Vec<u8>> {
        self.files.get_mut(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// A [`Disk`] whose every write is durable at once.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    state: Mutex<State>,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// The bytes of a file, if it exists.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().files.get(name).cloned()
    }

    /// Replaces or creates a file.
    pub fn put(&self, name: &str, content: Vec<u8>) {
        self.lock().files.insert(name.to_owned(), content);
    }

    /// Limits the bytes of all files together from now on.
    pub fn limit(&self, capacity: Option<u64>) {
        self.lock().capacity = capacity;
    }

    /// Makes reads of these bytes fail from now on.
    pub fn spoil(&self, name: &str, range: Range<u64>) {
        self.lock().unreadable.push((name.to_owned(), range));
    }

    /// Flips a bit of this byte in what is read, until the bytes are read again: as wrong bytes in a cache.
    pub fn stale(&self, name: &str, offset: u64) {
        self.lock().stale.push((name.to_owned(), offset));
    }

    /// Makes all reads succeed from now on.
    pub fn mend(&self) {
        self.lock().unreadable.clear();
    }

    /// Flips one of the first bits that the read after `reads` others returns; reading again returns the right bit.
    pub fn misread(&self, reads: u64) {
        self.lock().misread = Some(reads);
    }

    /// Whether that misread is still to come.
    #[must_use]
    pub fn misreads(&self) -> bool {
        self.lock().misread.is_some()
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().files.values().map(|file| file.len() as u64).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|error| error.into_inner())
    }
}

impl Clone for MemoryDisk {
    fn clone(&self) -> MemoryDisk {
        MemoryDisk { state: Mutex::new(self.lock().clone()) }
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().files.keys().cloned().collect())
    }

    fn create(&self, name: &str, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.files.insert(name.to_owned(), Vec::new());
        state.grow(length)?;
        *state.file(name)? = vec![0; length as usize];
        Ok(())
    }

    fn write_at(&self, name: &str, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let mut state = self.lock();
        let mut at = offset as usize;
        for slice in slices {
            let end = at + slice.len();
            let length = state.file(name)?.len();
            state.grow(end.saturating_sub(length) as u64)?;
            let file = state.file(name)?;
            if length < end {
                file.resize(end, 0);
            }
            file[at..end].copy_from_slice(slice);
            at = end;
        }
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.lock().file(name).map(|_| ())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let end = offset + buffer.len() as u64;
        let is_hit = |(file, range): &(String, Range<u64>)| file == name && range.start < end && offset < range.end;
        if state.unreadable.iter().any(is_hit) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let stale = state.stale.clone();
        let rest = state.file(name)?.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        let stale = stale.iter().filter(|(file, at)| file == name && (offset..offset + count as u64).contains(at));
        stale.for_each(|(_, at)| buffer[(at - offset) as usize] ^= 1);
        match state.misread {
            Some(0) if count > 0 => {
                state.misread = None;
                buffer[count.min(64) / 2] ^= 1;
            }
            Some(reads) => state.misread = Some(reads.saturating_sub(1)),
            None => {}
        }
        Ok(count)
    }

    fn read_again(&self, name: &str, offset: u64, length: usize, _: u32) -> io::Result<Vec<u8>> {
        let range = offset..offset + length as u64;
        self.lock().stale.retain(|(file, at)| file != name || !range.contains(at));
        self.read_new(name, offset, length)
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.lock().file(name)?.len() as u64)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().files.remove(name).map(|_| ()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        let file = state.files.remove(from).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.files.insert(to.to_owned(), file);
        Ok(())
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

    #[test]
    fn a_full_disk_takes_no_more_and_bad_bytes_cant_be_read() {
        let disk = MemoryDisk::new();
        disk.create("a", 100).unwrap();
        disk.limit(Some(120));
        let error = disk.create("b", 21).unwrap_err();
        assert_eq!((error.kind(), error.raw_os_error()), (io::ErrorKind::StorageFull, Some(ENOSPC)));
        assert_eq!(disk.len("b").unwrap(), 0, "the name is there");
        disk.write_at("a", 50, &[&[1; 50]]).unwrap();
        assert!(disk.write_at("a", 100, &[&[2; 20], &[3; 1]]).is_err());
        assert_eq!(disk.used(), 120, "a part of it is there");
        disk.limit(None);
        disk.spoil("a", 10..20);
        let mut buffer = [0; 10];
        assert_eq!(disk.read_at("a", 0, &mut buffer).unwrap(), 10);
        assert_eq!(disk.read_at("a", 11, &mut buffer[..2]).unwrap_err().raw_os_error(), Some(EIO));
    }
}
