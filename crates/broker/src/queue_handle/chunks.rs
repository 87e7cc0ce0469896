//! Chunks of a stream: published whole, and taken whole by readers of the stream protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::Wait;
use leveret_message::chunk::SharedChunk;
use leveret_message::{Batch, BatchPart};
use leveret_model::Durability;
use leveret_queue::{
    ChunkPlacement, ChunkSubmission, ChunkTurn, ConsumerId, KeptOffset, OfferedChunk, Place, PublishSlot, Queue,
    StreamRead, StreamStart, TakenChunk, TurnEnd, Watermarks,
};

use super::{PublishedIn, QueueHandle};
use crate::group::Group;
use crate::offered_chunk::{self, Numbered};
use crate::planted::{Bug, is_planted};
use crate::published::PublishedHere;
use crate::ticket::{Awaited, Ticket};
use crate::time::Nanos;

/// The outcome of one offer of a chunk.
enum Offer<'a> {
    /// It was accepted as a whole or not at all.
    Taken(PublishedHere),
    /// Nothing was done: messages of its publisher up to this number were published before.
    Behind {
        /// The number.
        last: u64,
        /// The place that a confirm of these messages waits for.
        awaited: Awaited,
        /// The name and the numbers that they were offered with: messages without can't be behind.
        numbered: Numbered<'a>,
    },
}

impl QueueHandle {
    /// The chunk of these messages.
    fn chunk_of(&self, part: BatchPart<'_>) -> Arc<SharedChunk> {
        let filter_bytes = self.effective.load().options(&self.info).stream_filter_bytes;
        Arc::new(offered_chunk::chunk_of(part, filter_bytes))
    }

    /// Offers messages of a batch to this stream, as one chunk.
    pub(super) fn publish_as_chunk(self: &Arc<Self>, part: BatchPart<'_>, now: Nanos) -> PublishedHere {
        if part.count == 0 {
            return PublishedHere::none();
        }
        self.publish_chunk(&self.chunk_of(part), None, now)
    }

    /// Offers a chunk to this stream; see [`QueueRef::publish_chunk`](super::QueueRef::publish_chunk).
    pub(crate) fn publish_chunk(
        self: &Arc<Self>,
        chunk: &Arc<SharedChunk>,
        numbered: Option<Numbered<'_>>,
        now: Nanos,
    ) -> PublishedHere {
        let count = u32::try_from(chunk.len()).expect("a chunk has at most 65,535 messages");
        let published = match self.offer_chunk(chunk, numbered, now) {
            Offer::Taken(published) => published,
            Offer::Behind { last, awaited, numbered } => self.publish_rest(chunk, numbered, (last, awaited), now),
        };
        // Messages that were left out are there already.
        PublishedHere { accepted: if published.accepted == 0 { 0 } else { count }, ..published }
    }

    /// Offers the messages of a chunk that weren't published before by their publisher's name, up to number `last`: another
    /// connection publishes by that name.
    #[cold]
    fn publish_rest(
        self: &Arc<Self>,
        chunk: &Arc<SharedChunk>,
        numbered: Numbered<'_>,
        (mut last, mut awaited): (u64, Awaited),
        now: Nanos,
    ) -> PublishedHere {
        let filter_bytes = self.effective.load().options(&self.info).stream_filter_bytes;
        loop {
            let stream = (&self.info.name, filter_bytes);
            let Some((rest, numbers)) = offered_chunk::behind(chunk, numbered, last, stream) else {
                // All of them were: they are confirmed once they are safe.
                return PublishedHere { accepted: 1, awaited, ..PublishedHere::none() };
            };
            match self.offer_chunk(&Arc::new(rest), Some(Numbered { numbers: &numbers, ..numbered }), now) {
                Offer::Taken(published) => return published,
                Offer::Behind { last: further, awaited: later, .. } => (last, awaited) = (further, later),
            }
        }
    }

    fn offer_chunk<'a>(
        self: &Arc<Self>,
        chunk: &Arc<SharedChunk>,
        numbered: Option<Numbered<'a>>,
        now: Nanos,
    ) -> Offer<'a> {
        self.decode_early(chunk);
        let writer = numbered.map(Numbered::run);
        let offered = OfferedChunk { chunk, writer: writer.as_ref() };
        let count = u32::try_from(chunk.len()).expect("a chunk has at most 65,535 messages");
        let published = self.with(|queue, effects| {
            let (writer, log) = (writer.as_ref(), self.stream.log()?);
            let submission = match queue.stream_mut()?.submit_chunk(count, writer, now) {
                // It came before the deletion was known: it counts as published later, when it would have found no stream.
                None => {
                    let awaited = Awaited::durable(*self.closed_at.lock());
                    let gone = PublishedHere { accepted: count, awaited, is_gone: true, ..PublishedHere::none() };
                    return Some(Offer::Taken(gone));
                }
                Some(ChunkSubmission::Refused) => return None,
                Some(ChunkSubmission::Behind(last)) => {
                    let awaited = match is_planted(Bug::ConfirmRepeatEarly) {
                        true => Awaited::default(),
                        false => self.awaited_by(queue, self.is_written(queue)),
                    };
                    return Some(Offer::Behind { last, awaited, numbered: numbered? });
                }
                Some(ChunkSubmission::Accepted(submission)) => submission,
            };
            let written = self.is_written(queue) || is_planted(Bug::ConfirmChunkEarly) && !queue.awaits_group();
            let wait = if written { Wait::Written } else { Wait::Confirm };
            let at = (self.log_id, submission.first);
            let (place, placement) = offered_chunk::append(log, at, chunk, wait);
            self.last_record.set(place);
            queue.stream_mut()?.submitted_chunk(submission, offered, placement, now, effects);
            if is_planted(Bug::ApplyBeforeDurable) {
                queue.apply(Watermarks::synced(Place::new(u64::MAX)), effects);
            }
            // Readers that are behind hold up nobody, and publishes are never paced: readers go their own ways.
            Some(Offer::Taken(PublishedHere {
                accepted: count,
                awaited: self.awaited_by(queue, written),
                is_behind: false,
                is_gone: false,
                slot: PublishSlot::default(),
            }))
        });
        published.flatten().unwrap_or(Offer::Taken(PublishedHere::none()))
    }

    /// Whether it is enough for a confirm that a record is written.
    fn is_written(&self, queue: &Queue) -> bool {
        self.durability == Durability::Os && !queue.awaits_group()
    }

    /// The place that a confirm of the last message waits for.
    fn awaited_by(&self, queue: &Queue, written: bool) -> Awaited {
        let ticket = self.pending_ticket(queue);
        if written { Awaited::written(ticket) } else { Awaited::durable(ticket) }
    }

    /// The place that everything submitted so far waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        let queue = self.inner.lock();
        self.awaited_by(&queue, self.is_written(&queue))
    }

    /// As [`QueueHandle::offer_in`], of a stream.
    pub(super) fn offer_chunk_in(
        self: &Arc<Self>,
        group: &mut Group,
        part: BatchPart<'_>,
        now: Nanos,
    ) -> Option<PublishedIn> {
        let count = part.count;
        let none = PublishedIn { accepted: 0, ticket: Ticket::default() };
        if count == 0 {
            return Some(none);
        }
        let chunk = self.chunk_of(part);
        self.decode_early(&chunk);
        let published = self.with(|queue, effects| {
            let Some((stream, log)) = queue.stream_mut().zip(self.stream.log()) else { return Some(none) };
            let ChunkSubmission::Accepted(submission) = stream.submit_chunk(count, None, now)? else {
                return Some(none);
            };
            let head = chunk.stored_head(submission.first);
            let record = offered_chunk::record(self.log_id, submission.first, &chunk, &head);
            self.last_record.set(group.append_chunk(log, &record).place());
            let placement = ChunkPlacement::In(group.place());
            stream.submitted_chunk(submission, OfferedChunk::unnamed(&chunk), placement, now, effects);
            Some(PublishedIn { accepted: count, ticket: self.pending_ticket(queue) })
        });
        published.unwrap_or(Some(none))
    }

    /// Decodes the messages of a chunk if somebody takes them one by one: under the lock it would hold up everybody.
    fn decode_early(&self, chunk: &SharedChunk) {
        if self.decodes_chunks.load(Ordering::Relaxed) {
            chunk.messages_at_once();
        }
    }

    /// Notes whether messages are taken one by one.
    pub(super) fn note_readers(&self, queue: &Queue) {
        if let Some(stream) = queue.stream() {
            self.decodes_chunks.store(stream.has_message_readers(), Ordering::Relaxed);
        }
    }

    /// See [`leveret_queue::StreamQueue::take_chunks`].
    pub(crate) fn take_chunks(
        self: &Arc<Self>,
        id: ConsumerId,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<TakenChunk>,
    ) -> ChunkTurn {
        let taken = self.with_stream(|queue, effects| queue.take_chunks(id, bytes, now, out, effects));
        taken.unwrap_or(ChunkTurn { end: TurnEnd::Done, committed: 0 })
    }

    /// Passes on messages of stored chunks that were requested.
    pub(crate) fn loaded_of_stream(self: &Arc<Self>, read: StreamRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos) {
        self.with_stream(|queue, effects| queue.loaded(read, runs, now, effects));
    }

    /// Passes on stored chunks that were requested.
    pub(crate) fn loaded_chunks(self: &Arc<Self>, read: StreamRead, chunks: Vec<(u64, Arc<SharedChunk>)>, now: Nanos) {
        self.with_stream(|queue, effects| queue.loaded_chunks(read, chunks, now, effects));
    }

    /// See [`leveret_queue::StreamQueue::activated`]; without a start [`leveret_queue::StreamQueue::stepped_down`].
    pub(crate) fn activity(self: &Arc<Self>, id: ConsumerId, active: Option<Option<StreamStart>>, now: Nanos) {
        self.with_stream(|queue, effects| match active {
            Some(start) => queue.activated(id, start, now, effects),
            None => queue.stepped_down(id, effects),
        });
    }

    /// See [`leveret_queue::StreamQueue::activate_group`].
    pub(crate) fn activate_group(self: &Arc<Self>, name: &str, now: Nanos) -> bool {
        self.with_stream(|queue, effects| queue.activate_group(name, now, effects)).unwrap_or(false)
    }

    /// Keeps an offset for a name. False if the stream keeps too many names already.
    pub(crate) fn keep_offset(self: &Arc<Self>, kept: KeptOffset, now: Nanos) -> bool {
        self.with_stream(|queue, effects| queue.keep_offset(kept, now, effects)).unwrap_or(false)
    }
}
