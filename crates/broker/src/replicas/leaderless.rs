//! The commit stream of queues whose placement has no leader, as far as this node knows: it has no room, so that publishers wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leveret_queue::{Place, WaitReason};

use crate::streams::{AnsweredCalls, AnsweredStream, StreamRef};
use crate::ticket::StreamId;

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

impl AnsweredStream for LeaderlessStream {
    fn id(&self) -> StreamId {
        self.id
    }

    fn has_room(&self) -> bool {
        self.is_led.load(Ordering::Acquire)
    }

    fn calls(&self) -> &AnsweredCalls {
        &self.answered
    }

    fn appended(&self) -> Place {
        Place::NOTHING
    }

    fn give_up(&self) {
        self.local.give_up();
    }

    fn publish_wait(&self) -> WaitReason {
        WaitReason::NoQuorum
    }
}
