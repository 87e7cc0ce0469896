//! A queue of any type: the calls that a broker makes, passed on to the machine behind it.
//!
//! The caller holds the queue's lock. It logs what [`Queue::submit`] accepted and reports the place with
//! [`Queue::submitted`]; [`Queue::apply`] is idempotent and in order. [`Effects`] are fired after the lock is released.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use leveret_message::chunk::SharedChunk;
use leveret_message::{Added, Batch, BatchPart};
use leveret_model::{QueueOptions, QueueType};

use crate::answers::{
    Candidates, DeleteIf, GetOutcome, NoConsumer, NotConverted, NotDeleted, ParkedMessage, Peeked, QueueState,
    ReadyFound, Rejection, SetAside, Submission, TurnEnd,
};
use crate::consumer_id::ConsumerId;
use crate::counts::{Count, QueueCounts};
use crate::dead_letter::{DeadRun, DeadTurn};
use crate::deadlines::Deadlines;
use crate::dispatch::{ConsumerOptions, CreditState, Deliveries, Flow, Portion, Unsent};
use crate::effects::{Effects, Link, Taken};
use crate::filters::StreamFilter;
use crate::gauges::QueueGauges;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::pending::{Place, Placement, Watermarks};
use crate::publishers::PublishSlot;
use crate::reads::StoredRead;
use crate::records::{AttemptRun, KeptOffset, Run};
use crate::repeats::Offered;
use crate::replica::{Checkpoint, Replica};
use crate::shared::References;
use crate::status::{ConsumerStatus, QueueStatus};
use crate::stream::{ChunkSubmission, ChunkTurn, OfferedChunk, Scan, StreamQueue, TakenChunk};
use crate::stream_start::StreamStart;
use crate::stream_state::WriterRun;
use crate::surroundings::Surroundings;
use crate::wait::WaitReason;

/// A queue of any type. An enum, since there are few machines: a call costs no more than on the machine itself.
#[expect(clippy::large_enum_variant, reason = "a box would cost each call on a queue, to save a stream 1 KiB")]
pub enum Queue {
    /// Messages that leave when they are settled: `x-queue-type` classic.
    Ledger(LedgerQueue),
    /// Messages that stay, and are read by position: `x-queue-type` stream.
    Stream(StreamQueue),
}

/// Messages reach a stream in chunks, and no other queue.
const CHUNKS_ONLY: &str = "a stream takes whole chunks";
const STREAMS_ONLY: &str = "only a stream takes chunks";

/// One match for each call, so that a machine that lacks the call doesn't compile.
macro_rules! pass {
    ($queue:expr, $machine:ident => $call:expr) => {
        match $queue {
            Queue::Ledger($machine) => $call,
            Queue::Stream($machine) => $call,
        }
    };
}

impl Queue {
    /// The machine for these options, which begins with this replica. If `durable`, its persistent messages are logged.
    pub fn new(options: QueueOptions, durable: bool, replica: Replica, surroundings: Surroundings, now: Nanos) -> Self {
        match options.queue_type {
            QueueType::Classic | QueueType::Quorum => {
                Self::Ledger(LedgerQueue::new(options, durable, replica, surroundings, now))
            }
            QueueType::Stream => Self::Stream(StreamQueue::new(options, replica, surroundings, now)),
        }
    }

    /// Phase one: validates and reserves numbers. Messages become part of the queue only when they are applied. `None` if the
    /// queue is closed.
    #[inline]
    pub fn submit(&mut self, part: BatchPart<'_>, now: Nanos) -> Option<Submission> {
        match self {
            Self::Ledger(queue) => queue.submit(part, now),
            Self::Stream(_) => unreachable!("{CHUNKS_ONLY}"),
        }
    }

    /// The places of those offered messages that weren't sent before; `None` if the queue drops none.
    pub fn fresh(&mut self, offered: &[Option<Offered>]) -> Option<Vec<u32>> {
        match self {
            Self::Ledger(queue) => queue.fresh(offered),
            Self::Stream(_) => None,
        }
    }

    /// Notes by what messages that were submitted are compared, from number `first` on.
    pub fn note_offered(&mut self, first: u64, offered: impl Iterator<Item = Option<Offered>>, durable: bool) {
        match self {
            Self::Ledger(queue) => queue.note_offered(first, offered, durable),
            Self::Stream(_) => {}
        }
    }

    /// Notes messages that are being published.
    #[inline]
    pub fn arrived(&mut self, count: u32, now: Nanos) {
        pass!(self, queue => queue.arrived(count, now));
    }

    /// The slot of the last of `count` messages that have [`arrived`](Self::arrived), for a publisher that waits for it.
    #[inline]
    pub fn slot(&mut self, count: u32, now: Nanos) -> PublishSlot {
        pass!(self, queue => queue.slot(count, now))
    }

    /// Sets the place of the accepted messages, the first ones of the part that was submitted.
    #[inline]
    pub fn submitted(
        &mut self,
        submission: Submission,
        part: BatchPart<'_>,
        placement: Placement<'_>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        match self {
            Self::Ledger(queue) => queue.submitted(submission, part, placement, now, effects),
            Self::Stream(_) => unreachable!("{CHUNKS_ONLY}"),
        }
    }

    /// Phase one for a chunk of `count` messages, of a named publisher if it has one. `None` if the stream is closed.
    pub fn submit_chunk(&mut self, count: u32, writer: Option<&WriterRun>, now: Nanos) -> Option<ChunkSubmission> {
        match self {
            Self::Stream(stream) => stream.submit_chunk(count, writer, now),
            Self::Ledger(_) => unreachable!("{STREAMS_ONLY}"),
        }
    }

    /// Sets the place of an accepted chunk.
    pub fn submitted_chunk(
        &mut self,
        submission: Submission,
        offered: OfferedChunk<'_>,
        placement: Placement<'_>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        match self {
            Self::Stream(stream) => stream.submitted_chunk(submission, offered, placement, now, effects),
            Self::Ledger(_) => unreachable!("{STREAMS_ONLY}"),
        }
    }

    /// Hands out whole chunks to a scheduled reader of a stream that takes them: about `bytes`, but at least one.
    pub fn take_chunks(
        &mut self,
        id: ConsumerId,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<TakenChunk>,
        effects: &mut Effects,
    ) -> ChunkTurn {
        match self {
            Self::Stream(stream) => stream.take_chunks(id, bytes, now, out, effects),
            Self::Ledger(_) => ChunkTurn { end: TurnEnd::Done, committed: 0 },
        }
    }

    /// As [`loaded`](Self::loaded), for a reader that takes whole chunks.
    pub fn loaded_chunks(
        &mut self,
        read: StoredRead,
        chunks: Vec<(u64, Arc<SharedChunk>)>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        if let Self::Stream(stream) = self {
            stream.loaded_chunks(read, chunks, now, effects);
        }
    }

    /// Whether messages are taken one by one, so that chunks are decoded soon.
    pub fn decodes_chunks(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.has_message_readers())
    }

    /// The client of the active member of a group answered: it is served from here on, `None` being where it asked to begin.
    pub fn activated(&mut self, id: ConsumerId, start: Option<StreamStart>, now: Nanos, effects: &mut Effects) {
        if let Self::Stream(stream) = self {
            stream.activated(id, start, now, effects);
        }
    }

    /// The client of a member of a group answered that it isn't active any more.
    pub fn stepped_down(&mut self, id: ConsumerId, effects: &mut Effects) {
        if let Self::Stream(stream) = self {
            stream.stepped_down(id, effects);
        }
    }

    /// Makes the member of a stream's group active whose turn it is. False if there is no such group.
    pub fn activate_group(&mut self, name: &str, now: Nanos, effects: &mut Effects) -> bool {
        match self {
            Self::Stream(stream) => stream.activate_group(name, now, effects),
            Self::Ledger(_) => false,
        }
    }

    /// The number of the last message of a stream's named publisher that was submitted, and may not be part of it yet.
    pub fn writer_sequence(&self, name: &str) -> Option<u64> {
        match self {
            Self::Stream(stream) => stream.writer_sequence(name),
            Self::Ledger(_) => None,
        }
    }

    /// The offset that a stream keeps for a name: that of the first message that its consumer hasn't settled.
    pub fn kept_offset(&self, name: &str) -> Option<u64> {
        match self {
            Self::Stream(stream) => stream.kept_offset(name),
            Self::Ledger(_) => None,
        }
    }

    /// Keeps an offset for a name, whatever it was before. False if a stream keeps too many names already, and for other queues.
    pub fn keep_offset(&mut self, kept: KeptOffset, now: Nanos, effects: &mut Effects) -> bool {
        match self {
            Self::Stream(stream) => stream.keep_offset_as(kept, now, effects),
            Self::Ledger(_) => false,
        }
    }

    /// Whether memory for volatile messages is used up: messages that can be logged have to be, and become durable.
    #[inline]
    pub fn spills_volatile(&self) -> bool {
        pass!(self, queue => queue.spills_volatile())
    }

    /// Whether unapplied messages are part of a group: later ones have to be durable then.
    #[inline]
    pub fn awaits_group(&self) -> bool {
        pass!(self, queue => queue.awaits_group())
    }

    /// The place that the last unapplied message waits for. `None` if that is a group that is still open: then it waits for the
    /// queue's last record, which its stream doesn't report as reached before the group.
    #[inline]
    pub fn pending_place(&self) -> Option<Place> {
        pass!(self, queue => queue.pending_place())
    }

    /// Whether its consumers could take messages that have left memory, or many that haven't.
    #[inline]
    pub fn is_behind(&self) -> bool {
        pass!(self, queue => queue.is_behind())
    }

    /// Phase two: all messages that its commit stream has written become part of the queue; those of a group have to be
    /// durable. Where all messages have to be durable, see [`Watermarks::synced`].
    #[inline]
    pub fn apply(&mut self, reached: Watermarks, effects: &mut Effects) {
        pass!(self, queue => queue.apply(reached, effects));
    }

    /// Withdraws messages that were submitted and aren't applied: their place is never reached, because their commit stream
    /// lost its leadership and continued without them. They were confirmed to nobody, and the publisher offers them again.
    /// Returns their numbers, which are reused. The caller has to release those in the shared log under the same lock.
    pub fn withdraw(&mut self) -> Range<u64> {
        pass!(self, queue => queue.withdraw())
    }

    /// Hands out messages to a scheduled consumer: at most this, and at most its fair share.
    #[inline]
    pub fn take(
        &mut self,
        id: ConsumerId,
        most: Portion,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        pass!(self, queue => queue.take(id, most, now, out, effects))
    }

    /// Takes one message that isn't on its way to a consumer; `link` and `key` are signalled if it has to be read from disk
    /// first.
    pub fn get(
        &mut self,
        automatic_ack: bool,
        link: &Arc<dyn Link>,
        key: u64,
        now: Nanos,
        effects: &mut Effects,
    ) -> GetOutcome {
        pass!(self, queue => queue.get(automatic_ack, link, key, now, effects))
    }

    /// Removes messages for good: acknowledged, or rejected without requeue. The caller has to log durable runs under the same
    /// lock.
    pub fn settle(&mut self, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.settle(deliveries, outcome, now, effects));
    }

    /// Like [`Queue::settle`], for acknowledged messages of many consumers: schedules consumers only once.
    #[inline]
    pub fn acknowledge(&mut self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.acknowledge(settled, now, effects));
    }

    /// Rejects deliveries without requeue: they die, if there is a dead-letter exchange. `failed` counts the deliveries as failed.
    pub fn reject(&mut self, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) -> Rejection {
        pass!(self, queue => queue.reject(deliveries, failed, now, effects))
    }

    /// Puts messages back into their places, flagged redelivered. `failed` counts this delivery of them as failed.
    pub fn requeue(&mut self, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.requeue(deliveries, failed, now, effects));
    }

    /// As [`Queue::requeue`], and adds annotations to the messages, if this type of queue does that. A time of the next delivery among
    /// them delays the messages. If there is a deferral token, too, [`Queue::claim`] fetches them by it before that time.
    pub fn modify(
        &mut self,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        pass!(self, queue => queue.modify(deliveries, failed, added, now, effects));
    }

    /// Claims the deferred messages with these tokens, at least one, for a consumer: it gets them before all others, as it has
    /// credit. Unknown tokens, and those that another consumer has claimed, have no effect.
    pub fn claim(&mut self, id: ConsumerId, tokens: &[Box<str>], effects: &mut Effects) {
        pass!(self, queue => queue.claim(id, tokens, effects));
    }

    /// Takes messages back from a consumer, which gets nothing more until [`Flow::Overdue`] says that it has settled them: they are
    /// requeued as by [`Queue::requeue`], and not counted as failed. With `unsent`, the last of them weren't sent on its link.
    pub fn take_back(
        &mut self,
        id: ConsumerId,
        runs: &[Run],
        unsent: Option<Unsent>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        pass!(self, queue => queue.take_back(id, runs, unsent, now, effects));
    }

    /// Adds annotations to messages that a consumer holds, if this type of queue does that. They are part of the messages from their
    /// next delivery on.
    pub fn annotate(&mut self, runs: &[Run], added: &Arc<Added>, effects: &mut Effects) {
        pass!(self, queue => queue.annotate(runs, added, effects));
    }

    /// Removes consumers and requeues the messages they hold, as [`Queue::requeue`] does. None of them gets these again.
    /// Returns how many consumers are left.
    pub fn leave(
        &mut self,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        now: Nanos,
        effects: &mut Effects,
    ) -> usize {
        pass!(self, queue => queue.leave(consumers, held, failed, now, effects))
    }

    /// Removes all delayed messages, and all ready ones except those on their way to a consumer. Returns how many, and the runs to be logged; one of
    /// the runs has the bytes of all.
    pub fn purge(&mut self, now: Nanos, effects: &mut Effects) -> (u64, Vec<Run>) {
        pass!(self, queue => queue.purge(now, effects))
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// [`NoConsumer`] is the reason why it can't be added.
    pub fn add(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
        effects: &mut Effects,
    ) -> Result<(), NoConsumer> {
        pass!(self, queue => queue.add(id, options, now, effects))
    }

    /// Removes a consumer; its unacknowledged messages stay with its channel. Returns how many consumers are left; `None` if it
    /// didn't exist.
    pub fn cancel(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) -> Option<usize> {
        pass!(self, queue => queue.cancel(id, now, effects))
    }

    /// Changes the flow of a consumer: room, window, credit, or whether it is overdue. Returns its link's state for [`Flow::Credit`]; `None` for
    /// others, and if the consumer is gone.
    #[inline]
    pub fn flow(&mut self, id: ConsumerId, flow: Flow, now: Nanos, effects: &mut Effects) -> Option<CreditState> {
        pass!(self, queue => queue.flow(id, flow, now, effects))
    }

    /// A read requested by [`Effects`] has finished: stored messages in ascending order, each run with consecutive numbers.
    /// Messages that have left meanwhile are dropped.
    pub fn loaded(&mut self, read: StoredRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.loaded(read, runs, now, effects));
    }

    /// A search of a stream by one who isn't its reader: the offset at which it begins, and the chunks that it wants. `None` for other
    /// queues.
    pub fn search(&self, start: StreamStart, filter: Option<Arc<StreamFilter>>) -> Option<(u64, Scan)> {
        match self {
            Self::Stream(stream) => Some(stream.search(start, filter)),
            Self::Ledger(_) => None,
        }
    }

    /// The chunks that a reader of a stream wants to be read: [`StoredRead::Scan`]. `None` if it is gone, and for other queues.
    pub fn scan(&self, id: ConsumerId) -> Option<Scan> {
        match self {
            Self::Stream(stream) => stream.scan(id),
            Self::Ledger(_) => None,
        }
    }

    /// Takes over other effective arguments, because policies changed.
    pub fn configure(&mut self, options: &QueueOptions, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.configure(options, now, effects));
    }

    /// Checks whether a queue with these effective arguments can take over its messages.
    ///
    /// # Errors
    /// [`NotConverted`], the first reason why it can't.
    pub fn check_conversion(&self, options: &QueueOptions) -> Result<(), NotConverted> {
        match self {
            Self::Ledger(queue) if options.queue_type != QueueType::Stream => queue.check_conversion(options),
            _ => Err(NotConverted::Stream),
        }
    }

    /// The default priority and the highest one; 0 if it delivers in the order of arrival.
    pub fn priority_levels(&self) -> (u8, u8) {
        match self {
            Self::Ledger(queue) => queue.priority_levels(),
            Self::Stream(_) => (0, 0),
        }
    }

    /// Numbers from here on belong to messages that aren't part of the queue yet.
    pub fn next_number(&self) -> u64 {
        match self {
            Self::Ledger(queue) => queue.next_number(),
            Self::Stream(queue) => queue.checkpoint().next,
        }
    }

    /// Moves all messages to a new queue with these effective arguments, after [`Queue::check_conversion`] under the same lock.
    /// Messages that consumers have go back first. This queue is as if it were deleted then, but its consumers are notified by
    /// [`Queue::delete`] only. The new queue's counts of deliveries that the log lacks, which are returned, have to be logged.
    ///
    /// # Panics
    /// If it is a stream.
    pub fn convert(
        &mut self,
        options: QueueOptions,
        durable: bool,
        surroundings: Surroundings,
        now: Nanos,
        effects: &mut Effects,
    ) -> (Self, Vec<AttemptRun>) {
        match self {
            Self::Ledger(queue) => {
                let (other, attempts) = queue.convert(options, durable, surroundings, now, effects);
                (Self::Ledger(other), attempts)
            }
            Self::Stream(_) => panic!("a stream isn't converted"),
        }
    }

    /// The first call on a queue that another one was converted to: drops what exceeds its limits.
    pub fn converted(&mut self, effects: &mut Effects) {
        match self {
            Self::Ledger(queue) => queue.converted(effects),
            Self::Stream(_) => {}
        }
    }

    /// Runs due timers for at most `most` messages; the rest is announced again. Returns true if the queue wasn't used for the
    /// time of its `x-expires`: it has to be deleted.
    pub fn run_timers(&mut self, now: Nanos, most: u64, effects: &mut Effects) -> bool {
        pass!(self, queue => queue.run_timers(now, most, effects))
    }

    /// The next deadlines, as far as they are sooner than those announced before.
    #[inline]
    pub fn announce_deadlines(&mut self) -> Deadlines {
        pass!(self, queue => queue.announce_deadlines())
    }

    /// Notes a use of the queue, other than by a consumer.
    pub fn used(&mut self, now: Nanos) {
        pass!(self, queue => queue.used(now));
    }

    /// The messages that the next turn moves to the dead-letter exchange. The caller has to call [`Queue::moved`] or
    /// [`Queue::dead_stay`] afterwards.
    pub fn dead_turn(&mut self, effects: &mut Effects) -> DeadTurn {
        pass!(self, queue => queue.dead_turn(effects))
    }

    /// The turn moves only these of its messages, which are the first ones; the others have to wait for the next turn.
    pub fn dead_turn_is(&mut self, runs: &[DeadRun]) {
        pass!(self, queue => queue.dead_turn_is(runs));
    }

    /// The messages of the last turn were moved; `dropped` of them were routed nowhere. Returns the runs of durable messages,
    /// which have to be logged.
    pub fn moved(&mut self, dropped: u64, effects: &mut Effects) -> Vec<Run> {
        pass!(self, queue => queue.moved(dropped, effects))
    }

    /// The messages of the last turn can't be moved now: they stay where they are, on disk if they came from there.
    pub fn dead_stay(&mut self) {
        pass!(self, queue => queue.dead_stay());
    }

    /// No queue takes the messages of the last turn now. If this queue keeps them until one does, they are tried again later.
    /// Returns whether these are the first since one was moved.
    pub fn dead_blocked(&mut self, now: Nanos, effects: &mut Effects) -> bool {
        pass!(self, queue => queue.dead_blocked(now, effects))
    }

    /// Number of these messages, from `index` on, that its limits allow at the moment.
    pub fn has_room_for(&self, part: BatchPart<'_>) -> u32 {
        pass!(self, queue => queue.acceptable(part))
    }

    /// A publisher is held back for this reason.
    pub fn publisher_held(&mut self, reason: WaitReason, now: Nanos) {
        pass!(self, queue => queue.publisher_held(reason, now));
    }

    /// A publisher that was held back for this reason continues.
    pub fn publisher_released(&mut self, reason: WaitReason) {
        pass!(self, queue => queue.publisher_released(reason));
    }

    /// Closes the queue if the condition holds: it accepts neither messages nor consumers from then on. The caller has to log
    /// the deletion under the same lock.
    ///
    /// # Errors
    /// [`NotDeleted`], the first condition that doesn't hold; the queue stays as it is.
    pub fn close(&mut self, condition: DeleteIf, now: Nanos) -> Result<(), NotDeleted> {
        pass!(self, queue => queue.close(condition, now))
    }

    /// Takes back a close whose deletion never takes effect. A deleted queue stays deleted.
    pub fn reopen(&mut self) {
        pass!(self, queue => queue.reopen());
    }

    /// Deletes the queue: consumers are notified, memory is freed. Returns the number of messages.
    pub fn delete(&mut self, effects: &mut Effects) -> u64 {
        pass!(self, queue => queue.delete(effects))
    }

    /// Fails the queue: its consumers are cancelled and every later call is refused. A deleted queue stays deleted. Records
    /// appended before are still applied once they are durable: a retirement waits for a state that contains them, and would
    /// otherwise block forever.
    pub fn fail(&mut self, reason: String, effects: &mut Effects) {
        pass!(self, queue => queue.fail(reason, effects));
    }

    /// The part of its state that outlives the process, as applied so far.
    pub fn checkpoint(&self) -> Checkpoint {
        pass!(self, queue => queue.checkpoint())
    }

    /// Numbers from here on were never handed out; recorded by a clean stop.
    pub fn delivered_below(&self) -> u64 {
        pass!(self, queue => queue.delivered_below())
    }

    /// Offsets of a stream's consumers that a clean stop has to record.
    pub fn offsets_to_log(&mut self, now: Nanos) -> Vec<KeptOffset> {
        match self {
            Self::Stream(stream) => stream.offsets_to_log(now),
            Self::Ledger(_) => Vec::new(),
        }
    }

    /// Offsets of a stream's consumers couldn't be logged.
    pub fn offsets_not_logged(&mut self, offsets: &[KeptOffset]) {
        if let Self::Stream(stream) = self {
            stream.offsets_not_logged(offsets);
        }
    }

    /// How often messages came back from consumers, where a clean stop has to record it.
    pub fn attempts(&self) -> Vec<AttemptRun> {
        pass!(self, queue => queue.logged_attempts())
    }

    /// The messages that are stored in the shared log.
    #[inline]
    pub fn references(&self) -> &References {
        pass!(self, queue => queue.references())
    }

    /// The references, to be changed under the lock under which the corresponding record was appended.
    #[inline]
    pub fn references_mut(&mut self) -> &mut References {
        pass!(self, queue => queue.references_mut())
    }

    /// Whether it is running, failed or deleted.
    #[inline]
    pub fn state(&self) -> &QueueState {
        pass!(self, queue => queue.state())
    }

    /// Ready messages and consumers.
    pub fn size(&self) -> (u64, usize) {
        pass!(self, queue => (queue.ready(), queue.consumer_count()))
    }

    /// Number of messages on their way to the dead-letter exchange, and number of those moved so far. They are moved in the
    /// order in which they died, so a message that dies now is moved once the second number has grown by the first.
    pub fn dead_letters(&self) -> (u64, u64) {
        pass!(self, queue => queue.dead_letters())
    }

    /// Its gauges; zero for a deleted queue.
    #[inline]
    pub fn gauges(&self) -> QueueGauges {
        pass!(self, queue => queue.gauges())
    }

    /// The queue as a listing shows it.
    pub fn status(&self) -> QueueStatus {
        pass!(self, queue => queue.status())
    }

    /// One consumer as a listing shows it.
    pub fn consumer_status(&self, id: ConsumerId) -> Option<ConsumerStatus> {
        pass!(self, queue => queue.consumer_status(id))
    }

    /// Its counts, with rates; `None` if nothing has been counted at all.
    pub fn counts(&self) -> Option<QueueCounts> {
        pass!(self, queue => queue.counts_if_any())
    }

    /// The count of one kind; `None` if nothing has been counted at all.
    pub fn counted(&self, what: Count) -> Option<u64> {
        pass!(self, queue => queue.counted_of(what))
    }

    /// Deletes those of these messages that were set aside in this way. Returns their runs, which have to be logged.
    pub fn drop_set_aside(&mut self, which: SetAside, first: u64, last: u64, effects: &mut Effects) -> Vec<Run> {
        pass!(self, queue => queue.drop_set_aside(which, first, last, effects))
    }

    /// At most `count` messages that were set aside in this way, after the first `offset`, the lowest number first.
    pub fn peek_set_aside(&self, which: SetAside, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek_set_aside(which, offset, count))
    }

    /// The lowest and the highest number of parked messages among these.
    pub fn parked_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64)> {
        pass!(self, queue => queue.parked_ends(range))
    }

    /// Claims at most `most` parked messages with numbers in `range` out of those that were read, runs of messages by the number
    /// of their first. Until the caller calls [`Queue::parked_moved`], which it has to, nothing else removes them.
    pub fn claim_parked(&mut self, among: &Candidates<'_>) -> Vec<ParkedMessage> {
        pass!(self, queue => queue.claim_parked(among))
    }

    /// Ends the claim: the messages with these numbers, in ascending order, have left for other queues or other places of this
    /// one, and the others stay parked. Returns the runs that left, which have to be logged.
    pub fn parked_moved(&mut self, moved: &[u64]) -> Vec<Run> {
        pass!(self, queue => queue.parked_moved(moved))
    }

    /// The lowest number of a ready message among these, an upper bound of the highest, and how many there are. Of a stream, its
    /// messages.
    pub fn ready_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64, u64)> {
        pass!(self, queue => queue.ready_ends(range))
    }

    /// Claims at most `most` ready messages with numbers in `range`, in the order of their numbers, for a move to other queues.
    /// `read` are messages that were read from disk: runs by the number of their first, in ascending order. Until the caller calls
    /// [`Queue::ready_moved`] or [`Queue::unclaim_ready`], which it has to for each of them, they count as unacknowledged. Those
    /// that are on their way to consumers stay, and of a stream all.
    pub fn claim_ready(&mut self, among: &Candidates<'_>, now: Nanos, effects: &mut Effects) -> ReadyFound {
        pass!(self, queue => queue.claim_ready(among, now, effects))
    }

    /// As [`Queue::claim_ready`], but the messages stay as they are. Of a stream, those that were read.
    pub fn find_ready(&self, among: &Candidates<'_>, now: Nanos) -> ReadyFound {
        pass!(self, queue => queue.find_ready(among, now))
    }

    /// Claimed messages couldn't be moved, and are ready again; no delivery is counted.
    pub fn unclaim_ready(&mut self, runs: &[Run], effects: &mut Effects) {
        pass!(self, queue => queue.unclaim_ready(runs, effects));
    }

    /// Claimed messages have left for other queues or other places of this one. The caller logs their runs, unless the queue was
    /// deleted meanwhile; then the answer is `false`.
    pub fn ready_moved(&mut self, runs: &[Run]) -> bool {
        pass!(self, queue => queue.ready_moved(runs))
    }

    /// Number and body bytes of the messages that were set aside in this way.
    pub fn set_aside(&self, which: SetAside) -> (u64, u64) {
        pass!(self, queue => queue.set_aside(which))
    }

    /// At most `count` ready messages, after the first `offset`, in the order in which they would be delivered.
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek(offset, count))
    }
}
