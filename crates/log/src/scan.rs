//! Buffered reading of a file, without a system call for every few bytes.

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::DiskError;
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::format::{Identity, SECTOR};

/// Bytes read at a time in the search for a valid batch after bad bytes.
const SEARCH_BYTES: usize = 1 << 20;

/// Searches from `from` on, in steps of a sector, for a batch of this use of the file with a sequence above `after`.
/// Returns its offset and header.
pub(crate) fn find_batch(
    disk: &dyn Disk,
    file: &str,
    identity: &Identity,
    from: u64,
    end: u64,
    after: u64,
) -> Result<Option<(u64, BatchHeader)>, DiskError> {
    let mut at = from;
    while at + BATCH_HEADER_BYTES as u64 <= end {
        let (bytes, _) = disk::read_around(disk, file, at, SEARCH_BYTES)?;
        for sector in (0..bytes.len()).step_by(SECTOR as usize) {
            let here = at + sector as u64;
            let header = BatchHeader::decode(&bytes[sector..], identity, end.saturating_sub(here));
            if let Some(header) = header.filter(|header| header.sequence > after) {
                return Ok(Some((here, header)));
            }
        }
        at += SEARCH_BYTES as u64;
    }
    Ok(None)
}

/// The last chunk read.
#[derive(Debug, Default)]
pub(crate) struct Window {
    at: u64,
    chunk: Bytes,
    /// Bytes asked of the disk since this was last set to zero.
    pub taken: usize,
}

/// Bytes of a file that are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Name of the file.
    pub(crate) file: &'a str,
    /// The end of the file.
    pub(crate) end: u64,
    /// The place of the first byte.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: usize,
    /// Number of bytes to read at once, if that is more.
    pub(crate) chunk: usize,
}

impl Window {
    /// Drops the chunk: the next bytes are of another file.
    pub(crate) fn forget(&mut self) {
        self.at = 0;
        self.chunk = Bytes::new();
    }

    /// Whether these bytes can be had without reading.
    pub(crate) fn holds(&self, offset: u64, length: usize) -> bool {
        offset >= self.at && offset + length as u64 <= self.at + self.chunk.len() as u64
    }

    /// These bytes, or fewer if the file ends before. Bytes read beyond them are kept for the next call.
    pub(crate) fn fetch(&mut self, disk: &dyn Disk, wanted: Wanted<'_>) -> Result<Bytes, DiskError> {
        let length = self.view(disk, wanted)?.len();
        let start = (wanted.offset - self.at) as usize;
        Ok(self.chunk.slice(start..start + length))
    }

    /// The same to look at: who only looks at a few bytes needn't count as their owner.
    pub(crate) fn view(&mut self, disk: &dyn Disk, wanted: Wanted<'_>) -> Result<&[u8], DiskError> {
        let Wanted { file, end, offset, length, chunk } = wanted;
        if !self.holds(offset, length) {
            let rest = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let most = length.max(chunk).min(rest);
            self.forget();
            let mut read = disk::read(disk, file, offset, most);
            if read.is_err() && most > length {
                // The unreadable bytes may be beyond the requested ones.
                read = disk::read(disk, file, offset, length);
            }
            self.chunk = read?.into();
            self.at = offset;
            self.taken += most;
        }
        let start = (offset - self.at) as usize;
        let stop = (start + length).min(self.chunk.len());
        Ok(&self.chunk[start..stop])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::MemoryDisk;

    #[test]
    fn a_chunk_serves_several_fetches() {
        let disk = MemoryDisk::new();
        disk.put("f", (0..100).collect());
        let mut window = Window::default();
        assert_eq!(
            window.fetch(&disk, Wanted { file: "f", end: 100, offset: 10, length: 5, chunk: 50 }).unwrap()[..],
            [10, 11, 12, 13, 14]
        );
        assert_eq!(
            window.fetch(&disk, Wanted { file: "f", end: 100, offset: 55, length: 5, chunk: 50 }).unwrap()[..],
            [55, 56, 57, 58, 59]
        );
        assert_eq!(window.taken, 50);
        assert_eq!(
            window.fetch(&disk, Wanted { file: "f", end: 100, offset: 98, length: 5, chunk: 50 }).unwrap()[..],
            [98, 99]
        );
        assert_eq!(window.taken, 52);
        assert!(
            window.fetch(&disk, Wanted { file: "f", end: 100, offset: 200, length: 5, chunk: 50 }).unwrap().is_empty()
        );
    }
}
