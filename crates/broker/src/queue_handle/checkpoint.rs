//! The state of a queue that outlives the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::{LiveState, Position, Wait};
use leveret_queue::{Checkpoint, QueueState};

use super::QueueHandle;
use crate::records::CONTROL_DELIVERED_BELOW;

impl QueueHandle {
    /// Its live state for a checkpoint.
    pub fn live_state(self: &Arc<Self>, durable: Position) -> Option<LiveState> {
        self.with(|queue, effects| {
            // Every durable message has to be in it.
            queue.apply(durable, durable, effects);
            if *queue.state() == QueueState::Deleted {
                return None;
            }
            let Checkpoint { next, live, bytes, elsewhere, state } = queue.checkpoint();
            let position = self.last_record.load(Ordering::Relaxed);
            Some(LiveState { log: self.log_id, next, position, live, bytes, elsewhere, state })
        })
        .flatten()
    }

    /// Records for a clean stop what may have been delivered.
    pub fn record_delivered(&self) {
        if !self.info.is_logged() {
            return;
        }
        let queue = self.inner.lock();
        let below = queue.delivered_below();
        if below > 0 {
            let position = self.commit.append(|log, now| {
                log.append_control(self.log_id, CONTROL_DELIVERED_BELOW, &below.to_le_bytes(), Wait::Lazy, now)
            });
            self.last_record.store(position, Ordering::Relaxed);
        }
    }
}
