//! Messages that are neither ready nor with a consumer, as operators see and delete them.

use crate::answers::{Peeked, SetAside};
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::records::Run;

impl LedgerQueue {
    /// Deletes those of these messages that were set aside in this way. Returns their runs, which have to be logged.
    pub fn drop_set_aside(&mut self, which: SetAside, first: u64, last: u64, effects: &mut Effects) -> Vec<Run> {
        let runs = match which {
            SetAside::Parked => self.parked.remove(first..=last),
            SetAside::Delayed => self.delayed.remove(first..=last),
        };
        self.none_deferred(&runs);
        self.depart_all(&runs, Departure::Dropped);
        // A consumer that had claimed some of them takes others now.
        self.schedule(effects);
        runs
    }

    /// Removes messages from the ledger that were set aside.
    pub(super) fn depart_all(&mut self, runs: &[Run], outcome: Departure) {
        for run in runs {
            self.depart(run.first, run.last, run.bytes, outcome);
        }
    }

    /// At most `count` messages that were set aside in this way, after the first `offset`, the lowest number first.
    pub fn peek_set_aside(&self, which: SetAside, offset: u64, count: usize) -> Vec<Peeked> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let redelivered = |number| self.was_delivered(number);
        match which {
            SetAside::Parked => {
                self.parked.numbers().skip(offset).take(count).map(|number| self.peeked(number, true)).collect()
            }
            SetAside::Delayed => {
                let messages = self.delayed.iter().skip(offset).take(count);
                let peeked = |(number, due_ms)| (self.peeked(number, redelivered(number)), due_ms);
                let token = |number| self.deferred.token_of(number, self.annotations.of(number)?);
                let deferred = |(peeked, due_ms): (Peeked, u64)| Peeked {
                    due_ms: Some(due_ms),
                    token: token(peeked.number),
                    ..peeked
                };
                messages.map(peeked).map(deferred).collect()
            }
        }
    }

    /// Number and body bytes of the messages that were set aside in this way.
    pub fn set_aside(&self, which: SetAside) -> (u64, u64) {
        match which {
            SetAside::Parked => (self.parked.len(), self.parked.bytes()),
            SetAside::Delayed => (self.delayed.len(), self.delayed.bytes()),
        }
    }
}
