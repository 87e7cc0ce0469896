//! The consumers of a connection that are served next, and those that wait for its socket.

use std::collections::VecDeque;

/// Keys of a connection's consumers whose queues have messages for them, in the order in which they are served.
#[derive(Default)]
pub struct ConsumerTurns {
    scheduled: VecDeque<u64>,
    /// Consumers that their queues skip because the socket isn't keeping up.
    starved: Vec<u64>,
}

impl ConsumerTurns {
    /// A queue has messages for this consumer, or some are left for it.
    #[inline]
    pub fn schedule(&mut self, key: u64) {
        self.scheduled.push_back(key);
    }

    /// Whether no queue has messages for a consumer that may be served.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// Whether consumers wait for the socket.
    #[inline]
    pub fn any_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// Forgets all consumers, since their connection ends.
    pub fn clear(&mut self) {
        self.scheduled.clear();
        self.starved.clear();
    }

    /// Takes out the key of the consumer that is served next.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.scheduled.pop_front()
    }

    /// All that are scheduled wait for the socket. `starve` notifies the queue of each, and returns false if it is no consumer any more.
    pub(crate) fn starve(&mut self, mut starve: impl FnMut(u64) -> bool) {
        while let Some(key) = self.scheduled.pop_front() {
            if starve(key) {
                self.starved.push(key);
            }
        }
    }

    /// Takes out the keys of those that wait for the socket, which has room again.
    #[inline]
    pub(crate) fn take_starved(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.starved)
    }
}
