//! A queue as everything outside this module refers to it, wherever it is: the narrow waist between clients and queues.
//!
//! Callers make calls and know no lock. A queue on another node is the variant `Away` of [`Where`], whose calls go to that node, and those of
//! a replicated queue (`Placed`) go to wherever its leader is. No call
//! takes a function, and those that need an answer return [`NowOrLater`], since only a queue on this node can give one at once:
//!
//! * messages in: `publish`, `publish_in`; the commit stream says later what became of them, and has `apply` called;
//! * messages out: `take`, out of what the queue handed to this consumer;
//! * decisions on them: `settle`, `acknowledge`, `settle_in`, `reject`, `modify`, `take_back`;
//! * consumers: `consume`, `cancel`, `leave`, `grant`, `flow`; who wants to know of the queue's end: `watch`, `unwatch`;
//! * publishers that wait: `publisher_waits`, `publisher_goes_on`;
//! * all questions: [`ask`](QueueRef::ask).
//!
//! Calls that only one kind of queue has are made on the reference that only that kind gives: [`QueueRef::as_stream`],
//! [`QueueRef::as_ledger`]. The home's own calls (declaring, deleting, configuring, checkpoints, moves of messages) are made on the
//! handle there, [`QueueRef::home`], by the broker alone. The rest is known without the home: names, arguments, the commit
//! stream, and as far as this node has heard, whether it has failed.
//!
//! # Queues without a ledger
//!
//! An MQTT subscription with QoS 0 that ends with its connection has neither a ledger nor a handle: it is a place in routing that
//! leads to a connection's outbox. Of the calls above it would need `publish`, which puts the messages into the outbox or drops them
//! and is answered at once with all accepted and nothing to wait for; the identity (`key`, `is_same`), by which routes tell targets
//! apart; and the end, at which its connection takes the place out of routing. It needn't have any of the others. Nothing becomes
//! durable, so it belongs to no commit stream, no group has a part for it (a transaction publishes to it once it has committed), and
//! nothing is applied; nothing is settled, returned, dead-lettered, purged or paced; nobody consumes or watches it, for its only
//! reader is its owner; and no list asks it anything, since its connection shows it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_log::Wait;
use leveret_message::{Added, BatchPart};
use leveret_model::{Durability, EffectiveQueue, Home, MemberNumber, Queue as QueueInfo, QueueType, Topology};
use leveret_queue::{
    ConsumerId, ConsumerOptions, CreditState, Deliveries, Departure, Flow, Link, Portion, QueueGauges, QueueState, Run,
    Taken, TurnEnd, Unsent, WaitReason,
};

use super::{Audience, LocalQueue, NoConsumer, Published, Reason, RefusalReason};
use crate::asked::NowOrLater;
use crate::bodies::BodyOwner;
use crate::group::Group;
use crate::outbox::Outbox;
use crate::placed::PlacedQueue;
use crate::publish_origin::PublishOrigin;
use crate::published::PublishedHere;
use crate::questions::Ask;
use crate::queue_stream::QueueStream;
use crate::reads::{ChunksFor, MessagesFor, Peek, Purpose};
use crate::remote::{AwayQueue, CallKind};
use crate::services::Services;
use crate::settlement::Settlement;
use crate::streams::{CommitStream, StreamRef, Waiter, waits};
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;
use crate::wait_for::WaitFor;

/// A queue, cheap to clone.
#[derive(Clone)]
pub struct QueueRef {
    pub(super) place: Where,
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
pub(super) enum Where {
    /// On this node.
    Here(LocalQueue),
    /// On another member of the cluster.
    Away(Arc<AwayQueue>),
    /// On several members, of which one leads.
    Placed(Arc<PlacedQueue>),
}

/// The commit stream that a queue belongs to.
pub enum StreamOf<'a> {
    /// The queue keeps it.
    Queue(&'a QueueStream),
    /// It is that of the lane to its node.
    Lane(StreamRef),
}

impl Deref for StreamOf<'_> {
    type Target = dyn CommitStream;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Queue(stream) => &***stream,
            Self::Lane(stream) => &**stream,
        }
    }
}

impl StreamOf<'_> {
    /// It as one of any commit streams.
    pub fn shared(&self) -> StreamRef {
        match self {
            Self::Queue(stream) => stream.shared(),
            Self::Lane(stream) => stream.clone(),
        }
    }
}

/// The identity of a queue as a key of maps. It is unique among queues that exist at the same time: an entry with it has to keep
/// its queue, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueKey(usize);

/// One match for each call; without a second expression, a queue elsewhere does nothing.
macro_rules! pass {
    ($queue:expr, $here:ident => $call:expr) => {
        pass!($queue, $here => $call, _away => {})
    };
    ($queue:expr, $here:ident => $call:expr, $away:ident => $refused:expr) => {
        match &$queue.place {
            $crate::queue_handle::queue_ref::Where::Here($here) => $call,
            $crate::queue_handle::queue_ref::Where::Away($away) => $refused,
            $crate::queue_handle::queue_ref::Where::Placed(placed) => match &*placed.machine() {
                Some(machine) => {
                    let $here = &machine.queue;
                    $call
                }
                None => {
                    let $away = placed.away();
                    $refused
                }
            },
        }
    };
}
pub(super) use pass;

impl From<LocalQueue> for QueueRef {
    fn from(queue: LocalQueue) -> Self {
        // A stream has its messages in chunks, and other queues give them times or ids of their own: neither shares any.
        let has_its_own = queue.info().queue_type == QueueType::Stream || queue.info().options.changes_messages;
        // One that is about to be given other members shares none any more.
        let is_alone = has_its_own || queue.shares_nothing.load(Ordering::Relaxed);
        let log_stream = (queue.is_durable() && !is_alone).then(|| queue.stream().id());
        let copies_refused = queue.copies_refused.load(Ordering::Relaxed);
        let kept = Kept { log_stream, bodies_in_memory: log_stream.is_none() || copies_refused };
        Self { place: Where::Here(queue), kept }
    }
}

impl From<Arc<AwayQueue>> for QueueRef {
    fn from(queue: Arc<AwayQueue>) -> Self {
        Self { place: Where::Away(queue), kept: Kept { log_stream: None, bodies_in_memory: true } }
    }
}

impl From<Arc<PlacedQueue>> for QueueRef {
    fn from(queue: Arc<PlacedQueue>) -> Self {
        Self { place: Where::Placed(queue), kept: Kept { log_stream: None, bodies_in_memory: true } }
    }
}

/// The handle of a queue at its home.
pub(crate) enum HomeHandle<'a> {
    /// The reference keeps it.
    Kept(&'a LocalQueue),
    /// The machine of a replicated queue, until the leader changes.
    Machine(LocalQueue),
}

impl Deref for HomeHandle<'_> {
    type Target = LocalQueue;

    #[inline]
    fn deref(&self) -> &LocalQueue {
        match self {
            Self::Kept(queue) => queue,
            Self::Machine(queue) => queue,
        }
    }
}

impl QueueRef {
    /// A queue that isn't on this node alone; `None` if it is.
    pub(crate) fn elsewhere(
        info: &Arc<QueueInfo>,
        topology: &Topology,
        services: &Arc<Services>,
        now: Nanos,
    ) -> Option<Self> {
        match info.home {
            Home::Placement(_) => Some(services.placements.queue(info, topology, services, now).into()),
            Home::Owner(member) if member != services.member && topology.members().next().is_some() => {
                let stream = services.streams.of(info);
                Some(AwayQueue::new(info.clone(), member, topology, &services.lanes, stream).into())
            }
            Home::Owner(_) => None,
        }
    }

    /// Whether it is a replicated queue that this node may lead in a moment: nobody else does, as far as it knows.
    pub fn may_be_led_here(&self) -> bool {
        self.as_placed().is_some_and(|placed| placed.machine().is_none() && placed.member().is_none())
    }

    /// The queue as the machine that this node has of it now, if it has one: what refers to a replicated queue in this way refers to nothing
    /// once the leader has changed.
    pub fn at_home(&self) -> Option<Self> {
        match &self.place {
            Where::Here(_) => Some(self.clone()),
            Where::Away(_) => None,
            Where::Placed(placed) => placed.machine().as_ref().map(|machine| machine.queue.clone().into()),
        }
    }

    /// Whether both are the same queue. A queue that was deleted and declared again is another one.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Where::Here(one), Where::Here(other)) => Arc::ptr_eq(one, other),
            (Where::Away(one), Where::Away(other)) => Arc::ptr_eq(one, other),
            (Where::Placed(one), Where::Placed(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Its key in maps.
    #[inline]
    pub fn key(&self) -> QueueKey {
        QueueKey(match &self.place {
            Where::Here(queue) => Arc::as_ptr(queue).addr(),
            Where::Away(away) => Arc::as_ptr(away).addr(),
            Where::Placed(placed) => Arc::as_ptr(placed).addr(),
        })
    }

    /// Its declaration.
    #[inline]
    pub fn info(&self) -> &Arc<QueueInfo> {
        match &self.place {
            Where::Here(queue) => queue.info(),
            Where::Away(away) => away.info(),
            Where::Placed(placed) => placed.info(),
        }
    }

    /// Its effective arguments, by its declaration and the policies that apply.
    pub fn effective(&self) -> Arc<EffectiveQueue> {
        match &self.place {
            Where::Here(queue) => queue.effective(),
            Where::Away(away) => away.effective(),
            Where::Placed(placed) => placed.effective(),
        }
    }

    /// The queue that it was converted to, or that it was made by being given other members, or itself.
    pub fn newest(&self) -> Self {
        match &self.place {
            Where::Here(queue) => match (queue.successor(), queue.spread_to()) {
                (Some(next), _) => Self::from(next.clone()).newest(),
                (None, Some(placed)) => placed.clone().into(),
                (None, None) => self.clone(),
            },
            Where::Away(_) | Where::Placed(_) => self.clone(),
        }
    }

    /// Has a consumer that was cancelled go on at the queue that this one was made by being given other members. Returns that; `None` if there
    /// is none, or if it doesn't take the consumer.
    pub fn follow(&self, id: ConsumerId, now: Nanos) -> Option<Self> {
        let Where::Here(queue) = &self.place else { return None };
        let placed = queue.spread_to()?;
        let options = queue.left_consumer(id)?;
        match placed.consume(id, options, now) {
            NowOrLater::Now(Err(_)) => None,
            NowOrLater::Now(Ok(())) | NowOrLater::Later(_) => Some(placed.clone().into()),
        }
    }

    /// It is this replicated queue from now on: whoever has this one finds the other by it.
    pub(crate) fn spread(&self, to: &Self, services: &Services) {
        let Some(placed) = to.as_placed() else { return };
        match &self.place {
            Where::Here(queue) => services.placements.take_over(queue, placed),
            Where::Away(away) => away.moved(placed.away()),
            Where::Placed(_) => {}
        }
    }

    /// Its deletion is durable: who waits for it is told, and at its home its memory and its log are freed.
    pub(crate) fn delete(&self) {
        match &self.place {
            Where::Here(queue) => queue.delete(),
            Where::Away(away) => away.deleted(),
            Where::Placed(placed) => placed.delete(),
        }
    }

    /// Its handle at its home, for calls that only its home makes. A queue on another node has none here.
    #[inline]
    pub(crate) fn home(&self) -> Option<HomeHandle<'_>> {
        match &self.place {
            Where::Here(queue) => Some(HomeHandle::Kept(queue)),
            Where::Away(_) => None,
            Where::Placed(placed) => {
                placed.machine().as_ref().map(|machine| HomeHandle::Machine(machine.queue.clone()))
            }
        }
    }

    /// The queue as a replicated one, if it is.
    pub(crate) fn as_placed(&self) -> Option<&Arc<PlacedQueue>> {
        match &self.place {
            Where::Placed(placed) => Some(placed),
            Where::Here(_) | Where::Away(_) => None,
        }
    }

    /// The queue as one of another node, for calls that are made there.
    pub(crate) fn as_away(&self) -> Option<&Arc<AwayQueue>> {
        match &self.place {
            Where::Here(_) => None,
            Where::Away(away) => Some(away),
            Where::Placed(placed) => placed.machine().is_none().then(|| placed.away()),
        }
    }

    /// The member whose node serves it now; `None` for a replicated queue without a leader that this node knows of.
    pub fn member(&self) -> Option<MemberNumber> {
        match &self.place {
            Where::Here(queue) => queue.info().home.owner(),
            Where::Away(away) => away.info().home.owner(),
            Where::Placed(placed) => placed.member(),
        }
    }

    /// Whether its messages are on another node.
    pub fn is_away(&self) -> bool {
        self.home().is_none()
    }

    /// A reference that knows how the queue keeps messages now.
    pub(crate) fn renewed(&self) -> Self {
        match &self.place {
            Where::Here(queue) => Self::from(queue.clone()),
            Where::Away(_) | Where::Placed(_) => self.clone(),
        }
    }

    /// The commit stream of what is submitted to it now.
    #[inline]
    pub fn stream(&self) -> StreamOf<'_> {
        match &self.place {
            Where::Here(queue) => StreamOf::Queue(queue.stream()),
            Where::Away(away) => StreamOf::Lane(away.stream()),
            Where::Placed(placed) => StreamOf::Lane(placed.stream()),
        }
    }

    /// The meaning of a confirm.
    pub fn durability(&self) -> Durability {
        pass!(self, queue => queue.durability(), away => away.info().durability(Durability::Synced))
    }

    /// Offers these messages. With `shared`, the batch is stored in the shared log from that
    /// number on, for this queue among others.
    #[inline]
    pub fn publish(&self, part: BatchPart<'_>, persistent: bool, audience: Audience, now: Nanos) -> Published {
        if let Where::Placed(placed) = &self.place {
            return placed.publish(part, persistent, audience, now);
        }
        pass!(self, queue => {
            let published = queue.publish(part, persistent, audience, now);
            if published.is_gone && let Some(placed) = queue.spread_to() {
                // A body that has a file of its own may not be in memory: its publisher is told that it wasn't taken.
                let has_large = part.indexes().any(|at| part.batch.message(at as usize).large.is_some());
                return match has_large {
                    true => PublishedHere::none().into(),
                    false => placed.publish(part, persistent, audience, now),
                };
            }
            queue.taps.put(&queue.info, part.first(published.taken()), now);
            queue.told(published, part.count)
        }, away => away.publish(part, persistent))
    }

    /// Offers messages of a writer on another node. `None` if this node can't take them: it doesn't lead the queue any more.
    pub fn publish_of(
        &self,
        origin: PublishOrigin,
        part: BatchPart<'_>,
        persistent: bool,
        now: Nanos,
    ) -> Option<Published> {
        let home = self.home()?;
        let published = home.publish_of(origin, part, persistent, Audience::Unpaced(None), now)?;
        Some(published.into())
    }

    /// A publish of a replicated queue wasn't offered, since there is no machine of it: this node takes none behind it.
    pub fn missed(&self, origin: PublishOrigin) {
        if let Some(placed) = self.as_placed() {
            placed.missed(origin);
        }
    }

    /// Offers messages as part of a group. Persistent ones become part of the queue when the group is durable; volatile ones at
    /// once, or behind pending messages.
    pub fn publish_in(&self, group: &mut Group, part: BatchPart<'_>, persistent: bool, now: Nanos) -> Published {
        if self.has_left(group) {
            group.break_off();
            return PublishedHere::none().into();
        }
        pass!(self, queue => {
            let super::PublishedIn { accepted, ticket } = queue.publish_in(group, part, persistent, now);
            queue.told(PublishedHere { accepted, awaited: ticket.into(), ..PublishedHere::none() }, part.count)
        }, away => away.publish_in(|lane| group.away_in(lane), part, persistent))
    }

    /// Whether it is a replicated queue that this node leads since a group was begun: then it isn't in the group's stream.
    fn has_left(&self, group: &Group) -> bool {
        let machine = self.as_placed().map(|placed| placed.machine());
        let stream = machine.as_ref().and_then(|machine| Some(machine.as_ref()?.queue.stream().id()));
        stream.is_some_and(|stream| stream != group.stream())
    }

    /// The reason why it refuses messages, as far as this node knows.
    pub fn refusal_reason(&self) -> RefusalReason {
        if self.has_failed() { RefusalReason::Stopped } else { RefusalReason::Limit }
    }

    /// Applies all messages that are durable, or written if that is enough for this queue.
    pub fn apply(&self) {
        pass!(self, queue => queue.apply());
    }

    /// The place that everything submitted by this node so far waits for.
    pub fn awaited(&self) -> Awaited {
        if let Where::Placed(placed) = &self.place {
            return placed.awaited();
        }
        pass!(self, queue => {
            let here = PublishedHere { accepted: 1, awaited: queue.awaited(), ..PublishedHere::none() };
            queue.told(here, 1).awaited
        }, away => away.awaited())
    }

    /// Has a commit stream apply the queue, in place of a publisher that is gone.
    pub fn waiter(&self) -> Waiter {
        match &self.place {
            Where::Here(queue) => Waiter::Queue(queue.clone()),
            Where::Away(away) => Waiter::Queue(away.clone()),
            Where::Placed(placed) => Waiter::Queue(placed.clone()),
        }
    }

    /// See [`leveret_queue::Queue::take`].
    #[inline]
    pub fn take(&self, id: ConsumerId, most: Portion, now: Nanos, out: &mut Vec<Taken>) -> TurnEnd {
        match &self.place {
            Where::Here(queue) => queue.take_tapped(id, most, now, out),
            Where::Away(away) => away.take(id, most, out),
            Where::Placed(placed) => placed.take(id, most, now, out),
        }
    }

    /// Carries out a consumer's decision on messages. This takes effect at once, and becomes durable with the log's lazy flush or
    /// as soon as possible. Rejected messages go to the dead-letter exchange, if the queue has one; if the queue failed, after a
    /// restart. Returns the ticket to wait for; `None` if nothing was logged.
    pub fn settle(&self, deliveries: Deliveries<'_>, how: Settlement, wait: Wait, now: Nanos) -> Option<Ticket> {
        match &self.place {
            Where::Here(queue) => queue.decide(deliveries, how, wait, now),
            Where::Away(away) => away.call_and_wait(wait, || {
                let (consumer, runs) = (deliveries.consumer, deliveries.runs.to_vec());
                CallKind::Settle { consumer, runs, how, group: None }
            }),
            Where::Placed(placed) => placed.settle(deliveries, how, wait, now),
        }
    }

    /// Removes messages for good as part of a group: at once here, and after a restart if the group was durable. Nothing is
    /// dead-lettered: moves of dead letters are groups of their own.
    pub fn settle_in(&self, group: &mut Group, deliveries: Deliveries<'_>, outcome: Departure, now: Nanos) {
        if self.has_left(group) {
            return group.break_off();
        }
        let released;
        let deliveries = match &self.place {
            Where::Here(_) | Where::Away(_) => deliveries,
            Where::Placed(placed) => {
                let Some(its) = placed.release_in_group(deliveries) else { return group.break_off() };
                released = its;
                Deliveries::of(deliveries.consumer, &released)
            }
        };
        pass!(self, queue => queue.settle_in(group, deliveries, outcome, now), away => {
            let how = match outcome {
                Departure::Settled => Settlement::Acknowledge,
                _ => Settlement::Reject { failed: false },
            };
            away.settle_in(|lane| group.away_in(lane), deliveries, how);
        });
    }

    /// Acknowledges messages of many consumers together: one lock, one record for up to [`super::RECORD_RUNS_MAX`] runs, and
    /// one scheduling of consumers.
    #[inline]
    pub fn acknowledge(&self, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos) {
        match &self.place {
            Where::Here(queue) => queue.acknowledge(settled, now),
            Where::Away(away) => away.call(|| CallKind::Acknowledge(settled.to_vec())),
            Where::Placed(placed) => placed.acknowledge(settled, now),
        }
    }

    /// Acknowledges messages for a client that waits for an answer. Returns its condition; `outbox` is notified if somebody elsewhere carries it
    /// out. There is no answer if the queue failed during this very call: the messages are in its log, and come back after a restart.
    pub fn acknowledge_and_wait(&self, deliveries: Deliveries<'_>, outbox: &Arc<Outbox>, now: Nanos) -> WaitFor {
        if let Where::Placed(placed) = &self.place {
            return placed.acknowledge_and_wait(deliveries, outbox, now);
        }
        match self.settle(deliveries, Settlement::Acknowledge, Wait::Confirm, now) {
            Some(ticket) => ticket.into(),
            None if self.has_failed() => WaitFor::moved(self.stream().id(), Arc::default()),
            None => WaitFor::default(),
        }
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
        if let Where::Placed(placed) = &self.place {
            return placed.reject(deliveries, failed, (outbox, reason), now);
        }
        pass!(
            self,
            queue => queue.reject(deliveries, failed, outbox, reason, now),
            away => away.reject(deliveries, failed, outbox)
        )
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

    /// Puts messages back into their places with annotations, see [`leveret_queue::Queue::modify`]. With [`Wait::Confirm`], returns the ticket
    /// that an answer waits for; `None` if the disk has no room, so that the messages were only requeued.
    pub fn modify(
        &self,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        if let Where::Placed(placed) = &self.place {
            return placed.modify(deliveries, failed, added, wait, now);
        }
        pass!(self, queue => queue.modify(deliveries, failed, added, wait, now), away => {
            away.call_and_wait(wait, || {
                let (consumer, runs) = (deliveries.consumer, deliveries.runs.to_vec());
                CallKind::Modify { consumer, runs, failed, added: added.clone() }
            })
        })
    }

    /// Takes messages back from a consumer and requeues them. It is overdue from now on: see [`Flow::Overdue`]. With `unsent`, the
    /// last of them weren't sent on its link.
    pub fn take_back(&self, id: ConsumerId, runs: &[Run], unsent: Option<Unsent>, now: Nanos) {
        if let Where::Placed(placed) = &self.place {
            return placed.take_back(id, runs, unsent, now);
        }
        pass!(self, queue => queue.take_back(id, runs, unsent, now), away => {
            away.call(|| CallKind::TakeBack { id, runs: runs.to_vec(), unsent });
        });
    }

    /// The term of the leadership that its machine here belongs to, if it is a replicated queue.
    pub fn led_in(&self) -> Option<u64> {
        match &self.place {
            Where::Here(queue) => Some(queue.stream.placement()?.term()),
            Where::Away(_) | Where::Placed(_) => None,
        }
    }

    /// Messages that a consumer of another node, or one of those who get messages one by one there, comes with. Returns those of them that it
    /// has: nobody has been given them since the queue's leader changed.
    pub fn take_over(&self, member: MemberNumber, runs: &[Run]) -> Vec<Run> {
        match &self.place {
            Where::Here(queue) => queue.take_over(member, runs),
            Where::Away(_) | Where::Placed(_) => Vec::new(),
        }
    }

    /// The registration number that a consumer of a queue of this node has.
    pub fn registration(&self, id: ConsumerId) -> Option<u64> {
        match &self.place {
            Where::Here(queue) => Some(queue.registration(id)).filter(|number| *number > 0),
            Where::Away(_) | Where::Placed(_) => None,
        }
    }

    /// Adds a consumer of another node that has [taken](Self::take_over) these messages over, with its registration number from an earlier
    /// leader. The answer has its number now.
    pub fn consume_with(
        &self,
        id: ConsumerId,
        options: ConsumerOptions,
        (held, registered): (&[Run], Option<u64>),
        now: Nanos,
    ) -> NowOrLater<Result<u64, NoConsumer>> {
        match &self.place {
            Where::Here(queue) if !held.is_empty() || registered.is_some() => {
                let added = queue.add_consumer_with(id, options, (held, registered), now);
                NowOrLater::Now(added.map(|()| queue.registration(id)))
            }
            Where::Here(queue) => {
                let add =
                    move |queue: &LocalQueue| queue.add_consumer(id, options, now).map(|()| queue.registration(id));
                queue.asked(|| Err(NoConsumer::Gone), add)
            }
            Where::Away(_) | Where::Placed(_) => NowOrLater::Now(Err(NoConsumer::Gone)),
        }
    }

    /// The link to the node of these consumers has ended: they leave then. One that is the single active consumer may still be served there.
    pub fn lose(&self, consumers: &[ConsumerId], now: Nanos) {
        if let Where::Here(queue) = &self.place
            && self.effective().options(self.info()).single_active_consumer
        {
            queue.lose(consumers, now);
        }
    }

    /// Adds a consumer. The answer is whether it was added, or [`NoConsumer`], the reason why it wasn't. Messages may be scheduled for
    /// it before the answer is there. An asker that doesn't want it any more [cancels](Self::cancel) it: that comes behind.
    pub fn consume(&self, id: ConsumerId, options: ConsumerOptions, now: Nanos) -> NowOrLater<Result<(), NoConsumer>> {
        if let Where::Placed(placed) = &self.place {
            return placed.consume(id, options, now);
        }
        pass!(
            self,
            queue => queue.asked(|| Err(NoConsumer::Gone), move |queue| queue.add_consumer(id, options, now)),
            away => away.consume(id, options)
        )
    }

    /// Removes a consumer. The answer is how many are left; `None` if it didn't exist.
    pub fn cancel(&self, id: ConsumerId, now: Nanos) -> NowOrLater<Option<usize>> {
        if let Where::Placed(placed) = &self.place {
            return placed.cancel(id, now);
        }
        pass!(self, queue => queue.asked(|| None, move |queue| queue.cancel(id, now)), away => away.cancel(id))
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
        if let Where::Placed(placed) = &self.place {
            return placed.leave((consumers, held), failed, is_asked, now);
        }
        // Also without a question it comes behind the call that added these consumers.
        pass!(self, queue => match queue.answers_late() && !consumers.is_empty() {
            false => NowOrLater::Now(queue.leave(consumers, held, failed, now).filter(|_| is_asked)),
            true => {
                let (consumers, held) = (consumers.to_vec(), held.to_vec());
                queue.answer_late(move |queue| queue.leave(&consumers, &held, failed, now).filter(|_| is_asked))
            }
        }, away => away.leave(consumers, held, failed, is_asked))
    }

    /// Changes the flow of a consumer in a way that has no answer: the room of its connection, the window of its session, or that
    /// it is no longer overdue.
    pub fn flow(&self, id: ConsumerId, flow: Flow, now: Nanos) {
        pass!(self, queue => {
            let _ = queue.grant(id, flow, now);
        }, away => away.flow(id, flow));
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
        if let Where::Placed(placed) = &self.place {
            return placed.grant(id, delivery_count, link_credit, drain, now);
        }
        pass!(self, queue => queue.asked(|| None, move |queue| queue.grant(id, flow, now)), away => {
            away.grant(id, delivery_count, link_credit, drain)
        })
    }

    /// Registers `link` to be signalled with `key` when the queue is gone.
    pub fn watch(&self, key: u64, link: Arc<dyn Link>) {
        match &self.place {
            Where::Here(queue) => queue.watch(key, link),
            Where::Away(away) => away.watch(key, link),
            // It is told here when the queue is gone, wherever the leader is.
            Where::Placed(placed) => placed.away().watch(key, link),
        }
    }

    /// Removes that registration.
    pub fn unwatch(&self, key: u64) {
        match &self.place {
            Where::Here(queue) => queue.unwatch(key),
            Where::Away(away) => away.unwatch(key),
            Where::Placed(placed) => placed.away().unwatch(key),
        }
    }

    /// Notes that a publisher is held back for this reason.
    pub fn publisher_waits(&self, reason: WaitReason, now: Nanos) {
        pass!(self, queue => queue.publisher_held(reason, now));
    }

    /// Notes that a publisher that was held back for this reason continues.
    pub fn publisher_goes_on(&self, reason: WaitReason) {
        pass!(self, queue => queue.publisher_released(reason));
    }

    /// The queue to a reader of its messages' bodies.
    pub fn body_owner(&self) -> Arc<dyn BodyOwner> {
        match &self.place {
            Where::Here(queue) => queue.clone(),
            Where::Away(away) => away.clone(),
            Where::Placed(placed) => match &*placed.machine() {
                Some(machine) => machine.queue.clone(),
                None => placed.away().clone(),
            },
        }
    }

    /// Number of messages that were deleted with the queue: the ready ones and, of a quorum queue, all.
    pub fn deleted_messages(&self) -> u64 {
        pass!(self, queue => queue.deleted_messages(), away => away.deleted_messages())
    }

    /// How it keeps messages.
    pub(crate) fn kept(&self) -> Kept {
        self.kept
    }

    /// Reads stored messages from number `from` on, without changing anything.
    pub(crate) fn peek(&self, from: u64, peek: Peek) {
        let purpose = match self.is_stream() {
            true => Purpose::Chunks(ChunksFor::Peeking(peek)),
            false => Purpose::Messages(MessagesFor::Peeking(peek)),
        };
        pass!(self, queue => queue.request_read(from, purpose));
    }
}

/// Questions.
impl QueueRef {
    /// Asks a question, which the queue's home answers.
    pub fn ask<Q: Ask>(&self, question: Q) -> NowOrLater<Q::Answer> {
        let question = question.into();
        if let Where::Placed(placed) = &self.place {
            return placed.ask(question, Q::gone, Q::of);
        }
        pass!(
            self,
            queue => queue.asked(Q::gone, move |queue| Q::of(queue.answer(question))),
            away => away.question(&question, Q::gone, Q::of)
        )
    }

    /// Asks a question where the queue is, which answers at once. For lists, which each node answers for its own queues, and tests.
    pub fn look<Q: Ask>(&self, question: Q) -> Q::Answer {
        self.home().map_or_else(Q::gone, |home| Q::of(home.answer(question.into())))
    }

    /// Its gauges, read without its lock where it leaves them on its node.
    pub fn gauges(&self) -> QueueGauges {
        pass!(self, queue => queue.gauges(), away => away.gauges())
    }

    /// Whether it has failed, as far as this node knows. Its lock isn't taken.
    pub fn has_failed(&self) -> bool {
        self.gauges().failed
    }

    /// Checks that the queue hasn't failed, as far as this node knows.
    ///
    /// # Errors
    /// The text for clients, see [`QueueRef::crashed`].
    pub fn check_runs(&self) -> Result<(), String> {
        if let Where::Placed(placed) = &self.place {
            return placed.check_led();
        }
        pass!(self, queue => match queue.state() {
            QueueState::Failed(reason) => Err(self.crashed(&reason)),
            _ => Ok(()),
        }, away => away.check_reached())
    }

    /// As [`check_runs`](Self::check_runs), for protocols that can't yet use a queue of another node.
    ///
    /// # Errors
    /// The text for clients.
    pub fn check_runs_here(&self) -> Result<(), String> {
        pass!(self, _queue => self.check_runs(), away => Err(away.text()))
    }

    /// The text for clients that need a queue that has failed, in RabbitMQ's words.
    pub fn crashed(&self, reason: &str) -> String {
        crashed(self.info(), reason)
    }
}

/// The text for clients that need a queue that has failed, in RabbitMQ's words.
pub(crate) fn crashed(info: &QueueInfo, reason: &str) -> String {
    format!("queue '{}' in vhost '{}' has crashed and failed to restart: {reason}", info.name, info.vhost)
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
