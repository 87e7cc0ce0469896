//! Number of failed deliveries of each message: the delivery-count of AMQP 1.0 (3.2.1).
//!
//! A classic queue counts only in memory, as RabbitMQ's does: after a restart counts begin at 0 again.

use std::collections::BTreeMap;

use crate::number_set::NumberSet;

/// Counts of the live messages that have one.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Messages that failed once, which includes all that a lost connection gave back.
    once: NumberSet,
    /// Messages that failed more often, with their counts.
    more: BTreeMap<u64, u32>,
}

impl Failures {
    pub(crate) fn of(&self, number: u64) -> u32 {
        if self.once.contains(number) {
            return 1;
        }
        if self.more.is_empty() { 0 } else { self.more.get(&number).copied().unwrap_or(0) }
    }

    pub(crate) fn add(&mut self, number: u64) {
        if let Some(count) = self.more.get_mut(&number) {
            *count = count.saturating_add(1);
        } else if self.once.remove(number) {
            self.more.insert(number, 2);
        } else {
            self.once.insert(number);
        }
    }

    /// Messages left the queue.
    pub(crate) fn forget(&mut self, first: u64, last: u64) {
        if !self.once.is_empty() {
            self.once.remove_range(first, last);
        }
        if !self.more.is_empty() {
            self.more.extract_if(first..=last, |_, _| true).for_each(drop);
        }
    }
}
