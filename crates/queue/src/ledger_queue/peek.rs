//! Looking at messages from outside, without a consumer and without changing anything.

use crate::answers::{Peeked, QueueState};
use crate::ledger_queue::LedgerQueue;

impl LedgerQueue {
    /// At most `count` ready messages, after the first `offset`, in the order in which they would be delivered.
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        let mut found = Vec::new();
        if self.state != QueueState::Running {
            return found;
        }
        let numbers = self.ready_numbers();
        let mut next = numbers.nth(offset);
        while found.len() < count
            && let Some(number) = next
        {
            let came_back = numbers.head_at(number).came_back && !self.rules.logs_attempts;
            let redelivered = came_back || self.ready.is_redelivered(number);
            found.push(self.peeked(number, redelivered || self.was_delivered(number)));
            next = numbers.behind(number);
        }
        found
    }

    /// Whether a message came back, here or in a queue in which it died.
    pub(super) fn was_delivered(&self, number: u64) -> bool {
        let counts = self.attempts.of(number);
        counts.acquired > 0 || counts.failed > 0
    }

    pub(super) fn peeked(&self, number: u64, redelivered: bool) -> Peeked {
        let held = self.contents.find(number);
        let held = held.filter(|(first, held)| !held.batch.is_in_file((held.index + (number - first) as u32) as usize));
        let held = held.map(|(first, held)| (held.batch.clone(), held.index + (number - first) as u32));
        Peeked { number, redelivered, held, due_ms: None, token: None }
    }
}
