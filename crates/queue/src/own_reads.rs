//! Messages that were read from disk for one consumer alone: one that browses, has a filter, or fetches deferred messages.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_message::Batch;
use leveret_message::chunk::SharedChunk;

use crate::contents::MemoryBudget;

/// Places for batches that a consumer keeps when it has none: thousands of consumers may wait at the end of a stream.
const IDLE_BATCHES_MAX: usize = 8;

/// Consecutive messages that were read together.
pub(crate) trait ReadRun {
    /// Number of messages.
    fn messages(&self) -> u64;
    /// Its memory in bytes, which stays the same.
    fn read_memory(&self) -> u64;
}

impl ReadRun for Batch {
    fn messages(&self) -> u64 {
        self.len() as u64
    }

    fn read_memory(&self) -> u64 {
        self.memory() as u64
    }
}

impl ReadRun for SharedChunk {
    fn messages(&self) -> u64 {
        self.len()
    }

    fn read_memory(&self) -> u64 {
        self.held_bytes()
    }
}

/// The messages read for a consumer, and its read that is under way.
#[derive(Debug)]
pub(crate) struct OwnReads<B: ReadRun = Batch> {
    /// With the number of the first of each batch; ascending.
    loaded: VecDeque<Loaded<B>>,
    /// The first number of the read that is under way.
    reading: Option<u64>,
}

#[derive(Debug)]
struct Loaded<B: ReadRun> {
    first: u64,
    batch: Arc<B>,
    budget: Arc<MemoryBudget>,
}

impl<B: ReadRun> Loaded<B> {
    /// The number behind its last message.
    fn end(&self) -> u64 {
        self.first + self.batch.messages()
    }
}

impl<B: ReadRun> Drop for Loaded<B> {
    fn drop(&mut self) {
        self.budget.give_back(self.batch.read_memory());
    }
}

impl<B: ReadRun> Default for OwnReads<B> {
    fn default() -> Self {
        Self { loaded: VecDeque::new(), reading: None }
    }
}

impl<B: ReadRun> OwnReads<B> {
    /// The consumer waits for a read from `number` on.
    pub(crate) fn wait(&mut self, number: u64) {
        self.reading = Some(number);
    }

    /// A read from `from` on has finished: stores the messages that it found. Returns `false` and stores nothing if another read
    /// is under way, or none: the consumer doesn't wait for this one any more.
    pub(crate) fn loaded(&mut self, from: u64, runs: Vec<(u64, Arc<B>)>, budget: &Arc<MemoryBudget>) -> bool {
        if self.reading.take_if(|reading| *reading == from).is_none() {
            return false;
        }
        if let Some((first, _)) = runs.first() {
            // A message that came back may have a lower number than messages read earlier; those are read again then.
            self.loaded.retain(|loaded| loaded.end() <= *first);
        }
        for (first, batch) in runs {
            budget.take(batch.read_memory());
            self.loaded.push_back(Loaded { first, batch, budget: budget.clone() });
        }
        true
    }

    /// Whether a read from `from` on is under way.
    pub(crate) fn is_reading(&self, from: u64) -> bool {
        self.reading == Some(from)
    }

    /// Whether no read is under way.
    pub(crate) fn is_able(&self) -> bool {
        self.reading.is_none()
    }

    /// The first batch that was read and holds `number` or a higher one.
    pub(crate) fn from(&self, number: u64) -> Option<(u64, &Arc<B>)> {
        let at = self.loaded.partition_point(|loaded| loaded.end() <= number);
        self.loaded.get(at).map(|loaded| (loaded.first, &loaded.batch))
    }

    /// Memory of all batches that were read, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.loaded.iter().map(|loaded| loaded.batch.read_memory()).sum()
    }

    /// The batch that was read and holds `number`.
    pub(crate) fn find(&self, number: u64) -> Option<(u64, &Arc<B>)> {
        let at = self.loaded.partition_point(|loaded| loaded.first <= number).checked_sub(1)?;
        let loaded = &self.loaded[at];
        (number < loaded.end()).then_some((loaded.first, &loaded.batch))
    }

    /// Frees batches that hold lower numbers only.
    pub(crate) fn free_below(&mut self, next: u64) {
        while self.loaded.pop_front_if(|loaded| loaded.end() <= next).is_some() {}
        if self.loaded.is_empty() && self.loaded.capacity() > IDLE_BATCHES_MAX {
            self.loaded = VecDeque::new();
        }
    }
}
