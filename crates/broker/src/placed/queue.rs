//! A replicated queue as its clients on this node use it, wherever its leader is.
//!
//! While this node leads its placement, there is a machine; otherwise calls go to the leader as to a queue of that node. Consumers and what
//! they hold are noted here, too ([`crate::holders`]), so that they go on at the next leader without a notice to their clients.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use leveret_message::BatchPart;
use leveret_model::{EffectiveQueue, MemberNumber, Queue as QueueInfo, Topology};
use leveret_queue::{GetOutcome, Link, QueueState, Signal, Taken};
use parking_lot::Mutex;

use super::placement::{Leading, OnceLed, PlacementHere};
use super::placements::Placements;
use crate::asked::{AnswerPlace, NowOrLater, later_or};
use crate::claims::Claims;
use crate::holders::{At, Clients, Decision, Sent};
use crate::publish_origin::PublishOrigin;
use crate::published::{Audience, Published, PublishedHere, RefusalReason};
use crate::questions::{QueueAnswer, QueueQuestion};
use crate::queue_handle::{LocalQueue, QueueHandle, Removal, Removed, crashed};
use crate::remote::{AwayQueue, CallKind, Lane, home_question};
use crate::replicas::{PlacedReplicas, PlacedStream};
use crate::services::Services;
use crate::settlement::Settlement;
use crate::streams::{Apply, CommitStream as _, StoreRef, StreamRef};
use crate::ticket::{Awaited, Ticket};
use crate::time::Nanos;

/// A replicated queue.
pub(crate) struct PlacedQueue {
    pub(super) info: Arc<QueueInfo>,
    effective: ArcSwap<EffectiveQueue>,
    pub(super) placement: Arc<PlacementHere>,
    pub(super) services: Arc<Services>,
    pub(super) away: Arc<AwayQueue>,
    machine: ArcSwapOption<Machine>,
    pub(super) clients: Mutex<Clients>,
}

/// The machine of a queue while its placement is led here.
pub(crate) struct Machine {
    pub(crate) queue: LocalQueue,
    pub(super) stream: Arc<PlacedStream>,
}

impl Machine {
    pub(super) fn at(&self) -> At {
        At { stream: self.stream.id(), term: self.stream.term() }
    }
}

/// Where a queue's calls go.
pub(super) enum CallTarget {
    Machine(Arc<Machine>),
    /// The lane to the leader of this term.
    Lane(Arc<Lane>, u64),
}

impl CallTarget {
    /// Where a decision is that it has just carried out.
    pub(super) fn sent(&self) -> Sent {
        match self {
            Self::Machine(machine) => Sent::Here(machine.stream.appended_ticket()),
            Self::Lane(..) => Sent::Away(self.at()),
        }
    }

    pub(super) fn at(&self) -> At {
        match self {
            Self::Machine(machine) => machine.at(),
            Self::Lane(lane, term) => At { stream: lane.stream_id(), term: *term },
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
            clients: Mutex::default(),
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

    /// The time for which it waits for its active consumer if that can't be reached.
    pub(super) fn disconnected_timeout_ms(&self) -> u64 {
        let own = self.effective().options(&self.info).consumer_disconnected_timeout_ms;
        own.unwrap_or(self.services.consumer_disconnected_timeout_ms)
    }

    pub(super) fn renew_effective(&self, topology: &Topology) {
        self.set_effective(topology.effective_queue(&self.info, &[]));
    }

    /// The member that leads it, as far as this node knows.
    pub(crate) fn member(&self) -> Option<MemberNumber> {
        match &**self.placement.leading_now() {
            Leading::Here(_) => Some(self.services.member),
            Leading::There(member, _) => Some(*member),
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
    ///
    /// Clients of these members hold some of its messages, and those of this one hold others.
    pub(super) fn open(
        &self,
        stream: &Arc<PlacedStream>,
        (replicas, store): (&PlacedReplicas, &StoreRef),
        mut held: Vec<(MemberNumber, Claims)>,
        now: Nanos,
    ) {
        let log = leveret_log::LogId(self.info.id.0);
        let replica = match replicas.copy(log, self.services.first_number) {
            Ok(replica) => replica,
            Err(error) => {
                tracing::error!(queue = %self.info.name, %error, "the replica of a queue can't be read");
                return;
            }
        };
        held.push((self.services.member, self.clients.lock().report()));
        let effective = EffectiveQueue::clone(&self.effective.load());
        let at = (stream.clone(), store.clone());
        let queue = QueueHandle::open_in(self.info.clone(), effective, replica, &self.services, at, &held, now);
        let machine = Machine { queue: queue.clone(), stream: stream.clone() };
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
            // The leader tells those that it knows. One that it was asked to add when it had deleted the queue isn't among them.
            let all = self.clients.lock().leave_all();
            all.iter().for_each(|(_, consumer)| consumer.options.link.signal(Signal::Cancelled(consumer.options.key)));
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

    /// Notes that a publish wasn't offered to it.
    pub(crate) fn missed(&self, origin: PublishOrigin) {
        if let Leading::Here(stream) = &**self.placement.leading_now() {
            stream.missed(origin);
        }
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
            Some(target @ CallTarget::Lane(..)) => {
                let (queue, at) = (self.clone(), target.at());
                let CallTarget::Lane(lane, _) = target else { return NowOrLater::Later(later) };
                let answered = self.away.question_on(&lane, asked, || None, move |answer| Some(of(answer)));
                answered.then(move |answer| match answer {
                    Some(answer) => place.answer(answer),
                    None => queue.ask_again((core, Some(at)), question, of, place),
                });
            }
            _ => self.ask_again((core, None), question, of, place),
        }
        NowOrLater::Later(later)
    }

    /// Asks once there is another leader than the one that was asked.
    fn ask_again<T: Send + 'static>(
        self: &Arc<Self>,
        (core, asked): (usize, Option<At>),
        question: QueueQuestion,
        of: fn(QueueAnswer) -> T,
        place: AnswerPlace<T>,
    ) {
        let (queue, gone) = (self.clone(), place.gone());
        let ask = move |is_over| match (is_over, &question) {
            (false, _) => queue.ask_from(core, question, gone, of).then(move |answer| place.answer(answer)),
            (true, QueueQuestion::RunState(_)) => {
                place.answer(of(QueueAnswer::RunState(QueueState::Failed(queue.away.text()))));
            }
            // A place that is dropped says that nobody is there.
            (true, _) => {}
        };
        self.wait_for_another((core, asked), Box::new(ask));
    }

    /// Has a call wait for another leader than the one that was asked, which may be known by now.
    fn wait_for_another(&self, (core, asked): (usize, Option<At>), call: OnceLed) {
        self.placement.wait(call);
        let present = self.target(core).map(|target| target.at());
        if present.is_some() && present != asked {
            self.placement.go_on();
        }
    }

    /// Removes messages. The answer comes once that is committed, whoever leads by then; without a leader it waits for one. It is `None` if
    /// none has come.
    pub(crate) fn remove(self: &Arc<Self>, what: Removal, now: Nanos) -> NowOrLater<Removed> {
        let (place, later) = later_or(|| None);
        self.remove_from(Placements::this_core(), what, place, now);
        NowOrLater::Later(later)
    }

    fn remove_from(self: &Arc<Self>, core: usize, what: Removal, place: AnswerPlace<Removed>, now: Nanos) {
        let target = self.target(core);
        let (queue, asked) = (self.clone(), target.as_ref().map(CallTarget::at));
        let removed = move |count: Option<u64>| match count {
            Some(count) => place.answer(Some((count, Ticket::default()))),
            None => {
                let again = queue.clone();
                let remove = move |is_over: bool| {
                    if !is_over {
                        again.remove_from(core, what, place, now);
                    }
                };
                queue.wait_for_another((core, asked), Box::new(remove));
            }
        };
        match target {
            Some(CallTarget::Machine(machine)) => {
                let (count, ticket) = what.carry_out(&machine.queue, now);
                let streams = &self.services.streams;
                streams.when_over(ticket, Box::new(move |end| removed(end.is_reached().then_some(count))));
                streams.announce();
            }
            Some(CallTarget::Lane(lane, _)) => self.away.removed_on(&lane, what.question()).then(removed),
            None => removed(None),
        }
    }

    /// Takes one message. Without a leader the asker waits for one, as for a message that is read from the disk.
    pub(crate) fn get(
        self: &Arc<Self>,
        automatic_ack: bool,
        link: &Arc<dyn Link>,
        key_of_get: u64,
        now: Nanos,
    ) -> NowOrLater<GetOutcome> {
        let core = Placements::this_core();
        if self.placement.is_lost() {
            return NowOrLater::Now(GetOutcome::Failed(self.away.text()));
        }
        let target = self.target(core).filter(|_| !self.placement.is_changing());
        let (key, at) = ((core, None), target.as_ref().map(CallTarget::at));
        let mut clients = self.clients.lock();
        if at.is_some() && clients.at(key).is_some_and(|known| Some(known) != at) {
            // Messages that were got before have to be known there first.
            drop(clients);
            self.register(Some(core), now);
            link.signal(Signal::Loaded(key_of_get));
            return NowOrLater::Now(GetOutcome::Wait);
        }
        let (lane, at) = match target {
            None => {
                drop(clients);
                self.load_once_led(link, key_of_get);
                return NowOrLater::Now(GetOutcome::Wait);
            }
            Some(CallTarget::Machine(machine)) => {
                let outcome = machine.queue.get_tapped(automatic_ack, link, key_of_get, now);
                if let GetOutcome::Message(taken, _) = &outcome {
                    let sent = Sent::Here(machine.stream.appended_ticket());
                    self.gets(&mut clients, (core, machine.at()), taken, automatic_ack.then_some(sent));
                }
                return NowOrLater::Now(outcome);
            }
            Some(CallTarget::Lane(lane, term)) => {
                let at = At { stream: lane.stream_id(), term };
                (lane, at)
            }
        };
        drop(clients);
        let (place, later) = later_or(GetOutcome::default);
        let (queue, link) = (self.clone(), link.clone());
        let got = self.away.get_on(&lane, automatic_ack, || None, Some);
        got.then(move |outcome| {
            let outcome = outcome.filter(|outcome| queue.got((core, at), &lane, automatic_ack, outcome));
            place.answer(outcome.unwrap_or_else(|| {
                queue.load_once_led(&link, key_of_get);
                GetOutcome::Wait
            }));
        });
        NowOrLater::Later(later)
    }

    /// Notes a message that was got. One that left the queue by that counts as acknowledged there.
    fn gets(&self, clients: &mut Clients, (core, at): (usize, At), taken: &Taken, sent: Option<Sent>) {
        let holder = clients.holder_or_new((core, None), at);
        match sent {
            None => holder.gets(taken),
            Some(_) => {
                let acknowledged = Decision::Settle(Settlement::Acknowledge);
                let claims = Claims::taken(at.term, std::slice::from_ref(taken));
                self.decided(clients, (core, None), (claims, acknowledged), sent);
            }
        }
    }

    /// The leader has answered to a get. False if another member is about to lead, and was told that nobody has the message.
    fn got(
        self: &Arc<Self>,
        (core, at): (usize, At),
        lane: &Arc<Lane>,
        automatic_ack: bool,
        outcome: &GetOutcome,
    ) -> bool {
        let GetOutcome::Message(taken, _) = outcome else { return true };
        let mut clients = self.clients.lock();
        if automatic_ack {
            self.gets(&mut clients, (core, at), taken, Some(Sent::Away(at)));
            drop(clients);
            self.ask_committed(lane, at);
            return true;
        }
        let is_there = self.target(core).is_some_and(|target| target.at() == at);
        if !is_there || self.placement.is_changing() {
            let how = Settlement::Requeue { failed: false };
            lane.call(self.info.id, CallKind::Settle { consumer: None, runs: taken.runs(), how, group: None });
            return false;
        }
        self.gets(&mut clients, (core, at), taken, None);
        true
    }

    /// Signals an asker to ask again once there may be a leader.
    fn load_once_led(&self, link: &Arc<dyn Link>, key: u64) {
        let link = link.clone();
        self.placement.wait(Box::new(move |_| link.signal(Signal::Loaded(key))));
    }

    pub(super) fn target(&self, core: usize) -> Option<CallTarget> {
        match &**self.placement.leading_now() {
            Leading::Here(_) => self.machine.load_full().map(CallTarget::Machine),
            Leading::There(member, term) => {
                let lane = self.services.lanes.of_core(*member, core)?;
                Some(CallTarget::Lane(lane, *term))
            }
            Leading::Nobody => None,
        }
    }
}

impl Apply for PlacedQueue {
    fn apply(self: Arc<Self>) {
        if let Some(machine) = &*self.machine.load() {
            QueueHandle::apply(&machine.queue);
        }
    }
}
