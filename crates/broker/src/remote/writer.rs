//! The commit stream of a lane: its places are the numbers of calls, and the queue's home says how far it has got.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leveret_queue::{Place, WaitReason};

use crate::streams::{AnsweredCalls, AnsweredStream};
use crate::ticket::{StreamId, Ticket};

/// Bytes on their way to a home above which publishers wait.
const IN_FLIGHT_MAX: u64 = 16 << 20;

/// The commit stream of a lane.
pub(crate) struct LaneWriter {
    id: StreamId,
    /// Calls with a number so far; written under the lane's lock.
    count: AtomicU64,
    answered: AnsweredCalls,
    /// Bytes of messages in calls that aren't.
    in_flight: AtomicU64,
    /// Whether the home takes no publishes now, because it has an alarm.
    is_held: AtomicBool,
}

impl LaneWriter {
    pub(super) fn new(id: StreamId) -> Self {
        let (count, in_flight, is_held) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { id, count, answered: AnsweredCalls::default(), in_flight, is_held }
    }

    /// The next number, of a call with so many bytes of messages. The caller holds the lane's lock.
    pub(super) fn begin(&self, bytes: u64) -> Ticket {
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
        let number = self.count.load(Ordering::Relaxed) + 1;
        self.count.store(number, Ordering::Release);
        self.ticket(number)
    }

    /// Its id.
    pub(super) fn stream_id(&self) -> StreamId {
        self.id
    }

    /// The ticket of the last call with a number.
    pub(super) fn last(&self) -> Ticket {
        self.ticket(self.count.load(Ordering::Acquire))
    }

    fn ticket(&self, number: u64) -> Ticket {
        Ticket::new(self.id, Place::new(number))
    }

    /// The home takes publishes, or doesn't, because of an alarm.
    pub(super) fn hold(&self, is_held: bool) {
        if self.is_held.swap(is_held, Ordering::AcqRel) && !is_held {
            self.answered.wake_all();
        }
    }

    /// All calls up to this number are carried out, which had so many bytes of messages.
    pub(super) fn done(&self, through: u64, bytes: u64) {
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        self.answered.advance(Place::new(through));
        self.answered.wake();
    }
}

impl AnsweredStream for LaneWriter {
    fn id(&self) -> StreamId {
        self.id
    }

    fn has_room(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT_MAX
    }

    fn takes_publishers(&self) -> bool {
        self.has_room() && !self.is_held.load(Ordering::Acquire)
    }

    fn calls(&self) -> &AnsweredCalls {
        &self.answered
    }

    fn appended(&self) -> Place {
        Place::new(self.count.load(Ordering::Acquire))
    }

    fn give_up(&self) {
        self.answered.leave();
    }

    fn publish_wait(&self) -> WaitReason {
        WaitReason::Link
    }
}
