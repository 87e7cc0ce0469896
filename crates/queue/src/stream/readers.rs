//! The readers of a stream. Each goes its own way; none waits for another.

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::consumer_id::ConsumerId;
use crate::effects::{Effects, Ended, Signal, TOLD_AT_ONCE_MAX};
use crate::records::Run;
use crate::stream::reader::{Reader, TrackedReader};

/// All readers of a stream.
#[derive(Default)]
pub(super) struct Readers {
    /// Boxed: when the map grows, moving thousands of whole readers would take long.
    all: FxHashMap<ConsumerId, Box<Reader>>,
    /// Their positions: memory before the first of them is freed.
    positions: BTreeSet<(u64, ConsumerId)>,
    /// Readers at the end of the stream that could take a message.
    waiting: BTreeSet<ConsumerId>,
    /// Readers with link credit.
    links: usize,
    /// Readers that don't take whole chunks.
    message_readers: usize,
    /// Sum of their unacknowledged deliveries.
    unacknowledged: u64,
    /// Readers that were cancelled before they had settled all deliveries, of those whose offset the stream keeps: what is left of them,
    /// and their positions.
    cancelled: BTreeMap<ConsumerId, (Box<TrackedReader>, u64)>,
}

impl Readers {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn links(&self) -> usize {
        self.links
    }

    pub(super) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    pub(super) fn look(&self, id: ConsumerId) -> Option<&Reader> {
        self.all.get(&id).map(|reader| &**reader)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ConsumerId, &Reader)> {
        self.all.iter().map(|(id, reader)| (id, &**reader))
    }

    /// Whether one of them takes messages, and not whole chunks.
    pub(super) fn take_messages(&self) -> bool {
        self.message_readers > 0
    }

    /// The lowest position of a reader.
    pub(super) fn first_position(&self) -> Option<u64> {
        self.positions.first().map(|(next, _)| *next)
    }

    pub(super) fn add(&mut self, id: ConsumerId, reader: Reader) {
        self.links += usize::from(reader.consumer.options.flow.is_credit());
        self.message_readers += usize::from(!reader.takes_chunks());
        self.positions.insert((reader.next(), id));
        self.all.insert(id, Box::new(reader));
    }

    /// Removes a reader, which may still settle what it was given. False if there is none with this id.
    pub(super) fn cancel(&mut self, id: ConsumerId) -> bool {
        let Some(reader) = self.remove(id) else { return false };
        if let Some(left) = reader.into_unsettled() {
            self.cancelled.insert(id, left);
        }
        true
    }

    /// A cancelled reader has settled messages. Returns the name by which its offset is kept, and that offset; `None` if none is.
    pub(super) fn settled_by_cancelled(&mut self, id: ConsumerId, runs: &[Run]) -> Option<(Arc<str>, u64)> {
        let (tracked, next) = self.cancelled.get_mut(&id)?;
        tracked.settled(runs);
        let kept = tracked.kept_offset(*next);
        if tracked.has_settled_all() {
            self.cancelled.remove(&id);
        }
        Some(kept)
    }

    /// A reader gave messages back. If it is cancelled, its offset moves no more.
    pub(super) fn gave_back(&mut self, id: ConsumerId) {
        self.cancelled.remove(&id);
    }

    /// Removes a reader; `None` if there is none with this id.
    pub(super) fn remove(&mut self, id: ConsumerId) -> Option<Box<Reader>> {
        let reader = self.all.remove(&id)?;
        self.positions.remove(&(reader.next(), id));
        self.waiting.remove(&id);
        self.links -= usize::from(reader.consumer.options.flow.is_credit());
        self.message_readers -= usize::from(!reader.takes_chunks());
        self.unacknowledged -= u64::from(reader.consumer.unacknowledged);
        Some(reader)
    }

    /// Changes a reader, and schedules it if it can take messages before `end`.
    pub(super) fn update<R>(
        &mut self,
        id: ConsumerId,
        end: u64,
        effects: &mut Effects,
        change: impl FnOnce(&mut Reader) -> R,
    ) -> Option<R> {
        let reader = self.all.get_mut(&id)?;
        let (position, unacknowledged) = (reader.next(), reader.consumer.unacknowledged);
        let result = change(reader);
        self.unacknowledged -= u64::from(unacknowledged);
        self.unacknowledged += u64::from(reader.consumer.unacknowledged);
        if reader.next() != position {
            let next = reader.next();
            self.positions.remove(&(position, id));
            self.positions.insert((next, id));
        }
        self.schedule(id, end, effects);
        Some(result)
    }

    /// Schedules a reader that could take messages before `end`, or notes that it waits for them.
    fn schedule(&mut self, id: ConsumerId, end: u64, effects: &mut Effects) {
        let Some(reader) = self.all.get_mut(&id) else { return };
        let consumer = &mut reader.consumer;
        if !consumer.is_eligible() {
            consumer.scheduled = false;
        }
        let is_able = consumer.is_eligible() && !consumer.scheduled;
        if !is_able || reader.is_blocked() {
            self.waiting.remove(&id);
        } else if reader.next() < end {
            self.waiting.remove(&id);
            let consumer = &mut reader.consumer;
            consumer.scheduled = true;
            effects.signals.push((consumer.options.link.clone(), Signal::Scheduled(consumer.options.key)));
        } else {
            self.waiting.insert(id);
        }
    }

    /// Schedules the readers that waited for a message; there is one before `end` now.
    pub(super) fn schedule_waiting(&mut self, end: u64, effects: &mut Effects) {
        let waiting: btree_set::IntoIter<ConsumerId> = std::mem::take(&mut self.waiting).into_iter();
        waiting.for_each(|id| self.schedule(id, end, effects));
    }

    /// Removes all readers, which are notified.
    pub(super) fn cancel_all(&mut self, effects: &mut Effects) {
        let all = std::mem::take(self).all;
        if all.len() > TOLD_AT_ONCE_MAX {
            let links = all.into_values().map(|reader| (reader.consumer.options.link, reader.consumer.options.key));
            effects.rare_mut().ended = Ended::new(Box::new(links));
            return;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(id, _)| *id);
        for (_, reader) in all {
            let options = reader.consumer.options;
            effects.signals.push((options.link, Signal::Cancelled(options.key)));
        }
    }
}
