//! The newest messages of a stream, in memory for readers that are near its end.

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_message::chunk::SharedChunk;

use crate::contents::MemoryBudget;
use crate::nanos::Nanos;

/// Most bytes in memory. A reader that is further behind reads from disk, which costs less than to keep it all for long.
const TAIL_BYTES_MAX: u64 = 4 << 20;
/// The same when the node's budget is used up.
const TAIL_BYTES_MIN: u64 = 128 << 10;

/// Places for chunks that an empty tail keeps.
pub(super) const IDLE_CHUNKS_MAX: usize = 64;

/// A chunk in memory.
#[derive(Debug)]
pub(crate) struct TailChunk {
    /// Offset of its first message.
    first: u64,
    pub(crate) chunk: Arc<SharedChunk>,
    pub(crate) submitted: Nanos,
    /// Its memory when it was added. Messages that are decoded later aren't counted: the tail is short.
    memory: u64,
}

impl TailChunk {
    fn end(&self) -> u64 {
        self.first + self.chunk.len()
    }
}

/// Consecutive chunks up to the end of the stream.
#[derive(Debug)]
pub(crate) struct Tail {
    chunks: VecDeque<TailChunk>,
    bytes: u64,
    messages: u64,
    budget: Arc<MemoryBudget>,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Tail {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, messages: 0, budget }
    }

    /// The budget that it takes its memory from.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Number of chunks for which it has places.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.chunks.capacity()
    }

    /// Adds a chunk that was published.
    pub(crate) fn push(&mut self, first: u64, chunk: Arc<SharedChunk>, submitted: Nanos) {
        if self.chunks.back().is_some_and(|before| before.end() != first) {
            self.clear();
        }
        let memory = chunk.memory();
        self.budget.take(memory);
        self.bytes += memory;
        self.messages += chunk.len();
        self.chunks.push_back(TailChunk { first, chunk, submitted, memory });
        let most = if self.budget.used() > self.budget.limit() { TAIL_BYTES_MIN } else { TAIL_BYTES_MAX };
        while self.bytes > most && self.chunks.len() > 1 {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(TailChunk { chunk, memory, .. }) = self.chunks.pop_front() {
            self.bytes -= memory;
            self.messages -= chunk.len();
            self.budget.give_back(memory);
        }
    }

    /// The chunk with this offset, and the offset of its first message.
    pub(crate) fn find(&self, offset: u64) -> Option<(u64, &TailChunk)> {
        let at = self.chunks.partition_point(|chunk| chunk.first <= offset).checked_sub(1)?;
        let chunk = &self.chunks[at];
        (offset < chunk.end()).then_some((chunk.first, chunk))
    }

    /// Frees messages with lower offsets than `low`: all readers are past them, or retention has removed them.
    pub(crate) fn free_below(&mut self, low: u64) {
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= low) {
            self.pop();
        }
        if self.chunks.is_empty() && self.chunks.capacity() > IDLE_CHUNKS_MAX {
            self.chunks = VecDeque::new();
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        self.budget.give_back(self.bytes);
        self.chunks = VecDeque::new();
        (self.bytes, self.messages) = (0, 0);
    }
}
