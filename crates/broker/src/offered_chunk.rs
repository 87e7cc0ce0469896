//! Messages on their way into a stream: they become one chunk before the stream's lock is taken, whichever protocol they came by.

use leveret_log::{LogId, Payload};
use leveret_message::Batch;
use leveret_message::chunk::{CHECKSUM_BYTES, ChunkBuilder, HEADER_BYTES, SharedChunk};

use crate::streams::Record;

/// The first bytes of a chunk as it is stored.
pub(crate) type StoredHead = [u8; CHECKSUM_BYTES + HEADER_BYTES];

/// The chunk of `count` messages of a batch from `index` on, with a Bloom filter of so many bytes.
///
/// # Panics
/// If they don't fit into a chunk. A batch is far below its limits, and no body for a stream is in a file.
#[cold]
pub(crate) fn chunk_of(batch: &Batch, index: u32, count: u32, filter_bytes: u8) -> SharedChunk {
    let mut builder = ChunkBuilder::new(filter_bytes);
    let pushed = builder.push_all(batch, index as usize..(index + count) as usize);
    pushed.unwrap_or_else(|reason| panic!("{count} messages of a batch of {}: {reason}", batch.len()));
    builder.finish().into()
}

/// The record of a chunk, whose first message gets this offset; `head` is [`SharedChunk::stored_head`] of it.
pub(crate) fn record<'a>(log: LogId, first: u64, chunk: &'a SharedChunk, head: &'a StoredHead) -> Record<'a> {
    let messages = u16::try_from(chunk.len()).expect("a chunk has no more messages than a record");
    Record::Chunk { log, first, messages, payload: Payload { head, body: Some(chunk.rest()) } }
}
