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

    /// The bytes at `offset`, or fewer if the file ends at `end`. Bytes read beyond them, up to `chunk` bytes in all,
    /// are kept for the next call.
    pub(crate) fn fetch(
        &mut self,
        disk: &dyn Disk,
        file: &str,
        offset: u64,
        length: usize,
        chunk: usize,
        end: u64,
    ) -> Result<Bytes, DiskError> {
        let length = self.view(disk, file, offset, length, chunk, end)?.len();
        let start = (offset - self.at) as usize;
        Ok(self.chunk.slice(start..start + length))
    }

    /// The same to look at: who only looks at a few bytes needn't count as their owner.
    pub(crate) fn view(
        &mut self,
        disk: &dyn Disk,
        file: &str,
        offset: u64,
        length: usize,
        chunk: usize,
        end: u64,
    ) -> Result<&[u8], DiskError> {
        if !self.holds(offset, length) {
            let rest = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let wanted = length.max(chunk).min(rest);
            self.forget();
            let mut read = disk::read(disk, file, offset, wanted);
            if read.is_err() && wanted > length {
                // The unreadable bytes may be beyond the requested ones.
                read = disk::read(disk, file, offset, length);
            }
            self.chunk = read?.into();
            self.at = offset;
            self.taken += wanted;
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
        assert_eq!(window.fetch(&disk, "f", 10, 5, 50, 100).unwrap()[..], [10, 11, 12, 13, 14]);
        assert_eq!(window.fetch(&disk, "f", 55, 5, 50, 100).unwrap()[..], [55, 56, 57, 58, 59]);
        assert_eq!(window.taken, 50);
        assert_eq!(window.fetch(&disk, "f", 98, 5, 50, 100).unwrap()[..], [98, 99]);
        assert_eq!(window.taken, 52);
        assert!(window.fetch(&disk, "f", 200, 5, 50, 100).unwrap().is_empty());
    }
}
