//! Expiry of messages and queues, run by their home core.

use std::sync::Arc;

use leveret_queue::DeleteIf;

use crate::broker::Broker;
use crate::queue_handle::LocalQueue;
use crate::time::Now;

/// Maximum number of messages that one turn expires.
const TURN_MESSAGES_MAX: u64 = 256;

impl Broker {
    /// Runs the due timers of `queue`, up to a turn's worth.
    pub(crate) fn run_timers(self: &Arc<Self>, queue: &LocalQueue, now: Now) {
        if queue.run_timers(now.monotonic, TURN_MESSAGES_MAX) {
            self.delete_unused(queue, now);
        }
    }

    /// Deletes a queue that has been unused for the time of its `x-expires`. The queue checks that once more under its lock,
    /// because it may be in use again.
    fn delete_unused(self: &Arc<Self>, queue: &LocalQueue, now: Now) {
        let condition = DeleteIf { expired: true, ..DeleteIf::default() };
        self.delete_queue(queue.info(), condition, now);
    }
}
