//! The state of a browsing consumer: its position, and the messages that were read from disk for it alone.

use crate::own_reads::OwnReads;

/// The position of a browsing consumer.
#[derive(Debug, Default)]
pub(crate) struct Browser {
    /// See [`Browser::next`].
    next: u64,
    /// The messages that it waits for, or will be shown.
    pub(crate) reads: OwnReads,
}

impl Browser {
    /// The position: every message with a lower number was shown to the consumer, or wasn't ready when it passed.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Moves the position to `next`.
    pub(crate) fn advance(&mut self, next: u64) {
        self.next = next;
        self.reads.free_below(next);
    }
}
