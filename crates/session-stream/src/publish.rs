//! `Publish`: messages become chunks. Those of one publisher that come in one read become one chunk, as far as it takes them.

use std::sync::Arc;

use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::queue_handle::{Acceptance, Numbered, QueueRef, StreamQueueRef};
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_message::chunk::{ChunkBuilder, ChunkWriter, Entries, Entry, MIXED_MESSAGES_MAX, NotAdded, SharedChunk};
use leveret_queue::{PublishingIds, WaitReason};
use leveret_session::driven::Steps as _;
use leveret_stream_protocol::{DecodeError, Publish, PublishedMessage, ResponseCode};
use smallvec::SmallVec;

use super::confirming::{Confirming, Run};
use super::session::Session;

/// A chunk gets no further messages from this many bytes on: it is read and sent as a whole.
const CHUNK_BYTES: usize = 1 << 20;
/// Nor from this number of entries on, as in RabbitMQ: clients count the credit that they give by chunks.
const CHUNK_MESSAGES: usize = 4096;

impl Session {
    /// `Publish`. False if it has to wait: nothing was done.
    ///
    /// # Errors
    /// The frame is broken; messages before that count as received.
    pub(crate) fn publish(&mut self, publish: Publish<'_>, now: Now) -> Result<bool, DecodeError> {
        if self.alarm || self.publishes_wait() {
            self.flush_run(now);
            let reason = if self.alarm { WaitReason::Alarm } else { self.client.log_wait().0 };
            let streams: SmallVec<_> =
                self.publishers.values().take(1).map(|known| (**known.queue()).clone()).collect();
            self.hold_publishes(reason, streams, now);
            return Ok(false);
        }
        let id = publish.publisher;
        let Some(publisher) = self.publishers.get_mut(id) else {
            let ids: Vec<u64> = publish.messages().map_while(Result::ok).map(|message| message.id).collect();
            self.refuse_publishes(id, ResponseCode::PublisherDoesNotExist, ids.into_iter());
            return Ok(true);
        };
        let is_numbered = publisher.reference().is_some() && !is_planted(Bug::StoreRepeats);
        let serial = publisher.serial();
        publisher.find_last();
        let filter_bytes = publisher.filter_bytes();
        if self.publishing.is_of_another(id, serial) {
            self.flush_run(now);
        }
        self.publishing.begin(filter_bytes);
        if self.publishing.builder().has_sub_batches() {
            // Sub-batches aren't in one chunk with what other frames have: some clients read no more of it than the first one.
            self.flush_run(now);
        }
        let mut had = self.publishing.builder().len();
        if publish.version == 1 {
            self.keep_apart(b"", now);
            self.publishing.builder_mut().note_filter(b"");
        }
        for message in publish.messages() {
            let message = message?;
            if message.is_sub_batch && had > 0 {
                self.next_chunk(publish.version, now);
                had = 0;
            }
            self.client.counters.published(message.entry.len() as u64);
            let is_known = is_numbered && self.is_known(id, message.id);
            if is_known {
                self.publishing.push_known(id, serial, message.id);
            } else if message.is_sub_batch && !self.takes_sub_batch(&message) {
                self.refuse(id, ResponseCode::PreconditionFailed, message.id);
            } else {
                self.add(id, serial, publish.version, &message, now);
            }
        }
        Ok(true)
    }

    /// Whether readers can take the messages of a sub-batch.
    #[inline(never)]
    fn takes_sub_batch(&self, message: &PublishedMessage<'_>) -> bool {
        let is_plausible = || match Entries::within(message.entry, 1).next_entry() {
            Ok(Some(Entry::SubBatch(batch))) => batch.is_plausible(),
            _ => false,
        };
        message.uncompressed <= self.settings.uncompressed_max && is_plausible()
    }

    /// Whether a named publisher's message is in the stream already. If not, it is its last one from now on.
    fn is_known(&mut self, publisher: u8, id: u64) -> bool {
        self.publishers.get_mut(publisher).is_some_and(|publisher| publisher.knows(id))
    }

    fn refuse(&mut self, publisher: u8, code: ResponseCode, id: u64) {
        if let Some(publisher) = self.publishers.get_mut(publisher) {
            publisher.message_refused();
        }
        self.refuse_publishes(publisher, code, [id].into_iter());
    }

    #[inline]
    fn add(&mut self, id: u8, serial: u64, version: u16, message: &PublishedMessage<'_>, now: Now) {
        let is_covered = version == 1 || self.keep_apart(message.filter, now);
        loop {
            match self.publishing.builder_mut().push_entry(message.entry, message.messages) {
                Ok(()) => break,
                Err(NotAdded::Full) => self.next_chunk(version, now),
                Err(NotAdded::TooLong(_) | NotAdded::BodyInFile) => {
                    return self.refuse(id, ResponseCode::FrameTooLarge, message.id);
                }
            }
        }
        self.publishing.push(id, serial, message.id);
        if !is_covered {
            self.publishing.builder_mut().note_filter(message.filter);
        }
        if self.publishing.builder().data_bytes() >= CHUNK_BYTES || self.publishing.builder().len() >= CHUNK_MESSAGES {
            self.next_chunk(version, now);
        }
    }

    /// Ends the run within a frame, whose other messages go into another chunk. Those of version 1 have no filter values.
    fn next_chunk(&mut self, version: u16, now: Now) {
        self.flush_run(now);
        if version == 1 {
            self.publishing.builder_mut().note_filter(b"");
        }
    }

    /// Ends the run before a filter value that it doesn't have, once it is long enough: readers get whole chunks, and those that don't want
    /// this value shouldn't get many of it with theirs. True if the run has the value.
    #[inline(never)]
    fn keep_apart(&mut self, filter: &[u8], now: Now) -> bool {
        let is_covered = self.publishing.builder().has_filter(filter);
        if !is_covered && self.publishing.builder().len() >= MIXED_MESSAGES_MAX as usize {
            self.flush_run(now);
        }
        is_covered
    }

    /// Publishes what the last frames have collected.
    pub(crate) fn flush_run(&mut self, now: Now) {
        let Some(Run { publisher: id, serial, ids, known, repeated }) = self.publishing.take_run() else { return };
        let Some(publisher) = self.publishers.same(id, serial) else {
            // Its stream was deleted meanwhile, which the client was told.
            self.publishing.builder_mut().finish();
            return;
        };
        publisher.published(ids.len() + known.len() + repeated.len());
        let name = publisher.reference().cloned().filter(|_| !is_planted(Bug::StoreRepeats));
        let queue = publisher.queue().clone();
        if !known.is_empty() {
            let wait = match publisher.last_wait().cloned() {
                _ if is_planted(Bug::ConfirmRepeatEarly) => WaitFor::default(),
                Some(wait) => wait,
                None => queue.awaited().into(),
            };
            self.publishing.confirm(wait, Confirming { publisher: id, serial, ids: known });
        }
        if ids.is_empty() {
            return;
        }
        let chunk = finish_chunk(self.publishing.builder_mut(), &queue, name.as_deref(), &ids, now.wall_ms);
        let wait = self.offer(Confirming { publisher: id, serial, ids }, &queue, &chunk, name.as_deref(), now);
        if repeated.is_empty() {
            return;
        }
        let repeated = Confirming { publisher: id, serial, ids: repeated };
        match wait {
            Some(wait) => self.publishing.confirm(wait, repeated),
            None => self.refuse_run(&repeated),
        }
    }

    /// Refuses messages of a publisher whose stream doesn't take any.
    fn refuse_run(&mut self, refused: &Confirming) {
        let (id, count) = (refused.publisher, refused.ids.len());
        if let Some(publisher) = self.publishers.get_mut(id) {
            publisher.not_taken(count);
        }
        self.refuse_publishes(id, ResponseCode::StreamNotAvailable, refused.ids.iter());
    }

    /// Offers a chunk to its stream. Returns what the confirm of its messages waits for; `None` if it isn't taken.
    fn offer(
        &mut self,
        confirming: Confirming,
        queue: &StreamQueueRef,
        chunk: &Arc<SharedChunk>,
        name: Option<&str>,
        now: Now,
    ) -> Option<WaitFor> {
        let numbered = name.map(|name| Numbered { name, numbers: &confirming.ids });
        let published = queue.publish_chunk(chunk, numbered, now.monotonic);
        if published.is_gone || matches!(published.acceptance, Acceptance::Known(0)) {
            self.refuse_run(&confirming);
            return None;
        }
        let mut wait = WaitFor::default();
        wait.and_publish(published.awaited, &published.acceptance);
        let (counters, count) = (&self.client.counters, confirming.ids.len());
        counters.published_with_confirm.add(count);
        counters.routed.add(count);
        counters.enqueued.add(chunk.len());
        self.client.undurable.note_published(&published, queue, chunk.chunk_bytes());
        if queue.is_away()
            && let Some(publisher) = self.publishers.same(confirming.publisher, confirming.serial)
        {
            publisher.waits_for(wait.clone());
        }
        self.publishing.confirm(wait.clone(), confirming);
        Some(wait)
    }
}

fn finish_chunk(
    builder: &mut ChunkBuilder,
    stream: &QueueRef,
    name: Option<&str>,
    ids: &PublishingIds,
    now_ms: u64,
) -> Arc<SharedChunk> {
    builder.note_time(now_ms);
    let writer = name.zip(ids.last()).map(|(name, sequence)| ChunkWriter { name, sequence });
    let chunk = SharedChunk::from(builder.finish_of(writer.as_ref()));
    Arc::new(chunk.published_to(stream.info().name.clone()))
}
