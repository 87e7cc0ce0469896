//! Messages on their way into a stream: they become one chunk before the stream's lock is taken, whichever protocol they came by.

use leveret_log::{JoinChunks, LogId, NewChunk, Payload, Wait};
use leveret_message::BatchPart;
use leveret_message::chunk::{CHECKSUM_BYTES, ChunkBuilder, HEADER_BYTES, SharedChunk, complete_joined, join_stored};
use leveret_queue::{Place, Placement};

use crate::planted::{Bug, is_planted};
use crate::streams::{Record, StreamRef};

/// The first bytes of a chunk as it is stored.
pub(crate) type StoredHead = [u8; CHECKSUM_BYTES + HEADER_BYTES];

/// The chunk of these messages, with a Bloom filter of so many bytes.
///
/// # Panics
/// If they don't fit into a chunk. A batch is far below its limits, and no body for a stream is in a file.
#[cold]
pub(crate) fn chunk_of(part: BatchPart<'_>, filter_bytes: u8) -> SharedChunk {
    let BatchPart { batch, index, count } = part;
    let mut builder = ChunkBuilder::new(filter_bytes);
    let pushed = builder.push_all(batch, index as usize..(index + count) as usize);
    pushed.unwrap_or_else(|reason| panic!("{count} messages of a batch of {}: {reason}", batch.len()));
    builder.finish().into()
}

/// Joins short chunks of a stream while they wait to be written.
#[derive(Debug)]
struct Joins;

impl JoinChunks for Joins {
    fn join(&self, data: &mut Vec<u8>, at: usize, next: &Payload<'_>) -> bool {
        let length = data.len();
        let is_joined = next.body.is_some_and(|rest| join_stored(data, at, next.head, rest));
        if is_planted(Bug::LoseJoined) {
            data.truncate(length);
        }
        is_joined
    }

    fn complete(&self, chunk: &mut [u8]) {
        complete_joined(chunk);
    }
}

/// Appends a chunk to its stream's log. Returns the place of its record, and its placement for the queue.
pub(crate) fn append(
    stream: &StreamRef,
    (log, first): (LogId, u64),
    chunk: &SharedChunk,
    wait: Wait,
) -> (Place, Placement<'static>) {
    let head = chunk.stored_head(first);
    let record = record(log, first, chunk, &head);
    if !chunk.is_plain() {
        let place = stream.append(Record::Chunk(record), wait).place();
        return (place, Placement::At(place));
    }
    let (ticket, is_joined) = stream.append_joining(record, &Joins, wait);
    let place = ticket.place();
    (place, if is_joined { Placement::Joined(place) } else { Placement::At(place) })
}

/// The record of a chunk, whose first message gets this offset; `head` is [`SharedChunk::stored_head`] of it.
pub(crate) fn record<'a>(log: LogId, first: u64, chunk: &'a SharedChunk, head: &'a StoredHead) -> NewChunk<'a> {
    let messages = u16::try_from(chunk.len()).expect("a chunk has no more messages than a record");
    NewChunk { log, first, messages, payload: Payload { head, body: Some(chunk.rest()) } }
}
