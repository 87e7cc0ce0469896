//! Pacing of the queue's publishers, see [`crate::publishers::Pacing`].

use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::publishers::{Pacing, PublishSlot};

impl LedgerQueue {
    /// Notes messages that are being published.
    pub fn arrived(&mut self, count: u32, now: Nanos) {
        let ready = self.ready.messages();
        if let Some(pacing) = &mut self.pacing {
            pacing.arrived(u64::from(count), ready, now);
        }
    }

    /// The slot of the last of `count` messages that have [`arrived`](Self::arrived), for a publisher that waits for it.
    pub fn slot(&mut self, count: u32, now: Nanos) -> PublishSlot {
        self.pacing.as_mut().map_or(PublishSlot::default(), |pacing| pacing.slot(u64::from(count), now))
    }

    /// Notes that a consumer took messages.
    pub(super) fn pace_taken(&mut self, count: u64, now: Nanos) {
        if self.standing_delay_target == 0 || count == 0 {
            return;
        }
        let pacing = self.pacing.get_or_insert_with(|| Box::new(Pacing::new(self.standing_delay_target, now)));
        pacing.taken(count, self.ready.messages(), self.ready.unacknowledged().messages, now);
    }

    /// Lets publishers go when there is no consumer that takes messages.
    pub(super) fn end_pacing(&mut self) {
        if self.consumers.movers() == 0 {
            self.pacing = None;
        }
    }

    /// The time since when publishers are paced.
    pub(super) fn paced_since(&self) -> Option<Nanos> {
        self.pacing.as_ref().and_then(|pacing| pacing.since())
    }
}
