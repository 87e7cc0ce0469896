//! Iterates over the batches of a file, whatever is in it.

use std::ops::Range;

use bytes::Bytes;

use crate::disk::Disk;
use crate::error::DiskError;
use crate::format::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::format::batch_check::{self, Batch};
use crate::format::file_header::FILE_HEADER_BYTES;
use crate::format::{Identity, SECTOR};
use crate::scan::{Wanted, Window, find_batch};

/// Size of the chunks in which files are read, unless a batch is larger.
const CHUNK_BYTES: usize = 256 << 10;

/// A part of a file.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A batch with a valid header, and its bytes.
    Batch { offset: u64, batch: Batch, bytes: Bytes },
    /// Bytes without a batch of this use of the file, followed by one.
    Bad(Range<u64>),
    /// The rest of the file, without a batch of this use.
    Rest(Range<u64>),
}

/// Iterates over the parts of a file.
pub(crate) struct Walk<'a> {
    disk: &'a dyn Disk,
    name: &'a str,
    identity: Identity,
    at: u64,
    end: u64,
    window: Window,
    /// Sequence of the last batch.
    sequence: u64,
}

impl<'a> Walk<'a> {
    /// Iterates from the end of the file header to `end`.
    pub(crate) fn new(disk: &'a dyn Disk, name: &'a str, identity: Identity, end: u64) -> Walk<'a> {
        Walk { disk, name, identity, at: FILE_HEADER_BYTES, end, window: Window::default(), sequence: 0 }
    }

    /// Sequence of the last batch.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn next(&mut self) -> Result<Option<Piece>, DiskError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let (offset, room) = (self.at, self.end - self.at);
        let head = self.fetch(offset, BATCH_HEADER_BYTES)?;
        let header = BatchHeader::decode(&head, &self.identity, room).filter(|header| header.sequence > self.sequence);
        if let Some(header) = header {
            let bytes = self.fetch(offset, header.padded_bytes() as usize)?;
            if let Some(batch) = batch_check::check(&bytes, &self.identity) {
                self.sequence = header.sequence;
                self.at += header.padded_bytes();
                return Ok(Some(Piece::Batch { offset, batch, bytes }));
            }
        }
        let next = find_batch(self.disk, self.name, &self.identity, offset + SECTOR, self.end, self.sequence)?;
        self.at = next.map_or(self.end, |(at, _)| at);
        let range = offset..self.at;
        Ok(Some(if next.is_some() { Piece::Bad(range) } else { Piece::Rest(range) }))
    }

    fn fetch(&mut self, offset: u64, length: usize) -> Result<Bytes, DiskError> {
        self.window.fetch(self.disk, Wanted { file: self.name, end: self.end, offset, length, chunk: CHUNK_BYTES })
    }
}
