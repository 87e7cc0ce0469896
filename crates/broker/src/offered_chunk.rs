//! Messages on their way into a stream: they become one chunk before the stream's lock is taken, whichever protocol they came by.

use std::sync::Arc;

use leveret_log::{LogId, Payload};
use leveret_message::Batch;
use leveret_message::chunk::{CHECKSUM_BYTES, Chunk, ChunkBuilder, HEADER_BYTES, stored_head};

use crate::streams::Record;

/// A chunk that is offered to a stream.
pub(crate) struct OfferedChunk {
    chunk: Chunk,
    /// Its header as it is stored.
    head: [u8; CHECKSUM_BYTES + HEADER_BYTES],
    /// Its messages as readers get them: from memory the same as from disk.
    pub(crate) batch: Arc<Batch>,
}

impl OfferedChunk {
    /// The chunk of `count` messages of a batch from `index` on, with a Bloom filter of so many bytes.
    ///
    /// # Panics
    /// If they don't fit into a chunk. A batch is far below its limits, and no body for a stream is in a file.
    #[cold]
    pub(crate) fn of(batch: &Batch, index: u32, count: u32, filter_bytes: u8) -> Self {
        let mut builder = ChunkBuilder::new(filter_bytes);
        let pushed = builder.push_all(batch, index as usize..(index + count) as usize);
        pushed.unwrap_or_else(|reason| panic!("{count} messages of a batch of {}: {reason}", batch.len()));
        let chunk = builder.finish();
        let batch = chunk.batch().expect("it was made of messages");
        Self { batch: Arc::new(batch), head: stored_head(&chunk), chunk }
    }

    /// The record of the chunk, whose first message gets this offset.
    pub(crate) fn record(&mut self, log: LogId, first: u64) -> Record<'_> {
        self.chunk.set_first(first);
        self.head = stored_head(&self.chunk);
        let payload = Payload { head: &self.head, body: Some(self.chunk.rest()) };
        Record::Chunk { log, first, messages: self.chunk.messages(), payload }
    }
}
