//! A queue as everything outside this module refers to it, wherever it is.
//!
//! Callers make calls and know no lock. A queue elsewhere will be another variant of [`Where`]: its calls are the arms that the
//! compiler then misses here. Eight calls return [`NowOrLater`], since only a queue on this node can answer them at once.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::{LogId, Wait};
use leveret_message::chunk::SharedChunk;
use leveret_message::{Added, Batch, BatchPart};
use leveret_model::{Durability, EarlierPriorities, EffectiveQueue, Queue as QueueInfo, QueueType, Refused};
use leveret_queue::{
    ChunkTurn, ConsumerId, ConsumerOptions, ConsumerStatus, Count, CreditState, DeleteIf, Deliveries, Departure, Flow,
    GetOutcome, KeptOffset, Link, NotDeleted, Peeked, Place, Portion, QueueCounts, QueueGauges, QueueState,
    QueueStatus, Run, Scan, SetAside, StreamFilter, StreamStart, Taken, TakenChunk, TurnEnd, Unsent, WaitReason,
};

use super::{
    Audience, LiveAnswer, LocalQueue, NoConsumer, Numbered, Published, PublishedIn, Reason, RefusalReason, Successor,
    Unconverted,
};
use crate::asked::{Later, NowOrLater};
use crate::bodies::BodyOwner;
use crate::group::Group;
use crate::outbox::Outbox;
use crate::published::PublishedHere;
use crate::reads::Purpose;
use crate::services::Services;
use crate::streams::{StoreRef, StreamRef, Waiter, waits};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;
use crate::wait_for::WaitFor;

/// A queue, cheap to clone.
#[derive(Clone)]
pub struct QueueRef {
    place: Where,
    kept: Kept,
}

/// How a queue keeps messages. It is beside the place, because the route to very many queues is computed without a look at each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// The commit stream of its log; `None` if it logs nothing, or shares nothing with other queues.
    pub(crate) log_stream: Option<StreamId>,
    /// Whether bodies that have files of their own are in memory, too: without a log, or because refused messages are copied.
    pub(crate) bodies_in_memory: bool,
}

/// The place of a queue.
#[derive(Clone)]
enum Where {
    /// On this node.
    Here(LocalQueue),
}

/// The identity of a queue as a key of maps. It is unique among queues that exist at the same time: an entry with it has to keep
/// its queue, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueKey(usize);

/// One match for each call.
macro_rules! pass {
    ($queue:expr, $here:ident => $call:expr) => {
        match &$queue.place {
            Where::Here($here) => $call,
        }
    };
}

impl From<LocalQueue> for QueueRef {
    fn from(queue: LocalQueue) -> Self {
        // A stream has its messages in chunks, and other queues give them times or ids of their own: neither shares any.
        let is_alone = queue.info().queue_type == QueueType::Stream || queue.info().options.changes_messages;
        let log_stream = (queue.is_durable() && !is_alone).then(|| queue.stream().id());
        let copies_refused = queue.copies_refused.load(Ordering::Relaxed);
        let kept = Kept { log_stream, bodies_in_memory: log_stream.is_none() || copies_refused };
        Self { place: Where::Here(queue), kept }
    }
}

impl QueueRef {
    /// Whether both are the same queue. A queue that was deleted and declared again is another one.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Where::Here(one), Where::Here(other)) => Arc::ptr_eq(one, other),
        }
    }

    /// Its key in maps.
    #[inline]
    pub fn key(&self) -> QueueKey {
        pass!(self, queue => QueueKey(Arc::as_ptr(queue).addr()))
    }

    /// Its declaration.
    #[inline]
    pub fn info(&self) -> &Arc<QueueInfo> {
        pass!(self, queue => queue.info())
    }

    /// Its effective arguments, by its declaration and the policies that apply.
    pub fn effective(&self) -> Arc<EffectiveQueue> {
        pass!(self, queue => queue.effective())
    }

    /// The queue that it was converted to, or itself.
    pub fn newest(&self) -> Self {
        pass!(self, queue => queue.successor().map_or_else(|| self.clone(), |next| Self::from(next.clone()).newest()))
    }

    /// See [`QueueHandle::convert`](super::QueueHandle::convert).
    pub(crate) fn convert(
        &self,
        services: &Services,
        now: Nanos,
        prepare: impl FnOnce(EarlierPriorities) -> Result<Option<Successor>, Refused>,
        log: Option<impl FnOnce(Option<&[u8]>) -> Ticket>,
    ) -> Result<Option<(Self, Ticket)>, Unconverted> {
        pass!(self, queue => queue.convert(services, now, prepare, log))
    }

    /// Its conversion is durable: notifies its consumers.
    pub(crate) fn retire(&self) {
        pass!(self, queue => queue.retire());
    }

    /// Takes over newer effective arguments.
    pub(crate) fn configure(&self, effective: EffectiveQueue, now: Nanos) {
        pass!(self, queue => queue.configure(effective, now));
    }

    /// From now on it may dead-letter what it refuses. Returns whether its references have to be renewed for that.
    pub(crate) fn begin_to_copy_refused(&self) -> bool {
        pass!(self, queue => queue.begin_to_copy_refused())
    }

    /// A reference that knows how the queue keeps messages now.
    pub(crate) fn renewed(&self) -> Self {
        pass!(self, queue => Self::from(queue.clone()))
    }

    /// The commit stream that it belongs to.
    #[inline]
    pub fn stream(&self) -> &StreamRef {
        pass!(self, queue => queue.stream())
    }

    /// The log of the disk that has its messages.
    pub(crate) fn store(&self) -> &StoreRef {
        pass!(self, queue => queue.store())
    }

    /// Offers a chunk to a stream, which takes it as a whole or not at all; `numbered` are the name of its publisher, if it has one,
    /// and the numbers of its entries. Messages that were published by that name before are left out, and count as accepted.
    pub fn publish_chunk(&self, chunk: &Arc<SharedChunk>, numbered: Option<Numbered<'_>>, now: Nanos) -> Published {
        pass!(self, queue => {
            let published = queue.publish_chunk(chunk, numbered, now);
            queue.taps.put_chunk(&queue.info, chunk, published, now);
            queue.told(published, u32::try_from(chunk.len()).unwrap_or(u32::MAX))
        })
    }

    /// The place that everything submitted to a stream so far waits for.
    pub fn awaited(&self) -> Awaited {
        pass!(self, queue => {
            let here = PublishedHere { accepted: 1, awaited: queue.awaited(), ..PublishedHere::none() };
            queue.told(here, 1).awaited
        })
    }

    /// See [`leveret_queue::StreamQueue::take_chunks`].
    pub fn take_chunks(&self, id: ConsumerId, bytes: u64, now: Nanos, out: &mut Vec<TakenChunk>) -> ChunkTurn {
        pass!(self, queue => {
            let before = out.len();
            let turn = queue.take_chunks(id, bytes, now, out);
            queue.taps.taken_chunks(&queue.info, &out[before..], now);
            turn
        })
    }

    /// See [`leveret_queue::StreamQueue::writer_sequence`].
    pub fn writer_sequence(&self, name: &str) -> Option<u64> {
        pass!(self, queue => queue.writer_sequence(name))
    }

    /// See [`leveret_queue::StreamQueue::activated`].
    pub fn activated(&self, id: ConsumerId, start: Option<StreamStart>, now: Nanos) {
        pass!(self, queue => queue.activated(id, start, now));
    }

    /// See [`leveret_queue::StreamQueue::stepped_down`].
    pub fn stepped_down(&self, id: ConsumerId) {
        pass!(self, queue => queue.stepped_down(id));
    }

    /// The offset that a stream keeps for a name: that of the first message that its consumer hasn't settled.
    pub fn kept_offset(&self, name: &str) -> Option<u64> {
        pass!(self, queue => queue.kept_offset(name))
    }

    /// Keeps an offset for a name in a stream. False if it keeps too many names already.
    pub fn keep_offset(&self, kept: KeptOffset, now: Nanos) -> bool {
        pass!(self, queue => queue.keep_offset(kept, now))
    }

    /// See [`leveret_queue::StreamQueue::activate_group`].
    pub fn activate_group(&self, name: &str, now: Nanos) -> bool {
        pass!(self, queue => queue.activate_group(name, now))
    }

    /// The meaning of a confirm.
    pub fn durability(&self) -> Durability {
        pass!(self, queue => queue.durability())
    }

    /// Offers these messages. With `shared`, the batch is stored in the shared log from that
    /// number on, for this queue among others.
    #[inline]
    pub fn publish(&self, part: BatchPart<'_>, persistent: bool, audience: Audience, now: Nanos) -> Published {
        pass!(self, queue => {
            let published = queue.publish(part, persistent, audience, now);
            queue.taps.put(&queue.info, part.first(published.taken()), now);
            queue.told(published, part.count)
        })
    }

    /// Offers messages as part of a group. Persistent ones become part of the queue when the group is durable; volatile ones at
    /// once, or behind pending messages.
    pub fn publish_in(&self, group: &mut Group, part: BatchPart<'_>, persistent: bool, now: Nanos) -> Published {
        pass!(self, queue => {
            let PublishedIn { accepted, ticket } = self.move_in(group, part, persistent, now);
            queue.told(PublishedHere { accepted, awaited: ticket.into(), ..PublishedHere::none() }, part.count)
        })
    }

    /// The same for the home of the group's stream, which knows at once which messages the queue accepts.
    pub(crate) fn move_in(&self, group: &mut Group, part: BatchPart<'_>, persistent: bool, now: Nanos) -> PublishedIn {
        pass!(self, queue => {
            let published = queue.publish_in(group, part, persistent, now);
            queue.taps.put(&queue.info, part.first(published.accepted), now);
            published
        })
    }

    /// The reason why it refuses messages.
    pub fn refusal_reason(&self) -> RefusalReason {
        pass!(self, queue => queue.refusal_reason())
    }

    /// Number of these messages that its limits allow at the moment: none if it has stopped.
    pub(crate) fn has_room_for(&self, part: BatchPart<'_>) -> u32 {
        pass!(self, queue => queue.has_room_for(part))
    }

    /// Applies all messages that are durable, or written if that is enough for this queue.
    pub fn apply(&self) {
        pass!(self, queue => queue.apply());
    }

    /// Has a commit stream apply the queue, in place of a publisher that is gone.
    pub fn waiter(&self) -> Waiter {
        pass!(self, queue => Waiter::Queue(queue.clone()))
    }

    /// See [`leveret_queue::Queue::take`].
    #[inline]
    pub fn take(&self, id: ConsumerId, most: Portion, now: Nanos, out: &mut Vec<Taken>) -> TurnEnd {
        pass!(self, queue => {
            let before = out.len();
            let end = queue.take(id, most, now, out);
            queue.taps.taken(&queue.info, &out[before..], now);
            end
        })
    }

    /// Takes one message that isn't on its way to a consumer. With [`GetOutcome::Wait`], `link` gets
    /// [`Loaded`](leveret_queue::Signal::Loaded) with `key` when it should ask again. An asker that doesn't want its answer any
    /// more calls [`QueueRef::give_back`].
    pub fn get(&self, automatic_ack: bool, link: &Arc<dyn Link>, key: u64, now: Nanos) -> NowOrLater<GetOutcome> {
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.taps.got(&queue.info, queue.get(automatic_ack, link, key, now), now)),
            true => {
                let link = link.clone();
                queue.answer_late(move |queue| queue.taps.got(&queue.info, queue.get(automatic_ack, &link, key, now), now))
            }
        })
    }

    /// Returns the message of a get whose asker is gone to its place, when the answer comes. One that the queue hands out
    /// acknowledged has left it.
    pub fn give_back(&self, answer: Later<GetOutcome>, automatic_ack: bool, now: Nanos) {
        let queue = self.clone();
        answer.then(move |outcome| {
            if let GetOutcome::Message(taken, _) = outcome
                && !automatic_ack
            {
                queue.requeue(Deliveries::of(None, &[taken.run()]), false, now);
            }
        });
    }

    /// Removes messages for good. This takes effect at once, and becomes durable with the log's lazy flush or as soon as
    /// possible. Dropped messages go to the dead-letter exchange, if the queue has one; if the queue failed, after a restart.
    /// Returns the ticket to wait for; `None` if nothing was logged.
    pub fn settle(&self, deliveries: Deliveries<'_>, outcome: Departure, wait: Wait, now: Nanos) -> Option<Ticket> {
        pass!(self, queue => queue.settle(deliveries, outcome, wait, now))
    }

    /// Drops rejected messages: they go to the dead-letter exchange, if the queue has one. `failed` counts their deliveries as failed.
    pub fn dismiss(&self, deliveries: Deliveries<'_>, failed: bool, wait: Wait, now: Nanos) -> Option<Ticket> {
        pass!(self, queue => queue.dismiss(deliveries, failed, wait, now))
    }

    /// Removes messages for good as part of a group: at once here, and after a restart if the group was durable. Nothing is
    /// dead-lettered: moves of dead letters are groups of their own.
    pub fn settle_in(&self, group: &mut Group, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos) {
        pass!(self, queue => queue.settle_in(group, deliveries, outcome, now));
    }

    /// Acknowledges messages of many consumers together: one lock, one record for up to [`super::RECORD_RUNS_MAX`] runs, and
    /// one scheduling of consumers.
    #[inline]
    pub fn acknowledge(&self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos) {
        pass!(self, queue => queue.acknowledge(settled, now));
    }

    /// Rejects messages for a client that waits for an answer: they go to the dead-letter exchange, if the queue has one, or
    /// leave for good; `failed` counts their deliveries as failed. Returns the condition of the answer; `outbox` is notified when a move that it needs is durable. There is
    /// no answer if the queue failed: the messages are in its log, and ready again after a restart.
    pub fn reject(
        &self,
        deliveries: Deliveries<'_>,
        failed: bool,
        outbox: &Arc<Outbox>,
        reason: Reason,
        now: Nanos,
    ) -> WaitFor {
        pass!(self, queue => queue.reject(deliveries, failed, outbox, reason, now))
    }

    /// Whether it is a quorum queue.
    #[inline]
    pub fn is_quorum(&self) -> bool {
        self.info().queue_type == QueueType::Quorum
    }

    /// Whether it is a stream.
    #[inline]
    pub fn is_stream(&self) -> bool {
        self.info().queue_type == QueueType::Stream
    }

    /// Puts messages back into their places; `failed` counts their delivery as failed.
    pub fn requeue(&self, deliveries: Deliveries<'_>, failed: bool, now: Nanos) {
        pass!(self, queue => queue.requeue(deliveries, failed, now));
    }

    /// As [`QueueRef::requeue`], with annotations, see [`leveret_queue::Queue::modify`]. With [`Wait::Confirm`], returns the ticket
    /// that an answer waits for; `None` if the disk has no room, so that the messages were only requeued.
    pub fn modify(
        &self,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        pass!(self, queue => queue.modify(deliveries, failed, added, wait, now))
    }

    /// Claims deferred messages for a consumer, see [`leveret_queue::LedgerQueue::claim`].
    pub fn claim(&self, id: ConsumerId, tokens: &[Box<str>]) {
        pass!(self, queue => queue.claim(id, tokens));
    }

    /// Takes messages back from a consumer and requeues them. It is overdue from now on: see [`Flow::Overdue`]. With `unsent`, the
    /// last of them weren't sent on its link.
    pub fn take_back(&self, id: ConsumerId, runs: &[Run], unsent: Option<Unsent>, now: Nanos) {
        pass!(self, queue => queue.take_back(id, runs, unsent, now));
    }

    /// Removes all ready messages. The answer is how many, and the ticket that its publication waits for.
    pub fn purge(&self, now: Nanos) -> NowOrLater<(u64, Ticket)> {
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.purge(now)),
            true => queue.answer_late(move |queue| queue.purge(now)),
        })
    }

    /// Adds annotations to messages that a consumer holds, see [`leveret_queue::LedgerQueue::annotate`].
    pub fn annotate(&self, runs: &[Run], added: &Arc<Added>) {
        pass!(self, queue => queue.annotate(runs, added));
    }

    /// Deletes those of the messages with these numbers that were set aside in this way. The answer is how many, and the ticket
    /// that its publication waits for.
    pub fn drop_set_aside(&self, which: SetAside, first: u64, last: u64) -> NowOrLater<(u64, Ticket)> {
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.drop_set_aside(which, first, last)),
            true => queue.answer_late(move |queue| queue.drop_set_aside(which, first, last)),
        })
    }

    /// The lowest and the highest number of parked messages among these.
    pub fn parked_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        pass!(self, queue => queue.parked_ends(range))
    }

    /// See [`leveret_queue::Queue::ready_ends`].
    pub fn ready_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64, u64)> {
        pass!(self, queue => queue.ready_ends(range))
    }

    /// Makes a call in a turn of the queue's home core, after others that wait there.
    pub(crate) fn in_turn<T: Default + Send + 'static>(
        &self,
        call: impl FnOnce(&LocalQueue) -> T + Send + 'static,
    ) -> NowOrLater<T> {
        pass!(self, queue => queue.answer_late(call))
    }

    /// See [`QueueHandle::offer_in`](super::QueueHandle::offer_in).
    pub(crate) fn offer_in(
        &self,
        group: &mut Group,
        batch: &Arc<Batch>,
        persistent: bool,
        now: Nanos,
    ) -> Option<PublishedIn> {
        let part = BatchPart::whole(batch);
        pass!(self, queue => {
            let offered = queue.offer_in(group, part, persistent, now);
            queue.taps.put(&queue.info, part.first(offered.map_or(0, |offered| offered.accepted)), now);
            offered
        })
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// [`NoConsumer`] is the reason why it can't be added.
    pub fn add_consumer(&self, id: ConsumerId, options: ConsumerOptions, now: Nanos) -> Result<(), NoConsumer> {
        pass!(self, queue => queue.add_consumer(id, options, now))
    }

    /// Removes a consumer. The answer is how many are left; `None` if it didn't exist.
    pub fn cancel(&self, id: ConsumerId, now: Nanos) -> NowOrLater<Option<usize>> {
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.cancel(id, now)),
            true => queue.answer_late(move |queue| queue.cancel(id, now)),
        })
    }

    /// Removes consumers and requeues the messages they hold; `failed` counts these deliveries as failed. The answer is how
    /// many consumers are left, as far as that decides on the queue's deletion: `None` if no consumer was removed, or the queue
    /// isn't deleted with its last one.
    pub fn leave(
        &self,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        now: Nanos,
    ) -> NowOrLater<Option<usize>> {
        let is_asked = !consumers.is_empty() && self.info().auto_delete;
        pass!(self, queue => match queue.answers_late() && is_asked {
            false => NowOrLater::Now(queue.leave(consumers, held, failed, now).filter(|_| is_asked)),
            true => {
                let (consumers, held) = (consumers.to_vec(), held.to_vec());
                queue.answer_late(move |queue| queue.leave(&consumers, &held, failed, now))
            }
        })
    }

    /// The consumer's connection can, or can't, take more bytes.
    pub fn set_room(&self, id: ConsumerId, room: bool, now: Nanos) {
        pass!(self, queue => queue.set_room(id, room, now));
    }

    /// The consumer's session can, or can't, send more transfers.
    pub fn set_window(&self, id: ConsumerId, open: bool, now: Nanos) {
        pass!(self, queue => queue.set_window(id, open, now));
    }

    /// The consumer has settled all deliveries that were taken back: see [`Flow::Overdue`].
    pub fn no_longer_overdue(&self, id: ConsumerId, now: Nanos) {
        pass!(self, queue => queue.no_longer_overdue(id, now));
    }

    /// Sets a consumer's link credit, see [`Flow::Credit`]. The answer is `None` if the consumer is gone.
    #[inline]
    pub fn grant(
        &self,
        id: ConsumerId,
        delivery_count: u32,
        link_credit: u32,
        drain: bool,
        now: Nanos,
    ) -> NowOrLater<Option<CreditState>> {
        let flow = Flow::Credit { delivery_count, link_credit, drain };
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.grant(id, flow, now)),
            true => queue.answer_late(move |queue| queue.grant(id, flow, now)),
        })
    }

    /// A client declared it again, which is a use for `x-expires`. The answer is the numbers of ready messages and consumers.
    pub fn declared_again(&self, now: Nanos) -> NowOrLater<(u64, usize)> {
        pass!(self, queue => match queue.answers_late() {
            false => NowOrLater::Now(queue.declared_again(now)),
            true => queue.answer_late(move |queue| queue.declared_again(now)),
        })
    }

    /// Registers `link` to be signalled with `key` when the queue is gone.
    pub fn watch(&self, key: u64, link: Arc<dyn Link>) {
        pass!(self, queue => queue.watch(key, link));
    }

    /// Removes that registration.
    pub fn unwatch(&self, key: u64) {
        pass!(self, queue => queue.unwatch(key));
    }

    /// Notes that a publisher is held back for this reason.
    pub fn publisher_held(&self, reason: WaitReason, now: Nanos) {
        pass!(self, queue => queue.publisher_held(reason, now));
    }

    /// Notes that a publisher that was held back for this reason continues.
    pub fn publisher_released(&self, reason: WaitReason) {
        pass!(self, queue => queue.publisher_released(reason));
    }

    /// The queue to a reader of its messages' bodies.
    pub fn body_owner(&self) -> Arc<dyn BodyOwner> {
        pass!(self, queue => queue.clone())
    }

    /// Number of messages that were deleted with the queue: the ready ones and, of a quorum queue, all.
    pub fn deleted_messages(&self) -> u64 {
        pass!(self, queue => queue.deleted_messages())
    }

    /// Closes the queue for good if `condition` holds; `log` appends the record of its deletion under the lock, and returns its
    /// ticket.
    pub(crate) fn close(
        &self,
        condition: DeleteIf,
        now: Nanos,
        log: impl FnOnce() -> Ticket,
    ) -> Result<Ticket, NotDeleted> {
        pass!(self, queue => queue.close(condition, now, log))
    }

    /// Takes back [`close`](Self::close): the record of the deletion is withdrawn.
    pub(crate) fn reopen(&self) {
        pass!(self, queue => queue.reopen());
    }

    /// Its deletion is durable: notifies consumers, and frees its memory and its log.
    pub(crate) fn delete(&self) {
        pass!(self, queue => {
            queue.delete();
            if queue.info().is_logged() {
                queue.store().forget(queue.log_id());
            }
        });
    }

    /// Fails the queue.
    pub fn fail(&self, reason: String) {
        pass!(self, queue => queue.fail(reason));
    }

    /// Announces its next deadline to its home core.
    pub(crate) fn announce(&self) {
        pass!(self, queue => queue.announce());
    }

    /// How it keeps messages.
    pub(crate) fn kept(&self) -> Kept {
        self.kept
    }

    /// Whether any of its messages are stored in this log.
    pub(crate) fn reads_from(&self, log: LogId) -> bool {
        pass!(self, queue => queue.reads_from(log))
    }

    /// Its live state for a checkpoint.
    pub(crate) fn live_state(&self, durable: Place) -> LiveAnswer {
        pass!(self, queue => queue.live_state(durable))
    }

    /// Records for a clean stop which messages may have been delivered.
    pub(crate) fn record_delivered(&self) {
        pass!(self, queue => queue.record_delivered());
    }

    /// Number of messages in flight to the dead-letter exchange.
    pub(crate) fn moving(&self) -> u64 {
        pass!(self, queue => queue.moving())
    }

    /// Reads stored messages from number `from` on.
    pub(crate) fn read(&self, from: u64, purpose: Purpose) {
        pass!(self, queue => queue.request_read(from, purpose));
    }

    /// A search of a stream: where it begins, and what it looks for. `None` for other queues.
    pub fn search(&self, start: StreamStart, filter: Option<Arc<StreamFilter>>) -> Option<(u64, Scan)> {
        pass!(self, queue => queue.search(start, filter))
    }
}

/// As listings show it.
impl QueueRef {
    /// The queue as a listing shows it.
    pub fn status(&self) -> QueueStatus {
        pass!(self, queue => queue.status())
    }

    /// Its gauges after the last call, read without its lock.
    pub fn gauges(&self) -> QueueGauges {
        pass!(self, queue => queue.gauges())
    }

    /// Its counts, with rates; `None` if nothing has been counted at all.
    pub fn counts_if_any(&self) -> Option<QueueCounts> {
        pass!(self, queue => queue.counts_if_any())
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub fn counted(&self, count: Count) -> Option<u64> {
        pass!(self, queue => queue.counted(count))
    }

    /// One consumer as a listing shows it; `None` if it is gone.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        pass!(self, queue => queue.consumer_status(id))
    }

    /// See [`leveret_queue::Queue::peek`].
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek(offset, count))
    }

    /// Number and body bytes of its messages that were set aside in this way.
    pub fn set_aside(&self, which: SetAside) -> (u64, u64) {
        pass!(self, queue => queue.set_aside(which))
    }

    /// See [`leveret_queue::LedgerQueue::peek_set_aside`].
    pub fn peek_set_aside(&self, which: SetAside, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek_set_aside(which, offset, count))
    }

    /// The property `timestamp` of the next message, in seconds since the Unix epoch; `None` while the message is only on disk.
    pub fn head_timestamp(&self) -> Option<u64> {
        pass!(self, queue => queue.head_timestamp())
    }

    /// Ready messages and consumers.
    pub fn counts(&self) -> (u64, usize) {
        pass!(self, queue => queue.counts())
    }

    /// Whether it is running, failed or deleted.
    pub fn state(&self) -> QueueState {
        pass!(self, queue => queue.state())
    }

    /// Checks that the queue hasn't failed.
    ///
    /// # Errors
    /// The text for clients, see [`QueueRef::crashed`].
    pub fn check_runs(&self) -> Result<(), String> {
        match self.state() {
            QueueState::Failed(reason) => Err(self.crashed(&reason)),
            _ => Ok(()),
        }
    }

    /// The text for clients that need a queue that has failed, in RabbitMQ's words.
    pub fn crashed(&self, reason: &str) -> String {
        let info = self.info();
        format!("queue '{}' in vhost '{}' has crashed and failed to restart: {reason}", info.name, info.vhost)
    }
}

impl waits::RunTarget for QueueRef {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        Self::is_same(self, other)
    }

    #[inline]
    fn apply(&self) {
        Self::apply(self);
    }
}
