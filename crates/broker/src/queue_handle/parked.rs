//! Parked messages of a quorum queue: shown and deleted on request of an operator.

use std::sync::Arc;

use leveret_log::{SettleReason, Wait};
use leveret_queue::{Peeked, Run};

use super::{QueueHandle, RECORD_RUNS_MAX};
use crate::ticket::Ticket;

impl QueueHandle {
    /// See [`leveret_queue::Queue::parked`].
    pub(crate) fn parked(&self) -> (u64, u64) {
        self.inner.lock().parked()
    }

    /// See [`leveret_queue::Queue::peek_parked`].
    pub(crate) fn peek_parked(&self, offset: u64, count: usize) -> Vec<Peeked> {
        self.inner.lock().peek_parked(offset, count)
    }

    /// Deletes the parked ones of these messages. Returns how many, and the ticket of the last record.
    pub(crate) fn drop_parked(self: &Arc<Self>, first: u64, last: u64) -> (u64, Ticket) {
        let dropped = self.with(|queue, _| {
            let dropped = queue.drop_parked(first, last);
            let mut ticket = Ticket::default();
            for runs in dropped.chunks(RECORD_RUNS_MAX) {
                let logged = self.log_settles(queue, runs, SettleReason::Dropped, Wait::Confirm);
                ticket = logged.unwrap_or(ticket);
            }
            (dropped.iter().map(Run::count).sum(), ticket)
        });
        dropped.unwrap_or_default()
    }
}
