//! The commit stream of queues whose placement has no leader, as far as this node knows: it has no room, so that publishers wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_log::{GroupId, JoinChunks, NewChunk, Wait};
use leveret_queue::{Place, WaitReason, Watermarks};

use crate::streams::{AnsweredCalls, CommitStream, Record, StreamRef, Waiter};
use crate::ticket::{Awaited, StreamId, Ticket};

/// The commit stream of a placement without a leader.
pub(crate) struct LeaderlessStream {
    id: StreamId,
    answered: AnsweredCalls,
    /// Whether there is a leader now: who waited here goes elsewhere.
    is_led: AtomicBool,
    /// The node's own.
    local: StreamRef,
}

impl LeaderlessStream {
    pub(crate) fn new(id: StreamId, local: StreamRef) -> Arc<Self> {
        Arc::new(Self { id, answered: AnsweredCalls::default(), is_led: AtomicBool::new(false), local })
    }

    /// There is a leader, or there is none.
    pub(crate) fn set_led(&self, is_led: bool) {
        self.is_led.store(is_led, Ordering::Release);
        self.answered.wake_all();
    }
}

impl CommitStream for LeaderlessStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn append(&self, _: Record<'_>, _: Wait) -> Ticket {
        unreachable!("records are the leader's")
    }

    fn append_joining(&self, _: NewChunk<'_>, _: &'static dyn JoinChunks, _: Wait) -> (Ticket, bool) {
        unreachable!("records are the leader's")
    }

    fn append_in(&self, _: &mut Option<GroupId>, _: Record<'_>) -> Ticket {
        unreachable!("records are the leader's")
    }

    fn commit_group(&self, _: GroupId, _: Wait) -> Option<Ticket> {
        None
    }

    fn has_room(&self) -> bool {
        self.is_led.load(Ordering::Acquire)
    }

    fn watermarks(&self) -> Watermarks {
        self.answered.watermarks()
    }

    fn progress(&self) -> Watermarks {
        self.answered.watermarks()
    }

    fn appended(&self) -> Place {
        Place::NOTHING
    }

    fn notify(&self, awaited: Awaited, waiter: Waiter) {
        self.answered.notify(awaited, waiter);
    }

    fn notify_later(&self, awaited: Awaited, waiter: Waiter) {
        self.answered.notify_later(awaited, waiter);
    }

    fn give_up(&self) {
        self.local.give_up();
    }

    fn announce(&self) {}

    fn defer_syncs(&self) {}

    fn publish_wait(&self) -> WaitReason {
        WaitReason::NoQuorum
    }

    fn leave(&self) {
        self.answered.leave();
    }
}
