//! A queue whose messages are on another node of the cluster. It is known by name and properties, routes lead to it, and its calls go to
//! its home on the lane of the core that makes them. While there is no lane, everything that needs the home is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_log::{LogId, Wait};
use leveret_message::BatchPart;
use leveret_message::chunk::SharedChunk;
use leveret_model::{EffectiveQueue, MemberNumber, Queue as QueueInfo, QueueId, Refused, Topology};
use leveret_queue::{
    ChunkTurn, ConsumerId, ConsumerOptions, CreditState, Deliveries, GetOutcome, Link, NoConsumer, PublishingIds,
    QueueGauges, QueueState, Run, Scan, Signal, StreamStart, TakenChunk, TurnEnd,
};
use parking_lot::Mutex;

use super::{CallKind, Deletion, HomeAnswer, HomeQuestion, Lane, Lanes};
use crate::asked::{NowOrLater, later_or};
use crate::bodies::BodyOwner;
use crate::decision_answer::DecisionAnswer;
use crate::outbox::Outbox;
use crate::published::{Published, PublishedHere};
use crate::questions::{QueueAnswer, QueueQuestion};
use crate::settlement::Settlement;
use crate::streams::{Apply, StreamRef};
use crate::ticket::{Awaited, Ticket};
use crate::wait_for::WaitFor;

/// The home of queues that moves: that of a replicated queue is where its leader is.
pub(crate) trait MovingHome: Send + Sync {
    /// The member that is the home now, if it is another one, and known.
    fn member(&self) -> Option<MemberNumber>;
    /// The stream of the queues while no home is known.
    fn stream_without(&self) -> StreamRef;
}

/// The node of a queue.
enum AwayHome {
    /// This member, with its name.
    Member(MemberNumber, Arc<str>),
    Moving(Arc<dyn MovingHome>),
}

/// A queue on another node.
pub(crate) struct AwayQueue {
    info: Arc<QueueInfo>,
    effective: Arc<EffectiveQueue>,
    /// That of a caller who waits for what it did while there was no lane, which was nothing: it waits for nothing.
    stream: StreamRef,
    lanes: Arc<Lanes>,
    home: AwayHome,
    /// Links that publish to the queue by its name, and are told when it is gone.
    watchers: Mutex<BTreeMap<u64, Arc<dyn Link>>>,
    deleted_messages: AtomicU64,
}

/// The place of a consumer among those of a replicated queue, if it comes to a leader of that. See [`HomeQuestion::Consume`].
#[derive(Default)]
pub(crate) struct Registration {
    pub held: Vec<Run>,
    pub registered: Option<u64>,
    pub term: Option<u64>,
}

impl AwayQueue {
    /// A queue with this home, as seen by the other members. `stream` is this node's own.
    pub(crate) fn new(
        info: Arc<QueueInfo>,
        member: MemberNumber,
        topology: &Topology,
        lanes: &Arc<Lanes>,
        stream: StreamRef,
    ) -> Arc<Self> {
        let node = topology.member(member).map_or_else(|| "?".into(), |member| member.name.clone());
        Self::with_home(info, AwayHome::Member(member, node), topology, lanes, stream)
    }

    /// A queue whose home moves.
    pub(crate) fn moving(
        info: Arc<QueueInfo>,
        home: Arc<dyn MovingHome>,
        topology: &Topology,
        lanes: &Arc<Lanes>,
    ) -> Arc<Self> {
        let stream = home.stream_without();
        Self::with_home(info, AwayHome::Moving(home), topology, lanes, stream)
    }

    fn with_home(
        info: Arc<QueueInfo>,
        home: AwayHome,
        topology: &Topology,
        lanes: &Arc<Lanes>,
        stream: StreamRef,
    ) -> Arc<Self> {
        let effective = topology.effective_queue(&info, &[]).into();
        let (lanes, watchers, deleted_messages) = (lanes.clone(), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { info, effective, stream, lanes, home, watchers, deleted_messages })
    }

    /// Its declaration.
    pub(crate) fn info(&self) -> &Arc<QueueInfo> {
        &self.info
    }

    /// Its effective arguments.
    pub(crate) fn effective(&self) -> Arc<EffectiveQueue> {
        self.effective.clone()
    }

    /// The text for clients, in RabbitMQ's words for a queue whose home can't be reached.
    pub(crate) fn text(&self) -> String {
        let QueueInfo { name, vhost, durable, .. } = &*self.info;
        let durable = if *durable { "durable " } else { "" };
        match &self.home {
            AwayHome::Member(_, node) => {
                format!("home node '{node}' of {durable}queue '{name}' in vhost '{vhost}' is down or inaccessible")
            }
            AwayHome::Moving(_) => format!(
                "quorum queue '{name}' in vhost '{vhost}' has no leader that this node reaches; a majority of its members has to run"
            ),
        }
    }

    /// The lane of this thread's core to its node.
    fn lane(&self) -> Option<Arc<Lane>> {
        match &self.home {
            AwayHome::Member(member, _) => self.lanes.to(*member),
            AwayHome::Moving(home) => self.lanes.to(home.member()?),
        }
    }

    fn id(&self) -> QueueId {
        self.info.id
    }

    /// Checks that its node can be reached.
    pub(crate) fn check_reached(&self) -> Result<(), String> {
        self.lane().map(|_| ()).ok_or_else(|| self.text())
    }

    /// The stream of what is submitted to it now.
    pub(crate) fn stream(&self) -> StreamRef {
        match self.lane() {
            Some(lane) => lane.writer().clone(),
            None => self.stream.clone(),
        }
    }

    pub(crate) fn gauges(&self) -> QueueGauges {
        QueueGauges { failed: self.lane().is_none(), ..QueueGauges::default() }
    }

    pub(crate) fn publish(&self, part: BatchPart<'_>, persistent: bool) -> Published {
        let published = self.lane().and_then(|lane| lane.publish(self.id(), part, persistent, None, None));
        published.unwrap_or_else(|| PublishedHere::none().into())
    }

    pub(crate) fn publish_chunk(
        &self,
        chunk: &Arc<SharedChunk>,
        numbered: Option<(&str, &PublishingIds)>,
    ) -> Published {
        let published = self.lane().and_then(|lane| lane.publish_chunk(self.id(), chunk, numbered));
        published.unwrap_or_else(|| PublishedHere::none().into())
    }

    /// Offers messages as part of a group, whose number `begin` says for a lane.
    pub(crate) fn publish_in(
        &self,
        begin: impl FnOnce(&Arc<Lane>) -> Option<u64>,
        part: BatchPart<'_>,
        persistent: bool,
    ) -> Published {
        let published =
            self.lane().and_then(|lane| lane.publish(self.id(), part, persistent, Some(begin(&lane)?), None));
        published.unwrap_or_else(|| PublishedHere::none().into())
    }

    /// The same of a settlement.
    pub(crate) fn settle_in(
        &self,
        begin: impl FnOnce(&Arc<Lane>) -> Option<u64>,
        deliveries: Deliveries<'_>,
        how: Settlement,
    ) {
        if let Some(lane) = self.lane()
            && let Some(number) = begin(&lane)
        {
            let (consumer, runs) = (deliveries.consumer, deliveries.runs.to_vec());
            lane.call(self.id(), CallKind::Settle { consumer, runs, how, group: Some(number) });
        }
    }

    /// Makes a call without an answer.
    pub(crate) fn call(&self, what: impl FnOnce() -> CallKind) {
        if let Some(lane) = self.lane() {
            lane.call(self.id(), what());
        }
    }

    /// Makes a call, and returns the ticket of its end if somebody waits for it.
    pub(crate) fn call_and_wait(&self, wait: Wait, what: impl FnOnce() -> CallKind) -> Option<Ticket> {
        match wait {
            Wait::Lazy => {
                self.call(what);
                None
            }
            Wait::Written | Wait::Confirm => self.lane()?.call_and_wait(self.id(), what()),
        }
    }

    /// Rejects messages, see [`crate::queue_handle::QueueRef::reject`].
    pub(crate) fn reject(&self, deliveries: Deliveries<'_>, failed: bool, outbox: &Arc<Outbox>) -> WaitFor {
        let Some(lane) = self.lane() else { return WaitFor::default() };
        let rejected = DecisionAnswer::new(outbox, lane.stream_id());
        let wait = rejected.wait();
        let what = (deliveries.consumer, deliveries.runs.to_vec(), failed);
        lane.reject(self.id(), what, move |is_done| {
            if is_done {
                rejected.over();
            }
        });
        wait
    }

    /// The place of everything that was submitted so far.
    pub(crate) fn awaited(&self) -> Awaited {
        self.lane().map_or_else(Awaited::default, |lane| lane.appended().into())
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> HomeQuestion,
        gone: fn() -> T,
        of: impl FnOnce(HomeAnswer) -> Option<T> + Send + 'static,
    ) -> NowOrLater<T> {
        match self.lane() {
            Some(lane) => lane.ask(self.id(), question(), gone, of),
            None => NowOrLater::Now(gone()),
        }
    }

    pub(crate) fn consume(&self, id: ConsumerId, options: ConsumerOptions) -> NowOrLater<Result<(), NoConsumer>> {
        match self.lane() {
            Some(lane) => {
                let (place, later) = later_or(|| Err(NoConsumer::Gone));
                let asked = self.consume_on(&lane, id, options, Registration::default());
                asked.then(move |added| place.answer(added.map(drop)));
                NowOrLater::Later(later)
            }
            None => NowOrLater::Now(Err(NoConsumer::Failed(self.text()))),
        }
    }

    /// Adds a consumer on this lane. If the queue's home moves, it outlives the lane, and is added on another one.
    pub(crate) fn consume_on(
        &self,
        lane: &Arc<Lane>,
        id: ConsumerId,
        options: ConsumerOptions,
        Registration { held, registered, term }: Registration,
    ) -> NowOrLater<Result<u64, NoConsumer>> {
        let inbox = lane.add(self.id(), id, &options, matches!(self.home, AwayHome::Moving(_)));
        let asked = lane.clone();
        let question = HomeQuestion::Consume { id, options: Box::new(options), held, registered, term };
        lane.ask(
            self.id(),
            question,
            || Err(NoConsumer::Gone),
            move |answer| match answer {
                HomeAnswer::Consumed(answer) => {
                    match answer {
                        Ok(_) => inbox.open(),
                        Err(_) => asked.remove_inbox(id, &inbox),
                    }
                    Some(answer)
                }
                _ => None,
            },
        )
    }

    pub(crate) fn cancel(&self, id: ConsumerId) -> NowOrLater<Option<usize>> {
        self.lane().map_or(NowOrLater::Now(None), |lane| self.cancel_on(&lane, id))
    }

    /// The same on this lane.
    pub(crate) fn cancel_on(&self, lane: &Lane, id: ConsumerId) -> NowOrLater<Option<usize>> {
        let unsent = lane.remove(id);
        lane.ask(self.id(), HomeQuestion::Cancel(id, unsent), || None, left)
    }

    pub(crate) fn leave(
        &self,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        is_asked: bool,
    ) -> NowOrLater<Option<usize>> {
        match self.lane() {
            Some(lane) => self.leave_on(&lane, consumers, held, failed, is_asked),
            None => NowOrLater::Now(None),
        }
    }

    /// The same on this lane.
    pub(crate) fn leave_on(
        &self,
        lane: &Lane,
        consumers: &[ConsumerId],
        held: &[(Option<ConsumerId>, Vec<Run>)],
        failed: bool,
        is_asked: bool,
    ) -> NowOrLater<Option<usize>> {
        consumers.iter().for_each(|id| drop(lane.remove(*id)));
        let question = HomeQuestion::Leave { consumers: consumers.to_vec(), held: held.to_vec(), failed };
        let answer = lane.ask(self.id(), question, || None, left);
        // It is asked in any case, so that it comes behind the call that added these consumers.
        if is_asked { answer } else { NowOrLater::Now(None) }
    }

    pub(crate) fn grant(
        &self,
        id: ConsumerId,
        delivery_count: u32,
        link_credit: u32,
        drain: bool,
    ) -> NowOrLater<Option<CreditState>> {
        match self.lane() {
            Some(lane) => self.grant_on(&lane, id, delivery_count, link_credit, drain),
            None => NowOrLater::Now(None),
        }
    }

    /// The same on this lane.
    pub(crate) fn grant_on(
        &self,
        lane: &Arc<Lane>,
        id: ConsumerId,
        delivery_count: u32,
        link_credit: u32,
        drain: bool,
    ) -> NowOrLater<Option<CreditState>> {
        let inbox = lane.inbox(id);
        let question = HomeQuestion::Grant { id, delivery_count, link_credit, drain };
        lane.ask(
            self.id(),
            question,
            || None,
            move |answer| match answer {
                HomeAnswer::Granted(state) => Some(state.zip(inbox).map(|(state, inbox)| inbox.granted(state, drain))),
                _ => None,
            },
        )
    }

    pub(crate) fn get(&self, automatic_ack: bool) -> NowOrLater<GetOutcome> {
        match self.lane() {
            Some(lane) => self.get_on(&lane, automatic_ack, GetOutcome::default, |outcome| outcome),
            None => NowOrLater::Now(GetOutcome::Failed(self.text())),
        }
    }

    /// Gets a message on this lane.
    pub(crate) fn get_on<T: Send + 'static>(
        &self,
        lane: &Lane,
        automatic_ack: bool,
        gone: fn() -> T,
        of: fn(GetOutcome) -> T,
    ) -> NowOrLater<T> {
        lane.ask(self.id(), HomeQuestion::Get { automatic_ack }, gone, move |answer| match answer {
            HomeAnswer::Got(outcome) => Some(of(outcome)),
            _ => None,
        })
    }

    /// Asks for a removal of messages, which is over once it is answered: with their number, or `None` if the home can't be reached.
    pub(crate) fn removed(&self, question: HomeQuestion) -> NowOrLater<Option<u64>> {
        self.lane().map_or(NowOrLater::Now(None), |lane| self.removed_on(&lane, question))
    }

    /// The same on this lane.
    pub(crate) fn removed_on(&self, lane: &Lane, question: HomeQuestion) -> NowOrLater<Option<u64>> {
        let of = |answer| match answer {
            HomeAnswer::Removed(count) => Some(Some(count)),
            _ => None,
        };
        lane.ask(self.id(), question, || None, of)
    }

    /// Asks a question of those that clients' protocols have. Others are asked over HTTP, at the queue's node.
    pub(crate) fn question<T: Send + 'static>(
        &self,
        question: &QueueQuestion,
        gone: fn() -> T,
        of: fn(QueueAnswer) -> T,
    ) -> NowOrLater<T> {
        match (self.lane(), home_question(question)) {
            (Some(lane), Some(question)) => self.question_on(&lane, question, gone, of),
            (None, Some(HomeQuestion::RunState)) => {
                NowOrLater::Now(of(QueueAnswer::RunState(QueueState::Failed(self.text()))))
            }
            _ => NowOrLater::Now(gone()),
        }
    }

    /// Asks it on this lane.
    pub(crate) fn question_on<T: Send + 'static>(
        &self,
        lane: &Arc<Lane>,
        question: HomeQuestion,
        gone: fn() -> T,
        of: impl Fn(QueueAnswer) -> T + Send + 'static,
    ) -> NowOrLater<T> {
        let is_of: fn(Option<u64>) -> QueueAnswer = match question {
            // It is durable when it is answered.
            HomeQuestion::Sequence(_) => |last| QueueAnswer::WriterSequence((last, Awaited::default())),
            // The home has searched as far as the stream goes.
            HomeQuestion::Search { .. } => {
                |offset| QueueAnswer::Search(offset.map(|offset| (offset, Box::new(Scan::default()))))
            }
            _ => QueueAnswer::KeptOffsetOf,
        };
        lane.ask(self.id(), question, gone, move |answer| match answer {
            HomeAnswer::Size(ready, consumers) => Some(of(QueueAnswer::Size((ready, consumers)))),
            HomeAnswer::RunState(state) => Some(of(QueueAnswer::RunState(state))),
            HomeAnswer::Found(found) => Some(of(is_of(found))),
            HomeAnswer::StreamEnds(ends) => Some(of(QueueAnswer::StreamEnds(ends))),
            _ => None,
        })
    }

    pub(crate) fn flow(&self, id: ConsumerId, flow: leveret_queue::Flow) {
        if let Some(lane) = self.lane() {
            lane.flow(self.id(), id, flow);
        }
    }

    pub(crate) fn take(
        &self,
        id: ConsumerId,
        most: leveret_queue::Portion,
        out: &mut Vec<leveret_queue::Taken>,
    ) -> leveret_queue::TurnEnd {
        self.lane().map_or(leveret_queue::TurnEnd::Done, |lane| lane.take(id, most, out))
    }

    pub(crate) fn take_chunks(&self, id: ConsumerId, bytes: u64, out: &mut Vec<TakenChunk>) -> ChunkTurn {
        let nothing = ChunkTurn { end: TurnEnd::Done, committed: 0 };
        self.lane().map_or(nothing, |lane| lane.take_chunks(id, bytes, out))
    }

    pub(crate) fn activity(&self, id: ConsumerId, active: bool, start: Option<StreamStart>) {
        self.call(|| CallKind::Activity { id, active, start });
    }

    /// Asks for something of a stream that may be refused.
    pub(crate) fn carry_out(&self, question: impl FnOnce() -> HomeQuestion) -> NowOrLater<bool> {
        self.ask(
            question,
            || false,
            |answer| match answer {
                HomeAnswer::Carried(is_done) => Some(is_done),
                _ => None,
            },
        )
    }

    /// Has its home delete it. Whether it did: another deletion may have come first. `None` if it can't be reached, or the link to it ended
    /// before it answered.
    pub(crate) fn delete(self: &Arc<Self>, deletion: Deletion) -> NowOrLater<Option<Result<bool, Refused>>> {
        let queue = self.clone();
        self.ask(
            || HomeQuestion::Delete(Box::new(deletion)),
            || None,
            move |answer| match answer {
                HomeAnswer::Deleted(outcome) => {
                    if let Ok(Some(count)) = outcome {
                        queue.deleted_messages.store(count, Ordering::Relaxed);
                    }
                    Some(Some(outcome.map(|count| count.is_some())))
                }
                _ => None,
            },
        )
    }

    /// Notes how many messages were deleted with it.
    pub(crate) fn note_deleted(&self, count: u64) {
        self.deleted_messages.store(count, Ordering::Relaxed);
    }

    /// The number of messages that were deleted with it, as its home said if it was asked here.
    pub(crate) fn deleted_messages(&self) -> u64 {
        self.deleted_messages.load(Ordering::Relaxed)
    }

    /// As [`watch`](Self::watch), for a link that is also told when the queue's node can't be reached any more.
    pub(crate) fn watch_reached(&self, key: u64, link: Arc<dyn Link>) {
        match self.lane() {
            Some(lane) if lane.watch(key, &link) => self.watch(key, link),
            _ => link.signal(Signal::Cancelled(key)),
        }
    }

    pub(crate) fn watch(&self, key: u64, link: Arc<dyn Link>) {
        self.watchers.lock().insert(key, link);
    }

    pub(crate) fn unwatch(&self, key: u64) {
        self.watchers.lock().remove(&key);
        if let Some(lane) = self.lane() {
            lane.unwatch(key);
        }
    }

    /// The queue is one of a placement from now on, of which `to` says where its leader is.
    pub(crate) fn moved(&self, to: &Self) {
        let watchers = std::mem::take(&mut *self.watchers.lock());
        watchers.into_iter().for_each(|(key, link)| to.watch(key, link));
    }

    /// The queue was deleted.
    pub(crate) fn deleted(&self) {
        for (key, link) in std::mem::take(&mut *self.watchers.lock()) {
            link.signal(Signal::Cancelled(key));
        }
    }
}

/// A question as another node is asked it; `None` of those that are asked over HTTP.
pub(crate) fn home_question(question: &QueueQuestion) -> Option<HomeQuestion> {
    Some(match question {
        QueueQuestion::Size(size) => HomeQuestion::Size(size.used.is_some()),
        QueueQuestion::RunState(_) => HomeQuestion::RunState,
        QueueQuestion::KeptOffsetOf(name) => HomeQuestion::KeptOffset(name.0.clone()),
        QueueQuestion::WriterSequence(name) => HomeQuestion::Sequence(name.0.clone()),
        QueueQuestion::Search(search) => HomeQuestion::Search { start: search.start, filter: search.filter.clone() },
        QueueQuestion::StreamEnds(_) => HomeQuestion::StreamEnds,
        _ => return None,
    })
}

/// The number of consumers that are left.
fn left(answer: HomeAnswer) -> Option<Option<usize>> {
    match answer {
        HomeAnswer::Left(left) => Some(left),
        _ => None,
    }
}

impl Apply for AwayQueue {
    fn apply(self: Arc<Self>) {}
}

impl BodyOwner for AwayQueue {
    fn log_id(&self) -> LogId {
        LogId(self.info.id.0)
    }

    fn fail(self: Arc<Self>, _: String) {}
}
