//! A queue of any type: the calls that all machines have, passed on to the one behind it. What only one of them can do is called on
//! that machine: [`Queue::ledger`], [`Queue::stream`].
//!
//! The caller holds the queue's lock. It logs what [`crate::LedgerQueue::submit`] accepted and reports the place with
//! [`crate::LedgerQueue::submitted`]; [`Queue::apply`] is idempotent and in order. [`Effects`] are fired after the lock is released.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use leveret_message::Added;
use leveret_model::{QueueOptions, QueueType};

use crate::answers::{Candidates, DeleteIf, NoConsumer, NotDeleted, Peeked, QueueState, ReadyFound, TurnEnd};
use crate::consumer_id::ConsumerId;
use crate::counts::{Count, QueueCounts};
use crate::deadlines::Deadlines;
use crate::dispatch::{ConsumerOptions, CreditState, Deliveries, Flow, Portion, Unsent};
use crate::effects::{Effects, Taken};
use crate::gauges::QueueGauges;
use crate::ledger::Departure;
use crate::ledger_queue::LedgerQueue;
use crate::nanos::Nanos;
use crate::pending::{Place, Watermarks};
use crate::records::Run;
use crate::replica::{Checkpoint, Replica};
use crate::shared::References;
use crate::status::{ConsumerStatus, QueueStatus};
use crate::stream::StreamQueue;
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

/// One match for each call that all machines have: one that lacks it doesn't compile.
macro_rules! pass {
    ($queue:expr, $machine:ident => $call:expr) => {
        match $queue {
            Queue::Ledger($machine) => $call,
            Queue::Stream($machine) => $call,
        }
    };
}

impl From<LedgerQueue> for Queue {
    fn from(queue: LedgerQueue) -> Self {
        Self::Ledger(queue)
    }
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

    /// The machine of a classic or quorum queue; `None` for a stream.
    #[inline]
    pub fn ledger(&self) -> Option<&LedgerQueue> {
        match self {
            Self::Ledger(queue) => Some(queue),
            Self::Stream(_) => None,
        }
    }

    /// The machine of a classic or quorum queue, to be changed; `None` for a stream.
    #[inline]
    pub fn ledger_mut(&mut self) -> Option<&mut LedgerQueue> {
        match self {
            Self::Ledger(queue) => Some(queue),
            Self::Stream(_) => None,
        }
    }

    /// The machine of a stream; `None` for other queues.
    #[inline]
    pub fn stream(&self) -> Option<&StreamQueue> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Ledger(_) => None,
        }
    }

    /// The machine of a stream, to be changed; `None` for other queues.
    #[inline]
    pub fn stream_mut(&mut self) -> Option<&mut StreamQueue> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Ledger(_) => None,
        }
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

    /// Puts messages back into their places, flagged redelivered. `failed` counts this delivery of them as failed.
    pub fn requeue(&mut self, deliveries: Deliveries<'_>, failed: bool, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.requeue(deliveries, failed, now, effects));
    }

    /// As [`Queue::requeue`], and adds annotations to the messages, if this type of queue does that. A time of the next delivery among
    /// them delays the messages. If there is a deferral token, too, [`crate::LedgerQueue::claim`] fetches them by it before that time.
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

    /// Takes over other effective arguments, because policies changed.
    pub fn configure(&mut self, options: &QueueOptions, now: Nanos, effects: &mut Effects) {
        pass!(self, queue => queue.configure(options, now, effects));
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

    /// The lowest number of a ready message among these, an upper bound of the highest, and how many there are. Of a stream, its
    /// messages.
    pub fn ready_ends(&self, range: RangeInclusive<u64>) -> Option<(u64, u64, u64)> {
        pass!(self, queue => queue.ready_ends(range))
    }

    /// As [`crate::LedgerQueue::claim_ready`], but the messages stay as they are. Of a stream, those that were read.
    pub fn find_ready(&self, among: &Candidates<'_>, now: Nanos) -> ReadyFound {
        pass!(self, queue => queue.find_ready(among, now))
    }

    /// At most `count` ready messages, after the first `offset`, in the order in which they would be delivered.
    pub fn peek(&self, offset: u64, count: usize) -> Vec<Peeked> {
        pass!(self, queue => queue.peek(offset, count))
    }
}
