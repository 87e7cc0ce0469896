//! Whoever rejected messages and waits until they are where dead letters go.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_queue::{GroupPlace, LatestPlace, Place};
use parking_lot::Mutex;

use crate::outbox::{Event, Outbox};
use crate::streams::{StreamRef, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::wait_for::WaitFor;

/// Why somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// To say that these deliveries are settled, on a link that goes with the queue.
    Settlement,
    /// To say that a transaction is done.
    Transaction,
}

/// Somebody who waits.
pub struct Waiting {
    /// How many of the queue's dead letters will have been moved then.
    through: u64,
    group: Arc<GroupPlace>,
    outbox: Arc<Outbox>,
    reason: Reason,
}

impl Waiting {
    /// The groups of the moves are written up to `place` of the queue's stream.
    pub(crate) fn moved(self, place: Place, stream: &StreamRef) {
        self.group.close(place);
        let awaited = Awaited::durable(Ticket::new(stream.id(), place));
        stream.notify(awaited, Waiter::Connection(self.outbox));
    }

    /// It won't be. What the rest of a transaction became can't be said in a word, so its connection is closed.
    pub(crate) fn fail(self, text: &Arc<str>) {
        if self.reason == Reason::Transaction {
            self.outbox.send(Event::Close(text.clone()));
        }
    }
}

/// For `outbox`, which rejected messages of a queue that had failed: they won't be moved.
pub(super) fn never(stream: StreamId, outbox: &Arc<Outbox>, reason: Reason, text: &Arc<str>) -> WaitFor {
    let group = Arc::new(GroupPlace::default());
    Waiting { through: 0, group: group.clone(), outbox: outbox.clone(), reason }.fail(text);
    WaitFor::moved(stream, group)
}

/// See the module; of one queue, in the order in which messages died. Locked after the queue.
#[derive(Default)]
pub(super) struct Moves {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Where the last group of a move ends that wrote anything.
    place: LatestPlace,
}

impl Moves {
    /// `outbox` waits until those that wait now, after so many before them, have been moved.
    pub(super) fn wait(
        &self,
        (moved, moving): (u64, u64),
        stream: StreamId,
        outbox: &Arc<Outbox>,
        reason: Reason,
    ) -> WaitFor {
        if moving == 0 {
            // They were more than may wait, and dropped.
            return WaitFor::default();
        }
        let through = moved + moving;
        let group = Arc::new(GroupPlace::default());
        let waiting = Waiting { through, group: group.clone(), outbox: outbox.clone(), reason };
        self.waiting.lock().push_back(waiting);
        WaitFor::moved(stream, group)
    }

    /// So many have been moved: whoever waited for that.
    pub(super) fn through(&self, moved: u64) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let count = waiting.partition_point(|waiting| waiting.through <= moved);
        waiting.drain(..count).collect()
    }

    /// A group of a move is written up to `place`, nothing if there was nothing to write. Returns what those wait for whom
    /// it was the last of: one that moves volatile messages only comes after others that may not be durable yet.
    pub(super) fn written(&self, place: Place) -> Place {
        self.place.advance(place)
    }

    /// Everybody.
    pub(super) fn all(&self) -> VecDeque<Waiting> {
        std::mem::take(&mut *self.waiting.lock())
    }
}
