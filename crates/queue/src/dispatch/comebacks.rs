//! The messages that came back to a queue, for consumers with a filter: those that had passed them look at them again.

use std::collections::VecDeque;

/// The numbers of the messages that came back last. Only queues with consumers that have a filter note them.
#[derive(Debug, Default)]
pub(crate) struct Comebacks {
    /// Index of the first number.
    begin: u64,
    numbers: VecDeque<u64>,
}

impl Comebacks {
    /// Numbers that are kept. A consumer that missed more begins anew.
    pub(crate) const MOST: usize = 4096;

    /// A message came back.
    pub(crate) fn push(&mut self, number: u64) {
        if self.numbers.len() == Self::MOST {
            self.numbers.pop_front();
            self.begin += 1;
        }
        self.numbers.push_back(number);
    }

    /// The number at an index; `None` if it isn't kept any more.
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        self.numbers.get(usize::try_from(index.checked_sub(self.begin)?).ok()?).copied()
    }

    /// The index of the next message that will come back.
    pub(crate) fn end(&self) -> u64 {
        self.begin + self.numbers.len() as u64
    }

    /// Forgets the numbers, as nobody is left who would look at them.
    pub(crate) fn clear(&mut self) {
        self.begin = self.end();
        self.numbers = VecDeque::new();
    }
}
