//! Consumers of a replicated queue: they are registered where its leader is, and at the next one with what they hold.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_queue::{
    ConsumerId, ConsumerOptions, CreditState, Flow, NoConsumer, Portion, Run, Signal, Taken, TurnEnd, Unsent,
};

use super::placements::Placements;
use super::queue::{CallTarget, Machine, PlacedQueue};
use crate::asked::{NowOrLater, later_or};
use crate::claims::Claims;
use crate::holders::{At, Clients, Decision, HolderKey, Registered, Sent};
use crate::remote::{HomeAnswer, HomeQuestion, Lane, Registration};
use crate::settlement::Settlement;
use crate::time::Nanos;

/// A consumer of this core.
fn key_of(id: ConsumerId) -> HolderKey {
    (Placements::this_core(), Some(id))
}

/// The answers of a leader's node to a holder: which of its messages it keeps, `None` if it doesn't know of them, and whether the consumer is
/// added.
#[derive(Default)]
struct AtLeader {
    taken_over: Option<NowOrLater<Option<Vec<Run>>>>,
    added: Option<NowOrLater<Result<u64, NoConsumer>>>,
}

impl PlacedQueue {
    /// Adds a consumer. While there is no leader, it waits for one.
    pub(crate) fn consume(
        self: &Arc<Self>,
        id: ConsumerId,
        options: ConsumerOptions,
        now: Nanos,
    ) -> NowOrLater<Result<(), NoConsumer>> {
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let target = self.target(key.0);
        let at = target.as_ref().map(CallTarget::at);
        clients.add(key, Registered::new(options.clone()), at);
        match target {
            None => NowOrLater::Now(Ok(())),
            Some(CallTarget::Machine(machine)) => {
                let added = machine.queue.add_consumer(id, options, now);
                match &added {
                    Ok(()) => clients.registered(key, machine.queue.registration(id)),
                    Err(_) if machine.stream.is_over() => {
                        // The leadership has just ended: it is registered at the next leader.
                        self.unknown_at(at, key, &mut clients);
                        return NowOrLater::Now(Ok(()));
                    }
                    Err(_) => drop(clients.leave(key)),
                }
                NowOrLater::Now(added)
            }
            Some(CallTarget::Lane(lane, term)) => {
                let registration = Registration { term: Some(term), ..Registration::default() };
                let asked = self.away.consume_on(&lane, id, options, registration);
                drop(clients);
                let (place, later) = later_or(|| Err(NoConsumer::Gone));
                let queue = Arc::downgrade(self);
                asked.then(move |added| {
                    if let Some(queue) = queue.upgrade() {
                        queue.added_at(at, key, &added);
                    }
                    // If it wasn't the leader, or the link has ended, it is registered elsewhere.
                    let is_to_come = matches!(added, Err(NoConsumer::Gone));
                    place.answer(if is_to_come { Ok(()) } else { added.map(drop) });
                });
                NowOrLater::Later(later)
            }
        }
    }

    /// The leader has answered to a registration. If it wasn't the leader, or the link has ended, the consumer is registered again later.
    /// Returns the consumer if it was refused for good.
    fn added_at(&self, at: Option<At>, key: HolderKey, added: &Result<u64, NoConsumer>) -> Option<Registered> {
        let mut clients = self.clients.lock();
        match added {
            Ok(number) => {
                clients.registered(key, *number);
                None
            }
            Err(NoConsumer::Gone) => {
                self.unknown_at(at, key, &mut clients);
                None
            }
            Err(_) if clients.at(key) == at => clients.leave(key),
            Err(_) => None,
        }
    }

    /// It isn't known there, and is registered later.
    fn unknown_at(&self, at: Option<At>, key: HolderKey, clients: &mut Clients) {
        if clients.unknown_at(key, at) {
            self.placement.has_unregistered();
        }
    }

    /// Registers those who hold messages, of one core or of all, where the queue's calls go now; and has what they decided carried out there
    /// as far as it isn't known to be committed.
    pub(super) fn register(self: &Arc<Self>, of_core: Option<usize>, now: Nanos) {
        let mut asked = Vec::new();
        let awaited = {
            let mut clients = self.clients.lock();
            for key in clients.keys() {
                if of_core.is_some_and(|core| core != key.0) {
                    continue;
                }
                let Some(target) = self.target(key.0).filter(|target| clients.is_to_come(key, target.at())) else {
                    continue;
                };
                let added = self.register_one(&target, key, &mut clients, now);
                if let CallTarget::Lane(lane, _) = &target {
                    asked.push((lane.clone(), target.at(), key, added));
                }
            }
            clients.awaited_here()
        };
        self.over_at(awaited);
        for (lane, at, key, AtLeader { taken_over, added }) in asked {
            if let Some(taken_over) = taken_over {
                let (queue, lane) = (Arc::downgrade(self), lane.clone());
                taken_over.then(move |runs| {
                    if let Some(queue) = queue.upgrade() {
                        queue.taken_over_at((&lane, at), key, runs.as_deref());
                    }
                });
            }
            if let Some(added) = added {
                let queue = Arc::downgrade(self);
                added.then(move |added| {
                    let refused = queue.upgrade().and_then(|queue| queue.added_at(Some(at), key, &added));
                    if let Some(Registered { options, .. }) = refused {
                        options.link.signal(Signal::Cancelled(options.key));
                    }
                });
            }
            self.ask_committed(&lane, at);
        }
        self.services.streams.announce();
    }

    /// Registers one of them.
    fn register_one(
        self: &Arc<Self>,
        target: &CallTarget,
        key: HolderKey,
        clients: &mut Clients,
        now: Nanos,
    ) -> AtLeader {
        let drained = clients.consumer(key).and_then(Registered::give_up_credit);
        if let Some((link, signal)) = drained {
            link.signal(signal);
        }
        self.leave_lane(key, target, clients);
        match target {
            CallTarget::Machine(machine) => {
                self.register_here(machine, key, clients, now);
                AtLeader::default()
            }
            CallTarget::Lane(lane, _) => self.register_on((lane, target.at()), key, clients),
        }
    }

    /// Takes a consumer off the lane to an earlier leader, which would keep what it sent there.
    fn leave_lane(&self, key: HolderKey, target: &CallTarget, clients: &Clients) {
        let at = clients.last_of(key).filter(|at| at.stream != target.at().stream);
        self.leave_earlier(key, at);
    }

    /// Removes a consumer where it was registered last, if that is on a lane that stands: its node may lead the queue again, and have it.
    pub(super) fn leave_earlier(&self, key: HolderKey, at: Option<At>) {
        if let (Some(at), Some(id)) = (at, key.1)
            && let Some(lane) = self.services.lanes.with_stream(key.0, at.stream)
        {
            let _ = self.away.cancel_on(&lane, id);
        }
    }

    fn register_here(&self, machine: &Machine, key: HolderKey, clients: &mut Clients, now: Nanos) {
        let runs = machine.queue.take_over(self.services.member, &clients.all_of(key));
        clients.known_with(key, machine.at(), &runs);
        if let (Some(id), Some(consumer)) = (key.1, clients.consumer(key)) {
            let earlier = (&*runs, consumer.registered);
            let added = machine.queue.add_consumer_with(id, consumer.options_now(), earlier, now);
            consumer.registered = consumer.registered.or_else(|| Some(machine.queue.registration(id)));
            match (added, consumer.granted) {
                (Ok(()), Some((delivery_count, link_credit, drain))) => {
                    let _ = machine.queue.grant(id, Flow::Credit { delivery_count, link_credit, drain }, now);
                }
                (Ok(()), None) => {}
                (Err(_), _) if machine.stream.is_over() => self.unknown_at(Some(machine.at()), key, clients),
                (Err(_), _) => {
                    if let Some(Registered { options, .. }) = clients.leave(key) {
                        options.link.signal(Signal::Cancelled(options.key));
                    }
                }
            }
        }
        clients.send_again(key, |_, runs, what| {
            let _ = machine.decide(key.1, runs, what, Wait::Lazy, now);
            Sent::Here(machine.stream.appended_ticket())
        });
    }

    fn register_on(self: &Arc<Self>, (lane, at): (&Arc<Lane>, At), key: HolderKey, clients: &mut Clients) -> AtLeader {
        let (queue, runs) = (self.info.id, clients.all_of(key));
        clients.registered_at(key, at, !runs.is_empty());
        let is_consumer = clients.consumer(key).is_some();
        let hold = |runs| {
            let question = HomeQuestion::Hold { consumer: key.1, runs, term: at.term };
            let of = |answer| match answer {
                HomeAnswer::TakenOver(runs) => Some(Some(runs)),
                _ => None,
            };
            lane.ask(queue, question, || None, of)
        };
        let taken_over = (!runs.is_empty() || !is_consumer).then(|| hold(runs));
        // Before it is a consumer there: they aren't about messages that it is given from then on.
        clients.send_again(key, |number, runs, what| self.send_on((lane, at), (number, key), runs, what));
        let held = clients.held_by(key);
        let added = if let (Some(id), Some(consumer)) = (key.1, clients.consumer(key)) {
            let registration = Registration { held, registered: consumer.registered, term: Some(at.term) };
            let added = self.away.consume_on(lane, id, consumer.options_now(), registration);
            self.grant_again(lane, id, consumer);
            Some(added)
        } else {
            None
        };
        AtLeader { taken_over, added }
    }

    fn grant_again(&self, lane: &Arc<Lane>, id: ConsumerId, consumer: &Registered) {
        if let Some((delivery_count, link_credit, drain)) = consumer.granted {
            let _ = self.away.grant_on(lane, id, delivery_count, link_credit, drain);
        }
    }

    /// Sends a decision to a leader on another node.
    fn send_on(
        self: &Arc<Self>,
        (lane, at): (&Arc<Lane>, At),
        (number, key): (u64, HolderKey),
        runs: &[Run],
        what: &Decision,
    ) -> Sent {
        match what {
            Decision::Settle(Settlement::Reject { failed }) => {
                self.reject_on(lane, number, (key.1, runs.to_vec(), *failed));
                Sent::Answered
            }
            _ => {
                lane.call(self.info.id, what.call(key.1, runs.to_vec()));
                Sent::Away(at)
            }
        }
    }

    /// The node of a leader has answered which messages it keeps for a holder. What that has said since is about these.
    fn taken_over_at(self: &Arc<Self>, (lane, at): (&Arc<Lane>, At), key: HolderKey, runs: Option<&[Run]>) {
        let mut clients = self.clients.lock();
        let Some(runs) = runs else { return self.unknown_at(Some(at), key, &mut clients) };
        let (is_there, is_behind) = clients.taken_over(key, at, runs);
        if !is_there {
            return;
        }
        clients.send_rest(key, |number, runs, what| self.send_on((lane, at), (number, key), runs, what));
        if let (true, Some(id), Some(consumer)) = (is_behind, key.1, clients.consumer(key)) {
            self.grant_again(lane, id, consumer);
        }
        drop(clients);
        self.ask_committed(lane, at);
    }

    /// See [`crate::queue_handle::QueueRef::cancel`].
    pub(crate) fn cancel(&self, id: ConsumerId, now: Nanos) -> NowOrLater<Option<usize>> {
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let (at, earlier) = (clients.at(key), clients.last_of(key));
        let target = self.target(key.0).filter(|target| at == Some(target.at()));
        clients.leave(key);
        match target {
            None => {
                self.leave_earlier(key, earlier);
                NowOrLater::Now(None)
            }
            Some(CallTarget::Machine(machine)) => NowOrLater::Now(machine.queue.cancel(id, now)),
            Some(CallTarget::Lane(lane, _)) => self.away.cancel_on(&lane, id),
        }
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
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let granted = clients.consumer(key).map(|consumer| consumer.grant(delivery_count, link_credit, drain));
        let grant = granted.unwrap_or_default();
        match self.target(key.0).filter(|target| clients.at(key) == Some(target.at())) {
            None => {
                clients.is_behind(key);
                NowOrLater::Now(None)
            }
            Some(CallTarget::Machine(machine)) => {
                let state = machine.queue.grant(id, Flow::Credit { delivery_count, link_credit, drain }, now);
                clients.granted(key, grant, state);
                NowOrLater::Now(state)
            }
            Some(CallTarget::Lane(lane, _)) => {
                let granted = self.away.grant_on(&lane, id, delivery_count, link_credit, drain);
                drop(clients);
                let queue = Arc::downgrade(self);
                granted.map(move |state| {
                    if let Some(queue) = queue.upgrade() {
                        queue.clients.lock().granted(key, grant, state);
                    }
                    state
                })
            }
        }
    }

    /// See [`crate::queue_handle::QueueRef::take`]. Nothing is taken once the next leader was told what clients hold.
    pub(crate) fn take(self: &Arc<Self>, id: ConsumerId, most: Portion, now: Nanos, out: &mut Vec<Taken>) -> TurnEnd {
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let target = self.target(key.0).filter(|target| clients.at(key) == Some(target.at()));
        let Some(target) = target.filter(|_| !self.placement.is_changing()) else { return TurnEnd::Done };
        let before = out.len();
        let end = match &target {
            CallTarget::Machine(machine) => machine.queue.take_tapped(id, most, now, out),
            CallTarget::Lane(lane, _) => lane.take(id, most, out),
        };
        let taken = &out[before..];
        let Some(holder) = clients.holder(key).filter(|_| !taken.is_empty()) else { return end };
        if let Some(claims) = holder.takes(taken) {
            self.keep(clients, [(key, claims)], &Decision::Settle(Settlement::Acknowledge), Some(&target));
        }
        end
    }

    /// Notes messages that were taken back, with a link's counters without them.
    pub(super) fn took_back(clients: &mut Clients, key: HolderKey, unsent: Option<Unsent>) {
        if let Some(unsent) = unsent
            && let Some(consumer) = clients.consumer(key)
        {
            consumer.delivery_count = unsent.delivery_count;
        }
    }

    /// The messages that clients of this node hold, or have decided about a moment ago.
    pub(super) fn report(&self) -> Claims {
        self.clients.lock().report()
    }

    /// Whether this consumer is a client's of this node.
    pub(crate) fn has_consumer(&self, id: ConsumerId) -> bool {
        self.clients.lock().has_consumer(id)
    }

    /// Has its consumers look for messages again.
    pub(super) fn wake_consumers(&self) {
        for Registered { options, .. } in self.clients.lock().consumers() {
            options.link.signal(Signal::Scheduled(options.key));
        }
    }
}
