//! The part of a queue's state that outlives the process.

use roaring::RoaringTreemap;

use crate::ledger_queue::LedgerQueue;
use crate::number_set::NumberSet;
use crate::planted::{Bug, is_planted};
use crate::records::{AttemptRun, push_attempts};
use crate::replica::{self, Checkpoint, QuorumState};
use crate::set_aside::{Delayed, Parked};

impl LedgerQueue {
    /// The queue's checkpoint: live durable messages and other state, as applied so far.
    pub fn checkpoint(&self) -> Checkpoint {
        let (live, bytes) = self.durable_live();
        let state = self.kept(&live);
        Checkpoint { next: self.ledger.next(), live, bytes, elsewhere: self.references.numbers(), state }
    }

    /// Numbers from here on were never handed out; recorded by a clean stop.
    pub fn delivered_below(&self) -> u64 {
        // Where attempts say which messages were delivered, they say so by themselves.
        if self.rules.priorities.is_some() { 0 } else { self.ready.handed_out_below() }
    }

    /// The counts that have to be recorded by a clean stop: the log lacks those for which it had no room, and those of classic queues
    /// with priorities.
    pub fn logged_attempts(&self) -> Vec<AttemptRun> {
        match (self.rules.logs_attempts, self.rules.priorities) {
            (true, _) => self.attempts.all(),
            (false, None) => Vec::new(),
            (false, Some(_)) => {
                // Numbers of transient messages are used again after a restart.
                let is_durable = |number: &u64| self.held_bytes(*number).is_none_or(|(_, durable)| durable);
                let mut runs = Vec::new();
                let numbers = self.attempts.all().into_iter().flat_map(|run| run.first..=run.last);
                numbers
                    .filter(is_durable)
                    .for_each(|number| push_attempts(&mut runs, number, self.attempts.of(number)));
                runs
            }
        }
    }

    /// The part of the ledger that outlives this process: the live durable messages and their body bytes.
    fn durable_live(&self) -> (RoaringTreemap, u64) {
        let mut live = self.ledger.live_set();
        let mut bytes = self.ledger.bytes();
        for (first, held) in self.contents.volatile() {
            for at in 0..held.count {
                if live.remove(first + u64::from(at)) {
                    // The sum may be too low, because messages that expired on disk were counted with an estimate.
                    bytes = bytes.saturating_sub(u64::from(held.batch.body_length((held.index + at) as usize)));
                }
            }
        }
        let (dead, dead_bytes) = self.dead.durable();
        for run in dead {
            live.insert_range(run.first..=run.last);
        }
        if is_planted(Bug::OmitLastLive)
            && let Some(last) = live.max()
        {
            live.remove(last);
        }
        (live, bytes + dead_bytes)
    }

    /// The state bytes, see [`crate::Parts`].
    fn kept(&self, live: &RoaringTreemap) -> Vec<u8> {
        let quorum = match self.rules.logs_attempts {
            true => {
                let keeps = self.keeps_dead_letters() && !is_planted(Bug::ForgetDying);
                let dying: Vec<_> = keeps.then(|| self.dead.durable().0).into_iter().flatten().collect();
                let state = QuorumState {
                    attempts: &self.attempts,
                    levels: self.ready.priorities(),
                    parked: &self.parked,
                    delayed: &self.delayed,
                    annotations: &self.annotations,
                    dying: &dying,
                };
                state.encode()
            }
            false if self.rules.priorities.is_some() => {
                // Transient messages aren't live in a checkpoint, and their numbers are used again after a restart.
                let levels = self.ready.priorities().map(|(priority, numbers)| (priority, numbers.among(live)));
                let levels = levels.filter(|(_, numbers)| !numbers.is_empty());
                self.encode_failures(live, levels)
            }
            // Of messages from before the queue was converted, and of dead letters.
            false if !(self.annotations.is_empty() && self.attempts.is_empty()) => {
                self.encode_failures(live, std::iter::empty::<(u8, NumberSet)>())
            }
            false => Vec::new(),
        };
        // The checkpoint still counts them as live.
        let due = self.dead.expired();
        let state = replica::encode(quorum, &self.references, self.ledger.next(), self.clock.encode(due));
        match &self.repeats {
            None => state,
            Some(repeats) => replica::with_repeats(&repeats.durable(self.ledger.next()), state),
        }
    }

    /// The part of the state that a classic queue shares with quorum queues.
    fn encode_failures(&self, live: &RoaringTreemap, levels: impl Iterator<Item = (u8, NumberSet)>) -> Vec<u8> {
        let state = QuorumState {
            attempts: &self.attempts.failures_among(live),
            levels,
            parked: &Parked::default(),
            delayed: &Delayed::default(),
            annotations: &self.annotations,
            dying: &[],
        };
        state.encode()
    }
}
