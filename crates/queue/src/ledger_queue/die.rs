//! Messages that leave for the dead-letter exchange.

use std::sync::Arc;

use leveret_message::{Batch, Reason};

use crate::answers::{QueueState, Rejection};
use crate::dead_letter::{DeadRun, DeadTurn};
use crate::dispatch::Deliveries;
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::limits::Length;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::records::Run;

impl LedgerQueue {
    /// Whether messages that die here go to an exchange.
    pub(super) fn has_dead_letters(&self) -> bool {
        self.options.dead_letter.is_some()
    }

    /// Whether its dead letters wait until queues take them, instead of being dropped.
    pub(super) fn keeps_dead_letters(&self) -> bool {
        self.options.keeps_dead_letters()
    }

    /// The dead letters that it keeps until queues take them.
    pub(super) fn kept_dead_letters(&self) -> Length {
        if self.keeps_dead_letters() { self.dead.length() } else { Length::default() }
    }

    /// Removes messages that are neither ready nor unacknowledged any more from the ledger; they wait to be moved.
    pub(super) fn die(&mut self, run: Run, reason: Reason, effects: &mut Effects) {
        let dropped = self.dead.admit(run, reason, &self.contents);
        self.ledger.settle(run.first, run.last, run.bytes, Departure::DeadLettered);
        self.clock.forget(run.first, run.last);
        if dropped > 0 {
            // Nothing says which of them are left, and nothing else would forget the others.
            self.forget(run.first, run.last);
        }
        self.ledger.had_nowhere_to_go(dropped);
        self.release(run.first, run.last);
        effects.dead_letters = true;
    }

    /// Rejects deliveries: they die, if there is a dead-letter exchange. `failed` counts the deliveries as failed.
    pub fn reject(&mut self, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) -> Rejection {
        if !self.has_dead_letters() {
            return Rejection::NoDeadLetters;
        }
        match self.state {
            QueueState::Running => {}
            QueueState::Failed(_) => return Rejection::Kept,
            QueueState::Deleted => return Rejection::NoDeadLetters,
        }
        let mut count = 0;
        for run in deliveries.runs {
            count += run.count();
            self.ready.hand_back(run.count(), run.bytes);
            self.die(*run, Reason::Rejected, effects);
            if !failed {
                self.spared.insert_range(run.first, run.last);
            }
        }
        self.credit_back(deliveries.consumer, count, now, effects);
        self.schedule(effects);
        Rejection::Dying
    }

    /// Number of messages that wait to be moved, and number of those moved so far.
    pub fn dead_letters(&self) -> (u64, u64) {
        (self.dead.len(), self.dead.moved_so_far())
    }

    /// The messages that the next turn moves.
    pub fn dead_turn(&mut self, effects: &mut Effects) -> DeadTurn {
        if self.state != QueueState::Running {
            return DeadTurn::Nothing;
        }
        let turn = self.dead.turn(effects);
        self.annotate_dead(turn)
    }

    /// The turn moves only these of its messages, which are the first ones; the others have to wait for the next turn.
    pub fn dead_turn_is(&mut self, runs: &[DeadRun]) {
        if self.state == QueueState::Running {
            self.dead.turn_is(runs);
        }
    }

    /// The messages of the last turn were moved or, `dropped` of them, dropped for good.
    pub fn moved(&mut self, dropped: u64, effects: &mut Effects) -> Vec<Run> {
        let (logged, volatile) = self.dead.moved(effects);
        // Until now a checkpoint counted them as live, and their counts were needed.
        for run in logged.iter().chain(&volatile) {
            self.forget(run.first, run.last);
        }
        self.ledger.had_nowhere_to_go(dropped);
        logged
    }

    /// The messages of the last turn can't be moved now.
    pub fn dead_stay(&mut self) {
        self.dead.stay();
    }

    /// No queue takes the messages of the last turn now: they are tried again later. Returns whether these are the first since
    /// one was moved.
    pub fn dead_blocked(&mut self, now: Nanos, effects: &mut Effects) -> bool {
        if self.state != QueueState::Running {
            return false;
        }
        let (runs, is_first) = self.dead.block(now, effects);
        if !is_planted(Bug::ForgetDying) {
            effects.rare_mut().dying.extend(runs);
        }
        is_first
    }

    /// The read requested by [`crate::RareEffects::read_dead`] has finished.
    pub(super) fn dead_loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, effects: &mut Effects) {
        let Some(wanted) = self.dead.finish_read(effects) else { return };
        if self.state != QueueState::Running {
            return;
        }
        match self.dead.loaded(runs, wanted) {
            true => effects.dead_letters = true,
            false => self.fail(format!("message {wanted} is not in its message store"), effects),
        }
    }
}
