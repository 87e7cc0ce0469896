//! Messages at their delivery limit: they are dead-lettered or, without an exchange for that, parked.

use leveret_message::Reason;

use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::planted::{Bug, is_planted};
use crate::records::{Run, push_attempts, push_run, push_sized};

/// Messages that a queue without `x-parked-max` parks; for another one, the oldest is dropped.
const PARKED_MAX: u64 = 100_000;

impl LedgerQueue {
    /// Splits messages whose delivery failed into those that come back and those for which it was one failure too many.
    pub(super) fn over_limit(&self, run: &Run) -> (Vec<Run>, Vec<Run>) {
        let Some(limit) = self.options.delivery_limit.filter(|_| self.rules.logs_attempts) else {
            return (vec![*run], Vec::new());
        };
        let (mut back, mut over) = (Vec::new(), Vec::new());
        for one in run.singly() {
            let failed = u64::from(self.attempts.of(one.first).failed) + 1;
            push_sized(if failed > limit { &mut over } else { &mut back }, one);
        }
        (back, over)
    }

    /// Messages that a consumer had for the last time leave for the dead-letter exchange, or are parked.
    pub(super) fn end_attempts(&mut self, run: &Run, effects: &mut Effects) {
        self.ready.hand_back(run.count(), run.bytes);
        for number in (run.first..=run.last).filter(|number| self.ledger.is_live(*number)) {
            push_attempts(&mut effects.rare_mut().attempts, number, self.attempts.come_back(number, true));
        }
        if self.has_dead_letters() {
            self.die(*run, Reason::DeliveryLimit, effects);
        } else if self.strict_compat || is_planted(Bug::LoseParked) {
            self.depart(run.first, run.last, run.bytes, Departure::Dropped);
            self.release(run.first, run.last);
            push_run(&mut effects.rare_mut().over_limit, *run);
        } else {
            self.park(run, effects);
        }
    }

    fn park(&mut self, run: &Run, effects: &mut Effects) {
        self.clock.forget(run.first, run.last);
        self.release(run.first, run.last);
        self.parked.add(run);
        push_sized(&mut effects.rare_mut().parked, *run);
        while self.parked.staying() > self.options.parked_max.unwrap_or(PARKED_MAX)
            && let Some(oldest) = self.parked.oldest()
        {
            for run in self.parked.remove(oldest..=oldest) {
                self.depart(run.first, run.last, run.bytes, Departure::Dropped);
                push_run(&mut effects.rare_mut().over_limit, run);
            }
        }
    }
}
