//! A queue that gets another type or other arguments while it runs: its messages move to a new machine.
//!
//! Its log goes on, since all types of ledger queues have the same records. Messages that consumers had go back to their places first.

use std::collections::BTreeMap;

use leveret_model::QueueOptions;

use super::ready::ReadyMessages;
use super::rules::Rules;
use crate::answers::{NotConverted, QueueState};
use crate::contents::Contents;
use crate::dead_letter::Dying;
use crate::effects::Effects;
use crate::ledger::Ledger;
use crate::ledger_queue::LedgerQueue;
use crate::limits::Length;
use crate::nanos::Nanos;
use crate::number_set::NumberSet;
use crate::pending::PendingMessages;
use crate::planted::{Bug, is_planted};
use crate::priorities::Priorities;
use crate::records::{AttemptRun, push_attempts};
use crate::replica::{Parts, Replica};
use crate::stream_state::StreamState;
use crate::surroundings::Surroundings;
use crate::timing::{Clock, Expiry};

impl LedgerQueue {
    /// Checks whether a queue with these effective arguments can take over the messages.
    ///
    /// # Errors
    /// [`NotConverted`], the first reason why it can't.
    pub fn check_conversion(&self, options: &QueueOptions) -> Result<(), NotConverted> {
        match &self.state {
            QueueState::Running if self.is_closed => return Err(NotConverted::Gone),
            QueueState::Running => {}
            QueueState::Failed(reason) => return Err(NotConverted::Failed(reason.clone())),
            QueueState::Deleted => return Err(NotConverted::Gone),
        }
        if self.claimed > 0 || self.dead.len() > 0 || self.parked.staying() < self.parked.len() {
            return Err(NotConverted::Busy);
        }
        let some = |count: u64, reason: fn(u64) -> NotConverted| if count > 0 { Err(reason(count)) } else { Ok(()) };
        some(self.dead.length().messages, NotConverted::DeadLetters)?;
        let rules = Rules::of(options);
        if !rules.delays {
            some(self.parked.len(), NotConverted::Parked)?;
            some(self.delayed.len() + self.pending.delayed().messages, NotConverted::Delayed)?;
        }
        if rules.priorities.is_none() {
            some(self.ready.priorities().map(|(_, numbers)| numbers.len()).sum(), NotConverted::Priorities)?;
        }
        Ok(())
    }

    /// The default priority and the highest one.
    pub fn priority_levels(&self) -> (u8, u8) {
        self.rules.priorities.map_or((0, 0), |levels| (levels.default, levels.max))
    }

    /// Numbers from here on belong to messages that aren't part of the queue yet.
    pub fn next_number(&self) -> u64 {
        self.ledger.next()
    }

    /// Moves all messages to a new machine, as after [`LedgerQueue::check_conversion`]; this one is as if it were deleted, but its
    /// consumers don't know it before [`LedgerQueue::delete`]. Returns the counts of deliveries that its log lacks, too.
    pub fn convert(
        &mut self,
        options: QueueOptions,
        durable: bool,
        surroundings: Surroundings,
        now: Nanos,
        effects: &mut Effects,
    ) -> (Self, Vec<AttemptRun>) {
        let held = if is_planted(Bug::ForgetHeld) { NumberSet::default() } else { self.held_by_consumers() };
        if is_planted(Bug::LeavePending) {
            self.pending.clear();
        }
        let returned = self.ready.returned_in_place(&held);
        let counted_here = self.rules.priorities.is_some();
        let (next, counters, epoch) = (self.ledger.next(), self.ledger.counters(), surroundings.epoch.clone());
        let replica = self.give_up_replica();
        let mut other = Self::new(options, durable, replica, surroundings.clone(), now);
        other.ledger.continue_counting(counters);
        let came_back = if counted_here { &held } else { &returned };
        if other.ready.has_priorities() {
            came_back.iter().for_each(|number| _ = other.attempts.come_back(number, false));
        } else {
            let counted = other.attempts.all().into_iter().filter(|run| run.counts.acquired > 0);
            other.ready.mark_returned(returned.iter().chain(counted.flat_map(|run| run.first..=run.last)));
        }
        other.contents = std::mem::replace(&mut self.contents, Contents::new(surroundings.budget));
        other.contents.keep_volatile();
        if !other.ledger.is_empty() {
            other.contents.spilled_from = Some(0);
        }
        other.pending = std::mem::replace(&mut self.pending, PendingMessages::new(next));
        other.counts = std::mem::take(&mut self.counts);
        let none = (std::iter::empty(), Length::default());
        self.ready = ReadyMessages::new(&self.ledger, 0, None, none);
        self.clock = Clock::new(&QueueOptions::default(), epoch, Expiry::default(), now);
        self.state = QueueState::Deleted;
        self.is_closed = true;
        self.reads.signal_getters(effects);
        self.consumers.schedule(0, effects);
        let logged = match other.rules.logs_attempts && !self.rules.logs_attempts {
            true => other.durable_attempts(),
            false if other.rules.logs_attempts => other.attempts_of(&held),
            false => Vec::new(),
        };
        (other, logged)
    }

    /// All of its applied messages and what belongs to them. Nothing is left here, and later messages get the next numbers.
    fn give_up_replica(&mut self) -> Replica {
        let next = self.ledger.next();
        let times = self.clock.encode(std::iter::empty());
        let parts = Parts {
            expiry: Expiry::decode(&times).expect("it was encoded here"),
            references: std::mem::take(&mut self.references),
            attempts: std::mem::take(&mut self.attempts),
            parked: std::mem::take(&mut self.parked),
            delayed: std::mem::take(&mut self.delayed),
            annotations: std::mem::take(&mut self.annotations),
            // A queue with dead letters isn't converted.
            dying: Dying::default(),
            priorities: Priorities(self.ready.priorities().collect::<BTreeMap<u8, NumberSet>>()),
            repeats: self.repeats.as_ref().map(|repeats| repeats.all()).unwrap_or_default(),
            stream: StreamState::default(),
            // No replicated queue is converted.
            delivered_below: 0,
            active: None,
        };
        Replica {
            ledger: std::mem::replace(&mut self.ledger, Ledger::starting_at(next)),
            delivered_below: self.ready.redelivered_below(),
            parts,
            first_chunk: None,
        }
    }

    /// After the conversion to it: drops what exceeds its limits.
    pub fn converted(&mut self, effects: &mut Effects) {
        self.drop_excess(effects);
    }

    /// The live messages that are neither ready nor set aside.
    fn held_by_consumers(&self) -> NumberSet {
        if self.ready.unacknowledged().messages == 0 {
            return NumberSet::default();
        }
        let mut held = NumberSet::from(self.ledger.live_set());
        let numbers = self.ready_numbers();
        let mut next = numbers.next(0);
        while let Some(first) = next {
            let head = numbers.head_at(first);
            let last = if head.came_back { first } else { head.last };
            held.remove_range(first, last);
            next = numbers.next(last + 1);
        }
        let set_aside = self.parked.numbers().chain(self.delayed.iter().map(|(number, _)| number));
        set_aside.for_each(|number| _ = held.remove(number));
        held
    }

    fn attempts_of(&self, numbers: &NumberSet) -> Vec<AttemptRun> {
        let mut runs = Vec::new();
        let is_durable = |number: &u64| self.held_bytes(*number).is_none_or(|(_, durable)| durable);
        numbers.iter().filter(is_durable).for_each(|number| push_attempts(&mut runs, number, self.attempts.of(number)));
        runs
    }

    /// The counts of all durable messages that have some.
    fn durable_attempts(&self) -> Vec<AttemptRun> {
        let mut counted = NumberSet::default();
        self.attempts.all().iter().for_each(|run| counted.insert_range(run.first, run.last));
        self.attempts_of(&counted)
    }
}
