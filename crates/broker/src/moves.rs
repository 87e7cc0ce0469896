//! Answers to rejections that wait until the rejected messages have been dead-lettered.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_queue::{GroupPlace, LatestPlace, Place};
use parking_lot::Mutex;

use crate::outbox::{Event, Outbox};
use crate::streams::{CommitStream, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::WaitFor;

/// The purpose of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It settles deliveries on a link that ends with the queue.
    Settlement,
    /// It completes a transaction.
    Transaction,
}

/// An answer that waits.
pub(crate) struct Waiting {
    /// Number of the queue's dead letters that have to be moved first.
    through: u64,
    group: Arc<GroupPlace>,
    outbox: Arc<Outbox>,
    reason: Reason,
}

impl Waiting {
    /// The groups of the moves are written up to `place` of the queue's stream.
    pub(crate) fn moved(self, place: Place, stream: &dyn CommitStream) {
        self.group.close(place);
        let awaited = Awaited::durable(Ticket::new(stream.id(), place));
        stream.notify(awaited, Waiter::Connection(self.outbox));
    }

    /// The messages won't be moved. There is no way to report the outcome of the rest of a transaction, so its connection is
    /// closed.
    pub(crate) fn fail(self, text: &Arc<str>) {
        if self.reason == Reason::Transaction {
            self.outbox.send(Event::Close(text.clone()));
        }
    }
}

/// Fails the answer of `outbox` at once: its rejected messages won't be moved, because their queue had failed before.
pub(crate) fn never(stream: StreamId, outbox: &Arc<Outbox>, reason: Reason, text: &Arc<str>) -> WaitFor {
    let group = Arc::new(GroupPlace::default());
    Waiting { through: 0, group: group.clone(), outbox: outbox.clone(), reason }.fail(text);
    WaitFor::moved(stream, group)
}

/// The waiting answers of one queue, in the order in which messages died. Locked after the queue.
#[derive(Default)]
pub(crate) struct Moves {
    waiting: Mutex<VecDeque<Waiting>>,
    /// The end of the last group of a move that wrote anything.
    place: LatestPlace,
}

impl Moves {
    /// Has `outbox` wait until the `moving` dead letters that wait now have been moved, after `moved` earlier ones.
    pub(crate) fn wait(
        &self,
        (moved, moving): (u64, u64),
        stream: StreamId,
        outbox: &Arc<Outbox>,
        reason: Reason,
    ) -> WaitFor {
        if moving == 0 {
            // They exceeded the limit of waiting messages and were dropped.
            return WaitFor::default();
        }
        let through = moved + moving;
        let group = Arc::new(GroupPlace::default());
        let waiting = Waiting { through, group: group.clone(), outbox: outbox.clone(), reason };
        self.waiting.lock().push_back(waiting);
        WaitFor::moved(stream, group)
    }

    /// `moved` dead letters have been moved in total: removes and returns the answers that waited for this.
    pub(crate) fn through(&self, moved: u64) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let count = waiting.partition_point(|waiting| waiting.through <= moved);
        waiting.drain(..count).collect()
    }

    /// A group of a move is written up to `place`, which is nothing if there was nothing to write. Returns the place that the
    /// answers wait for whose last move it was: a move of only volatile messages follows others that may not be durable yet.
    pub(crate) fn written(&self, place: Place) -> Place {
        self.place.advance(place)
    }

    /// Removes and returns all answers.
    pub(crate) fn all(&self) -> VecDeque<Waiting> {
        std::mem::take(&mut *self.waiting.lock())
    }
}
