//! Messages and queues whose time is over, when their home core comes to them.

use std::sync::Arc;

use leveret_model::{Command, DeleteQueue, Permit};

use crate::broker::Broker;
use crate::queue_handle::QueueRef;
use crate::time::Now;
use crate::told::category;

/// Messages that one turn lets expire at most.
const TURN_MESSAGES_MAX: u64 = 256;

impl Broker {
    /// Does what of `queue` is due, or a turn's worth of it.
    pub(crate) fn run_timers(self: &Arc<Self>, queue: &QueueRef, now: Now) {
        if queue.run_timers(now.monotonic, TURN_MESSAGES_MAX) {
            self.delete_unused(queue, now);
        }
    }

    /// Nobody used the queue for so long that it goes (`x-expires`).
    fn delete_unused(self: &Arc<Self>, queue: &QueueRef, now: Now) {
        let info = queue.info();
        // Another queue of that name may be there by now.
        let staged = self.registry.staged_snapshot();
        if staged.queue(&info.vhost, &info.name).is_none_or(|found| found.info().id != info.id) {
            return;
        }
        let command = Command::DeleteQueue(DeleteQueue {
            vhost: info.vhost.clone(),
            name: info.name.clone(),
            connection: info.exclusive_owner,
        });
        match self.registry.submit(Permit::system(), command, now.monotonic) {
            Ok(submitted) => self.publish_later(submitted.position),
            Err(refused) => {
                tracing::warn!(target: category::QUEUE, queue = %info.name, %refused, "unused queue could not be deleted")
            }
        }
    }
}
