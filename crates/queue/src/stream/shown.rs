//! The stream as operators see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::answers::{Peeked, QueueState};
use crate::consumer_id::ConsumerId;
use crate::counts::{Count, QueueCounts};
use crate::dispatch::Activity;
use crate::gauges::{QueueGauges, Waits};
use crate::nanos::Nanos;
use crate::shared::References;
use crate::status::{ConsumerStatus, QueueStatus, ReaderPosition, StreamStatus};
use crate::stream::StreamQueue;
use crate::stream::reader::Reader;
use crate::wait::{QueueWait, WaitReason};

impl StreamQueue {
    /// Offset of its oldest message, or of the next one if it has none; offset of the next message; and offset of the first message of
    /// its last chunk, if it has any.
    pub fn ends(&self) -> (u64, u64, Option<u64>) {
        let (first, next) = self.offsets();
        (first, next, self.kept.index.last_chunk())
    }

    /// The stream as a listing shows it.
    pub fn status(&self) -> QueueStatus {
        let mut readers: Vec<_> = self.readers.iter().collect();
        readers.sort_by_key(|(id, _)| **id);
        let (first, next) = self.offsets();
        // Members of groups that wait for their turn begin where their clients then ask for.
        let is_served =
            |id: ConsumerId, reader: &Reader| reader.consumer.activity.is_active() || self.groups.is_active(id);
        let served = readers.iter().filter(|(id, reader)| is_served(**id, reader));
        let lag_max = served.map(|(_, reader)| next.saturating_sub(reader.next())).max();
        QueueStatus {
            state: self.state.clone(),
            ready: self.ledger.len(),
            ready_bytes: self.ledger.bytes(),
            unacknowledged: self.readers.unacknowledged(),
            unacknowledged_bytes: 0,
            bytes: self.ledger.bytes(),
            pending: self.pending.length().messages,
            moving: 0,
            memory: self.tail.bytes(),
            conservation: self.ledger.counters(),
            waits: self.waits(),
            consumers: readers.into_iter().map(|(id, reader)| self.status_of(*id, reader)).collect(),
            refused: 0,
            duplicates: None,
            counts: self.counts.with_lengths(self.lengths()),
            volatile: 0,
            volatile_bytes: 0,
            in_memory: self.tail.messages(),
            timed: 0,
            quorum: None,
            by_priority: BTreeMap::new(),
            stream: Some(StreamStatus {
                first,
                next,
                last_chunk: self.kept.index.last_chunk(),
                stretches: self.kept.index.len() as u64,
                oldest_ms: self.kept.index.oldest_ms(),
                newest_ms: self.kept.index.newest_ms(),
                lag_max: lag_max.unwrap_or(0),
                offsets: self.kept.tracking.all(),
                writers: self.kept.writers.all(),
                groups: self.groups.status(|id| self.names_of(id)),
            }),
        }
    }

    /// The tag and the connection of a reader.
    fn names_of(&self, id: ConsumerId) -> (Arc<str>, Arc<str>) {
        let options = self.readers.look(id).map(|reader| &reader.consumer.options);
        options.map(|options| (options.tag.clone(), options.channel.clone())).unwrap_or_default()
    }

    /// Whether one of its readers takes messages, and not whole chunks.
    pub fn has_message_readers(&self) -> bool {
        self.readers.take_messages()
    }

    /// The number of the last message of a named publisher that was submitted.
    pub fn writer_sequence(&self, name: &str) -> Option<u64> {
        self.kept.writers.submitted(name)
    }

    /// Messages that are ready, and those that aren't any more: none, since what one reader holds is there for the next.
    pub(super) fn lengths(&self) -> [u64; 2] {
        [self.ledger.len(), 0]
    }

    /// One reader as a listing shows it.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        Some(self.status_of(id, self.readers.look(id)?))
    }

    fn status_of(&self, id: ConsumerId, reader: &Reader) -> ConsumerStatus {
        let consumer = &reader.consumer;
        let (_, end) = self.offsets();
        let wait = |reason, since| Some(QueueWait { reason, since });
        let own = if reader.is_blocked() {
            wait(WaitReason::Disk, consumer.changed)
        } else if reader.next() >= end {
            wait(WaitReason::Empty, self.published)
        } else {
            None
        };
        let mut status = ConsumerStatus::of(consumer, own, None);
        status.position = Some(ReaderPosition { next: reader.next(), end });
        if self.groups.is_active(id) {
            // Also before its client has answered.
            status.activity = Activity::Active;
        }
        status
    }

    fn waits(&self) -> Vec<QueueWait> {
        let mut waits: Vec<_> = self.held_publishers.waits().collect();
        let mut add = |reason, since: Nanos| waits.push(QueueWait { reason, since });
        if let QueueState::Failed(_) = self.state {
            add(WaitReason::Failed, self.changed);
        }
        if let Some(since) = self.pending.oldest() {
            add(WaitReason::Sync, since);
        }
        waits
    }

    /// Its gauges; zero for a deleted stream.
    pub fn gauges(&self) -> QueueGauges {
        if self.state == QueueState::Deleted {
            return QueueGauges::default();
        }
        let mut waits = Waits::default();
        self.waits().iter().for_each(|wait| waits.add_if(true, wait.reason));
        QueueGauges {
            ready: self.ledger.len(),
            ready_bytes: self.ledger.bytes(),
            memory: self.tail.bytes(),
            in_memory: self.tail.messages(),
            consumers: self.readers.len() as u64,
            links: self.readers.links() as u64,
            waits,
            counted: self.counts.any(),
            failed: matches!(self.state, QueueState::Failed(_)),
            ..QueueGauges::default()
        }
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub fn counted_of(&self, what: Count) -> Option<u64> {
        self.counts.any().then(|| self.counts.total(what))
    }

    /// Its counts, if it has counted anything.
    pub fn counts_if_any(&self) -> Option<QueueCounts> {
        self.counts.any().then(|| self.counts.with_lengths(self.lengths()))
    }

    /// At most `count` messages after the first `offset`, oldest first. They are read from disk.
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        let (low, _) = self.offsets();
        let mut next = self.ledger.nth_live(low, offset);
        let numbers = std::iter::from_fn(|| {
            let number = next?;
            next = self.ledger.live_run(number + 1).map(|(first, _)| first);
            Some(number)
        });
        let shown = |number| Peeked { number, redelivered: false, held: None, due_ms: None, token: None };
        numbers.take(count).map(shown).collect()
    }

    /// A publisher is held back for this reason.
    pub fn publisher_held(&mut self, reason: WaitReason, now: Nanos) {
        self.held_publishers.hold(reason, now);
    }

    /// A publisher that was held back for this reason continues.
    pub fn publisher_released(&mut self, reason: WaitReason) {
        self.held_publishers.release(reason);
    }

    /// Always empty: a stream stores its chunks itself.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// See [`StreamQueue::references`].
    pub fn references_mut(&mut self) -> &mut References {
        &mut self.references
    }
}
