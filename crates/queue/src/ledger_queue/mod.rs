//! A queue whose messages leave when they are settled: ledger and dispatcher behind one lock. Classic and
//! quorum queues are such, each with [`Rules`] of its own.
//!
//! The caller holds the lock, appends the messages that [`LedgerQueue::submit`] accepted to the log, and reports the
//! position with [`LedgerQueue::submitted`]; [`LedgerQueue::apply`] is idempotent and in order.

mod activity;
mod annotate;
mod aside;
mod checkpoint;
mod close;
mod configure;
mod consume;
mod convert;
mod credit;
mod delay;
mod die;
mod dispatch;
mod end;
mod expire;
mod fetch;
mod get;
mod loading;
mod mark;
mod overflow;
mod pace;
mod park;
mod peek;
mod ready;
mod rules;
mod seek;
mod send_on;
mod settle;
mod shown;
mod transfer;

use std::sync::Arc;

use leveret_message::BatchPart;
use leveret_model::QueueOptions;

pub use self::consume::Earlier;
use self::mark::DeliveredMark;
use self::ready::ReadyMessages;
use self::rules::Rules;
use crate::annotations::Annotations;
use crate::answers::{QueueState, Submission};
use crate::attempts::Attempts;
use crate::contents::{BEHIND_BYTES, Contents, Demand, HeldBatch};
use crate::counts::{Count, QueueCounts};
use crate::dead_letter::DeadLetters;
use crate::dispatch::{Consumers, SingleActive};
use crate::effects::Effects;
use crate::ledger::{Departure, Ledger};
use crate::limits::{Excess, Refusals};
use crate::nanos::Nanos;
use crate::number_set::NumberSet;
use crate::pending::{Awaited, Pending, PendingMessages, Place, Placement, Watermarks};
use crate::publishers::{HeldPublishers, Pacing};
use crate::reads::StoredReads;
use crate::repeats::{Offered, Repeats};
use crate::replica::{Parts, Replica};
use crate::set_aside::{Deferred, Delayed, Parked};
use crate::shared::References;
use crate::surroundings::Surroundings;
use crate::timing::{Clock, Expiry};
use crate::wait::WaitReason;

/// A queue of ledger and dispatcher.
pub struct LedgerQueue {
    options: QueueOptions,
    rules: Rules,
    /// Whether its persistent messages are logged.
    durable: bool,
    state: QueueState,
    /// See [`Surroundings::strict_compat`].
    strict_compat: bool,
    /// See [`Surroundings::standing_delay_target`].
    standing_delay_target: Nanos,
    /// The pacing of its publishers; `None` if consumers take nothing.
    pacing: Option<Box<Pacing>>,
    /// Whether its deletion is on its way to disk.
    is_closed: bool,
    pending: PendingMessages,
    ledger: Ledger,
    ready: ReadyMessages,
    contents: Contents,
    reads: StoredReads,
    consumers: Consumers,
    attempts: Attempts,
    /// Dead letters that wait, and whose rejection doesn't count as a failed delivery. A restart forgets them.
    spared: NumberSet,
    /// Number of ready messages that are on their way to other queues at the request of an operator.
    claimed: u64,
    parked: Parked,
    delayed: Delayed,
    /// Earlier messages, if it drops those that are sent again.
    repeats: Option<Box<Repeats>>,
    /// The delayed ones that can be fetched by a token.
    deferred: Deferred,
    annotations: Annotations,
    clock: Clock,
    /// The messages that are stored in the shared log.
    references: References,
    /// Messages on their way to the dead-letter exchange.
    dead: DeadLetters,
    /// Time when it last became empty.
    emptied: Nanos,
    /// Time of the last change of its consumers, or of the reason that holds them all back.
    changed: Nanos,
    refusals: Refusals,
    /// Whether more messages exceed its limits than it dropped so far, and its timers have to go on.
    excess: Excess,
    held_publishers: HeldPublishers,
    counts: QueueCounts,
    /// Of a replicated queue.
    mark: Option<Box<DeliveredMark>>,
}

impl LedgerQueue {
    /// A queue that begins with this replica. If `durable`, its persistent messages are logged.
    pub fn new(options: QueueOptions, durable: bool, replica: Replica, surroundings: Surroundings, now: Nanos) -> Self {
        let Replica { mut ledger, delivered_below, parts, first_chunk: _ } = replica;
        #[rustfmt::skip]
        let Parts {
            expiry, references, attempts, parked, mut delayed, annotations, dying, mut priorities, repeats, stream: _,
            delivered_below: _,
            active: _,
        } = parts;
        let Surroundings { budget, epoch, strict_compat, standing_delay_target } = surroundings;
        let rules = Rules::of(&options);
        if !rules.delays {
            delayed = Delayed::default();
        }
        let repeats = Repeats::of(&options, repeats, ledger.next());
        if rules.remembers {
            priorities.0.clear();
        }
        let priorities = rules.priorities.map(|levels| (levels, priorities.0));
        let single_active = options.single_active_consumer.then(|| SingleActive::new(rules.replaces_active));
        let dying = dying.runs();
        for run in &dying {
            ledger.settle(run.first, run.last, run.bytes, Departure::DeadLettered);
        }
        ledger.start_counting();
        let expiry = if rules.releases || rules.remembers { Expiry::default() } else { expiry };
        let mut clock = Clock::new(&options, epoch, expiry, now);
        if rules.releases {
            delay::delay_others(&ledger, &mut delayed);
        } else {
            if !ledger.is_empty() {
                clock.recovered((ledger.low(), ledger.next() - 1), now);
            }
            // Messages that came due while nothing ran are in their places.
            while delayed.pop_due(clock.wall_ms(now)).is_some() {}
        }
        let deferred = Deferred::recovered(&annotations, &delayed);
        let set_aside = parked.numbers().chain(delayed.iter().map(|(number, _)| number));
        // Dying ones have left the ledger, but their priorities are there.
        let set_aside = set_aside.chain(dying.iter().flat_map(|run| run.first..=run.last));
        let aside = parked.length() + delayed.length();
        let mut ready = ReadyMessages::new(&ledger, delivered_below, priorities, (set_aside, aside));
        if rules.returns_in_place {
            ready.keep_places();
        }
        if !rules.logs_attempts {
            ready.hide_attempts();
        }
        let mut contents = Contents::new(budget);
        if !ledger.is_empty() {
            contents.spilled_from = Some(0);
        }
        Self {
            clock,
            rules,
            options,
            durable,
            state: QueueState::Running,
            strict_compat,
            standing_delay_target,
            pacing: None,
            is_closed: false,
            pending: PendingMessages::new(ledger.next()),
            ready,
            ledger,
            contents,
            reads: StoredReads::default(),
            consumers: Consumers::new(single_active),
            attempts,
            spared: NumberSet::default(),
            claimed: 0,
            parked,
            delayed,
            repeats,
            deferred,
            annotations,
            references,
            dead: DeadLetters::recovered(dying, now),
            emptied: now,
            changed: now,
            refusals: Refusals::default(),
            excess: Excess::default(),
            held_publishers: HeldPublishers::default(),
            counts: QueueCounts::default(),
            mark: None,
        }
    }

    /// Whether it is running, failed or deleted.
    pub fn state(&self) -> &QueueState {
        &self.state
    }

    /// Number of ready messages.
    pub fn ready(&self) -> u64 {
        self.ready.messages()
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// The consumers, as they were added.
    pub fn consumers(&self) -> impl Iterator<Item = (crate::ConsumerId, &crate::ConsumerOptions)> {
        self.consumers.options()
    }

    /// See [`crate::Queue::pending_place`].
    pub fn pending_place(&self) -> Option<Place> {
        self.pending.last_place().map_or(Some(Place::NOTHING), Awaited::place)
    }

    /// Whether messages were submitted that aren't applied.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether unapplied messages are part of a group: later ones have to be durable then.
    pub fn awaits_group(&self) -> bool {
        self.pending.awaits_group()
    }

    /// The messages that are stored in the shared log.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// The references, to be changed under the lock under which the corresponding record was appended.
    pub fn references_mut(&mut self) -> &mut References {
        &mut self.references
    }

    /// A publisher is held back for this reason.
    pub fn publisher_held(&mut self, reason: WaitReason, now: Nanos) {
        self.held_publishers.hold(reason, now);
    }

    /// A publisher that was held back for this reason continues.
    pub fn publisher_released(&mut self, reason: WaitReason) {
        self.held_publishers.release(reason);
    }

    /// Phase one: validates and reserves numbers.
    pub fn submit(&mut self, part: BatchPart<'_>, now: Nanos) -> Option<Submission> {
        if self.is_closed {
            return None;
        }
        if self.state != QueueState::Running {
            return Some(Submission { first: self.pending.reserve(0), accepted: 0 });
        }
        self.count(Count::Publish, u64::from(part.count), now);
        let accepted = self.has_room_for(part);
        self.refusals.note(part.count - accepted, now);
        let first = self.pending.reserve(accepted);
        Some(Submission { first, accepted })
    }

    /// The places of those offered messages that weren't sent before; `None` if it drops none.
    pub fn fresh(&mut self, offered: &[Option<Offered>]) -> Option<Vec<u32>> {
        self.repeats.as_mut().map(|repeats| repeats.fresh(offered, self.ledger.next()))
    }

    /// Notes by what messages that were submitted are compared, from number `first` on.
    pub fn note_offered(&mut self, first: u64, offered: impl Iterator<Item = Option<Offered>>, durable: bool) {
        if let Some(repeats) = &mut self.repeats {
            let offered = (first..).zip(offered).filter_map(|(number, offered)| Some((number, offered?)));
            offered.for_each(|(number, offered)| repeats.note(number, offered, durable, self.ledger.next()));
        }
    }

    /// Whether memory for volatile messages is used up: messages that can be logged have to be, and become durable.
    pub fn spills_volatile(&self) -> bool {
        self.contents.is_volatile_full()
    }

    /// Sets the place of accepted messages, the first ones of a part.
    pub fn submitted(
        &mut self,
        submission: Submission,
        part: BatchPart<'_>,
        placement: Placement<'_>,
        submitted: Nanos,
        effects: &mut Effects,
    ) {
        let Submission { first, accepted: count } = submission;
        if count == 0 {
            return;
        }
        let durable = !matches!(placement, Placement::Volatile);
        let place = match placement {
            Placement::At(place) => Awaited::At(place),
            Placement::In(group) => Awaited::Group(group.clone()),
            Placement::Volatile => self.pending.last_place().cloned().unwrap_or(Awaited::At(Place::NOTHING)),
        };
        let part = part.first(count);
        let (batch, index) = (part.batch.clone(), part.index);
        let bytes = batch.body_bytes(index as usize, count as usize);
        let delayed = if durable { self.delays_of(part, submitted) } else { Vec::new() };
        let awaited = self.awaited_on_disk(count - delayed.len() as u32);
        let pending = Pending { place, first, batch, index, count, bytes, awaited, durable, submitted, delayed };
        if self.pending.is_empty() && pending.place.is_reached(Watermarks::default()) {
            self.admit(pending);
            self.after_growth(effects);
            return;
        }
        self.pending.push(pending);
    }

    /// Phase two: all written messages become part of the queue; those of a group have to be durable.
    pub fn apply(&mut self, reached: Watermarks, effects: &mut Effects) {
        let mut grew = false;
        self.pending.begin(reached);
        while let Some(pending) = self.pending.pop_reached(reached) {
            self.admit(pending);
            grew = true;
        }
        if grew {
            self.after_growth(effects);
        }
        self.apply_mark(reached, effects);
    }

    fn admit(&mut self, pending: Pending) {
        let Pending { first, ref batch, index, count, bytes, durable, .. } = pending;
        let is_running = self.state == QueueState::Running;
        if !is_running && !durable {
            return;
        }
        self.ledger.accept(first, u64::from(count), bytes);
        self.ready.grow(u64::from(count), bytes);
        if batch.any_priority() && self.ready.has_priorities() && !self.rules.remembers {
            for at in 0..count {
                if let Some(priority) = batch.priority((index + at) as usize) {
                    self.ready.prioritize(first + u64::from(at), priority);
                }
            }
        }
        if batch.any_failures() {
            for at in 0..count {
                match batch.failures((index + at) as usize) {
                    0 => {}
                    failed => self.attempts.begin_at(first + u64::from(at), failed),
                }
            }
        }
        if !(self.rules.releases || self.rules.remembers) {
            self.clock.note(first, BatchPart::of(batch, index, count), pending.is_awaited(), &self.ledger);
        }
        let parts = self.delay_new(&pending);
        if !is_running {
            return;
        }
        let submitted = pending.submitted;
        match parts {
            None => self.hold_in_memory(first, HeldBatch::new(pending.batch, index, count, durable, submitted)),
            Some(parts) => {
                for (first, batch) in parts {
                    let count = batch.len() as u32;
                    self.hold_in_memory(first, HeldBatch::new(Arc::new(batch), 0, count, durable, submitted));
                }
            }
        }
    }

    fn hold_in_memory(&mut self, first: u64, held: HeldBatch) {
        let consumers = &self.consumers;
        let demand = || match consumers.len() {
            0 => Demand::Nobody,
            _ if consumers.any_able() => Demand::Now,
            _ => Demand::Later,
        };
        self.contents.admit(first, held, demand);
    }

    /// Whether its consumers could take messages that have left memory, or many that haven't.
    pub fn is_behind(&self) -> bool {
        match self.contents.spilled_from {
            Some(_) => self.reads.blocked_since().is_some() || self.consumers.any_scheduled(),
            None => self.contents.bytes() > BEHIND_BYTES && self.consumers.any_scheduled(),
        }
    }

    fn after_growth(&mut self, effects: &mut Effects) {
        if self.state != QueueState::Running {
            return;
        }
        // Consumers first: messages given to them don't count against a limit, and can't have expired.
        self.schedule(effects);
        self.drop_excess(effects);
        self.expire_momentary(effects);
    }

    fn schedule(&mut self, effects: &mut Effects) {
        if self.reads.blocked_since().is_none() && self.state == QueueState::Running {
            self.consumers.schedule(self.ready.messages(), effects);
        }
        self.schedule_seekers(effects);
        if self.consumers.any_idle_fetchers() && self.state == QueueState::Running {
            self.consumers.schedule_fetchers(effects);
        }
        self.finish_drains(effects);
        self.expire_unawaited(effects);
    }

    /// Counts `count` more, before the queue's lengths change by it.
    fn count(&mut self, what: Count, count: u64, now: Nanos) {
        self.counts.add(what, count, self.lengths(), now);
    }

    /// Numbers of ready and unacknowledged messages.
    fn lengths(&self) -> [u64; 2] {
        [self.ready.messages(), self.ready.unacknowledged().messages]
    }
}
