//! The shared log: messages that go to many queues, and large ones that go to several, are written once.
//!
//! Each queue's log then has a record that refers to them (see [`leveret_queue::shared`]); what no queue has any more
//! leaves the disk as dead messages of any log do. Lock order is queue, then this, then log.

use std::sync::Arc;

use leveret_log::{LiveState, LogId, Payload, Position, Wait};
use leveret_message::Batch;
use leveret_queue::{References, SharedCounts};
use parking_lot::Mutex;

use crate::commit::Commit;
use crate::queue_handle::QueueRef;

/// What a further queue adds to what a publisher has on its way to the disk, instead of its messages' bytes.
pub(crate) const REFERENCE_BYTES: u64 = 128;

#[derive(Default)]
struct Inner {
    next: u64,
    counts: SharedCounts,
    /// Position of the last message.
    last_record: Position,
}

/// See the module.
pub struct SharedMessages {
    inner: Mutex<Inner>,
    commit: Arc<Commit>,
    /// See [`crate::Settings::copied_to_queues_max`].
    copied_to_queues_max: usize,
}

impl SharedMessages {
    /// A shared log in which the next message has a number of at least `next`.
    pub fn new(next: u64, commit: Arc<Commit>, copied_to_queues_max: usize) -> Self {
        Self { inner: Mutex::new(Inner { next, ..Inner::default() }), commit, copied_to_queues_max }
    }

    /// A recovered queue has these.
    pub(crate) fn restore(&self, references: &References) {
        let mut inner = self.inner.lock();
        references.each(|first, last| inner.counts.add(first, last, 1));
    }

    /// Writes messages that go to `queues` to the shared log, if that is worth it: their number there, from the first
    /// on. Each durable queue has to be offered them with it, once.
    pub(crate) fn share(&self, batch: &Batch, queues: &[QueueRef], persistent: bool) -> Option<u64> {
        if !persistent || queues.len() < 2 {
            return None;
        }
        let durable = queues.iter().filter(|queue| queue.is_durable()).count();
        if durable < 2 || (durable <= self.copied_to_queues_max && !batch.has_large()) {
            return None;
        }
        let mut inner = self.inner.lock();
        let first = inner.next;
        inner.next += batch.len() as u64;
        let last = inner.next - 1;
        inner.counts.add(first, last, durable as u32);
        let payloads = (0..batch.len()).map(|at| {
            let message = batch.message(at);
            Payload { head: message.head, body: message.large }
        });
        // The references wait for their confirm, and come after it.
        inner.last_record =
            self.commit.append(|log, now| log.append_messages(LogId::SHARED, first, payloads, Wait::Lazy, now));
        Some(first)
    }

    /// A queue doesn't have the messages from `first` to `last` of the shared log any more, or never took them. Whatever
    /// says so durably has been appended before.
    pub(crate) fn release(&self, first: u64, last: u64) {
        self.inner.lock().counts.release(first, last);
    }

    /// How many messages some queue has.
    pub fn messages(&self) -> u64 {
        self.inner.lock().counts.messages()
    }

    /// For a checkpoint: what some queue has, or will have once its record is durable.
    pub(crate) fn live_state(&self) -> LiveState {
        let inner = self.inner.lock();
        LiveState {
            log: LogId::SHARED,
            next: inner.next,
            position: inner.last_record,
            live: inner.counts.live(),
            ..LiveState::default()
        }
    }
}
