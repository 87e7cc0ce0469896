//! The state of a queue that outlives the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::{LiveState, Position, Wait};
use leveret_queue::QueueState;

use super::QueueHandle;
use crate::records::CONTROL_DELIVERED_BELOW;

impl QueueHandle {
    /// Its live state for a checkpoint.
    pub fn live_state(self: &Arc<Self>, durable: Position) -> Option<LiveState> {
        self.with(|queue, effects| {
            // Every durable message has to be in it.
            queue.apply(durable, effects);
            let (live, bytes) = queue.durable_live();
            (*queue.state() != QueueState::Deleted).then(|| LiveState {
                log: self.log_id,
                next: queue.ledger().next(),
                position: self.last_record.load(Ordering::Relaxed),
                live,
                bytes,
                elsewhere: queue.references().numbers(),
                state: queue.kept(),
            })
        })
        .flatten()
    }

    /// Records for a clean stop what may have been delivered.
    pub fn record_delivered(&self) {
        if !self.info.is_logged() {
            return;
        }
        let queue = self.inner.lock();
        let cursor = queue.cursor();
        if cursor > 0 {
            let position = self.commit.append(|log, now| {
                log.append_control(self.log_id, CONTROL_DELIVERED_BELOW, &cursor.to_le_bytes(), Wait::Lazy, now)
            });
            self.last_record.store(position, Ordering::Relaxed);
        }
    }
}
