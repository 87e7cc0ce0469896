//! Calls that add, remove and update readers. Settlements take nothing away from a stream: they are a prefetch's credit, and nothing
//! else.

use std::sync::Arc;

use leveret_message::Added;

use crate::answers::NoConsumer;
use crate::consumer_id::ConsumerId;
use crate::counts::Count;
use crate::dispatch::{Activity, Consumer, ConsumerFlow, ConsumerOptions, CreditState, Deliveries, Flow, Unsent};
use crate::effects::{Effects, Signal};
use crate::filters::StreamFilter;
use crate::ledger::Departure;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};
use crate::records::{KeptOffset, Run};
use crate::stream::StreamQueue;
use crate::stream::groups::ActivityChanges;
use crate::stream::reader::{Reader, Scan};
use crate::stream_start::StreamStart;

impl StreamQueue {
    /// Adds a reader, at the position that it asks for.
    pub fn add(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
        effects: &mut Effects,
    ) -> Result<(), NoConsumer> {
        if self.is_closed {
            return Err(NoConsumer::Gone);
        }
        let stream = options.stream.as_deref().cloned().unwrap_or_default();
        let kept = stream.tracking.as_deref().and_then(|name| self.kept.tracking.of(name));
        if stream.tracking.is_some() && kept.is_none() && self.kept.tracking.is_full() {
            return Err(NoConsumer::TooManyNames);
        }
        if stream.group.as_ref().is_some_and(|member| !self.groups.takes(member)) {
            return Err(NoConsumer::OtherPartition);
        }
        let start = kept.map_or(stream.start, StreamStart::Offset);
        let (mut next, since_ms) = self.position(start);
        if stream.whole_chunks {
            // As in RabbitMQ; readers of messages wait for the offset.
            next = next.min(self.offsets().1);
        }
        if is_planted(Bug::OffByOne) {
            next = next.saturating_add(1);
        }
        self.changed = now;
        let mut reader = Reader::new(options, next, since_ms, now);
        if stream.group.is_some() {
            reader.consumer.activity = Activity::Waiting;
        }
        self.readers.add(id, reader);
        if let Some(member) = &stream.group {
            let told = self.groups.add(member, id, now);
            self.tell_members(told, effects);
        }
        if let Some(name) = &stream.tracking {
            effects.rare_mut().offsets.push(self.kept.tracking.begin(name, id, next, now));
        }
        let (_, end) = self.offsets();
        self.readers.update(id, end, effects, |_| ());
        Ok(())
    }

    /// Tells members of groups whether they are active. One that isn't gets nothing more.
    pub(super) fn tell_members(&mut self, told: ActivityChanges, effects: &mut Effects) {
        let (_, end) = self.offsets();
        for (id, active) in told {
            let available = self.readers.look(id).map_or(0, |reader| self.available(reader.next()));
            let signal = self.readers.update(id, end, effects, |reader| {
                let consumer = &mut reader.consumer;
                consumer.activity = Activity::Waiting;
                consumer.activity_changes += 1;
                let available = u32::try_from(available).unwrap_or(u32::MAX);
                let key = consumer.options.key;
                let signal = Signal::Activity { key, active, change: consumer.activity_changes, available };
                (consumer.options.link.clone(), signal)
            });
            effects.signals.extend(signal);
        }
    }

    /// The client of an active member has answered: it is served from here on, `None` being where it asked to begin.
    pub fn activated(&mut self, id: ConsumerId, start: Option<StreamStart>, now: Nanos, effects: &mut Effects) {
        if !self.groups.is_active(id) {
            return;
        }
        let own = self.readers.look(id).and_then(|reader| reader.consumer.options.stream.as_ref().map(|own| own.start));
        let (next, since_ms) = self.position(start.or(own).unwrap_or_default());
        let (_, end) = self.offsets();
        self.readers.update(id, end, effects, |reader| {
            reader.begin_at(next.min(end), since_ms);
            reader.consumer.activity = Activity::Active;
            reader.consumer.changed = now;
        });
    }

    /// The client of a member has answered that it isn't active any more.
    pub fn stepped_down(&mut self, id: ConsumerId, effects: &mut Effects) {
        let told = self.groups.stepped_down(id);
        self.tell_members(told, effects);
    }

    /// Makes the member of a group active whose turn it is, without waiting for another one. False if there is no such group.
    pub fn activate_group(&mut self, name: &str, now: Nanos, effects: &mut Effects) -> bool {
        let Some(told) = self.groups.activate(name, now) else { return false };
        self.tell_members(told, effects);
        true
    }

    /// The offset at which a reader begins, and the time before which chunks are skipped from there on.
    fn position(&self, start: StreamStart) -> (u64, Option<u64>) {
        let (low, end) = self.offsets();
        match start {
            StreamStart::First => (low, None),
            StreamStart::Last => (self.kept.index.last_chunk().map_or(end, |first| first.clamp(low, end)), None),
            StreamStart::Next => (end, None),
            StreamStart::Offset(offset) => (offset.max(low), None),
            StreamStart::LastN(messages) => {
                let before = self.ledger.len().saturating_sub(messages);
                (self.ledger.nth_live(low, before).unwrap_or(end), None)
            }
            StreamStart::Timestamp(at_ms) => match self.kept.index.at_time(at_ms) {
                Some(offset) => (offset.max(low), Some(at_ms)),
                None => (end, None),
            },
        }
    }

    /// A search of a stream by one who isn't its reader: the offset at which it begins, and the chunks that it wants. `None` for other
    /// queues.
    pub fn search(&self, start: StreamStart, filter: Option<Arc<StreamFilter>>) -> (u64, Scan) {
        let (from, since_ms) = self.position(start);
        let (_, end) = self.offsets();
        (from, Scan { filter, since_ms, end: Some(end), gaps: self.ledger.holes(), ..Scan::default() })
    }

    /// Removes a reader. Returns how many are left; `None` if it didn't exist.
    pub fn cancel(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) -> Option<usize> {
        self.log_offsets(true, now, effects);
        let was_there = self.readers.cancel(id);
        let told = self.groups.remove(id, now);
        self.tell_members(told, effects);
        self.changed = now;
        self.free_passed();
        was_there.then(|| self.readers.len())
    }

    /// Changes the flow of a reader: room, window or credit. Returns its link's state if its credit has changed.
    pub fn flow(&mut self, id: ConsumerId, flow: Flow, now: Nanos, effects: &mut Effects) -> Option<CreditState> {
        let (_, end) = self.offsets();
        let (known, value): (fn(&mut Consumer) -> &mut bool, bool) = match flow {
            Flow::Credit { delivery_count, link_credit, drain } => {
                return self.grant(id, (delivery_count, link_credit, drain), now, effects);
            }
            Flow::Room(room) => (|consumer| &mut consumer.room, room),
            Flow::Window(open) => (|consumer| &mut consumer.window, open),
            Flow::Overdue(overdue) => (|consumer| &mut consumer.overdue, overdue),
        };
        self.readers.update(id, end, effects, |reader| {
            let consumer = &mut reader.consumer;
            if std::mem::replace(known(consumer), value) != value {
                consumer.changed = now;
            }
        });
        None
    }

    /// The receiver's delivery-count and credit, and whether unused credit is to be given up.
    fn grant(
        &mut self,
        id: ConsumerId,
        (delivery_count, link_credit, drain): (u32, u32, bool),
        now: Nanos,
        effects: &mut Effects,
    ) -> Option<CreditState> {
        let (_, end) = self.offsets();
        let available = self.available(self.readers.look(id)?.next());
        self.readers.update(id, end, effects, |reader| {
            let consumer = &mut reader.consumer;
            if matches!(consumer.options.flow, ConsumerFlow::Prefetch(_)) {
                return CreditState::default();
            }
            let before = consumer.credit();
            consumer.grant(delivery_count, link_credit);
            let at_once = drain && (consumer.credit() == 0 || available == 0);
            if at_once {
                consumer.use_up_credit();
            }
            consumer.draining = drain && !at_once;
            if (before == 0) != (consumer.credit() == 0) {
                consumer.changed = now;
            }
            consumer.credit_state(available)
        })
    }

    /// Deliveries were settled, in whatever way.
    pub fn settle(&mut self, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos, effects: &mut Effects) {
        if outcome == Departure::Settled {
            self.count(Count::Ack, deliveries.runs.iter().map(Run::count).sum(), now);
        }
        self.credit_back(deliveries, now, effects);
        if let Some(id) = deliveries.consumer {
            self.keep_settled(id, deliveries.runs, now, effects);
        }
    }

    /// Deliveries of many readers were acknowledged.
    pub fn acknowledge(&mut self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos, effects: &mut Effects) {
        for (id, runs) in settled {
            self.settle(Deliveries::of(*id, runs), Departure::Settled, now, effects);
        }
    }

    /// A reader has settled messages: its offset is kept, if the stream does that for it. Messages that were given back aren't settled:
    /// the next reader of that name begins with the first of them.
    fn keep_settled(&mut self, id: ConsumerId, runs: &[Run], now: Nanos, effects: &mut Effects) {
        let (_, end) = self.offsets();
        if self.readers.look(id).is_some_and(Reader::is_tracked) {
            self.readers.update(id, end, effects, |reader| reader.settled(runs));
            self.keep_offset_of(id, now, effects);
        } else if let Some((name, offset)) = self.readers.settled_by_cancelled(id, runs) {
            self.advance_offset(id, &name, offset, now, effects);
        }
    }

    /// Keeps the offset of a reader, if the stream does that for it.
    pub(super) fn keep_offset_of(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) {
        if let Some((name, offset)) = self.readers.look(id).and_then(Reader::kept_offset) {
            self.advance_offset(id, &name, offset, now, effects);
        }
    }

    fn advance_offset(&mut self, id: ConsumerId, name: &str, offset: u64, now: Nanos, effects: &mut Effects) {
        if let Some(kept) = self.kept.tracking.advance(name, id, offset, now) {
            effects.rare_mut().offsets.push(kept);
        }
    }

    /// The offset that is kept for a name.
    pub fn kept_offset(&self, name: &str) -> Option<u64> {
        self.kept.tracking.of(name)
    }

    /// Keeps an offset for a name, whatever it was before. False if too many names are kept.
    pub fn keep_offset(&mut self, kept: KeptOffset, now: Nanos, effects: &mut Effects) -> bool {
        if self.is_closed || self.kept.tracking.of(&kept.name).is_none() && self.kept.tracking.is_full() {
            return false;
        }
        if let Some(kept) = self.kept.tracking.set(kept, now) {
            effects.rare_mut().offsets.push(kept);
        }
        true
    }

    fn credit_back(&mut self, deliveries: Deliveries<'_>, now: Nanos, effects: &mut Effects) {
        let (_, end) = self.offsets();
        let Some(id) = deliveries.consumer else { return };
        let count: u64 = deliveries.runs.iter().map(Run::count).sum();
        self.readers.update(id, end, effects, |reader| {
            let consumer = &mut reader.consumer;
            if consumer.credit() == 0 {
                consumer.changed = now;
            }
            consumer.unacknowledged = consumer.unacknowledged.saturating_sub(count as u32);
        });
    }

    /// Deliveries were given back. The messages are where they were; the reader goes on behind them.
    pub fn requeue(&mut self, deliveries: Deliveries<'_>, _failed: bool, now: Nanos, effects: &mut Effects) {
        self.credit_back(deliveries, now, effects);
        if let Some(id) = deliveries.consumer {
            self.readers.gave_back(id);
        }
    }

    /// As [`StreamQueue::requeue`]: messages of a stream never change.
    pub fn modify(
        &mut self,
        deliveries: Deliveries<'_>,
        failed: bool,
        _added: &Arc<Added>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        self.requeue(deliveries, failed, now, effects);
    }

    /// Deliveries were taken back from a reader: they count as settled, and it gets nothing more until [`Flow::Overdue`]. With
    /// `unsent`, the last of them weren't sent on its link, and it goes on with these.
    pub fn take_back(
        &mut self,
        id: ConsumerId,
        runs: &[Run],
        unsent: Option<Unsent>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        let (_, end) = self.offsets();
        self.readers.update(id, end, effects, |reader| {
            if !std::mem::replace(&mut reader.consumer.overdue, true) {
                reader.consumer.changed = now;
            }
            if let Some(unsent) = unsent {
                reader.consumer.not_sent(unsent);
                let count = unsent.counted.wrapping_sub(unsent.delivery_count);
                last_ones(runs, u64::from(count)).into_iter().for_each(|first| reader.go_back(first));
            }
        });
        self.credit_back(Deliveries::of(Some(id), runs), now, effects);
    }

    /// Removes readers. Returns how many are left.
    pub fn leave(
        &mut self,
        readers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> usize {
        self.log_offsets(true, now, effects);
        for id in readers {
            self.readers.remove(*id);
            let told = self.groups.remove(*id, now);
            self.tell_members(told, effects);
            self.changed = now;
        }
        for (id, runs) in held {
            self.requeue(Deliveries::of(*id, runs), failed, now, effects);
        }
        self.free_passed();
        self.readers.len()
    }
}

/// The number of the first one of the last `count` messages of these runs.
fn last_ones(runs: &[Run], mut count: u64) -> Option<u64> {
    let mut first = None;
    for run in runs.iter().rev() {
        let taken = run.count().min(count);
        if taken == 0 {
            break;
        }
        first = Some(run.last + 1 - taken);
        count -= taken;
    }
    first
}
