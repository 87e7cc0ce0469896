//! The part of a queue's state that outlives the process.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_log::{LiveState, Wait};
use leveret_queue::{Control, Place, QueueState, Watermarks};

use super::QueueHandle;
use crate::records::live_state_of;

/// A queue's answer about its live messages.
#[derive(Debug)]
pub(crate) enum LiveAnswer {
    /// They are these.
    Live(LiveState),
    /// The queue is deleted, and nothing of it is needed any more.
    Deleted,
    /// The queue panicked when it was asked. It must not be taken for deleted.
    Unknown,
}

impl QueueHandle {
    /// Its live state for a checkpoint.
    pub(crate) fn live_state(self: &Arc<Self>, durable: Place) -> LiveAnswer {
        let state = self.with(|queue, effects| {
            // The state has to contain every durable message.
            queue.apply(Watermarks::synced(durable), effects);
            if *queue.state() == QueueState::Deleted {
                return None;
            }
            Some(live_state_of(self.log_id, self.last_record.get().number(), queue.checkpoint()))
        });
        match (state, self.successor()) {
            (None, _) => LiveAnswer::Unknown,
            (Some(Some(state)), _) => LiveAnswer::Live(state),
            (Some(None), Some(successor)) => successor.live_state(durable),
            (Some(None), None) => LiveAnswer::Deleted,
        }
    }

    /// Records for a clean stop which messages may have been delivered, and how often.
    pub(crate) fn record_delivered(&self) {
        if !self.info.is_logged() {
            return;
        }
        if let Some(successor) = self.successor() {
            return successor.record_delivered();
        }
        let mut queue = self.inner.lock();
        if let Some(stream) = queue.stream_mut() {
            let offsets = stream.offsets_to_log(0);
            self.log_offsets(&mut queue, &offsets);
        }
        if let Some(ledger) = queue.ledger() {
            self.log_attempts(&ledger.logged_attempts());
            let below = ledger.delivered_below();
            if below > 0 {
                self.log_control(&Control::DeliveredBelow(Cow::Owned(below)), Wait::Lazy);
            }
        }
    }
}
