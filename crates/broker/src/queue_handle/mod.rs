//! A queue as used by the rest of the broker: by calls, never by its lock guard.
//!
//! Each call takes the queue's lock once and, under it, appends records of durable changes to the log, so that log order is
//! queue order. It releases the lock, and then sends signals. A panic under the lock marks the queue failed until it is rebuilt
//! from its log.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use leveret_log::{JointRecord, LogId, SettleReason, Wait};
use leveret_message::{Added, Batch, BatchPart, Reason as Death};
use leveret_model::{Durability, EffectiveQueue, Overflow, Queue as QueueInfo, QueueType};
use leveret_queue::shared::{SharedPlace, encode_reference};
use leveret_queue::{
    ConsumerId, ConsumerOptions, CreditState, Deliveries, Departure, Earlier, Effects, Flow, GetOutcome, LatestPlace,
    LedgerQueue, Link, Place, Placement, Portion, PublishSlot, Queue, QueueState, RareEffects, Rejection, Replica, Run,
    Scan, Signal, StoredRead, StreamQueue, Surroundings, Taken, TurnEnd, Unsent, WaitReason, Watermarks, push_run,
};
use parking_lot::Mutex;

use crate::asked::{NowOrLater, later_or};
use crate::bodies::BodyOwner;
use crate::deferred::Deferred;
use crate::gathering::ReadOwner;
use crate::held_messages::Held;
use crate::log_lines::category;
use crate::moves;
use crate::outbox::Outbox;
use crate::planted::{Bug, is_planted};
use crate::published::{NotTaken, PublishedHere};
use crate::queue_metrics::OwnPlace;
use crate::reads::{ChunksFor, MessagesFor, Purpose, Reads};
use crate::records::reason_of;
use crate::replicas::queue_of;
use crate::services::Services;
use crate::shared_messages::SharedMessages;
use crate::streams::{Apply, CarriedOut, LateStream, Record, StoreRef};
use crate::taps::Taps;
use crate::ticket::{Awaited, Ticket};
use crate::time::Nanos;
use crate::wait_for::WaitFor;

mod checkpoint;
mod chunks;
mod convert;
mod deduplicated;
mod end;
mod groups;
mod ledger_ref;
mod logged;
mod policies;
mod queue_ref;
mod removal;
mod replicated;
mod set_aside;
mod shown;
mod spread;
mod stream_ref;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;

pub use crate::moves::Reason;
pub(crate) use crate::moves::Waiting;
pub use crate::offered_chunk::Numbered;
pub use crate::published::{Acceptance, Audience, Fate, Published, RefusalReason, RefusedPublish};
pub use crate::questions::{
    Aside, Ask, ConsumerState, CountOf, Counts, HeadTimestamp, KeptOffsetOf, ParkedEnds, Peek, PeekAside, QueueAnswer,
    QueueQuestion, ReadyEnds, RunState, Search, SetAsideOf, Size, Status, StreamEnd, StreamEnds, WriterSequence,
};
pub use crate::queue_stream::QueueStream;
pub(crate) use checkpoint::LiveAnswer;
pub(crate) use convert::{Successor, Unconverted};
pub use groups::PublishedIn;
pub use ledger_ref::LedgerQueueRef;
pub use leveret_queue::NoConsumer;
pub(crate) use queue_ref::{Kept, crashed};
pub use queue_ref::{QueueKey, QueueRef, StreamOf};
pub(crate) use removal::Removal;
pub use removal::Removed;
pub use stream_ref::StreamQueueRef;

/// Maximum number of runs in one record of the log, so that it doesn't exceed the largest record.
pub const RECORD_RUNS_MAX: usize = 4096;

/// A queue on this node. Everything outside knows it by a [`QueueRef`].
pub(crate) struct QueueHandle {
    info: Arc<QueueInfo>,
    /// Its effective arguments, by its declaration and the policies that apply. Written under its lock.
    effective: ArcSwap<EffectiveQueue>,
    /// Whether it dead-letters what it refuses, or did before.
    copies_refused: AtomicBool,
    /// Whether messages of this stream are taken one by one.
    decodes_chunks: AtomicBool,
    log_id: LogId,
    inner: Mutex<Queue>,
    /// Place of the queue's last record, or of the end of the replay at recovery; written under its lock. If a checkpoint named
    /// an earlier place, settles would be replayed that its state already contains.
    last_record: LatestPlace,
    durability: Durability,
    /// The stream that its records are appended to.
    stream: QueueStream,
    /// The log that has its messages.
    store: StoreRef,
    pub(crate) reads: Arc<Reads>,
    deferred: Arc<Deferred>,
    shared: Arc<SharedMessages>,
    taps: Arc<Taps>,
    /// Whether it is in the list of its home core.
    is_deferred: AtomicBool,
    /// The stream that says later what became of publishes, see [`crate::Settings::answers_late`].
    late: Option<Arc<LateStream>>,
    moves: moves::Moves,
    deleted_messages: AtomicU64,
    /// The ticket of its deletion, once it is closed; written under its lock.
    closed_at: Mutex<Ticket>,
    /// Its entry for gauges, which are written under its lock and read without it.
    place: OwnPlace,
    /// Links that publish to the queue by its name: like consumers, they are notified when it is gone.
    watchers: Mutex<BTreeMap<u64, Arc<dyn Link>>>,
    /// The handle that it was converted to; written under its lock.
    successor: OnceLock<LocalQueue>,
    /// The replicated queue that it was made; written under its lock.
    spread_to: OnceLock<Box<spread::SpreadTo>>,
    /// Whether messages are never stored in the shared log from now on; written under its lock.
    shares_nothing: AtomicBool,
}

/// A queue on this node, shared.
pub(crate) type LocalQueue = Arc<QueueHandle>;

impl QueueHandle {
    /// Creates a queue of the type that it was declared with, which begins with this replica.
    pub(crate) fn open(
        info: Arc<QueueInfo>,
        effective: EffectiveQueue,
        replica: Replica,
        services: &Services,
        now: Nanos,
    ) -> LocalQueue {
        services.shared.restore(&replica.parts.references);
        // Messages from before a restart may exist although new ones aren't logged.
        let is_logged = info.durability(services.durability) != Durability::Memory || !replica.ledger.is_empty();
        let surroundings = Self::surroundings(services);
        let queue = Queue::new(effective.options(&info).clone(), is_logged, replica, surroundings, now);
        let log = services.streams.of(&info);
        let at = (QueueStream::Log(log.clone()), log as StoreRef);
        Self::with_machine(info, effective, queue, services, at)
    }

    fn surroundings(services: &Services) -> Surroundings {
        Surroundings {
            budget: services.budget.clone(),
            epoch: services.epoch.clone(),
            strict_compat: services.strict_compat,
            standing_delay_target: services.standing_delay_target,
        }
    }

    fn with_machine(
        info: Arc<QueueInfo>,
        effective: EffectiveQueue,
        queue: Queue,
        services: &Services,
        (stream, store): (QueueStream, StoreRef),
    ) -> LocalQueue {
        let log_id = LogId(info.id.0);
        let Services { reads, deferred, shared, taps, .. } = services.clone();
        let late = services.late.get(usize::from(store.id().0)).cloned();
        let durability = info.durability(services.durability);
        if durability == Durability::Os {
            stream.defer_syncs();
        }
        let place = services.metrics.place(durability);
        place.write(&queue.gauges());
        Arc::new(Self {
            durability,
            place,
            copies_refused: AtomicBool::new(effective.options(&info).overflow == Overflow::RejectPublishDlx),
            decodes_chunks: AtomicBool::new(false),
            info,
            effective: ArcSwap::from_pointee(effective),
            log_id,
            inner: Mutex::new(queue),
            last_record: LatestPlace::new(stream.watermarks().durable),
            stream,
            store,
            reads,
            deferred,
            shared,
            taps,
            is_deferred: AtomicBool::new(false),
            late,
            moves: moves::Moves::default(),
            deleted_messages: AtomicU64::new(0),
            closed_at: Mutex::default(),
            watchers: Mutex::default(),
            successor: OnceLock::new(),
            spread_to: OnceLock::new(),
            shares_nothing: AtomicBool::new(false),
        })
    }

    /// Its declaration.
    pub(crate) fn info(&self) -> &Arc<QueueInfo> {
        &self.info
    }

    /// The commit stream that it belongs to.
    pub(crate) fn stream(&self) -> &QueueStream {
        &self.stream
    }

    /// The log of the disk that has its messages.
    pub(crate) fn store(&self) -> &StoreRef {
        &self.store
    }

    /// Its log.
    pub(crate) fn log_id(&self) -> LogId {
        self.log_id
    }

    /// The meaning of a confirm.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether it keeps messages on disk that aren't persistent, too.
    fn is_always_persistent(&self) -> bool {
        self.info.queue_type != QueueType::Classic
    }

    /// Whether it is a stream.
    #[inline]
    pub(crate) fn is_stream(&self) -> bool {
        self.info.queue_type == QueueType::Stream
    }

    /// Whether it delivers by priority, so that records have to say it.
    fn has_priorities(&self) -> bool {
        self.info.queue_type == QueueType::Quorum || self.info.options.max_priority.is_some()
    }

    /// Whether its persistent messages are logged.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability != Durability::Memory
    }

    /// Whether any of its messages are stored in this log.
    pub(crate) fn reads_from(&self, log: LogId) -> bool {
        queue_of(log) == self.log_id || log == LogId::SHARED && !self.look(|queue| queue.references().is_empty())
    }

    /// The location of the first message from `number` on that is in the shared log.
    pub(crate) fn shared_place(&self, number: u64) -> Option<SharedPlace> {
        self.look(|queue| queue.references().place(number))
    }

    /// See [`leveret_queue::References::split`].
    pub(crate) fn split_by_log(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64, Option<u64>)> {
        self.look(|queue| queue.references().split(runs))
    }

    /// Whether the queue has this message and it is stored in the shared log.
    pub(crate) fn holds_shared(&self, number: u64) -> bool {
        self.look(|queue| queue.references().holds(number))
    }

    /// Logs effects that few calls have.
    #[cold]
    fn log_rare(&self, queue: &mut Queue, rare: &RareEffects) {
        let RareEffects { drops, expired, over_limit, .. } = rare;
        let gone =
            [(drops, SettleReason::Dropped), (expired, SettleReason::Expired), (over_limit, SettleReason::Dropped)];
        for (runs, reason) in gone {
            self.log_settles(queue, runs, reason, Wait::Lazy);
        }
        self.log_annotated(&rare.annotated, Wait::Lazy);
        self.log_attempts(&rare.attempts);
        if self.stream.has_room() {
            self.log_attempts(&rare.returns);
        }
        self.log_parked(&rare.parked);
        self.log_delayed(&rare.delayed, Wait::Lazy);
        self.log_dying(&rare.dying);
        self.log_offsets(queue, &rare.offsets);
        if let Some(below) = rare.deliver_below {
            self.log_mark(queue, below);
        }
        if let Some(id) = rare.activate {
            self.log_active(queue, id);
        }
    }

    /// Carries out effects that few calls have, without the lock.
    #[cold]
    fn carry_out(self: &Arc<Self>, rare: RareEffects) {
        self.count_dropped(Death::MaxLen, &rare.drops);
        self.count_dropped(Death::Expired, &rare.expired);
        self.count_dropped(Death::DeliveryLimit, &rare.over_limit);
        for (reader, from) in rare.own_reads {
            let purpose = match self.is_stream() {
                true => Purpose::Chunks(ChunksFor::Reader(reader)),
                false => Purpose::Messages(MessagesFor::Own(reader)),
            };
            self.reads.request(self.clone(), from, purpose);
        }
        if let Some(from) = rare.read_dead {
            self.reads.request(self.clone(), from, Purpose::Messages(MessagesFor::DeadLetters(rare.dead_numbers)));
        }
        if !rare.ended.is_empty() {
            self.deferred.tell(self, rare.ended);
        }
        if rare.deliver_below.is_some() || rare.activate.is_some() {
            self.go_on_at_mark();
        }
    }

    /// Runs `call` under the lock, logs dropped and settled messages, and fires its effects. If the queue fails by it,
    /// everything that waits for the queue is notified. `None` if the queue panicked.
    fn with<R>(self: &Arc<Self>, call: impl FnOnce(&mut Queue, &mut Effects) -> R) -> Option<R> {
        let mut effects = Effects::default();
        let (result, fails) = {
            let mut queue = self.inner.lock();
            let had_failed = has_failed(&queue);
            let result = catch_unwind(AssertUnwindSafe(|| {
                let result = call(&mut queue, &mut effects);
                if !effects.settled.is_empty() {
                    self.log_settles(&mut queue, &effects.settled, SettleReason::Acknowledged, Wait::Lazy);
                }
                if let Some(rare) = effects.rare() {
                    self.log_rare(&mut queue, rare);
                }
                effects.deadlines = queue.announce_deadlines();
                result
            }));
            if result.is_err() {
                tracing::error!(target: category::QUEUE, queue = %self.info.name, "queue panicked and stays stopped until restart");
                effects = Effects::default();
                queue.fail("internal error".into(), &mut effects);
            }
            if !had_failed && let QueueState::Failed(reason) = queue.state() {
                tracing::error!(target: category::QUEUE, queue = %self.info.name, reason, "queue failed");
            }
            self.place.write(&queue.gauges());
            (result, !had_failed && has_failed(&queue))
        };
        if fails {
            self.fail_moves();
            self.tell_watchers();
            self.reads.dead_letters_left();
        }
        effects.fire();
        if let Some((from, numbers)) = effects.take_read() {
            self.reads.request(self.clone(), from, Purpose::Messages(MessagesFor::Delivery(numbers)));
        }
        if !effects.deadlines.is_none() {
            self.deferred.at(effects.deadlines, self);
        }
        if let Some(rare) = effects.take_rare() {
            self.carry_out(*rare);
        }
        if effects.dead_letters && !self.is_deferred.swap(true, Ordering::AcqRel) {
            self.deferred.request(self);
        }
        result.ok()
    }

    /// As [`QueueHandle::with`], for calls that streams lack: `None` for a stream, too.
    fn with_ledger<R>(self: &Arc<Self>, call: impl FnOnce(&mut LedgerQueue, &mut Effects) -> R) -> Option<R> {
        self.with(|queue, effects| Some(call(queue.ledger_mut()?, effects))).flatten()
    }

    /// As [`QueueHandle::with`], for calls that only streams have: `None` for another queue, too.
    fn with_stream<R>(self: &Arc<Self>, call: impl FnOnce(&mut StreamQueue, &mut Effects) -> R) -> Option<R> {
        self.with(|queue, effects| Some(call(queue.stream_mut()?, effects))).flatten()
    }

    /// As [`QueueHandle::with`], on the queue that this one was converted to, if it was. Whoever found the queue before may call it
    /// at any moment of the conversion, so this is decided under the lock. The call is passed the handle that it runs on.
    fn with_newest<R>(self: &Arc<Self>, call: impl FnOnce(&Arc<Self>, &mut Queue, &mut Effects) -> R) -> Option<R> {
        let (mut handle, mut call) = (self.clone(), Some(call));
        loop {
            let result = handle.with(|queue, effects| {
                let call = call.take_if(|_| handle.successor().is_none())?;
                Some(call(&handle, queue, effects))
            });
            match handle.successor().cloned() {
                Some(successor) if call.is_some() => handle = successor,
                _ => return result.flatten(),
            }
        }
    }

    /// Looks at the queue, or at the one that it was converted to.
    fn look<R>(&self, look: impl FnOnce(&Queue) -> R) -> R {
        let queue = self.inner.lock();
        match self.successor() {
            None => look(&queue),
            Some(successor) => {
                drop(queue);
                successor.look(look)
            }
        }
    }

    /// Counts messages that died without a dead-letter exchange.
    fn count_dropped(&self, death: Death, runs: &[Run]) {
        // A message that is rejected stays in a stream.
        let stays = death == Death::Rejected && self.is_stream();
        if !runs.is_empty() && !stays {
            self.place.metrics().dropped.add(self.info.queue_type, death, runs.iter().map(Run::count).sum());
        }
    }

    /// Offers these messages. A batch in the shared log is stored there from its number on, for
    /// this queue among others.
    pub(crate) fn publish(
        self: &Arc<Self>,
        part: BatchPart<'_>,
        persistent: bool,
        audience: Audience,
        now: Nanos,
    ) -> PublishedHere {
        if self.is_stream() {
            return self.publish_as_chunk(part, now);
        }
        let (offered, count) = (part, part.count);
        let persistent_as_offered = persistent;
        let persistent = persistent || self.is_always_persistent();
        let shared = match audience {
            Audience::Alone => None,
            Audience::Several(shared) | Audience::Unpaced(shared) => shared,
        };
        let held = crate::held_messages::held(&self.info, part);
        if let Some(Held { batch: once, compared: Some(compared) }) = &held {
            return self.publish_once(offered, (once, compared), persistent_as_offered, audience, now);
        }
        let part = held.as_ref().map_or(part, |held| BatchPart::whole(&held.batch));
        let is_shared = persistent && self.is_durable() && held.is_none();
        let shared = shared.filter(|_| is_shared).map(|first| first + u64::from(part.index));
        let mut referred = 0;
        let published = self.with(|queue, effects| {
            let mut shared = shared;
            if self.shares_nothing.load(Ordering::Relaxed) {
                if part.batch.has_files() {
                    // Its route was found before: it has a body that lies there alone.
                    return Some(PublishedHere::none());
                }
                shared = None;
            }
            let Some(submission) = queue.ledger_mut()?.submit(part, now) else {
                // It was routed before the deletion was known: it counts as published later, when it would have found no queue.
                let awaited = Awaited::durable(*self.closed_at.lock());
                return Some(PublishedHere { accepted: count, awaited, is_gone: true, ..PublishedHere::none() });
            };
            if submission.accepted == 0 {
                return Some(PublishedHere::none());
            }
            let is_logged = self.is_durable() && (persistent || self.spills(queue, part.first(submission.accepted)));
            let written = self.durability == Durability::Os && !queue.awaits_group();
            let wait = if written { Wait::Written } else { Wait::Confirm };
            let place = is_logged.then(|| {
                let (log, first, part) = (self.log_id, submission.first, part.first(submission.accepted));
                let ticket = match shared.zip(self.stream.log()) {
                    None => self.stream.append(Record::Messages { log, first, part, instead: None }, wait),
                    Some((shared, to)) => {
                        let payload = &encode_reference(part, shared, self.has_priorities());
                        let messages = u16::try_from(part.count).expect("a batch holds fewer messages");
                        queue.references_mut().add(first, u64::from(part.count), shared);
                        referred = part.count;
                        to.append_references(&JointRecord { log, first, messages, payload }, wait)
                    }
                };
                self.last_record.set(ticket.place());
                ticket.place()
            });
            let placement = place.map_or(Placement::Volatile, Placement::At);
            queue.ledger_mut()?.submitted(submission, part, placement, now, effects);
            if is_planted(Bug::ApplyBeforeDurable) {
                queue.apply(Watermarks::synced(Place::new(u64::MAX)), effects);
            }
            // A volatile message waits for the durable ones before it.
            let ticket = self.pending_ticket(queue);
            let awaited = if written { Awaited::written(ticket) } else { Awaited::durable(ticket) };
            let ledger = queue.ledger_mut()?;
            let (accepted, is_behind) = (submission.accepted, ledger.is_behind());
            ledger.arrived(accepted, now);
            let slot = match audience {
                Audience::Alone | Audience::Several(_) => ledger.slot(accepted, now),
                Audience::Unpaced(_) => PublishSlot::default(),
            };
            Some(PublishedHere { accepted, awaited, is_behind, is_gone: false, slot })
        });
        let published = published.flatten().unwrap_or_else(PublishedHere::none);
        if published.is_gone
            && let Some(successor) = self.successor()
        {
            return successor.publish(offered, persistent_as_offered, audience, now);
        }
        if let Some(first) = shared.filter(|_| referred < count) {
            self.shared.release(first + u64::from(referred), first + u64::from(count) - 1);
        }
        self.dead_letter_refused(part.behind(published.accepted));
        published
    }

    /// The ticket that the queue's last message waits for. An open group has none yet, but the queue's last record is behind the
    /// group's first one, and so isn't reached before the group is.
    #[inline]
    fn pending_ticket(&self, queue: &Queue) -> Ticket {
        Ticket::new(self.stream.id(), queue.pending_place().unwrap_or_else(|| self.last_record.get()))
    }

    /// Whether there is no memory for these transient messages, so that they are logged like persistent ones. Large ones are
    /// excluded: they would need body files, and stay in memory.
    fn spills(&self, queue: &Queue, part: BatchPart<'_>) -> bool {
        let is_small = |at: u32| {
            let length = part.batch.message(at as usize).large.map_or(0, |body| body.len());
            length < self.shared.body_file_from()
        };
        queue.ledger().is_some_and(LedgerQueue::spills_volatile) && part.indexes().all(is_small)
    }

    /// Applies all messages that are durable, or written if that is enough for this queue.
    pub(crate) fn apply(self: &Arc<Self>) {
        let reached = self.stream.progress();
        self.with(|queue, effects| match self.durability {
            Durability::Os => queue.apply(reached, effects),
            Durability::Synced | Durability::Memory => queue.apply(Watermarks::synced(reached.durable), effects),
        });
        // The messages that its publishers wait for are there now.
        if let Some(successor) = self.successor() {
            successor.apply();
        }
    }

    /// See [`Queue::take`].
    pub(crate) fn take(self: &Arc<Self>, id: ConsumerId, most: Portion, now: Nanos, out: &mut Vec<Taken>) -> TurnEnd {
        self.with(|queue, effects| queue.take(id, most, now, out, effects)).unwrap_or(TurnEnd::Done)
    }

    /// See [`leveret_queue::LedgerQueue::get`].
    pub(crate) fn get(self: &Arc<Self>, automatic_ack: bool, link: &Arc<dyn Link>, key: u64, now: Nanos) -> GetOutcome {
        let got = self.with_ledger(|queue, effects| match self.successor() {
            Some(_) => GetOutcome::Converted,
            None if self.spread_to.get().is_some() => GetOutcome::Converted,
            None if let QueueState::Failed(reason) = queue.state() => GetOutcome::Failed(reason.clone()),
            None => queue.get(automatic_ack, link, key, now, effects),
        });
        got.unwrap_or(GetOutcome::Empty)
    }

    /// The same, and shows the message to taps.
    pub(crate) fn get_tapped(
        self: &Arc<Self>,
        automatic_ack: bool,
        link: &Arc<dyn Link>,
        key: u64,
        now: Nanos,
    ) -> GetOutcome {
        if self.stream.placement().is_some_and(|placement| !placement.may_get(link, key, now)) {
            return GetOutcome::Wait;
        }
        self.taps.got(&self.info, self.get(automatic_ack, link, key, now), now)
    }

    /// Removes messages for good. This takes effect at once, and becomes durable with the log's lazy flush or as soon as
    /// possible. Rejected messages are [dismissed](Self::dismiss) instead. Returns the ticket to wait for; `None` if nothing was logged.
    pub(crate) fn settle(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        outcome: Departure,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        self.with(|queue, effects| {
            queue.settle(deliveries, outcome, now, effects);
            self.log_settles(queue, deliveries.runs, reason_of(outcome), wait)
        })
        .flatten()
    }

    /// Drops rejected messages, as [`QueueHandle::settle`] removes them: they go to the dead-letter exchange, if the queue has one; if
    /// the queue failed, after a restart. `failed` counts their deliveries as failed.
    pub(crate) fn dismiss(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        failed: bool,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        self.with(|queue, effects| {
            if reject(queue, deliveries, failed, now, effects) != Rejection::NoDeadLetters {
                return None;
            }
            queue.settle(deliveries, Departure::Dropped, now, effects);
            self.count_dropped(Death::Rejected, deliveries.runs);
            self.log_settles(queue, deliveries.runs, SettleReason::Rejected, wait)
        })
        .flatten()
    }

    /// Acknowledges messages of many consumers together: one lock, one record for up to [`RECORD_RUNS_MAX`] runs, and one
    /// scheduling of consumers.
    pub(crate) fn acknowledge(self: &Arc<Self>, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos) {
        self.with(|queue, effects| {
            queue.acknowledge(settled, now, effects);
            let mut runs: Vec<Run> = Vec::new();
            settled.iter().flat_map(|(_, runs)| runs).for_each(|run| push_run(&mut runs, *run));
            for runs in runs.chunks(RECORD_RUNS_MAX) {
                self.log_settles(queue, runs, SettleReason::Acknowledged, Wait::Lazy);
            }
        });
    }

    /// Removes consumers and requeues the messages they hold; `failed` counts these deliveries as failed. Returns how many
    /// consumers are left.
    pub(crate) fn leave(
        self: &Arc<Self>,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        now: Nanos,
    ) -> Option<usize> {
        self.with(|queue, effects| {
            let left = queue.leave(consumers, held, failed, now, effects);
            self.note_readers(queue);
            (!consumers.is_empty()).then_some(left)
        })
        .flatten()
    }

    /// Rejects messages for a client that waits for an answer: they go to the dead-letter exchange, if the queue has one, or
    /// leave for good; `failed` counts their deliveries as failed. Returns the condition of the answer; `outbox` is notified when a move that it needs is durable. There is
    /// no answer if the queue failed: the messages are in its log, and ready again after a restart.
    pub(crate) fn reject(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        failed: bool,
        outbox: &Arc<Outbox>,
        reason: Reason,
        now: Nanos,
    ) -> WaitFor {
        let wait = self.with(|queue, effects| {
            match reject(queue, deliveries, failed, now, effects) {
                Rejection::Kept => return None,
                Rejection::Dying => {
                    let (moving, moved) = queue.ledger()?.dead_letters();
                    return Some(self.moves.wait((moved, moving), self.stream.id(), outbox, reason));
                }
                Rejection::NoDeadLetters => {}
            }
            queue.settle(deliveries, Departure::Dropped, now, effects);
            self.count_dropped(Death::Rejected, deliveries.runs);
            let ticket = self.log_settles(queue, deliveries.runs, SettleReason::Rejected, Wait::Confirm);
            Some(ticket.unwrap_or_default().into())
        });
        wait.flatten().unwrap_or_else(|| moves::never(self.stream.id(), outbox, reason, &self.failure()))
    }

    /// Puts messages back into their places; `failed` counts their delivery as failed.
    pub(crate) fn requeue(self: &Arc<Self>, deliveries: Deliveries<'_>, failed: bool, now: Nanos) {
        if is_planted(Bug::LoseRequeued) {
            return;
        }
        self.with(|queue, effects| queue.requeue(deliveries, failed, now, effects));
    }

    /// See [`super::QueueRef::modify`].
    pub(crate) fn modify(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        let logged = self.with(|queue, effects| {
            if wait == Wait::Confirm && self.stream.publish_wait() == WaitReason::DiskFull {
                queue.requeue(deliveries, failed, now, effects);
                return None;
            }
            queue.modify(deliveries, failed, added, now, effects);
            let rare = effects.rare_mut();
            let (annotated, delayed) = (std::mem::take(&mut rare.annotated), std::mem::take(&mut rare.delayed));
            let annotated = self.log_annotated(&annotated, wait);
            Some(self.log_delayed(&delayed, wait).or(annotated).unwrap_or_default())
        });
        logged.flatten()
    }

    /// See [`leveret_queue::LedgerQueue::claim`].
    pub(crate) fn claim(self: &Arc<Self>, id: ConsumerId, tokens: &[Box<str>]) {
        self.with_ledger(|queue, effects| queue.claim(id, tokens, effects));
    }

    /// Takes messages back from a consumer, which is overdue from now on.
    pub(crate) fn take_back(self: &Arc<Self>, id: ConsumerId, runs: &[Run], unsent: Option<Unsent>, now: Nanos) {
        self.with(|queue, effects| queue.take_back(id, runs, unsent, now, effects));
    }

    /// Adds annotations to messages that a consumer holds.
    pub(crate) fn annotate(self: &Arc<Self>, runs: &[Run], added: &Arc<Added>) {
        self.with_ledger(|queue, effects| queue.annotate(runs, added, effects));
    }

    /// Removes all ready messages; returns how many, and the ticket that the answer waits for.
    pub(crate) fn purge(self: &Arc<Self>, now: Nanos) -> (u64, Ticket) {
        let purged = self.with_newest(|handle, queue, effects| {
            let (count, runs) = queue.ledger_mut()?.purge(now, effects);
            let mut ticket = Ticket::default();
            for runs in runs.chunks(RECORD_RUNS_MAX) {
                ticket = handle.log_settles(queue, runs, SettleReason::Purged, Wait::Confirm).unwrap_or(ticket);
            }
            Some((handle.clone(), count, ticket))
        });
        let Some((handle, count, ticket)) = purged.flatten() else { return Default::default() };
        if handle.keeps_dead_letters() {
            handle.answer_moves();
        }
        (count, ticket)
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// [`NoConsumer`] is the reason why it can't be added.
    pub(crate) fn add_consumer(
        self: &Arc<Self>,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
    ) -> Result<(), NoConsumer> {
        self.add_consumer_again(id, options, Earlier::default(), now)
    }

    /// As [`take`](Self::take), and shows the messages to taps.
    #[inline]
    pub(crate) fn take_tapped(
        self: &Arc<Self>,
        id: ConsumerId,
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
    ) -> TurnEnd {
        if self.stream.placement().is_some_and(|placement| !placement.may_hand_out(now)) {
            return TurnEnd::Done;
        }
        let before = out.len();
        let end = self.take(id, most, now, out);
        self.taps.taken(&self.info, &out[before..], now);
        end
    }

    /// Adds a consumer that an earlier machine of the queue had.
    fn add_consumer_again(
        self: &Arc<Self>,
        id: ConsumerId,
        options: ConsumerOptions,
        earlier: Earlier,
        now: Nanos,
    ) -> Result<(), NoConsumer> {
        let added = self.with(|queue, effects| {
            if self.successor().is_some() || self.spread_to.get().is_some() {
                return Err(NoConsumer::Converted);
            }
            if let QueueState::Failed(reason) = queue.state() {
                return Err(NoConsumer::Failed(reason.clone()));
            }
            let added = match queue.ledger_mut() {
                Some(ledger) => ledger.add_again(id, options, earlier, now, effects),
                None => queue.add(id, options, now, effects),
            };
            self.note_readers(queue);
            added
        });
        added.unwrap_or(Err(NoConsumer::Gone))
    }

    /// Removes a consumer. Returns how many are left; `None` if it didn't exist.
    pub(crate) fn cancel(self: &Arc<Self>, id: ConsumerId, now: Nanos) -> Option<usize> {
        let left = self.with(|queue, effects| {
            let left = queue.cancel(id, now, effects);
            self.note_readers(queue);
            left
        });
        left.flatten()
    }

    /// Changes the flow of a consumer. Returns the state of its link for [`Flow::Credit`]; `None` for others, and if it is gone.
    pub(crate) fn grant(self: &Arc<Self>, id: ConsumerId, flow: Flow, now: Nanos) -> Option<CreditState> {
        self.with(|queue, effects| queue.flow(id, flow, now, effects)).flatten()
    }

    /// Registers `link` to be signalled with `key` when the queue is gone.
    pub(crate) fn watch(&self, key: u64, link: Arc<dyn Link>) {
        let mut watchers = self.watchers.lock();
        // A conversion moves them while it holds this lock.
        if let Some(successor) = self.successor() {
            drop(watchers);
            return successor.watch(key, link);
        }
        watchers.insert(key, link);
    }

    /// Removes that registration.
    pub(crate) fn unwatch(&self, key: u64) {
        let mut watchers = self.watchers.lock();
        if let Some(successor) = self.successor() {
            drop(watchers);
            return successor.unwatch(key);
        }
        watchers.remove(&key);
    }

    fn tell_watchers(&self) {
        for (key, link) in std::mem::take(&mut *self.watchers.lock()) {
            link.signal(Signal::Cancelled(key));
        }
    }

    /// Notes that a publisher is held back for this reason.
    pub(crate) fn publisher_held(self: &Arc<Self>, reason: WaitReason, now: Nanos) {
        self.with(|queue, _| queue.publisher_held(reason, now));
    }

    /// Notes that a publisher that was held back for this reason continues.
    pub(crate) fn publisher_released(self: &Arc<Self>, reason: WaitReason) {
        self.with(|queue, _| queue.publisher_released(reason));
    }

    /// Passes on stored messages that were requested.
    pub(crate) fn loaded(self: &Arc<Self>, read: StoredRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos) {
        self.with_ledger(|queue, effects| queue.loaded(read, runs, now, effects));
    }

    /// The chunks that a reader of a stream wants to be read.
    pub(crate) fn scan(&self, reader: ConsumerId) -> Option<Scan> {
        self.inner.lock().stream()?.scan(reader)
    }

    /// See [`Queue::run_timers`].
    pub(crate) fn run_timers(self: &Arc<Self>, now: Nanos, most: u64) -> bool {
        self.with(|queue, effects| queue.run_timers(now, most, effects)).unwrap_or(false)
    }

    /// Announces its next deadline to its home core.
    pub(crate) fn announce(self: &Arc<Self>) {
        self.with(|_, _| ());
    }

    /// A client declared it again, which is a use for `x-expires`. Returns the numbers of ready messages and consumers.
    pub(crate) fn declared_again(&self, now: Nanos) -> (u64, usize) {
        let mut queue = self.inner.lock();
        if let Some(successor) = self.successor() {
            drop(queue);
            return successor.declared_again(now);
        }
        if *queue.state() == QueueState::Deleted {
            return (0, 0);
        }
        if let Some(ledger) = queue.ledger_mut() {
            ledger.used(now);
        }
        queue.size()
    }

    /// Requests a read of stored messages from number `from` on.
    pub(crate) fn request_read(self: &Arc<Self>, from: u64, purpose: Purpose) {
        self.reads.request(self.clone(), from, purpose);
    }

    /// Whether it answers all calls later that a queue elsewhere would answer later.
    pub(crate) fn answers_late(&self) -> bool {
        self.late.is_some()
    }

    /// The answer to the publisher of `count` messages.
    #[inline]
    pub(crate) fn told(self: &Arc<Self>, published: PublishedHere, count: u32) -> Published {
        match &self.late {
            None => published.into(),
            Some(late) => self.told_later(late, published, count),
        }
    }

    #[cold]
    fn told_later(self: &Arc<Self>, late: &Arc<LateStream>, published: PublishedHere, count: u32) -> Published {
        let PublishedHere { accepted, awaited, is_behind, is_gone, slot } = published;
        let (name, reason) = (&self.info.name, self.refusal_reason());
        let refused = || NotTaken::Refused(RefusedPublish { accepted, queue: name.clone(), reason }.into());
        let not_taken = if is_gone { Some(NotTaken::Gone) } else { (accepted < count).then(refused) };
        let (queue, carried_out) = (self.clone(), CarriedOut { awaited, queue: self.clone(), not_taken });
        let (awaited, fate) =
            late.number(carried_out, move |call| queue.deferred.ask(Some(&queue), Box::new(move |_| call())));
        Published { acceptance: Acceptance::Later(fate), awaited, is_behind, is_gone: false, slot }
    }

    /// The reason why it refuses messages.
    pub(crate) fn refusal_reason(&self) -> RefusalReason {
        if has_failed(&self.inner.lock()) { RefusalReason::Stopped } else { RefusalReason::Limit }
    }

    /// Answers a call: in a turn of the home core if it [answers later](Self::answers_late), otherwise at once.
    fn asked<T: Send + 'static>(
        self: &Arc<Self>,
        gone: fn() -> T,
        call: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> NowOrLater<T> {
        match self.answers_late() {
            false => NowOrLater::Now(call(self)),
            true => self.answer_late_or(gone, call),
        }
    }

    /// Makes a call in a turn of the home core, and answers then.
    pub(crate) fn answer_late<T: Default + Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> NowOrLater<T> {
        self.answer_late_or(T::default, call)
    }

    /// The same with the answer of a queue that is gone.
    fn answer_late_or<T: Send + 'static>(
        self: &Arc<Self>,
        gone: fn() -> T,
        call: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> NowOrLater<T> {
        let (place, later) = later_or(gone);
        let queue = Arc::downgrade(self);
        let answer = move |_| {
            if let Some(queue) = queue.upgrade() {
                place.answer(call(&queue));
            }
        };
        self.deferred.ask(Some(self), Box::new(answer));
        NowOrLater::Later(later)
    }
}

impl Apply for QueueHandle {
    fn apply(self: Arc<Self>) {
        Self::apply(&self);
    }
}

impl ReadOwner for QueueHandle {
    fn log_id(&self) -> LogId {
        self.log_id
    }

    fn store(&self) -> &StoreRef {
        &self.store
    }

    fn shared_place(&self, number: u64) -> Option<SharedPlace> {
        Self::shared_place(self, number)
    }

    fn split_by_log(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64, Option<u64>)> {
        Self::split_by_log(self, runs)
    }

    fn holds_shared(&self, number: u64) -> bool {
        Self::holds_shared(self, number)
    }
}

impl BodyOwner for QueueHandle {
    fn log_id(&self) -> LogId {
        self.log_id
    }

    fn fail(self: Arc<Self>, reason: String) {
        Self::fail(&self, reason);
    }
}

/// Rejects deliveries. A rejected message stays in a stream, as every other.
fn reject(queue: &mut Queue, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) -> Rejection {
    match queue.ledger_mut() {
        Some(ledger) => ledger.reject(deliveries, failed, now, effects),
        None => Rejection::NoDeadLetters,
    }
}

fn has_failed(queue: &Queue) -> bool {
    matches!(queue.state(), QueueState::Failed(_))
}
