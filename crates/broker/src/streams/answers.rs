//! Streams whose places are numbers of calls: how far they have got, and who waits for more calls to be answered.

use std::sync::atomic::{AtomicBool, Ordering};

use leveret_queue::{LatestPlace, Place, WaitReason, Watermarks};
use parking_lot::Mutex;

use super::{CommitStream, Waiter};
use crate::ticket::{Awaited, StreamId};

/// A commit stream without records, which others append. Its places are reached when calls are answered.
pub(crate) trait AnsweredStream: Send + Sync {
    /// Its id.
    fn id(&self) -> StreamId;

    /// The answered calls.
    fn calls(&self) -> &AnsweredCalls;

    /// The place of the last call.
    fn appended(&self) -> Place;

    /// See [`CommitStream::has_room`].
    fn has_room(&self) -> bool;

    /// See [`CommitStream::takes_publishers`].
    fn takes_publishers(&self) -> bool {
        self.has_room()
    }

    /// See [`CommitStream::publish_wait`].
    fn publish_wait(&self) -> WaitReason;

    /// See [`CommitStream::give_up`].
    fn give_up(&self);
}

impl<S: AnsweredStream> CommitStream for S {
    fn id(&self) -> StreamId {
        AnsweredStream::id(self)
    }

    fn has_room(&self) -> bool {
        AnsweredStream::has_room(self)
    }

    fn takes_publishers(&self) -> bool {
        AnsweredStream::takes_publishers(self)
    }

    fn watermarks(&self) -> Watermarks {
        self.calls().watermarks()
    }

    fn progress(&self) -> Watermarks {
        self.calls().watermarks()
    }

    fn appended(&self) -> Place {
        AnsweredStream::appended(self)
    }

    fn notify(&self, awaited: Awaited, waiter: Waiter) {
        self.calls().notify(awaited, waiter);
    }

    fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.calls().notify_later(awaited, waiter);
    }

    fn give_up(&self) {
        AnsweredStream::give_up(self);
    }

    /// Nothing: the stream that takes the records announces them.
    fn announce(&self) {}

    fn defer_syncs(&self) {}

    fn publish_wait(&self) -> WaitReason {
        AnsweredStream::publish_wait(self)
    }

    fn leave(&self) {
        self.calls().leave();
    }
}

/// The answered calls of a stream, and its waiters.
pub(crate) struct AnsweredCalls {
    /// All calls up to here are answered.
    through: LatestPlace,
    waiters: Mutex<Vec<(Awaited, Waiter)>>,
    has_left: AtomicBool,
}

impl Default for AnsweredCalls {
    fn default() -> Self {
        Self { through: LatestPlace::new(Place::NOTHING), waiters: Mutex::default(), has_left: AtomicBool::new(false) }
    }
}

impl AnsweredCalls {
    /// All calls up to this place are answered. The caller [wakes](Self::wake) those who wait for them once it holds no lock.
    pub(crate) fn advance(&self, through: Place) {
        self.through.advance(through);
    }

    /// The stream's watermarks.
    pub(crate) fn watermarks(&self) -> Watermarks {
        Watermarks::synced(self.through.get())
    }

    /// See [`super::CommitStream::notify`].
    pub(crate) fn notify(&self, awaited: Awaited, waiter: Waiter) {
        self.notify_later(awaited, waiter);
        // The place may have been reached between the caller's check and the push.
        self.wake();
    }

    /// See [`super::CommitStream::notify_later`].
    pub(crate) fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.waiters.lock().push((awaited, waiter));
    }

    /// See [`super::CommitStream::leave`].
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        self.wake();
    }

    /// Notifies all that wait, whatever they wait for: they look again, and wait anew.
    pub(crate) fn wake_all(&self) {
        let waiters = std::mem::take(&mut *self.waiters.lock());
        waiters.into_iter().for_each(|(awaited, waiter)| waiter.notify(awaited));
    }

    /// Notifies those whose place is reached.
    pub(crate) fn wake(&self) {
        let (reached, has_left) = (self.watermarks(), self.has_left.load(Ordering::Acquire));
        let is_due = |(awaited, _): &mut (Awaited, Waiter)| has_left || awaited.is_reached(reached);
        let due: Vec<_> = self.waiters.lock().extract_if(.., is_due).collect();
        due.into_iter().for_each(|(awaited, waiter)| waiter.notify(awaited));
    }
}
