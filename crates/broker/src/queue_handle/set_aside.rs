//! Messages of a quorum queue that were set aside: shown and deleted on request of an operator.

use std::sync::Arc;

use leveret_log::{SettleReason, Wait};
use leveret_queue::{Run, SetAside};

use super::{QueueHandle, RECORD_RUNS_MAX};
use crate::ticket::Ticket;

impl QueueHandle {
    /// See [`leveret_queue::LedgerQueue::set_aside`].
    pub(crate) fn set_aside(&self, which: SetAside) -> (u64, u64) {
        self.look(|queue| queue.ledger().map_or((0, 0), |ledger| ledger.set_aside(which)))
    }

    /// Deletes those of these messages that were set aside in this way. Returns how many, and the ticket of the last record.
    pub(crate) fn drop_set_aside(self: &Arc<Self>, which: SetAside, first: u64, last: u64) -> (u64, Ticket) {
        let dropped = self.with_newest(|handle, queue, effects| {
            let dropped = queue.ledger_mut()?.drop_set_aside(which, first, last, effects);
            let mut ticket = Ticket::default();
            for runs in dropped.chunks(RECORD_RUNS_MAX) {
                let logged = handle.log_settles(queue, runs, SettleReason::Dropped, Wait::Confirm);
                ticket = logged.unwrap_or(ticket);
            }
            Some((dropped.iter().map(Run::count).sum(), ticket))
        });
        dropped.flatten().unwrap_or_default()
    }
}
