//! Second copies of metadata records.
//!
//! Metadata (log 0) is small, and without it nothing else has an owner. So each of its records is written twice: as it
//! comes, and once more with a later batch, in other sectors and with sums of its own. No caller waits for the second
//! copy; it is durable within [`crate::Options::lazy_flush`] of the first one.

use std::collections::VecDeque;

use crate::format::copies::{COPIES_HEAD_BYTES, Copies, Copy, copy_bytes};
use crate::format::record::{Head, RecordKind};
use crate::log::Log;
use crate::types::{LogId, Nanos, Position, Wait};

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
}

/// The second copies that are due.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    last: Position,
    copied: Position,
    waiting: VecDeque<Waiting>,
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
    /// Takes up the metadata records that a start found.
    pub(crate) fn continue_metadata(&mut self, start: MetadataStart, now: Nanos) {
        self.metadata = Metadata { last: start.last, copied: start.copied, waiting: VecDeque::new() };
        self.active.set_metadata_mark(self.metadata.mark());
        let rest = start.rest.into_iter();
        self.metadata.waiting.extend(rest.map(|(position, detail, payload)| Waiting {
            batch: 0,
            position,
            detail,
            payload,
        }));
        self.copy_metadata(0, self.durable, now);
    }

    /// Notes a metadata record that was just appended.
    pub(crate) fn note_metadata(&mut self, detail: u8, payload: &[u8]) {
        let (batch, position) = (self.active.sequence(), self.appended());
        self.metadata.last = position;
        self.metadata.waiting.push_back(Waiting { batch, position, detail, payload: payload.to_vec() });
    }

    /// Appends the second copies of the metadata records in batches up to this one, whose last record is at `to`.
    pub(crate) fn copy_metadata(&mut self, batch: u64, to: Position, now: Nanos) {
        let count = self.metadata.waiting.partition_point(|waiting| waiting.batch <= batch);
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
            let to = if due.is_empty() { to } else { now_due[now_due.len() - 1].position };
            let copies = now_due.iter().map(Waiting::as_copy).collect();
            let payload = Copies { after: self.metadata.copied, to, copies }.encode();
            self.metadata.copied = to;
            if !planted!(SkipMetadataCopies) {
                let head = Head::alone(RecordKind::Copies, 0);
                self.append_record(LogId::METADATA, head, &payload, Wait::Lazy, now);
            }
        }
    }
}

impl Waiting {
    fn as_copy(&self) -> Copy<'_> {
        Copy { position: self.position, detail: self.detail, payload: &self.payload }
    }
}
