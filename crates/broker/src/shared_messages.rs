//! The shared log. Messages that go to many queues, large ones that go to several, and those whose bodies have files of their
//! own are written once.
//!
//! Each queue's log has a record that refers to them (see [`leveret_queue::shared`]). Messages that no queue has any more are
//! removed from disk like dead messages of any log, and their body files once that is durable. Lock order is queue, then this,
//! then log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{LiveState, LogId, Wait};
use leveret_message::{Batch, BatchPart, stored};
use leveret_queue::{Place, References, SharedCounts};
use parking_lot::Mutex;

use crate::bodies::{Bodies, BodyFile};
use crate::queue_handle::Kept;
use crate::recovered_shared::RecoveredShared;
use crate::streams::{CommitStream as _, LocalStream, Record, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};

/// Bytes in flight to the disk that each further queue adds for a publisher, instead of its messages' bytes.
pub const REFERENCE_BYTES: u64 = 128;

#[derive(Default)]
struct Inner {
    next: u64,
    counts: SharedCounts,
    /// Body files by message number.
    files: BTreeMap<u64, u64>,
    /// Place of the last message.
    last_record: Place,
}

/// Numbers of queues and bytes from which on messages are shared: see [`crate::Settings`].
#[derive(Debug, Clone, Copy)]
pub struct SharedLimits {
    /// Messages to more durable queues than this are shared.
    pub copied_to_queues_max: usize,
    /// Bodies of at least this many bytes have files.
    pub body_file_from: usize,
}

/// How the queues of a route keep messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logs {
    /// Number of queues with a log.
    pub(crate) count: usize,
    /// The commit stream of all their logs; `None` if there are several, or no log.
    pub(crate) stream: Option<StreamId>,
    /// Whether any of the queues has bodies in memory that have files of their own.
    pub(crate) bodies_in_memory: bool,
}

impl Logs {
    /// Adds a queue.
    pub(crate) fn add(&mut self, kept: Kept) {
        self.bodies_in_memory |= kept.bodies_in_memory;
        if let Some(stream) = kept.log_stream {
            self.stream = (self.count == 0 || self.stream == Some(stream)).then_some(stream);
            self.count += 1;
        }
    }
}

/// The shared log of a node.
pub struct SharedMessages {
    inner: Mutex<Inner>,
    /// The stream of the shared log. Only queues of this stream share messages.
    stream: Arc<LocalStream>,
    bodies: Arc<Bodies>,
    limits: SharedLimits,
}

impl SharedMessages {
    /// A shared log as it was recovered.
    pub fn new(
        recovered: RecoveredShared,
        stream: Arc<LocalStream>,
        bodies: Arc<Bodies>,
        limits: SharedLimits,
    ) -> Self {
        let inner = Inner { next: recovered.next, files: recovered.files, ..Inner::default() };
        Self { inner: Mutex::new(inner), stream, bodies, limits }
    }

    /// Length in bytes from which on bodies don't enter the log.
    pub(crate) fn body_file_from(&self) -> usize {
        self.limits.body_file_from
    }

    /// Counts the references of a recovered queue.
    pub(crate) fn restore(&self, references: &References) {
        let mut inner = self.inner.lock();
        references.each(|first, last| {
            inner.counts.add(first, last, 1);
            // The last messages may be damaged, and no other ones may get their numbers.
            inner.next = inner.next.max(last + 1);
        });
    }

    /// All queues are recovered: forgets body files that none of them needs, and removes files of `found` that have no
    /// reference.
    pub(crate) fn restored(&self, found: &[u64]) {
        let mut inner = self.inner.lock();
        let Inner { counts, files, .. } = &mut *inner;
        files.retain(|number, _| counts.contains(*number));
        let mut needed: Vec<u64> = files.values().copied().collect();
        needed.sort_unstable();
        for id in found.iter().filter(|id| needed.binary_search(id).is_err()) {
            self.bodies.remove(*id);
        }
    }

    /// Whether a body of this length should have a file, if its queues [may share](Self::may_share) it.
    #[inline]
    pub(crate) fn is_large(&self, persistent: bool, length: usize) -> bool {
        persistent && length >= self.limits.body_file_from
    }

    /// Whether there are logs, all in the stream of the shared log: its records have to precede theirs.
    pub(crate) fn may_share(&self, logs: Logs) -> bool {
        logs.stream == Some(self.stream.id())
    }

    /// Writes messages that go to queues with these logs to the shared log, if that is worthwhile; returns the first number there.
    /// They have to be offered once to each durable queue with that number. With `file`, there is one message, whose body is in
    /// the file.
    pub fn share(&self, batch: &Arc<Batch>, logs: Logs, persistent: bool, file: Option<BodyFile>) -> Option<u64> {
        if !persistent || logs.count < 2 && file.is_none() {
            return None;
        }
        let is_worth_it = file.is_some() || logs.count > self.limits.copied_to_queues_max || batch.has_large();
        if !is_worth_it || !self.may_share(logs) {
            return None;
        }
        let file = file.map(BodyFile::keep);
        assert!(file.is_none() || batch.len() == 1, "a message with a body file comes alone");
        let instead = file.map(|id| Bytes::copy_from_slice(&stored::encode_body_file(id)));
        let mut inner = self.inner.lock();
        let first = inner.next;
        inner.next += batch.len() as u64;
        let last = inner.next - 1;
        inner.counts.add(first, last, logs.count as u32);
        inner.files.extend(file.map(|id| (first, id)));
        let part = BatchPart::whole(batch);
        let record = Record::Messages { log: LogId::SHARED, first, part, instead: instead.as_ref() };
        // The references wait for their confirm, and follow this record.
        inner.last_record = self.stream.append(record, Wait::Lazy).place();
        Some(first)
    }

    /// A queue doesn't have the messages from `first` to `last` of the shared log any more, or refused them. The caller has
    /// appended a durable record of that before.
    pub(crate) fn release(&self, first: u64, last: u64) {
        let mut inner = self.inner.lock();
        let Inner { counts, files, .. } = &mut *inner;
        counts.release(first, last);
        if files.range(first..=last).next().is_none() {
            return;
        }
        let dead: Vec<u64> =
            files.extract_if(first..=last, |number, _| !counts.contains(*number)).map(|(_, id)| id).collect();
        drop(inner);
        if !dead.is_empty() {
            let bodies = self.bodies.clone();
            let all = Awaited::durable(Ticket::new(self.stream.id(), self.stream.appended()));
            let remove = Box::new(move || dead.into_iter().for_each(|id| bodies.remove(id)));
            self.stream.notify_later(all, Waiter::Call(remove));
        }
    }

    /// Number of messages that at least one queue has.
    pub fn messages(&self) -> u64 {
        self.inner.lock().counts.messages()
    }

    /// Number of these messages with body files.
    pub fn files(&self) -> usize {
        self.inner.lock().files.len()
    }

    /// State for a checkpoint: the messages that at least one queue has, or will have once its record is durable.
    pub(crate) fn live_state(&self) -> LiveState {
        let inner = self.inner.lock();
        let state = RecoveredShared::encode(&inner.files);
        LiveState {
            log: LogId::SHARED,
            next: inner.next,
            position: inner.last_record.number(),
            live: inner.counts.live(),
            state,
            ..LiveState::default()
        }
    }
}
