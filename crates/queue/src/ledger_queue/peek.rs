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
        let returned = self.ready.returned().len();
        let from_returned = usize::try_from(offset).unwrap_or(usize::MAX);
        for number in self.ready.returned().iter().skip(from_returned).take(count) {
            found.push(self.peeked(number, true));
        }
        let mut skip = offset.saturating_sub(returned);
        let mut at = self.ready.cursor();
        while found.len() < count
            && let Some((first, last)) = self.ledger.live_run(at)
        {
            let length = last - first + 1;
            if skip >= length {
                skip -= length;
            } else {
                let left = (count - found.len()) as u64;
                let numbers = (first + skip..=last).take(usize::try_from(left).unwrap_or(usize::MAX));
                found.extend(numbers.map(|number| self.peeked(number, self.ready.is_redelivered(number))));
                skip = 0;
            }
            at = last + 1;
        }
        found
    }

    fn peeked(&self, number: u64, redelivered: bool) -> Peeked {
        let held = self.contents.find(number);
        let held = held.filter(|(first, held)| !held.batch.is_in_file((held.index + (number - first) as u32) as usize));
        let held = held.map(|(first, held)| (held.batch.clone(), held.index + (number - first) as u32));
        Peeked { number, redelivered, held }
    }
}
