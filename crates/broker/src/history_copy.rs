//! The last messages of a recent history exchange on their way to the destination of a new binding.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leveret_message::Batch;
use leveret_model::{Binding, QueueId};
use leveret_queue::{GroupPlace, Peeked, Place};
use parking_lot::Mutex;

use crate::streams::Waiter;
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::WaitFor;

/// A copy of an exchange's last messages. It is made in parts, in turns of the home core of the queue that has them.
pub(crate) struct HistoryCopy {
    /// The new binding.
    pub binding: Arc<Binding>,
    /// The queue that has the messages.
    pub queue: QueueId,
    /// The messages that are left, the next one first; `None` before the queue was looked at.
    pub left: Option<VecDeque<Peeked>>,
    /// Messages that were read from disk, by number: a batch, and the index there.
    pub read: BTreeMap<u64, (Arc<Batch>, u32)>,
    /// The number from which on messages were read from disk.
    pub read_from: Option<u64>,
    /// The condition under which the destination has those that were sent.
    pub wait: WaitFor,
    /// Its end.
    pub end: Arc<HistoryEnd>,
}

impl HistoryCopy {
    pub(crate) fn new(binding: Arc<Binding>, queue: QueueId) -> Self {
        Self {
            binding,
            queue,
            left: None,
            read: BTreeMap::new(),
            read_from: None,
            wait: WaitFor::default(),
            end: Arc::default(),
        }
    }

    /// Messages were read from disk.
    pub(crate) fn loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>) {
        self.read.clear();
        for (first, batch) in runs {
            let places = (0..batch.len() as u32).map(|index| (first + u64::from(index), (batch.clone(), index)));
            self.read.extend(places);
        }
    }
}

/// The end of a copy, which the answer to the binding's declaration waits for.
#[derive(Default)]
pub struct HistoryEnd {
    reached: Arc<GroupPlace>,
    waiter: Mutex<Option<Waiter>>,
}

impl HistoryEnd {
    /// The condition that the destination has the messages. `waiter` is notified, unless it is reached before this call.
    pub fn wait(&self, waiter: Waiter) -> WaitFor {
        *self.waiter.lock() = Some(waiter);
        WaitFor::moved(StreamId::LOCAL, self.reached.clone())
    }

    /// The destination has them. Returns the waiter, to be notified of this place.
    pub(crate) fn reach(&self) -> Option<(Awaited, Waiter)> {
        self.reached.close(Place::NOTHING);
        let waiter = self.waiter.lock().take()?;
        Some((Awaited::durable(Ticket::new(StreamId::LOCAL, Place::NOTHING)), waiter))
    }
}
