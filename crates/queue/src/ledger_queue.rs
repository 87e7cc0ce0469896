//! The classic queue: one member, ledger and dispatcher behind one lock.
//!
//! The caller holds the lock, appends to the log what [`ClassicQueue::submit`] accepted, and reports
//! the position with [`ClassicQueue::submitted`]; [`ClassicQueue::apply`] is idempotent and in order.

pub(crate) mod browse;
pub mod close;
mod credit;
pub(crate) mod dispatch;
pub(crate) mod expire;
pub mod get;
mod loading;
mod overflow;
pub mod peek;
mod settle;

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_message::Batch;
use leveret_model::QueueOptions;
use roaring::RoaringTreemap;

use crate::consumer::ConsumerOptions;
use crate::consumer_id::ConsumerId;
use crate::consumers::Consumers;
use crate::contents::{BEHIND_BYTES, Contents, Demand, MemoryBudget};
use crate::counts::{Count, QueueCounts};
use crate::dead_letter::DeadLetters;
use crate::effects::{Effects, Signal};
use crate::failures::Failures;
use crate::group::{GroupPosition, Place};
use crate::held::HeldPublishers;
use crate::ledger::{Ledger, Outcome};
use crate::ledger_queue::expire::Clockwork;
use crate::limits::Length;
use crate::number_set::NumberSet;
use crate::planted::{Bug, is_planted};
use crate::shared::References;
use crate::wait::WaitReason;
use crate::{Link, Nanos, Position};

/// Whether a queue works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueState {
    /// As it should be.
    Running,
    /// It stopped and has to be rebuilt from its log; everything is refused with this reason.
    Failed(String),
    /// It was deleted; late calls find nothing.
    Deleted,
}

/// What phase one decided about messages offered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// Number of the first accepted message.
    pub first: u64,
    /// How many, from the first on, were accepted; the rest is refused by the length limit.
    pub accepted: u32,
}

/// How a turn of a consumer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// It stays scheduled and should take again.
    More,
    /// It will be signalled when there is something for it.
    Done,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub place: Place,
    first: u64,
    batch: Arc<Batch>,
    index: u32,
    pub(crate) count: u32,
    /// Consumers waited for so many of the first when they were submitted.
    awaited: u32,
    durable: bool,
    pub submitted: Nanos,
}

impl Pending {
    /// Body bytes of its first `count` messages.
    pub(crate) fn bytes_of_first(&self, count: u32) -> u64 {
        self.batch.body_bytes(self.index as usize, count as usize)
    }
}

/// See the module.
pub struct ClassicQueue {
    pub(crate) options: QueueOptions,
    /// Persistent messages of it are logged.
    pub(crate) durable: bool,
    pub(crate) state: QueueState,
    /// See [`ClassicQueue::set_strict_compat`].
    pub(crate) strict_compat: bool,
    /// Its deletion is on its way to the disk.
    pub(crate) is_closed: bool,
    pub(crate) ledger: Ledger,
    pub(crate) contents: Contents,
    pub(crate) consumers: Consumers,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) pending_length: Length,
    /// The next number that submit gives.
    next_submitted: u64,
    /// Numbers from here on were never handed out.
    pub(crate) cursor: u64,
    /// Handed out before and given back; all below the cursor.
    pub(crate) returned: NumberSet,
    /// Numbers below may have been delivered before a restart.
    pub(crate) redelivered_below: u64,
    pub(crate) failures: Failures,
    pub(crate) clockwork: Clockwork,
    /// Which of its messages stand in the shared log.
    pub(crate) references: References,
    pub(crate) ready: Length,
    pub(crate) unacknowledged: Length,
    /// Messages on their way to the dead-letter exchange.
    pub(crate) dead: DeadLetters,
    /// A read of stored messages from this number on is under way.
    pub(crate) reading: Option<u64>,
    /// Nobody can be served before the read returns; since then.
    pub(crate) disk_wait: Option<Nanos>,
    pub(crate) get_waiters: Vec<(Arc<dyn Link>, u64)>,
    pub(crate) emptied: Nanos,
    pub(crate) changed: Nanos,
    pub(crate) full_since: Option<Nanos>,
    pub(crate) held_publishers: HeldPublishers,
    pub(crate) refused: u64,
    pub(crate) counts: QueueCounts,
}

impl ClassicQueue {
    /// An empty queue, or one with what recovery found in its log: then `redelivered_below` says which
    /// numbers may have been delivered before.
    pub fn new(
        options: QueueOptions,
        durable: bool,
        mut ledger: Ledger,
        redelivered_below: u64,
        budget: Arc<MemoryBudget>,
        now: Nanos,
    ) -> Self {
        ledger.start_counting();
        let next = ledger.next();
        let ready = Length { messages: ledger.len(), bytes: ledger.bytes() };
        let mut contents = Contents::new(budget);
        if ready.messages > 0 {
            contents.spilled_from = Some(0);
        }
        Self {
            options,
            durable,
            state: QueueState::Running,
            strict_compat: false,
            is_closed: false,
            ledger,
            contents,
            consumers: Consumers::default(),
            pending: VecDeque::new(),
            pending_length: Length::default(),
            next_submitted: next,
            cursor: 0,
            returned: NumberSet::default(),
            redelivered_below,
            failures: Failures::default(),
            clockwork: Clockwork::default(),
            references: References::default(),
            ready,
            unacknowledged: Length::default(),
            dead: DeadLetters::default(),
            reading: None,
            disk_wait: None,
            get_waiters: Vec::new(),
            emptied: now,
            changed: now,
            full_since: None,
            held_publishers: HeldPublishers::default(),
            refused: 0,
            counts: QueueCounts::default(),
        }
    }

    /// Has a limit that refuses messages refuse those that are above it alone, also when a consumer waits for them, as RabbitMQ
    /// 4.3 does.
    pub fn set_strict_compat(&mut self, strict: bool) {
        self.strict_compat = strict;
    }

    /// Whether persistent messages of this queue go to the log.
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// Running, failed or deleted.
    pub fn state(&self) -> &QueueState {
        &self.state
    }

    /// Ready messages.
    pub fn ready(&self) -> u64 {
        self.ready.messages
    }

    /// How many consumers.
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// Whether this consumer is there.
    pub fn has_consumer(&self, id: ConsumerId) -> bool {
        self.consumers.look(id).is_some()
    }

    /// Numbers from here on were never handed out: what a clean stop records.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What the last message that isn't applied yet waits for; 0 for nothing. Behind a group that is still open
    /// nobody has to wait: whoever closes it has this queue applied.
    pub fn pending_position(&self) -> Position {
        self.pending.back().and_then(|last| last.place.position()).unwrap_or(0)
    }

    /// Whether messages that aren't applied yet are part of a group: whatever comes behind them has to be durable.
    pub fn awaits_group(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.place, Place::Group(_)))
    }

    /// The ledger, for checkpoints.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Which of its messages stand in the shared log.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// To be changed when a record that says so was appended, under the same lock.
    pub fn references_mut(&mut self) -> &mut References {
        &mut self.references
    }

    /// What of the ledger outlives this process: the live durable messages and their body bytes.
    pub fn durable_live(&self) -> (RoaringTreemap, u64) {
        let mut live = self.ledger.live_set();
        let mut bytes = self.ledger.bytes();
        for (first, held) in self.contents.volatile() {
            for at in 0..held.count {
                if live.remove(first + u64::from(at)) {
                    // The sum may be short where what expired on disk counted with an estimate.
                    bytes = bytes.saturating_sub(u64::from(held.batch.body_length((held.index + at) as usize)));
                }
            }
        }
        let (dead, dead_bytes) = self.durable_dead();
        for run in dead {
            live.insert_range(run.first..=run.last);
        }
        if is_planted(Bug::OmitLastLive)
            && let Some(last) = live.max()
        {
            live.remove(last);
        }
        (live, bytes + dead_bytes)
    }

    /// Phase one: validates and reserves numbers. Nothing is in the queue before it is applied.
    pub fn submit(&mut self, batch: &Batch, index: u32, count: u32, now: Nanos) -> Submission {
        if self.state != QueueState::Running {
            return Submission { first: self.next_submitted, accepted: 0 };
        }
        self.count(Count::Publish, u64::from(count), now);
        let accepted = self.acceptable(batch, index, count);
        if accepted < count {
            self.full_since.get_or_insert(now);
            self.refused += u64::from(count - accepted);
        } else {
            self.full_since = None;
        }
        let first = self.next_submitted;
        self.next_submitted += u64::from(accepted);
        Submission { first, accepted }
    }

    /// Whether there is no memory for volatile messages: if they can be logged they have to be, and are durable.
    pub fn spills_volatile(&self) -> bool {
        self.contents.is_volatile_full()
    }

    /// The accepted messages have their place in the commit stream. `position` is none for volatile
    /// messages, which are applied at once, or after the durable ones that came before them.
    pub fn submitted(
        &mut self,
        submission: Submission,
        batch: Arc<Batch>,
        index: u32,
        position: Option<Position>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        let durable = position.is_some();
        let place = match (position, self.pending.back()) {
            (Some(position), _) => Place::At(position),
            (None, Some(last)) => last.place.clone(),
            (None, None) => Place::At(0),
        };
        self.enter(submission, (batch, index), place, durable, now, effects);
    }

    /// As [`ClassicQueue::submitted`] for durable messages that are part of a group: they, and all that come after
    /// them, wait until it is closed and its commit record durable.
    pub fn submitted_in(
        &mut self,
        group: &Arc<GroupPosition>,
        submission: Submission,
        batch: Arc<Batch>,
        index: u32,
        now: Nanos,
        effects: &mut Effects,
    ) {
        self.enter(submission, (batch, index), Place::Group(group.clone()), true, now, effects);
    }

    fn enter(
        &mut self,
        submission: Submission,
        (batch, index): (Arc<Batch>, u32),
        place: Place,
        durable: bool,
        submitted: Nanos,
        effects: &mut Effects,
    ) {
        let Submission { first, accepted: count } = submission;
        if count == 0 {
            return;
        }
        let awaited = self.awaited_on_disk(count);
        let pending = Pending { place, first, batch, index, count, awaited, durable, submitted };
        if self.pending.is_empty() && pending.place.is_reached(0, 0) {
            self.admit(pending);
            self.after_growth(effects);
            return;
        }
        self.pending_length.messages += u64::from(pending.count);
        self.pending_length.bytes += pending.batch.body_bytes(pending.index as usize, pending.count as usize);
        self.pending.push_back(pending);
    }

    /// Phase two: everything up to `durable` becomes part of the queue.
    pub fn apply(&mut self, durable: Position, effects: &mut Effects) {
        self.apply_written(durable, durable, effects);
    }

    /// As [`ClassicQueue::apply`] for a queue in which messages need to be written only, but for those that are part of
    /// a group.
    pub fn apply_written(&mut self, written: Position, durable: Position, effects: &mut Effects) {
        let mut grew = false;
        if is_planted(Bug::ApplyOutOfOrder) {
            let reached = self.pending.iter().take_while(|pending| pending.place.is_reached(written, durable)).count();
            self.pending.make_contiguous()[..reached].reverse();
        }
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.place.is_reached(written, durable)) {
            self.pending_length.messages -= u64::from(pending.count);
            self.pending_length.bytes -= pending.batch.body_bytes(pending.index as usize, pending.count as usize);
            self.admit(pending);
            grew = true;
        }
        if grew {
            self.after_growth(effects);
        }
    }

    fn admit(&mut self, pending: Pending) {
        let Pending { first, batch, index, count, awaited, durable, .. } = pending;
        let is_running = self.state == QueueState::Running;
        if !is_running && !durable {
            return;
        }
        let bytes = batch.body_bytes(index as usize, count as usize);
        self.ledger.accept(first, u64::from(count), bytes);
        self.ready.messages += u64::from(count);
        self.ready.bytes += bytes;
        self.note_times(first, &batch, index, count, awaited);
        if is_running {
            let consumers = &self.consumers;
            let demand = || match consumers.len() {
                0 => Demand::Nobody,
                _ if consumers.any_able() => Demand::Now,
                _ => Demand::Later,
            };
            self.contents.admit(first, batch, index, count, durable, pending.submitted, demand);
        }
    }

    /// Whether its consumers could take messages that have left memory, or many that haven't.
    pub fn is_behind(&self) -> bool {
        match self.contents.spilled_from {
            Some(_) => self.disk_wait.is_some() || self.consumers.any_scheduled(),
            None => self.contents.bytes() > BEHIND_BYTES && self.consumers.any_scheduled(),
        }
    }

    fn after_growth(&mut self, effects: &mut Effects) {
        if self.state != QueueState::Running {
            return;
        }
        // Consumers first: what they are given doesn't count against a limit, and its time can't be over.
        self.schedule(effects);
        self.drop_excess(effects);
        self.expire_momentary(effects);
    }

    pub(crate) fn schedule(&mut self, effects: &mut Effects) {
        if self.disk_wait.is_none() && self.state == QueueState::Running {
            self.consumers.schedule(self.ready.messages, effects);
        }
        self.schedule_browsers(effects);
        self.finish_drains(effects);
        self.expire_unawaited(effects);
    }

    /// Adds a consumer. False when an exclusive one is there, or this one wants to be alone and isn't.
    pub fn add_consumer(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
        effects: &mut Effects,
    ) -> bool {
        if self.consumers.exclusive().is_some() || (options.exclusive && self.consumers.len() > 0) {
            return false;
        }
        self.changed = now;
        self.consumers.add(id, options, now);
        self.schedule(effects);
        true
    }

    /// Removes a consumer; what it holds unacknowledged stays with its channel.
    pub fn cancel(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) -> bool {
        let was_there = self.consumers.remove(id);
        self.changed = now;
        self.used(now);
        self.schedule(effects);
        // Messages that its credit covered count against the limit from now on.
        self.drop_excess(effects);
        was_there
    }

    /// The consumer's connection can, or can't, take more bytes.
    pub fn set_room(&mut self, id: ConsumerId, room: bool, now: Nanos, effects: &mut Effects) {
        let Some(consumer) = self.consumers.find(id) else { return };
        if std::mem::replace(&mut consumer.room, room) != room {
            consumer.changed = now;
        }
        self.room_changed(id, room, now, effects);
    }

    /// The consumer's session can, or can't, send more transfers (AMQP 1.0, 2.5.6).
    pub fn set_window(&mut self, id: ConsumerId, open: bool, now: Nanos, effects: &mut Effects) {
        let Some(consumer) = self.consumers.find(id) else { return };
        if std::mem::replace(&mut consumer.window, open) != open {
            consumer.changed = now;
        }
        self.room_changed(id, open, now, effects);
    }

    fn room_changed(&mut self, id: ConsumerId, room: bool, now: Nanos, effects: &mut Effects) {
        if room {
            self.consumers.refresh(id);
        } else {
            self.consumers.end_turn(id, 0, self.ready.messages, false, now);
        }
        self.schedule(effects);
    }

    /// A publisher is held back, for this reason.
    pub fn publisher_held(&mut self, reason: WaitReason, now: Nanos) {
        self.held_publishers.hold(reason, now);
    }

    /// One of those held back for this reason goes on.
    pub fn publisher_released(&mut self, reason: WaitReason) {
        self.held_publishers.release(reason);
    }

    /// The queue is gone: consumers are told, everything in memory goes. Returns the number of messages.
    pub fn delete(&mut self, effects: &mut Effects) -> u64 {
        let messages = self.ready.messages;
        self.state = QueueState::Deleted;
        self.is_closed = true;
        self.dead = DeadLetters::default();
        self.pending.clear();
        self.pending_length = Length::default();
        self.stop(effects);
        messages
    }

    /// The queue cannot go on; its consumers are cancelled and every later call is refused. A deleted one stays so.
    /// What the log was given before is still applied when it is durable: a retirement asks for a state that reflects
    /// it, and would wait for ever.
    pub fn fail(&mut self, reason: String, effects: &mut Effects) {
        if self.state == QueueState::Deleted {
            return;
        }
        if self.state == QueueState::Running {
            self.lose_volatile();
        }
        self.state = QueueState::Failed(reason);
        self.dead.forget_bodies();
        self.stop(effects);
    }

    /// Volatile messages are nowhere but in memory, which goes: they must not be among those that a checkpoint calls
    /// alive.
    fn lose_volatile(&mut self) {
        let mut lost = Vec::new();
        for (first, held) in self.contents.volatile() {
            for at in (0..held.count).filter(|at| self.ledger.is_live(first + u64::from(*at))) {
                lost.push((first + u64::from(at), u64::from(held.batch.body_length((held.index + at) as usize))));
            }
        }
        for (number, bytes) in lost {
            if number >= self.cursor || self.returned.remove(number) {
                self.ready.messages -= 1;
                self.ready.bytes -= bytes;
            }
            self.depart(number, number, bytes, Outcome::Dropped);
        }
    }

    fn stop(&mut self, effects: &mut Effects) {
        self.consumers.cancel_all(effects);
        for (link, key) in self.get_waiters.drain(..) {
            effects.signals.push((link, Signal::Loaded(key)));
        }
        self.contents.clear();
        self.disk_wait = None;
    }
}
