//! The state of a consumer that only looks: how far it has got, and the messages that were read for it alone.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_message::Batch;

use crate::contents::MemoryBudget;

/// How far a consumer has looked.
#[derive(Debug, Default)]
pub(crate) struct Browser {
    /// See [`Browser::next`].
    next: u64,
    /// Messages read from disk for it alone, with the number of the first of each batch; ascending.
    loaded: VecDeque<Loaded>,
    /// A read for it is under way, from this number on.
    reading: Option<u64>,
}

#[derive(Debug)]
struct Loaded {
    first: u64,
    batch: Arc<Batch>,
    budget: Arc<MemoryBudget>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.budget.give_back(self.batch.memory() as u64);
    }
}

impl Browser {
    /// Everything below was shown to it, or not ready when it passed.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// It waits for a read from `number` on.
    pub(crate) fn wait(&mut self, number: u64) {
        self.reading = Some(number);
    }

    /// The read is done: keeps what it found. Returns the number that it was asked to begin with; none, and keeps nothing,
    /// if there was no read.
    pub(crate) fn loaded(&mut self, runs: Vec<(u64, Arc<Batch>)>, budget: &Arc<MemoryBudget>) -> Option<u64> {
        let from = self.reading.take()?;
        if let Some((first, _)) = runs.first() {
            // A message that came back meanwhile may stand before what was read earlier, which is read again then.
            self.loaded.retain(|loaded| loaded.first + (loaded.batch.len() as u64) <= *first);
        }
        for (first, batch) in runs {
            budget.take(batch.memory() as u64);
            self.loaded.push_back(Loaded { first, batch, budget: budget.clone() });
        }
        Some(from)
    }

    /// False while it waits for a read.
    pub(crate) fn is_able(&self) -> bool {
        self.reading.is_none()
    }

    /// The batch that was read for it and holds `number`.
    pub(crate) fn find(&self, number: u64) -> Option<(u64, &Arc<Batch>)> {
        let at = self.loaded.partition_point(|loaded| loaded.first <= number).checked_sub(1)?;
        let loaded = &self.loaded[at];
        (number - loaded.first < loaded.batch.len() as u64).then_some((loaded.first, &loaded.batch))
    }

    /// It has looked at everything below `next`.
    pub(crate) fn advance(&mut self, next: u64) {
        self.next = next;
        while self.loaded.pop_front_if(|loaded| loaded.first + loaded.batch.len() as u64 <= next).is_some() {}
    }
}
