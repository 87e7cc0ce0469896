//! A queue of any type: the calls that a broker makes, passed on to the machine behind it.
//!
//! The caller holds the queue's lock. It logs what [`Queue::submit`] accepted and reports the place with
//! [`Queue::submitted`]; [`Queue::apply`] is idempotent and in order. [`Effects`] are fired after the lock is released.

use std::ops::Range;
use std::sync::Arc;

use leveret_message::Batch;
use leveret_model::{QueueOptions, QueueType};

use crate::Nanos;
use crate::answers::{
    Checkpoint, DeleteIf, GetOutcome, NoConsumer, NotDeleted, Peeked, QueueState, Rejection, Submission, TurnEnd,
};
use crate::beginning::{Recovered, Surroundings};
use crate::consumer::{ConsumerOptions, CreditState, Flow};
use crate::consumer_id::ConsumerId;
use crate::counts::{Count, QueueCounts};
use crate::dead_letter::DeadTurn;
use crate::effects::{Effects, Link, Run, Taken};
use crate::gauges::QueueGauges;
use crate::group::Placement;
use crate::ledger::Outcome;
use crate::ledger_queue::ClassicQueue;
use crate::place::{Place, Watermarks};
use crate::shared::References;
use crate::status::{ConsumerStatus, QueueStatus};
use crate::stored_reads::StoredRead;
use crate::wait::WaitReason;

/// See the module. An enum, since the machines are few and known: a call costs no more than on the machine itself.
pub enum Queue {
    /// `x-queue-type: classic`.
    Classic(ClassicQueue),
}

/// One match for each call, so that a machine that lacks it doesn't compile.
macro_rules! pass {
    ($queue:expr, $machine:ident => $call:expr) => {
        match $queue {
            Queue::Classic($machine) => $call,
        }
    };
}

impl Queue {
    /// The machine for these options, with what recovery found in its log. With `durable`, persistent messages of it are
    /// logged.
    ///
    /// # Panics
    /// For a type that [`QueueType::is_built`] denies: the model refuses to declare it.
    pub fn new(
        options: QueueOptions,
        durable: bool,
        recovered: Recovered,
        surroundings: Surroundings,
        now: Nanos,
    ) -> Self {
        match options.queue_type {
            QueueType::Classic => Self::Classic(ClassicQueue::new(options, durable, recovered, surroundings, now)),
            QueueType::Quorum | QueueType::Stream => unreachable!("the model refuses {:?} queues", options.queue_type),
        }
    }

    /// Phase one: validates and reserves numbers. Nothing is in the queue before it is applied. None when the queue is
    /// closed.
    #[inline]
    pub fn submit(&mut self, batch: &Batch, index: u32, count: u32, now: Nanos) -> Option<Submission> {
        pass!(self, queue => queue.submit(batch, index, count, now))
    }

    /// The accepted messages, those of `batch` from `index` on, have their place.
    #[inline]
    pub fn submitted(
        &mut self,
        submission: Submission,
        batch: Arc<Batch>,
        index: u32,
        placement: Placement<'_>,
        now: Nanos,
        effects: &mut Effects,
    ) {
        pass!(self, queue => queue.submitted(submission, batch, index, placement, now, effects));
    }

    /// Whether there is no memory for volatile messages: if they can be logged they have to be, and are durable.
    #[inline]
    pub fn spills_volatile(&self) -> bool {
        pass!(self, queue => queue.spills_volatile())
    }

    /// Whether messages that aren't applied yet are part of a group: later ones have to be durable then.
    #[inline]
    pub fn awaits_group(&self) -> bool {
        pass!(self, queue => queue.awaits_group())
    }

    /// The place that the last message waits for that isn't applied yet. Behind a group that is still open nothing has to
    /// wait: closing the group has this queue applied.
    #[inline]
    pub fn pending_place(&self) -> Place {
        pass!(self, queue => queue.pending_place())
    }

    /// Whether its consumers could take messages that have left memory, or many that haven't.
    #[inline]
    pub fn is_behind(&self) -> bool {
        pass!(self, queue => queue.is_behind())
    }

    /// Phase two: everything that its commit stream has written becomes part of the queue, but of groups only what is
    /// durable. Where messages have to be durable, see [`Watermarks::synced`].
    #[inline]
    pub fn apply(&mut self, reached: Watermarks, effects: &mut Effects) {
        pass!(self, queue => queue.apply(reached, effects));
    }

    /// What was submitted and isn't applied will never be reached, since its commit stream went on without it: a leadership
    /// that is lost. Nobody was told of it; who published it offers it again. Returns its numbers, which are given out again:
    /// those that stand in the shared log have to be let go by the caller, under the same lock.
    pub fn withdraw(&mut self) -> Range<u64> {
        pass!(self, queue => queue.withdraw())
    }

    /// Hands messages to a scheduled consumer: at most `messages` and about `bytes`, and its fair share.
    #[inline]
    pub fn take(
        &mut self,
        id: ConsumerId,
        messages: u32,
        bytes: u64,
        now: Nanos,
        out: &mut Vec<Taken>,
        effects: &mut Effects,
    ) -> TurnEnd {
        pass!(self, queue => queue.take(id, messages, bytes, now, out, effects))
    }

    /// Takes one message that isn't on its way to a consumer; `link` and `key` are signalled when it has to be read from
    /// disk first.
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

    /// Messages leave for good: acknowledged, or rejected without requeue. Durable runs are to be logged by the caller, under
    /// the same lock.
    pub fn settle(
        &mut self,
        id: Option<ConsumerId>,
        runs: &[Run],
        outcome: Outcome,
        now: Nanos,
        effects: &mut Effects,
    ) {
        pass!(self, queue => queue.settle(id, runs, outcome, now, effects));
    }

    /// As [`Queue::settle`] for acknowledged messages of many consumers: who is next is looked for once.
    #[inline]
    pub fn acknowledge(&mut self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.acknowledge(settled, now, effects));
    }

    /// Deliveries are rejected without requeue: they die, if there is a dead-letter exchange.
    pub fn reject(&mut self, id: Option<ConsumerId>, runs: &[Run], now: Nanos, effects: &mut Effects) -> Rejection {
        pass!(self, queue => queue.reject(id, runs, now, effects))
    }

    /// Messages go back to their place, flagged redelivered. `failed` counts this delivery of them as failed.
    pub fn requeue(&mut self, id: Option<ConsumerId>, runs: &[Run], failed: bool, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.requeue(id, runs, failed, now, effects));
    }

    /// Consumers end and what they held goes back, as by [`Queue::requeue`]. None of them gets it again. Returns how many
    /// consumers are left.
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

    /// Removes all ready messages but those that are on their way to a consumer; returns how many and the runs to be logged,
    /// one of which has the bytes of all.
    pub fn purge(&mut self, now: Nanos, effects: &mut Effects) -> (u64, Vec<Run>) {
        pass!(self, queue => queue.purge(now, effects))
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// [`NoConsumer`] says what is in the way.
    pub fn add(
        &mut self,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
        effects: &mut Effects,
    ) -> Result<(), NoConsumer> {
        pass!(self, queue => queue.add(id, options, now, effects))
    }

    /// Removes a consumer; what it holds unacknowledged stays with its channel. Returns how many are left; none when it wasn't
    /// there.
    pub fn cancel(&mut self, id: ConsumerId, now: Nanos, effects: &mut Effects) -> Option<usize> {
        pass!(self, queue => queue.cancel(id, now, effects))
    }

    /// The flow of a consumer has changed: room, window or credit. Returns its link's state for [`Flow::Credit`]; none for
    /// others, and when the consumer is gone.
    #[inline]
    pub fn flow(&mut self, id: ConsumerId, flow: Flow, now: Nanos, effects: &mut Effects) -> Option<CreditState> {
        pass!(self, queue => queue.flow(id, flow, now, effects))
    }

    /// A read is done that [`Effects`] asked for: stored messages in ascending order, each run with consecutive numbers.
    /// Messages that left meanwhile are dropped.
    pub fn loaded(&mut self, read: StoredRead, runs: Vec<(u64, Arc<Batch>)>, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.loaded(read, runs, now, effects));
    }

    /// Does what is due, for at most `most` messages; what is left is announced again. True when the queue wasn't used for the
    /// time of its `x-expires`: it is to be deleted.
    pub fn run_timers(&mut self, now: Nanos, most: u64, effects: &mut Effects) -> bool {
        pass!(self, queue => queue.run_timers(now, most, effects))
    }

    /// The next deadline, if it is sooner than the one announced before.
    #[inline]
    pub fn announce_deadline(&mut self) -> Option<Nanos> {
        pass!(self, queue => queue.announce_deadline())
    }

    /// Notes a use of the queue, other than by a consumer.
    pub fn used(&mut self, now: Nanos) {
        pass!(self, queue => queue.used(now));
    }

    /// The messages that the next turn moves to the dead-letter exchange. [`Queue::moved`] or [`Queue::dead_stay`] has to
    /// follow.
    pub fn dead_turn(&mut self, effects: &mut Effects) -> DeadTurn {
        pass!(self, queue => queue.dead_turn(effects))
    }

    /// The messages of the last turn are gone; `dropped` of them had nowhere to go. Returns the runs of durable messages,
    /// which have to be logged.
    pub fn moved(&mut self, dropped: u64, effects: &mut Effects) -> Vec<Run> {
        pass!(self, queue => queue.moved(dropped, effects))
    }

    /// The messages of the last turn can't be moved now: they stay where they are, on disk if they came from there.
    pub fn dead_stay(&mut self) {
        pass!(self, queue => queue.dead_stay());
    }

    /// A publisher is held back, for this reason.
    pub fn publisher_held(&mut self, reason: WaitReason, now: Nanos) {
        pass!(self, queue => queue.publisher_held(reason, now));
    }

    /// One of those held back for this reason goes on.
    pub fn publisher_released(&mut self, reason: WaitReason) {
        pass!(self, queue => queue.publisher_released(reason));
    }

    /// Closes the queue, if this holds: it takes neither messages nor consumers from here on. Its deletion is to be logged
    /// under the same lock.
    ///
    /// # Errors
    /// [`NotDeleted`], the first that doesn't hold; the queue stays as it is.
    pub fn close(&mut self, condition: DeleteIf, now: Nanos) -> Result<(), NotDeleted> {
        pass!(self, queue => queue.close(condition, now))
    }

    /// The queue is gone: consumers are told, everything in memory goes. Returns the number of messages.
    pub fn delete(&mut self, effects: &mut Effects) -> u64 {
        pass!(self, queue => queue.delete(effects))
    }

    /// The queue cannot go on; its consumers are cancelled and every later call is refused. A deleted one stays so.
    /// Records appended before are still applied when they are durable: a retirement asks for a state that reflects
    /// it, and would wait for ever.
    pub fn fail(&mut self, reason: String, effects: &mut Effects) {
        pass!(self, queue => queue.fail(reason, effects));
    }

    /// The part of its state that outlives the process, as applied so far.
    pub fn checkpoint(&self) -> Checkpoint {
        pass!(self, queue => queue.checkpoint())
    }

    /// Numbers from here on were never handed out: what a clean stop records.
    pub fn delivered_below(&self) -> u64 {
        pass!(self, queue => queue.delivered_below())
    }

    /// Which of its messages stand in the shared log.
    #[inline]
    pub fn references(&self) -> &References {
        pass!(self, queue => queue.references())
    }

    /// To be changed when a record that says so was appended, under the same lock.
    #[inline]
    pub fn references_mut(&mut self) -> &mut References {
        pass!(self, queue => queue.references_mut())
    }

    /// Running, failed or deleted.
    #[inline]
    pub fn state(&self) -> &QueueState {
        pass!(self, queue => queue.state())
    }

    /// Ready messages and consumers.
    pub fn size(&self) -> (u64, usize) {
        pass!(self, queue => (queue.ready(), queue.consumer_count()))
    }

    /// Messages on their way to the dead-letter exchange, and how many have been moved so far. They are in the order in which
    /// they died, so what dies now is moved once the second has grown by the first.
    pub fn dead_letters(&self) -> (u64, u64) {
        pass!(self, queue => queue.dead_letters())
    }

    /// Its sizes; none for a queue that is deleted.
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

    /// Its counts, with rates; none if nothing has been counted at all.
    pub fn counts(&self) -> Option<QueueCounts> {
        pass!(self, queue => queue.counts_if_any())
    }

    /// How many of one kind it counted; none if nothing has been counted at all.
    pub fn counted(&self, what: Count) -> Option<u64> {
        pass!(self, queue => queue.counted_of(what))
    }

    /// At most `count` ready messages, after the first `offset`, in the order in which they would be delivered.
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek(offset, count))
    }
}
