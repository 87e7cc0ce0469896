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
    /// The bytes that it counts as when the consumer asks whether to read on: those in memory.
    fn weight(&self) -> u64 {
        self.read_memory()
    }
}

/// Number of bytes that stay in their file and count as one in memory: only the page cache has them.
const FILE_BYTES_PER_BYTE: u64 = 4;

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

    fn weight(&self) -> u64 {
        self.held_bytes().max(self.chunk_bytes() / FILE_BYTES_PER_BYTE)
    }
}

/// The messages read for a consumer, and its read that is under way.
#[derive(Debug)]
pub(crate) struct OwnReads<B: ReadRun = Batch> {
    /// With the number of the first of each batch; ascending.
    loaded: VecDeque<Loaded<B>>,
    /// Sum of their weights.
    weight: u64,
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
        Self { loaded: VecDeque::new(), weight: 0, reading: None }
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
            while let Some(loaded) = self.loaded.pop_back_if(|loaded| loaded.end() > *first) {
                self.weight -= loaded.batch.weight();
            }
        }
        for (first, batch) in runs {
            budget.take(batch.read_memory());
            self.weight += batch.weight();
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

    /// The weight of all batches that were read: their memory, where nothing is left in files.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The batch that was read and holds `number`.
    pub(crate) fn find(&self, number: u64) -> Option<(u64, &Arc<B>)> {
        let at = self.loaded.partition_point(|loaded| loaded.first <= number).checked_sub(1)?;
        let loaded = &self.loaded[at];
        (number < loaded.end()).then_some((loaded.first, &loaded.batch))
    }

    /// Frees batches that hold lower numbers only.
    pub(crate) fn free_below(&mut self, next: u64) {
        while let Some(loaded) = self.loaded.pop_front_if(|loaded| loaded.end() <= next) {
            self.weight -= loaded.batch.weight();
        }
        if self.loaded.is_empty() && self.loaded.capacity() > IDLE_BATCHES_MAX {
            self.loaded = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_message::chunk::FilePart;
    use leveret_message::{BatchBuilder, Envelope};

    use super::*;

    fn chunk(messages: usize) -> SharedChunk {
        let mut builder = BatchBuilder::default();
        (0..messages).for_each(|_| builder.push(&Envelope::default(), b"\0\0", &[7; 1000]));
        SharedChunk::of(&builder.finish())
    }

    /// Otherwise a reader of chunks that stay in files would read on and on, and look through all of them each time.
    #[test]
    fn chunks_that_stay_in_a_file_count_for_reading_ahead() {
        let budget = Arc::new(MemoryBudget::new(1 << 20));
        let whole = chunk(40);
        let part = FilePart { file: Arc::new(()), at: 0, length: whole.chunk_bytes() as u32 + 4 };
        let in_file = SharedChunk::in_file(*whole.header(), &[], &part).expect("it is as long");
        assert_eq!(in_file.held_bytes(), 0);
        assert!((10_000..12_000).contains(&in_file.weight()), "{}", in_file.weight());
        let mut reads = OwnReads::default();
        let in_file = Arc::new(in_file);
        let expected = in_file.weight();
        reads.wait(0);
        assert!(reads.loaded(0, vec![(0, in_file.clone()), (40, in_file.clone())], &budget));
        assert_eq!(reads.weight(), 2 * expected);
        // Messages read from an earlier place on replace all that follow it.
        reads.wait(40);
        assert!(reads.loaded(40, vec![(40, in_file.clone()), (80, in_file.clone())], &budget));
        assert_eq!(reads.weight(), 3 * expected);
        reads.free_below(80);
        assert_eq!(reads.weight(), expected);
        reads.free_below(120);
        assert_eq!((reads.weight(), budget.used()), (0, 0));
    }
}
