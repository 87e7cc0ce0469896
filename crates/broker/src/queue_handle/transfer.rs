//! Messages on their way to other queues at the request of an operator, as part of a group.

use std::ops::RangeInclusive;
use std::sync::Arc;

use leveret_log::SettleReason;
use leveret_queue::{Candidates, ParkedMessage, ReadyFound, Run};

use super::QueueHandle;
use crate::group::Group;
use crate::planted::{Bug, is_planted};
use crate::time::Nanos;

impl QueueHandle {
    /// See [`leveret_queue::LedgerQueue::parked_ends`].
    pub(crate) fn parked_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        self.look(|queue| queue.ledger()?.parked_ends(range))
    }

    /// See [`leveret_queue::LedgerQueue::claim_parked`].
    pub(crate) fn claim_parked(self: &Arc<Self>, among: &Candidates<'_>) -> Vec<ParkedMessage> {
        self.with_ledger(|queue, _| queue.claim_parked(among)).unwrap_or_default()
    }

    /// The claimed messages with these numbers were published as part of this group, and leave the queue with it.
    pub(crate) fn parked_moved(self: &Arc<Self>, group: &mut Group, moved: &[u64]) {
        self.with(|queue, _| {
            let Some(ledger) = queue.ledger_mut() else { return };
            let runs = ledger.parked_moved(moved);
            self.log_settles_in(queue, group, &runs, SettleReason::Acknowledged);
        });
    }

    /// See [`leveret_queue::LedgerQueue::claim_ready`] and [`leveret_queue::Queue::find_ready`].
    pub(crate) fn find_ready(self: &Arc<Self>, claims: bool, among: &Candidates<'_>, now: Nanos) -> ReadyFound {
        let found = self.with(|queue, effects| match claims {
            // A stream's messages never leave for other queues.
            true => {
                queue.ledger_mut().map_or_else(ReadyFound::default, |ledger| ledger.claim_ready(among, now, effects))
            }
            false => queue.find_ready(among, now),
        });
        found.unwrap_or_default()
    }

    /// Of the claimed messages, some were published as part of this group, and leave the queue with it; the others stay.
    pub(crate) fn ready_moved(self: &Arc<Self>, group: &mut Group, moved: &[Run], stay: &[Run]) {
        self.with(|queue, effects| {
            let have_left = queue.ledger_mut().is_some_and(|ledger| ledger.ready_moved(moved));
            if have_left && !is_planted(Bug::ForgetMoved) {
                self.log_settles_in(queue, group, moved, SettleReason::Acknowledged);
            }
            if let Some(ledger) = queue.ledger_mut() {
                ledger.unclaim_ready(stay, effects);
            }
        });
    }
}
