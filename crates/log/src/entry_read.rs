//! Reading an entry back, outside the entry log's lock.

use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{self, Disk};
use crate::error::ReadError;
use crate::format::entry::{Entry, PlacementId};
use crate::pin::Pin;

/// The place of an entry, and what has to be there.
#[derive(Clone, Debug)]
pub struct EntryRead {
    pub(crate) file: Arc<str>,
    /// The file stays as it is until the read ends.
    pub(crate) _pin: Pin,
    pub(crate) at: u64,
    pub(crate) length: usize,
    pub(crate) placement: PlacementId,
    pub(crate) index: u64,
    pub(crate) term: u64,
}

impl EntryRead {
    /// The placement of the entry.
    #[must_use]
    pub fn placement(&self) -> PlacementId {
        self.placement
    }

    /// The index of the entry.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Bytes of the entry.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.length
    }

    /// Reads and checks the entry, up to three times.
    ///
    /// # Errors
    /// The bytes can't be read, or aren't those written.
    pub fn run(&self, disk: &dyn Disk) -> Result<Entry, ReadError> {
        let log = self.placement.log();
        disk::repeat(disk, |disk| {
            let read = disk::read(disk, &self.file, self.at, self.length);
            let bytes = Bytes::from(read.map_err(|error| ReadError::from_disk(error, log))?);
            let reason = match Entry::decode(&bytes) {
                Ok((entry, _)) if (entry.placement, entry.index, entry.term) == self.key() => return Ok(entry),
                Ok(_) => "another entry is there",
                Err(reason) => reason,
            };
            let range = self.at..self.at + self.length as u64;
            Err(ReadError { file: self.file.to_string(), range, log, reason: reason.into() })
        })
    }

    fn key(&self) -> (PlacementId, u64, u64) {
        (self.placement, self.index, self.term)
    }
}
