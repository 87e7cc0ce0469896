//! The commit stream of a lane: its places are the numbers of calls, and the queue's home says how far it has got.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leveret_log::{GroupId, JoinChunks, NewChunk, Wait};
use leveret_queue::{LatestPlace, Place, WaitReason, Watermarks};
use parking_lot::Mutex;

use super::Lane;
use crate::streams::{CommitStream, Record, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};

/// Bytes on their way to a home above which publishers wait.
const IN_FLIGHT_MAX: u64 = 16 << 20;

/// The commit stream of a lane.
pub(crate) struct LaneWriter {
    id: StreamId,
    lane: Weak<Lane>,
    /// Calls with a number so far; written under the lane's lock.
    count: AtomicU64,
    /// All calls up to here are carried out.
    done: LatestPlace,
    /// Bytes of messages in calls that aren't.
    in_flight: AtomicU64,
    waiters: Mutex<Vec<(Awaited, Waiter)>>,
    has_left: AtomicBool,
}

impl LaneWriter {
    pub(super) fn new(id: StreamId, lane: Weak<Lane>) -> Self {
        Self {
            id,
            lane,
            count: AtomicU64::new(0),
            done: LatestPlace::new(Place::NOTHING),
            in_flight: AtomicU64::new(0),
            waiters: Mutex::default(),
            has_left: AtomicBool::new(false),
        }
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

    /// All calls up to this number are carried out, which had so many bytes of messages.
    pub(super) fn done(&self, through: u64, bytes: u64) {
        self.in_flight.fetch_sub(bytes, Ordering::Relaxed);
        self.done.advance(Place::new(through));
        self.wake();
    }

    fn wake(&self) {
        let (reached, has_left) = (self.watermarks(), self.has_left.load(Ordering::Acquire));
        let is_due = |(awaited, _): &mut (Awaited, Waiter)| has_left || awaited.is_reached(reached);
        let due: Vec<_> = self.waiters.lock().extract_if(.., is_due).collect();
        due.into_iter().for_each(|(awaited, waiter)| waiter.notify(awaited));
    }
}

impl CommitStream for LaneWriter {
    fn id(&self) -> StreamId {
        self.id
    }

    fn append(&self, _: Record<'_>, _: Wait) -> Ticket {
        unreachable!("records are the home's")
    }

    fn append_joining(&self, _: NewChunk<'_>, _: &'static dyn JoinChunks, _: Wait) -> (Ticket, bool) {
        unreachable!("records are the home's")
    }

    fn append_in(&self, _: &mut Option<GroupId>, _: Record<'_>) -> Ticket {
        unreachable!("records are the home's")
    }

    fn commit_group(&self, _: GroupId, _: Wait) -> Option<Ticket> {
        unreachable!("records are the home's")
    }

    fn has_room(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < IN_FLIGHT_MAX
    }

    fn watermarks(&self) -> Watermarks {
        Watermarks::synced(self.done.get())
    }

    fn progress(&self) -> Watermarks {
        self.watermarks()
    }

    fn appended(&self) -> Place {
        Place::new(self.count.load(Ordering::Acquire))
    }

    fn notify(&self, awaited: Awaited, waiter: Waiter) {
        self.waiters.lock().push((awaited, waiter));
        // The place may have been reached between the caller's check and the push.
        self.wake();
    }

    fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.waiters.lock().push((awaited, waiter));
    }

    fn give_up(&self) {
        if let Some(lane) = self.lane.upgrade() {
            lane.end();
        }
    }

    fn announce(&self) {}

    fn defer_syncs(&self) {}

    fn publish_wait(&self) -> WaitReason {
        WaitReason::LogFull
    }

    fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        self.wake();
    }
}
