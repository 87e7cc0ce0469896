//! Consumers of a channel that wait until their client settles something.

use std::collections::VecDeque;

/// Keys of waiting consumers, in the order in which they began to wait.
#[derive(Default)]
pub(crate) struct Parked {
    pub(super) keys: VecDeque<u64>,
    /// Number of them that are woken next.
    pub(super) wake_next: usize,
}

impl Parked {
    /// Removes and returns the consumers to wake next, and doubles their number for the next time.
    pub(super) fn next_ones(&mut self, most: usize) -> Vec<u64> {
        let count = self.wake_next.min(self.keys.len());
        self.wake_next = most.min(2 * self.wake_next);
        self.keys.drain(..count).collect()
    }
}
