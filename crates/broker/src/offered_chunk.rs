//! Messages on their way into a stream: they become one chunk before the stream's lock is taken, whichever protocol they came by.

use std::sync::Arc;

use leveret_log::{JoinChunks, LogId, NewChunk, Payload, Wait};
use leveret_message::BatchPart;
use leveret_message::chunk::{
    CHECKSUM_BYTES, ChunkBuilder, ChunkWriter, Entries, Entry, HEADER_BYTES, SharedChunk, complete_joined, join_stored,
};
use leveret_queue::{ChunkPlacement, Place, PublishingIds, WriterRun};

use crate::planted::{Bug, is_planted};
use crate::streams::LocalStream;

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

/// The name of a publisher, and its numbers of a chunk's entries.
#[derive(Debug, Clone, Copy)]
pub struct Numbered<'a> {
    /// The name.
    pub name: &'a str,
    /// The number of each entry, in their order.
    pub numbers: &'a PublishingIds,
}

impl Numbered<'_> {
    /// The run of these messages, as the stream keeps it.
    pub(crate) fn run(self) -> WriterRun {
        let first = self.numbers.iter().next().unwrap_or_default();
        WriterRun { name: self.name.into(), first, last: self.numbers.last().unwrap_or(first) }
    }
}

/// A chunk of the entries with numbers above `last`, and their numbers; `None` if there are none. The filter values of single entries
/// aren't known any more: readers with a filter have to look at it.
pub(crate) fn behind(
    chunk: &SharedChunk,
    numbered: Numbered<'_>,
    last: u64,
    (stream, filter_bytes): (&Arc<str>, u8),
) -> Option<(SharedChunk, PublishingIds)> {
    let (mut builder, mut numbers) = (ChunkBuilder::new(filter_bytes), PublishingIds::default());
    let data = chunk.entries();
    let mut entries = Entries::within(data, chunk.header().entries);
    let mut at = entries.at() as usize;
    for number in numbered.numbers.iter() {
        let entry = entries.next_entry().expect("it was added").expect("each number has an entry");
        let end = entries.at() as usize;
        if number > last {
            let messages = match entry {
                Entry::Message(_) => 1,
                Entry::SubBatch(sub_batch) => sub_batch.messages,
            };
            builder.push_entry(&data[at..end], messages).expect("it was part of a chunk");
            numbers.push(number);
        }
        at = end;
    }
    builder.note_time(chunk.received_ms());
    let sequence = numbers.last()?;
    let rest = builder.finish_of(Some(&ChunkWriter { name: numbered.name, sequence }));
    Some((SharedChunk::from(rest).published_to(stream.clone()), numbers))
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
    to: &LocalStream,
    (log, first): (LogId, u64),
    chunk: &SharedChunk,
    wait: Wait,
) -> (Place, ChunkPlacement<'static>) {
    let head = chunk.stored_head(first);
    let record = record(log, first, chunk, &head);
    if !chunk.is_plain() {
        let place = to.append_chunk(&record, wait).place();
        return (place, ChunkPlacement::At(place));
    }
    let (ticket, is_joined) = to.append_joining(&record, &Joins, wait);
    let place = ticket.place();
    (place, if is_joined { ChunkPlacement::Joined(place) } else { ChunkPlacement::At(place) })
}

/// The record of a chunk, whose first message gets this offset; `head` is [`SharedChunk::stored_head`] of it.
pub(crate) fn record<'a>(log: LogId, first: u64, chunk: &'a SharedChunk, head: &'a StoredHead) -> NewChunk<'a> {
    let messages = u16::try_from(chunk.len()).expect("a chunk has no more messages than a record");
    NewChunk { log, first, messages, payload: Payload { head, body: Some(chunk.rest()) } }
}
