//! The messages that taps of a queue see. Each call is made with what the queue has just taken or handed out.

use leveret_message::BatchPart;
use leveret_message::chunk::SharedChunk;
use leveret_message::deliver::Delivery;
use leveret_model::{Queue, QueueType};
use leveret_queue::{GetOutcome, Taken, TakenChunk};

use super::{Passage, Taps};
use crate::published::PublishedHere;
use crate::time::Nanos;

impl Taps {
    /// The queue took these messages.
    #[inline]
    pub(crate) fn put(&self, queue: &Queue, part: BatchPart<'_>, now: Nanos) {
        if self.watch_queues() && part.count > 0 {
            self.passed(queue.id, Passage::Put, part, &Delivery::default(), now);
        }
    }

    /// The stream was offered a chunk.
    #[inline]
    pub(crate) fn put_chunk(&self, queue: &Queue, chunk: &SharedChunk, published: PublishedHere, now: Nanos) {
        if self.watch_queues() && published.taken() > 0 {
            self.passed_chunk(queue.id, Passage::Put, chunk, None, now);
        }
    }

    /// The queue handed out messages.
    #[inline]
    pub(crate) fn taken(&self, queue: &Queue, taken: &[Taken], now: Nanos) {
        if self.watch_queues() {
            taken.iter().for_each(|taken| self.delivered(queue, taken, now));
        }
    }

    /// The same of a message that was asked for.
    #[inline]
    pub(crate) fn got(&self, queue: &Queue, outcome: GetOutcome, now: Nanos) -> GetOutcome {
        if self.watch_queues()
            && let GetOutcome::Message(taken, _) = &outcome
        {
            self.delivered(queue, taken, now);
        }
        outcome
    }

    #[cold]
    fn delivered(&self, queue: &Queue, taken: &Taken, now: Nanos) {
        let delivery = Delivery {
            redelivered: taken.redelivered,
            delivery_count: taken.attempts.failed,
            acquired_count: taken.attempts.acquired,
            stream_offset: (queue.queue_type() == QueueType::Stream).then_some(taken.first),
            ..Delivery::default()
        };
        let passage = Passage::Delivered { redelivered: taken.redelivered };
        self.passed(queue.id, passage, taken.part(), &delivery, now);
    }

    /// The stream handed out chunks.
    #[inline]
    pub(crate) fn taken_chunks(&self, queue: &Queue, taken: &[TakenChunk], now: Nanos) {
        if self.watch_queues() {
            let passage = Passage::Delivered { redelivered: false };
            for TakenChunk { first, chunk, .. } in taken {
                self.passed_chunk(queue.id, passage, chunk, Some(*first), now);
            }
        }
    }
}
