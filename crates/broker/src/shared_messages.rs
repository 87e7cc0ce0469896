//! The shared log: messages that go to many queues, and large ones that go to several, are written once; so are those
//! whose bodies have files of their own.
//!
//! Each queue's log then has a record that refers to them (see [`leveret_queue::shared`]); what no queue has any more
//! leaves the disk as dead messages of any log do, and body files once that is durable. Lock order is queue, then this,
//! then log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{LiveState, LogId, Wait};
use leveret_message::{Batch, stored};
use leveret_queue::{Place, References, SharedCounts};
use parking_lot::Mutex;

use crate::bodies::{Bodies, BodyFile};
use crate::queue_handle::QueueRef;
use crate::streams::{Record, StreamRef, Waiter};
use crate::ticket::{Awaited, Ticket};

/// What a further queue adds to what a publisher has on its way to the disk, instead of its messages' bytes.
pub const REFERENCE_BYTES: u64 = 128;
/// Version of the state in a checkpoint.
const STATE_VERSION: u8 = 1;

#[derive(Default)]
struct Inner {
    next: u64,
    counts: SharedCounts,
    /// The files of those messages whose bodies have one.
    files: BTreeMap<u64, u64>,
    /// Place of the last message.
    last_record: Place,
}

/// From how many queues and bytes on messages are shared: see [`crate::Settings`].
#[derive(Debug, Clone, Copy)]
pub struct SharedLimits {
    /// Messages to more durable queues than this are.
    pub copied_to_queues_max: usize,
    /// Bodies of this many bytes have files.
    pub body_file_from: usize,
}

/// See the module.
pub struct SharedMessages {
    inner: Mutex<Inner>,
    /// Only queues that belong to it share messages.
    stream: StreamRef,
    bodies: Arc<Bodies>,
    limits: SharedLimits,
}

/// What recovery found of the shared log.
#[derive(Debug, Default)]
pub struct RecoveredShared {
    /// Every message has a lower number.
    pub next: u64,
    /// Body files by number; of messages that may be gone, too.
    pub files: BTreeMap<u64, u64>,
}

impl RecoveredShared {
    /// Body files by number, for a checkpoint.
    pub(crate) fn encode(files: &BTreeMap<u64, u64>) -> Vec<u8> {
        let mut state = Vec::new();
        if !files.is_empty() {
            state.push(STATE_VERSION);
        }
        for (number, id) in files {
            state.extend_from_slice(&number.to_le_bytes());
            state.extend_from_slice(&id.to_le_bytes());
        }
        state
    }

    /// What [`SharedMessages::live_state`] wrote.
    ///
    /// # Errors
    /// When it is something else: its length.
    pub(crate) fn decode(state: &LiveState) -> Result<Self, usize> {
        let mut recovered = Self { next: state.next, files: BTreeMap::new() };
        let Some((version, rest)) = state.state.split_first() else { return Ok(recovered) };
        let (pairs, odd) = rest.as_chunks::<16>();
        if *version != STATE_VERSION || !odd.is_empty() {
            return Err(state.state.len());
        }
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            recovered.files.insert(pair as u64, (pair >> 64) as u64);
        }
        Ok(recovered)
    }
}

impl SharedMessages {
    /// A shared log as it was recovered.
    pub fn new(recovered: RecoveredShared, stream: StreamRef, bodies: Arc<Bodies>, limits: SharedLimits) -> Self {
        let inner = Inner { next: recovered.next, files: recovered.files, ..Inner::default() };
        Self { inner: Mutex::new(inner), stream, bodies, limits }
    }

    /// Bodies of this many bytes or more don't enter the log.
    pub(crate) fn body_file_from(&self) -> usize {
        self.limits.body_file_from
    }

    /// A recovered queue has these.
    pub(crate) fn restore(&self, references: &References) {
        let mut inner = self.inner.lock();
        references.each(|first, last| inner.counts.add(first, last, 1));
    }

    /// Every queue is there: forgets the body files that none of them needs, and has those of `found` removed that
    /// nothing refers to.
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

    /// Whether a body of this length that goes to these queues is to have a file.
    pub(crate) fn wants_file(&self, queues: &[QueueRef], persistent: bool, length: usize) -> bool {
        let is_large = persistent && length >= self.limits.body_file_from;
        is_large && queues.iter().any(|queue| queue.is_durable()) && self.may_share(queues)
    }

    /// Whether all queues that have a log have it in the same stream as the shared one: its records come before theirs.
    fn may_share(&self, queues: &[QueueRef]) -> bool {
        queues.iter().all(|queue| !queue.is_durable() || queue.stream().id() == self.stream.id())
    }

    /// Whether it is nowhere else then: nobody has it in memory. Queues without a log do, and those whose refusals are
    /// dead letters, which are copied.
    pub(crate) fn streams(&self, queues: &[QueueRef], persistent: bool, length: usize) -> bool {
        let needs_file_only = |queue: &QueueRef| {
            queue.is_durable() && queue.info().options.overflow != leveret_model::Overflow::RejectPublishDlx
        };
        self.wants_file(queues, persistent, length) && queues.iter().all(needs_file_only)
    }

    /// Writes messages that go to `queues` to the shared log, if that is worth it: their number there, from the first
    /// on. Each durable queue has to be offered them with it, once. With `file`, there is one message, whose body is in it.
    pub fn share(&self, batch: &Batch, queues: &[QueueRef], persistent: bool, file: Option<BodyFile>) -> Option<u64> {
        if !persistent || queues.len() < 2 && file.is_none() {
            return None;
        }
        let durable = queues.iter().filter(|queue| queue.is_durable()).count();
        let is_worth_it = file.is_some() || durable > self.limits.copied_to_queues_max || batch.has_large();
        if durable < 2 && file.is_none() || durable == 0 || !is_worth_it || !self.may_share(queues) {
            return None;
        }
        let file = file.map(BodyFile::keep);
        assert!(file.is_none() || batch.len() == 1, "a message with a body file comes alone");
        let instead = file.map(|id| Bytes::copy_from_slice(&stored::encode_body_file(id)));
        let mut inner = self.inner.lock();
        let first = inner.next;
        inner.next += batch.len() as u64;
        let last = inner.next - 1;
        inner.counts.add(first, last, durable as u32);
        inner.files.extend(file.map(|id| (first, id)));
        let (log, count) = (LogId::SHARED, batch.len() as u32);
        let record = Record::Messages { log, first, batch, index: 0, count, instead: instead.as_ref() };
        // The references wait for their confirm, and come after it.
        inner.last_record = self.stream.append(record, Wait::Lazy).place();
        Some(first)
    }

    /// A queue doesn't have the messages from `first` to `last` of the shared log any more, or never took them. Whatever
    /// says so durably has been appended before.
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

    /// How many messages some queue has.
    pub fn messages(&self) -> u64 {
        self.inner.lock().counts.messages()
    }

    /// How many of them have body files.
    pub fn files(&self) -> usize {
        self.inner.lock().files.len()
    }

    /// For a checkpoint: what some queue has, or will have once its record is durable.
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
