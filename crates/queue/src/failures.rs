//! How many deliveries of a message failed: the delivery-count of AMQP 1.0 (3.2.1).
//!
//! A classic queue counts in memory only, as RabbitMQ's does: a restart begins at 0 again.

use std::collections::BTreeMap;

/// Counts of the live messages that have one.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    counts: BTreeMap<u64, u32>,
}

impl Failures {
    pub(crate) fn of(&self, number: u64) -> u32 {
        if self.counts.is_empty() { 0 } else { self.counts.get(&number).copied().unwrap_or(0) }
    }

    pub(crate) fn add(&mut self, number: u64) {
        let count = self.counts.entry(number).or_default();
        *count = count.saturating_add(1);
    }

    /// Messages left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.counts.is_empty() {
            self.counts.extract_if(first..=last, |_, _| true).for_each(drop);
        }
    }
}
