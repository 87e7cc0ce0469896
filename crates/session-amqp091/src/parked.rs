//! Consumers of a channel that wait until their client settles something.

use std::collections::VecDeque;

/// Keys of waiting consumers, in the order in which they began to wait.
#[derive(Default)]
pub(crate) struct Parked {
    keys: VecDeque<u64>,
    /// Number of them that are woken next.
    wake_next: usize,
}

impl Parked {
    /// A consumer begins to wait.
    pub(super) fn push(&mut self, key: u64) {
        self.keys.push_back(key);
    }

    /// Others wait behind those that do.
    pub(super) fn append(&mut self, others: Self) {
        self.keys.extend(others.keys);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// So many are woken next.
    pub(super) fn wake(&mut self, count: usize) {
        self.wake_next = count;
    }

    /// Removes and returns the consumers to wake next, and doubles their number for the next time.
    pub(super) fn next_ones(&mut self, most: usize) -> Vec<u64> {
        let count = self.wake_next.min(self.keys.len());
        self.wake_next = most.min(2 * self.wake_next);
        self.keys.drain(..count).collect()
    }
}
