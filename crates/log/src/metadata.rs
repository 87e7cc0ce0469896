//! Second copies of metadata records.
//!
//! Metadata (log 0) is small, and without it nothing else has an owner. So each of its records is written twice: as it
//! comes, and once more with a later batch, in another block of [`BLOCK_BYTES`] and with sums of its own. No caller waits for the
//! second copy. It comes with the first batch behind the block in which the first copy's batch ends. If fewer bytes than that come
//! within [`crate::Options::lazy_flush`], a filler record ends the block.

use std::collections::VecDeque;

use crate::format::copies::{COPIES_HEAD_BYTES, Copies, Copy, copy_bytes};
use crate::format::record::{Head, RecordKind};
use crate::log::Log;
use crate::types::{LogId, Nanos, Position, Wait};

/// Bytes, at a multiple of as many in a file, that a device may lose at once: physical sectors and pages have at most so many.
const BLOCK_BYTES: u64 = 4096;
/// Size at which a record of copies is finished.
const RECORD_BYTES: usize = 64 << 10;

/// The metadata records of a directory as a start finds them.
#[derive(Debug, Default)]
pub(crate) struct MetadataStart {
    /// Position of the last metadata record, 0 if there was none.
    pub last: Position,
    /// Metadata records up to here stand twice, or are in the checkpoint's state.
    pub copied: Position,
    /// All later ones: position, kind, payload.
    pub rest: Vec<(Position, u8, Vec<u8>)>,
}

/// A metadata record without a second copy.
#[derive(Debug)]
struct Waiting {
    /// Sequence of its batch.
    batch: u64,
    position: Position,
    detail: u8,
    payload: Vec<u8>,
    /// Set once its batch has a place.
    placed: Option<Placed>,
}

/// The place of a first copy.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// Sequence of the WAL file.
    file: u64,
    /// End of the last block that has bytes of its batch.
    block_end: u64,
    /// When its batch was handed to the disk.
    since: Nanos,
}

impl Placed {
    /// Whether a batch at this offset of a file, or behind it, or in a later file, shares no block with the first copy.
    fn is_apart(&self, file: u64, offset: u64) -> bool {
        file != self.file || offset >= self.block_end
    }
}

/// The second copies that are due.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    last: Position,
    /// Position of the last record with a second copy.
    copied: Position,
    waiting: VecDeque<Waiting>,
    /// Records that the log appended by itself since the start.
    own: u64,
}

impl Metadata {
    /// Whether a record has no second copy yet.
    pub(crate) fn is_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The position from which on there is no metadata record, as a batch that comes next says it.
    pub(crate) fn mark(&self) -> Position {
        self.last + 1
    }
}

impl Log {
    /// Number of records that callers appended since the start, without second copies of metadata.
    #[must_use]
    pub fn appended_by_callers(&self) -> u64 {
        self.appended() - self.started_at - self.metadata.own
    }

    /// Takes up the metadata records that a start found. Their first copies are in other files.
    pub(crate) fn continue_metadata(&mut self, start: MetadataStart, now: Nanos) {
        self.metadata = Metadata { last: start.last, copied: start.copied, ..Metadata::default() };
        self.active.set_metadata_mark(self.metadata.mark());
        let rest = start.rest.into_iter();
        self.metadata.waiting.extend(rest.map(|(position, detail, payload)| Waiting {
            batch: 0,
            position,
            detail,
            payload,
            placed: None,
        }));
        self.append_copies(self.metadata.waiting.len(), now);
    }

    /// Notes a metadata record that was just appended.
    pub(crate) fn note_metadata(&mut self, detail: u8, payload: &[u8]) {
        let (batch, position) = (self.active.sequence(), self.appended());
        self.metadata.last = position;
        let payload = payload.to_vec();
        self.metadata.waiting.push_back(Waiting { batch, position, detail, payload, placed: None });
    }

    /// Notes that a batch gets its place in the current file, which ends at `end`, and appends the second copies that may come
    /// behind it.
    pub(crate) fn place_metadata(&mut self, batch: u64, end: u64, now: Nanos) {
        let file = self.wal.current.sequence;
        let placed = Placed { file, block_end: end.next_multiple_of(BLOCK_BYTES), since: now };
        let is_unplaced = |waiting: &&mut Waiting| waiting.placed.is_none() && waiting.batch <= batch;
        self.metadata.waiting.iter_mut().filter(is_unplaced).for_each(|waiting| waiting.placed = Some(placed));
        self.copy_metadata_behind(end);
    }

    /// Appends the second copies of those records that share no block with what lies behind this place in the current file.
    fn copy_metadata_behind(&mut self, end: u64) {
        let file = self.wal.current.sequence;
        let is_apart = |waiting: &&Waiting| waiting.placed.is_some_and(|placed| placed.is_apart(file, end));
        let count = self.metadata.waiting.iter().take_while(is_apart).count();
        let since = self.metadata.waiting.front().and_then(|first| first.placed).map_or(0, |placed| placed.since);
        self.append_copies(count, since);
    }

    /// Time at which the block with the oldest first copy has to end, so that its second copy can be written.
    pub(crate) fn copies_due(&self) -> Option<Nanos> {
        let placed = self.metadata.waiting.front()?.placed?;
        Some(placed.since.saturating_add(self.options.lazy_flush))
    }

    /// If second copies are due, lets the active batch, which is written next, end the block that has first copies.
    pub(crate) fn fill_block(&mut self, now: Nanos) {
        if self.closing || !self.closed.is_empty() || self.copies_due().is_none_or(|due| due > now) {
            return;
        }
        let (file, end) = (self.wal.current.sequence, self.wal.current.end);
        self.copy_metadata_behind(end);
        let placed = self.metadata.waiting.iter().map_while(|waiting| waiting.placed);
        let Some(block_end) = placed.map(|placed| placed.block_end).max() else { return };
        debug_assert_eq!(self.metadata.waiting[0].placed.map(|placed| placed.file), Some(file));
        if end + self.active.padded_bytes() < block_end || self.active.is_empty() {
            let payload = (block_end - end).saturating_sub(self.active.bytes_with_record());
            self.append_filler(payload as usize);
        }
    }

    /// Appends a filler that no caller waits for, not even to be written.
    fn append_filler(&mut self, payload: usize) {
        self.metadata.own += 1;
        self.make_room(payload);
        self.active.record(LogId::METADATA, Head::alone(RecordKind::Filler, 0), &vec![0; payload]);
    }

    /// Before a clean stop: appends the second copies that are due, in a batch of their own, a block away from the first ones,
    /// wherever these will be.
    pub(crate) fn finish_metadata(&mut self, now: Nanos) {
        if !self.metadata.is_due() {
            return;
        }
        if !self.active.is_empty() {
            self.close_batch();
        }
        self.append_filler(BLOCK_BYTES as usize);
        self.close_batch();
        self.append_copies(self.metadata.waiting.len(), now);
    }

    /// Appends the second copies of the first `count` records that wait for it, `since` so long.
    fn append_copies(&mut self, count: usize, since: Nanos) {
        // No other metadata was appended so far.
        let to = self.metadata.waiting.get(count).map_or(self.appended(), |next| next.position - 1);
        let due: Vec<Waiting> = self.metadata.waiting.drain(..count).collect();
        let mut due = &due[..];
        while !due.is_empty() {
            let mut bytes = COPIES_HEAD_BYTES;
            let fits = due.iter().take_while(|waiting| {
                bytes += copy_bytes(waiting.payload.len());
                bytes <= RECORD_BYTES
            });
            // A single record may be larger.
            let (now_due, later) = due.split_at(fits.count().max(1));
            due = later;
            let last = now_due[now_due.len() - 1].position;
            let to = if due.is_empty() { to } else { last };
            let copies = now_due.iter().map(Waiting::as_copy).collect();
            // From the last record with a copy on, although earlier copies may reach further: they may be lost with the block that
            // has these first copies.
            let payload = Copies { after: self.metadata.copied, to, copies }.encode();
            self.metadata.copied = last;
            if !planted!(SkipMetadataCopies) {
                let head = Head::alone(RecordKind::Copies, 0);
                self.metadata.own += 1;
                self.append_record(LogId::METADATA, head, &payload, Wait::Lazy, since);
            }
        }
    }
}

impl Waiting {
    fn as_copy(&self) -> Copy<'_> {
        Copy { position: self.position, detail: self.detail, payload: &self.payload }
    }
}
