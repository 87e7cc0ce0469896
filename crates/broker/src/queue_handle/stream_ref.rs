//! A stream, with the calls that only a stream has.

use std::ops::Deref;
use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_queue::{ChunkTurn, ConsumerId, KeptOffset, Link, StreamStart, TakenChunk};

use super::queue_ref::{QueueRef, pass};
use super::{Numbered, Published};
use crate::asked::NowOrLater;
use crate::reads::{ChunksFor, Purpose};
use crate::remote::HomeQuestion;
use crate::time::Nanos;

/// A queue that is a stream, cheap to clone. Only [`QueueRef::as_stream`] gives it.
#[derive(Clone)]
pub struct StreamQueueRef(QueueRef);

impl Deref for StreamQueueRef {
    type Target = QueueRef;

    #[inline]
    fn deref(&self) -> &QueueRef {
        &self.0
    }
}

impl QueueRef {
    /// The queue as a stream; `None` if it isn't one.
    pub fn as_stream(&self) -> Option<StreamQueueRef> {
        self.is_stream().then(|| StreamQueueRef(self.clone()))
    }
}

impl StreamQueueRef {
    /// Reads stored chunks from offset `from` on.
    pub(crate) fn read(&self, from: u64, purpose: ChunksFor) {
        pass!(self.0, queue => queue.request_read(from, Purpose::Chunks(purpose)));
    }

    /// Offers a chunk, which is taken as a whole or not at all; `numbered` are the name of its publisher, if it has one, and the
    /// numbers of its entries. Messages that were published by that name before are left out, and count as accepted.
    pub fn publish_chunk(&self, chunk: &Arc<SharedChunk>, numbered: Option<Numbered<'_>>, now: Nanos) -> Published {
        pass!(self.0, queue => {
            let published = queue.publish_chunk(chunk, numbered, now);
            queue.taps.put_chunk(&queue.info, chunk, published, now);
            queue.told(published, u32::try_from(chunk.len()).unwrap_or(u32::MAX))
        }, away => away.publish_chunk(chunk, numbered.map(|of| (of.name, of.numbers))))
    }

    /// See [`leveret_queue::StreamQueue::take_chunks`].
    pub fn take_chunks(&self, id: ConsumerId, bytes: u64, now: Nanos, out: &mut Vec<TakenChunk>) -> ChunkTurn {
        pass!(self.0, queue => {
            let before = out.len();
            let turn = queue.take_chunks(id, bytes, now, out);
            queue.taps.taken_chunks(&queue.info, &out[before..], now);
            turn
        }, away => away.take_chunks(id, bytes, out))
    }

    /// The client of a member of a group answered that it is active, and where it begins if it said so, or that it isn't active
    /// any more. See [`leveret_queue::StreamQueue::activated`] and [`leveret_queue::StreamQueue::stepped_down`].
    pub fn activity_answered(&self, id: ConsumerId, active: bool, start: Option<StreamStart>, now: Nanos) {
        pass!(self.0, queue => queue.activity(id, active.then_some(start), now), away => away.activity(id, active, start));
    }

    /// Keeps an offset for a name. The answer is false if the stream keeps too many names already.
    pub fn keep_offset(&self, kept: KeptOffset, now: Nanos) -> NowOrLater<bool> {
        pass!(
            self.0,
            queue => queue.asked(|| false, move |queue| queue.keep_offset(kept, now)),
            away => away.carry_out(|| HomeQuestion::KeepOffset(kept))
        )
    }

    /// Makes the member of a group active whose turn it is. The answer is false if there is no such group.
    pub fn activate_group(&self, name: &str, now: Nanos) -> NowOrLater<bool> {
        let name: Arc<str> = name.into();
        pass!(
            self.0,
            queue => queue.asked(|| false, move |queue| queue.activate_group(&name, now)),
            away => away.carry_out(|| HomeQuestion::ActivateGroup(name))
        )
    }

    /// As [`QueueRef::watch`], for a link that is also told when the stream's node can't be reached any more, or can't now.
    pub fn watch_reached(&self, key: u64, link: Arc<dyn Link>) {
        pass!(self.0, queue => queue.watch(key, link), away => away.watch_reached(key, link));
    }
}
