//! A replicated queue as its clients on this node use it, wherever its leader is.
//!
//! While this node leads its placement, there is a machine; otherwise calls go to the leader as to a queue of that node. Consumers are
//! registered here, too, so that they can be registered again when the leader changes, without a notice to their clients. What they hold
//! then is ready again at the new leader, and a settlement of it is only carried out by the one that handed it out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use leveret_message::BatchPart;
use leveret_model::{EffectiveQueue, MemberNumber, Queue as QueueInfo, Topology};
use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerOptions, CreditState, Flow, GetOutcome, HeldSet, Link, NoConsumer, QueueState,
    Run, Signal, Taken, Unsent,
};
use parking_lot::Mutex;

use super::placement::{Leading, PlacementHere};
use super::placements::Placements;
use crate::asked::{AnswerPlace, NowOrLater, later_or};
use crate::publish_origin::PublishOrigin;
use crate::published::{Audience, Published, PublishedHere, RefusalReason};
use crate::questions::{QueueAnswer, QueueQuestion};
use crate::queue_handle::{LocalQueue, QueueHandle, crashed};
use crate::remote::{AwayQueue, Lane, home_question};
use crate::replicas::{PlacedReplicas, PlacedStream};
use crate::services::Services;
use crate::streams::{Apply, CommitStream as _, StoreRef, StreamRef};
use crate::ticket::{Awaited, StreamId};
use crate::time::Nanos;

/// A replicated queue.
pub(crate) struct PlacedQueue {
    info: Arc<QueueInfo>,
    effective: ArcSwap<EffectiveQueue>,
    placement: Arc<PlacementHere>,
    services: Arc<Services>,
    away: Arc<AwayQueue>,
    machine: ArcSwapOption<Machine>,
    consumers: Mutex<BTreeMap<ConsumerId, Registered>>,
}

/// The machine of a queue while its placement is led here.
pub(crate) struct Machine {
    pub(crate) queue: LocalQueue,
    stream: Arc<PlacedStream>,
    /// Messages from this number on were first delivered by this machine, if at all.
    fence: u64,
    /// Messages before it that consumers of this node hold: they were delivered by this machine, too.
    held: Mutex<HeldSet>,
}

/// A consumer of this node.
struct Registered {
    options: ConsumerOptions,
    /// The core of its connection.
    core: usize,
    /// The stream of the machine, or of the lane, that it is registered with.
    at: Option<StreamId>,
    /// The delivery-count of its link (AMQP 1.0, 2.6.7).
    delivery_count: u32,
    /// The receiver's delivery-count and credit as last granted, and whether unused credit is given up.
    granted: Option<(u32, u32, bool)>,
}

/// Where a queue's calls go.
enum Target {
    Machine(Arc<Machine>),
    Lane(Arc<Lane>),
}

impl Target {
    fn stream(&self) -> StreamId {
        match self {
            Self::Machine(machine) => machine.stream.id(),
            Self::Lane(lane) => lane.stream_id(),
        }
    }
}

impl PlacedQueue {
    pub(super) fn new(
        info: Arc<QueueInfo>,
        topology: &Topology,
        placement: Arc<PlacementHere>,
        services: Arc<Services>,
    ) -> Arc<Self> {
        let effective = topology.effective_queue(&info, &[]);
        let away = AwayQueue::moving(info.clone(), placement.clone(), topology, &services.lanes);
        Arc::new(Self {
            effective: ArcSwap::from_pointee(effective),
            info,
            placement,
            services,
            away,
            machine: ArcSwapOption::empty(),
            consumers: Mutex::default(),
        })
    }

    /// Its declaration.
    pub(crate) fn info(&self) -> &Arc<QueueInfo> {
        &self.info
    }

    /// Its effective arguments.
    pub(crate) fn effective(&self) -> Arc<EffectiveQueue> {
        match &*self.machine.load() {
            Some(machine) => machine.queue.effective(),
            None => self.effective.load_full(),
        }
    }

    /// Gives it other effective arguments, for a machine that is opened later.
    pub(crate) fn set_effective(&self, effective: EffectiveQueue) {
        self.effective.store(Arc::new(effective));
    }

    pub(super) fn renew_effective(&self, topology: &Topology) {
        self.set_effective(topology.effective_queue(&self.info, &[]));
    }

    /// The member that leads it, as far as this node knows.
    pub(crate) fn member(&self) -> Option<MemberNumber> {
        match &**self.placement.leading_now() {
            Leading::Here(_) => Some(self.services.member),
            Leading::There(member) => Some(*member),
            Leading::Nobody => None,
        }
    }

    /// The queue as one of the leader's node.
    pub(crate) fn away(&self) -> &Arc<AwayQueue> {
        &self.away
    }

    /// Its machine, if its placement is led here.
    #[inline]
    pub(crate) fn machine(&self) -> arc_swap::Guard<Option<Arc<Machine>>> {
        self.machine.load()
    }

    /// The stream of what is submitted to it now.
    pub(crate) fn stream(&self) -> StreamRef {
        match &*self.machine.load() {
            Some(machine) => machine.queue.stream().shared(),
            None => self.away.stream(),
        }
    }

    /// Its placement is led here from now on.
    pub(super) fn open(&self, stream: &Arc<PlacedStream>, replicas: &PlacedReplicas, store: &StoreRef, now: Nanos) {
        let log = leveret_log::LogId(self.info.id.0);
        let replica = match replicas.copy(log, self.services.first_number) {
            Ok(replica) => replica,
            Err(error) => {
                tracing::error!(queue = %self.info.name, %error, "the replica of a queue can't be read");
                return;
            }
        };
        let fence = replica.ledger.next();
        let effective = EffectiveQueue::clone(&self.effective.load());
        let at = (stream.clone(), store.clone());
        let queue = QueueHandle::open_in(self.info.clone(), effective, replica, &self.services, at, now);
        let machine = Machine { queue: queue.clone(), stream: stream.clone(), fence, held: Mutex::default() };
        self.machine.store(Some(Arc::new(machine)));
        queue.announce();
    }

    /// Its placement isn't led here any more.
    pub(super) fn close(&self) {
        if let Some(machine) = self.machine.swap(None) {
            machine.queue.step_down();
        }
    }

    /// It is deleted.
    pub(crate) fn delete(&self) {
        self.placement.remove(self.info.id);
        if let Some(machine) = self.machine.swap(None) {
            machine.queue.delete();
            self.away.note_deleted(machine.queue.deleted_messages());
        } else {
            // The leader tells the others.
            let mut all = std::mem::take(&mut *self.consumers.lock());
            all.retain(|_, consumer| self.target(consumer.core).is_none());
            all.values().for_each(|consumer| consumer.options.link.signal(Signal::Cancelled(consumer.options.key)));
        }
        self.away.deleted();
        self.services.placements.forget(leveret_log::LogId(self.info.id.0));
    }

    /// Offers messages, which are kept until they are committed, whoever leads by then.
    pub(crate) fn publish(
        self: &Arc<Self>,
        part: BatchPart<'_>,
        persistent: bool,
        audience: Audience,
        now: Nanos,
    ) -> Published {
        let writer = self.placement.writer(Placements::this_core(), &self.services);
        writer.publish(self, part, persistent, audience, now)
    }

    /// Offers messages of a writer to the machine of this leadership. `None` if it can't take them: they are sent again.
    pub(super) fn publish_here(
        &self,
        stream: &PlacedStream,
        origin: PublishOrigin,
        (part, persistent, audience): (BatchPart<'_>, bool, Audience),
        now: Nanos,
    ) -> Option<PublishedHere> {
        let machine = self.machine.load_full().filter(|machine| machine.stream.id() == stream.id())?;
        machine.queue.publish_of(origin, part, persistent, audience, now)
    }

    /// The reason why it refuses messages, as far as this node knows.
    pub(super) fn refusal_reason(&self) -> RefusalReason {
        self.machine.load().as_ref().map_or(RefusalReason::Limit, |machine| machine.queue.refusal_reason())
    }

    /// The place that everything published by this core so far waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        self.placement.writer(Placements::this_core(), &self.services).last().into()
    }

    /// Checks that it can be used: calls wait for a leader, but not for ever.
    pub(crate) fn check_led(&self) -> Result<(), String> {
        match &*self.machine.load() {
            Some(machine) => match machine.queue.state() {
                QueueState::Failed(reason) => Err(crashed(&self.info, &reason)),
                _ => Ok(()),
            },
            None if self.placement.is_lost() => Err(self.away.text()),
            None => Ok(()),
        }
    }

    /// Asks a question. Without a leader it waits for one.
    pub(crate) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: QueueQuestion,
        gone: fn() -> T,
        of: fn(QueueAnswer) -> T,
    ) -> NowOrLater<T> {
        self.ask_from(Placements::this_core(), question, gone, of)
    }

    fn ask_from<T: Send + 'static>(
        self: &Arc<Self>,
        core: usize,
        question: QueueQuestion,
        gone: fn() -> T,
        of: fn(QueueAnswer) -> T,
    ) -> NowOrLater<T> {
        if let Some(machine) = &*self.machine.load() {
            return NowOrLater::Now(of(machine.queue.answer(question)));
        }
        let Some(asked) = home_question(&question) else { return NowOrLater::Now(gone()) };
        let (place, later) = later_or(gone);
        match self.target(core) {
            Some(Target::Lane(lane)) => {
                let queue = self.clone();
                let answered = self.away.question_on(&lane, asked, || None, move |answer| Some(of(answer)));
                answered.then(move |answer| match answer {
                    Some(answer) => place.answer(answer),
                    None => queue.ask_again(core, question, of, place),
                });
            }
            _ => self.ask_again(core, question, of, place),
        }
        NowOrLater::Later(later)
    }

    /// Asks once there is a leader.
    fn ask_again<T: Send + 'static>(
        self: &Arc<Self>,
        core: usize,
        question: QueueQuestion,
        of: fn(QueueAnswer) -> T,
        place: AnswerPlace<T>,
    ) {
        let (queue, gone) = (self.clone(), place.gone());
        self.placement.wait(Box::new(move |is_over| {
            // A place that is dropped says that nobody is there.
            if !is_over {
                queue.ask_from(core, question, gone, of).then(move |answer| place.answer(answer));
            }
        }));
    }

    /// Takes one message. Without a leader the asker waits for one, as for a message that is read from the disk.
    pub(crate) fn get(
        self: &Arc<Self>,
        automatic_ack: bool,
        link: &Arc<dyn Link>,
        key: u64,
        now: Nanos,
    ) -> NowOrLater<GetOutcome> {
        if let Some(machine) = &*self.machine.load() {
            let outcome = machine.queue.get_tapped(automatic_ack, link, key, now);
            if let (GetOutcome::Message(taken, _), false) = (&outcome, automatic_ack) {
                self.hands_out(std::slice::from_ref(taken));
            }
            return NowOrLater::Now(outcome);
        }
        if self.placement.is_lost() {
            return NowOrLater::Now(GetOutcome::Failed(self.away.text()));
        }
        let Some(Target::Lane(lane)) = self.target(Placements::this_core()) else {
            self.load_once_led(link, key);
            return NowOrLater::Now(GetOutcome::Wait);
        };
        let (place, later) = later_or(GetOutcome::default);
        let (queue, link) = (self.clone(), link.clone());
        let got = self.away.get_on(&lane, automatic_ack, || None, Some);
        got.then(move |outcome| match outcome {
            Some(outcome) => place.answer(outcome),
            None => {
                place.answer(GetOutcome::Wait);
                queue.load_once_led(&link, key);
            }
        });
        NowOrLater::Later(later)
    }

    /// Signals an asker to ask again once there may be a leader.
    fn load_once_led(&self, link: &Arc<dyn Link>, key: u64) {
        let link = link.clone();
        self.placement.wait(Box::new(move |_| link.signal(Signal::Loaded(key))));
    }

    fn target(&self, core: usize) -> Option<Target> {
        match &**self.placement.leading_now() {
            Leading::Here(_) => self.machine.load_full().map(Target::Machine),
            Leading::There(member) => self.services.lanes.of_core(*member, core).map(Target::Lane),
            Leading::Nobody => None,
        }
    }

    /// Adds a consumer. While there is no leader, it waits for one.
    pub(crate) fn consume(
        self: &Arc<Self>,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
    ) -> NowOrLater<Result<(), NoConsumer>> {
        let core = Placements::this_core();
        let delivery_count = match options.flow {
            ConsumerFlow::Credit { delivery_count } => delivery_count,
            ConsumerFlow::Prefetch(_) => 0,
        };
        let mut consumers = self.consumers.lock();
        let target = self.target(core);
        let at = target.as_ref().map(Target::stream);
        let registered = Registered { options: options.clone(), core, at, delivery_count, granted: None };
        consumers.insert(id, registered);
        match target {
            None => NowOrLater::Now(Ok(())),
            Some(Target::Machine(machine)) => {
                let added = machine.queue.add_consumer(id, options, now);
                if added.is_err() {
                    consumers.remove(&id);
                }
                NowOrLater::Now(added)
            }
            Some(Target::Lane(lane)) => {
                drop(consumers);
                let (place, later) = later_or(|| Err(NoConsumer::Gone));
                let queue = Arc::downgrade(self);
                self.away.consume_on(&lane, id, options).then(move |added| {
                    let added = match queue.upgrade() {
                        Some(queue) => queue.added_at(&lane, id, added),
                        None => added,
                    };
                    place.answer(added);
                });
                NowOrLater::Later(later)
            }
        }
    }

    /// Registers consumers, of one core or of all, where the queue's calls go now.
    pub(super) fn register(self: &Arc<Self>, of_core: Option<usize>, now: Nanos) {
        let mut refused = Vec::new();
        {
            let mut consumers = self.consumers.lock();
            for (id, registered) in consumers.iter_mut() {
                if of_core.is_some_and(|core| core != registered.core) {
                    continue;
                }
                let Some(target) = self.target(registered.core) else { continue };
                if registered.at == Some(target.stream()) {
                    continue;
                }
                registered.at = Some(target.stream());
                if !self.register_at(target, *id, registered, now) {
                    refused.push(*id);
                }
            }
            refused.iter().for_each(|id| {
                if let Some(Registered { options, .. }) = consumers.remove(id) {
                    options.link.signal(Signal::Cancelled(options.key));
                }
            });
        }
        self.services.streams.announce();
    }

    /// Registers a consumer. Returns whether it wasn't refused.
    fn register_at(self: &Arc<Self>, target: Target, id: ConsumerId, registered: &mut Registered, now: Nanos) -> bool {
        let mut options = registered.options.clone();
        if let Some((counted, credit, true)) = registered.granted {
            // Unused credit was to be given up: it is.
            registered.delivery_count = counted.wrapping_add(credit);
            registered.granted = None;
            let (key, delivery_count) = (options.key, registered.delivery_count);
            options.link.signal(Signal::Drained { key, delivery_count, available: 0 });
        }
        if options.flow.is_credit() {
            options.flow = ConsumerFlow::Credit { delivery_count: registered.delivery_count };
        }
        let granted = registered.granted;
        match target {
            Target::Machine(machine) => {
                let is_added = machine.queue.add_consumer(id, options, now).is_ok();
                if let Some((delivery_count, link_credit, drain)) = granted.filter(|_| is_added) {
                    let flow = Flow::Credit { delivery_count, link_credit, drain };
                    let _ = machine.queue.grant(id, flow, now);
                }
                is_added
            }
            Target::Lane(lane) => {
                let (queue, link, key) = (Arc::downgrade(self), options.link.clone(), options.key);
                let asked = lane.clone();
                self.away.consume_on(&lane, id, options).then(move |added| {
                    if let Some(queue) = queue.upgrade()
                        && queue.added_at(&asked, id, added).is_err()
                    {
                        link.signal(Signal::Cancelled(key));
                    }
                });
                if let Some((delivery_count, link_credit, drain)) = granted {
                    let _ = self.away.grant_on(&lane, id, delivery_count, link_credit, drain);
                }
                true
            }
        }
    }

    /// The leader has answered to a registration. If it wasn't the leader, or the link has ended, the consumer is registered again later.
    fn added_at(&self, lane: &Lane, id: ConsumerId, added: Result<(), NoConsumer>) -> Result<(), NoConsumer> {
        let mut consumers = self.consumers.lock();
        match added {
            Ok(()) => Ok(()),
            Err(NoConsumer::Gone) => {
                if let Some(registered) = consumers.get_mut(&id).filter(|one| one.at == Some(lane.stream_id())) {
                    registered.at = None;
                    self.placement.has_unregistered();
                }
                Ok(())
            }
            Err(refused) => {
                consumers.remove(&id);
                Err(refused)
            }
        }
    }

    /// Consumers leave.
    pub(crate) fn leaves(&self, ids: &[ConsumerId]) {
        let mut consumers = self.consumers.lock();
        ids.iter().for_each(|id| _ = consumers.remove(id));
    }

    /// Sets a consumer's link credit.
    pub(crate) fn grant(
        self: &Arc<Self>,
        id: ConsumerId,
        delivery_count: u32,
        link_credit: u32,
        drain: bool,
        now: Nanos,
    ) -> NowOrLater<Option<CreditState>> {
        if let Some(registered) = self.consumers.lock().get_mut(&id) {
            registered.granted = Some((delivery_count, link_credit, drain));
        }
        if let Some(machine) = &*self.machine.load() {
            let state = machine.queue.grant(id, Flow::Credit { delivery_count, link_credit, drain }, now);
            self.granted(id, state);
            return NowOrLater::Now(state);
        }
        let queue = Arc::downgrade(self);
        self.away.grant(id, delivery_count, link_credit, drain).map(move |state| {
            if let Some(queue) = queue.upgrade() {
                queue.granted(id, state);
            }
            state
        })
    }

    /// Notes the state of a link as its queue has answered.
    fn granted(&self, id: ConsumerId, state: Option<CreditState>) {
        if let Some(state) = state
            && state.credit == 0
            && let Some(registered) = self.consumers.lock().get_mut(&id)
        {
            registered.delivery_count = state.delivery_count;
            registered.granted = None;
        }
    }

    /// Notes messages that a consumer took.
    pub(crate) fn took(&self, id: ConsumerId, taken: &[Taken]) {
        if taken.is_empty() {
            return;
        }
        if let Some(registered) = self.consumers.lock().get_mut(&id) {
            let count: u32 = taken.iter().map(|taken| taken.count).sum();
            registered.delivery_count = registered.delivery_count.wrapping_add(count);
            if registered.options.automatic_ack {
                return;
            }
        }
        self.hands_out(taken);
    }

    /// Notes messages that were taken back, with a link's counters without them.
    pub(crate) fn took_back(&self, id: ConsumerId, unsent: Option<Unsent>) {
        if let Some(unsent) = unsent
            && let Some(registered) = self.consumers.lock().get_mut(&id)
        {
            registered.delivery_count = unsent.delivery_count;
        }
    }

    /// Notes messages that were handed out.
    pub(crate) fn hands_out(&self, taken: &[Taken]) {
        if let Some(machine) = &*self.machine.load() {
            let is_before = |run: &Run| run.first < machine.fence;
            let before: Vec<Run> = taken.iter().flat_map(Taken::runs).filter(is_before).collect();
            if !before.is_empty() {
                machine.held.lock().add(before);
            }
        }
    }
}

impl Machine {
    /// The messages among these that this machine has handed out: others were handed out by an earlier one, and are somebody else's by now.
    pub(crate) fn its<'a>(&self, runs: &'a [Run]) -> Cow<'a, [Run]> {
        let is_before = |run: &Run| run.first < self.fence;
        if !runs.iter().any(is_before) {
            return Cow::Borrowed(runs);
        }
        let mut held = self.held.lock();
        let mut its = Vec::new();
        for run in runs {
            match is_before(run) {
                true => its.extend(held.remove(&[*run])),
                false => its.push(*run),
            }
        }
        Cow::Owned(its)
    }
}

impl Apply for PlacedQueue {
    fn apply(self: Arc<Self>) {
        if let Some(machine) = &*self.machine.load() {
            QueueHandle::apply(&machine.queue);
        }
    }
}
