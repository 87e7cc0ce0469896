//! The end of a queue, by deletion or failure.

use std::ops::Range;

use crate::answers::QueueState;
use crate::dead_letter::DeadLetters;
use crate::effects::Effects;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;

impl LedgerQueue {
    /// Deletes the queue: consumers are notified, memory is freed. Returns the number of messages.
    pub fn delete(&mut self, effects: &mut Effects) -> u64 {
        let mut messages = self.ready.messages() + self.delayed.len();
        if self.rules.deletes_unacknowledged {
            messages += self.ready.unacknowledged().messages;
        }
        self.state = QueueState::Deleted;
        self.is_closed = true;
        self.dead = DeadLetters::default();
        self.pending.clear();
        self.stop(effects);
        messages
    }

    /// Fails the queue: its consumers are cancelled and every later call is refused. A deleted queue stays deleted. Records
    /// appended before are still applied once they are durable: a retirement waits for a state that contains them, and would
    /// otherwise block forever.
    pub fn fail(&mut self, reason: String, effects: &mut Effects) {
        if self.state == QueueState::Deleted {
            return;
        }
        if self.state == QueueState::Running {
            self.lose_volatile();
        }
        self.state = QueueState::Failed(reason);
        self.dead.forget_bodies();
        self.stop(effects);
    }

    /// Withdraws messages that were submitted and aren't applied, because they never will be: they are offered again. Returns
    /// their numbers, which are reused.
    pub fn withdraw(&mut self) -> Range<u64> {
        let withdrawn = self.pending.withdraw();
        if let Some(repeats) = &mut self.repeats {
            repeats.withdraw(withdrawn.start);
        }
        withdrawn
    }

    /// Volatile messages exist only in memory, which is freed: a checkpoint must not count them as live.
    fn lose_volatile(&mut self) {
        let mut lost = Vec::new();
        for (first, held) in self.contents.volatile() {
            for at in (0..held.count).filter(|at| self.ledger.is_live(first + u64::from(*at))) {
                lost.push((first + u64::from(at), u64::from(held.batch.body_length((held.index + at) as usize))));
            }
        }
        for (number, bytes) in lost {
            self.ready.lose(number, bytes);
            self.depart(number, number, bytes, Departure::Dropped);
        }
    }

    fn stop(&mut self, effects: &mut Effects) {
        self.consumers.cancel_all(effects);
        self.pacing = None;
        self.reads.signal_getters(effects);
        self.contents.clear();
        self.reads.unblock();
    }
}
