//! The wait of a client's publishes as listings show it.

use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;
use leveret_queue::{QueueWait, WaitReason};
use smallvec::SmallVec;

use super::ClientConnection;

/// Largest number of queues that show the wait of a connection's publishes: a route may have very many.
pub const WAIT_SHOWN_MAX: usize = 1000;

/// The reason of a wait, and the queues that show it too.
pub(super) struct ShownWait {
    reason: WaitReason,
    queues: SmallVec<[QueueRef; 2]>,
}

impl ClientConnection {
    /// Shows in listings that the client's publishes wait; these queues show it too.
    pub fn show_wait(&mut self, reason: WaitReason, queues: SmallVec<[QueueRef; 2]>, now: Now) {
        self.hide_wait();
        self.outbox.set_wait(Some(QueueWait { reason, since: now.monotonic }));
        queues.iter().for_each(|queue| queue.publisher_waits(reason, now.monotonic));
        self.shown_wait = Some(Box::new(ShownWait { reason, queues }));
    }

    /// Shows in listings whether the client's publishes are paced, unless another wait is shown.
    pub fn show_pacing(&mut self, now: Now) {
        match (self.shown_wait(), self.pace.is_shown()) {
            (None, true) => self.show_wait(WaitReason::Pacing, SmallVec::new(), now),
            (Some(WaitReason::Pacing), false) => self.hide_wait(),
            _ => {}
        }
    }

    /// Ends the wait that listings show, if there is one.
    pub fn hide_wait(&mut self) {
        let Some(shown) = self.shown_wait.take() else { return };
        let ShownWait { reason, queues } = *shown;
        self.outbox.set_wait(None);
        queues.iter().for_each(|queue| queue.publisher_goes_on(reason));
    }

    /// The reason of the wait that listings show.
    pub fn shown_wait(&self) -> Option<WaitReason> {
        self.shown_wait.as_ref().map(|shown| shown.reason)
    }
}
