//! Consumers of a replicated queue: they are registered where its leader is, and at the next one with what they hold.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_queue::{
    ConsumerId, ConsumerOptions, CreditState, Flow, NoConsumer, Portion, Run, Signal, Taken, TurnEnd, Unsent,
};

use super::placements::Placements;
use super::queue::{CallTarget, Machine, PlacedQueue};
use crate::asked::{NowOrLater, later_or};
use crate::holders::{At, Clients, Decision, HolderKey, Registered, Sent};
use crate::remote::{HomeAnswer, HomeQuestion, Lane};
use crate::settlement::Settlement;
use crate::time::Nanos;

/// A consumer of this core.
fn key_of(id: ConsumerId) -> HolderKey {
    (Placements::this_core(), Some(id))
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
            Some(CallTarget::Lane(lane, _)) => {
                let asked = self.away.consume_on(&lane, id, options, (Vec::new(), None));
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
        if let Some(holder) = clients.holder(key).filter(|holder| holder.at == at) {
            holder.at = None;
            clients.unsend(key);
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
                let Some(target) = self.target(key.0).filter(|target| clients.at(key) != Some(target.at())) else {
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
        for (lane, at, key, added) in asked {
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

    /// Registers one of them. The answer is that of the leader's node to a consumer.
    pub(super) fn register_one(
        self: &Arc<Self>,
        target: &CallTarget,
        key: HolderKey,
        clients: &mut Clients,
        now: Nanos,
    ) -> Option<NowOrLater<Result<u64, NoConsumer>>> {
        let drained = clients.consumer(key).and_then(Registered::give_up_credit);
        if let Some((link, signal)) = drained {
            link.signal(signal);
        }
        self.leave_lane(key, target, clients);
        match target {
            CallTarget::Machine(machine) => {
                self.register_here(machine, key, clients, now);
                None
            }
            CallTarget::Lane(lane, _) => self.register_on((lane, target.at()), key, clients),
        }
    }

    /// Takes a consumer off the lane to an earlier leader, which would keep what it sent there.
    fn leave_lane(&self, key: HolderKey, target: &CallTarget, clients: &Clients) {
        let (Some(at), Some(id)) = (clients.at(key), key.1) else { return };
        if at.stream != target.at().stream
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

    fn register_on(
        self: &Arc<Self>,
        (lane, at): (&Arc<Lane>, At),
        key: HolderKey,
        clients: &mut Clients,
    ) -> Option<NowOrLater<Result<u64, NoConsumer>>> {
        let (queue, runs) = (self.info.id, clients.all_of(key));
        let holder = clients.holder_or_new(key, at);
        holder.at = Some(at);
        let added = match (key.1, &holder.consumer) {
            (Some(id), Some(consumer)) => {
                let added = self.away.consume_on(lane, id, consumer.options_now(), (runs, consumer.registered));
                if let Some((delivery_count, link_credit, drain)) = consumer.granted {
                    let _ = self.away.grant_on(lane, id, delivery_count, link_credit, drain);
                }
                Some(added)
            }
            (consumer, _) => {
                // As a consumer that is gone in the meantime: if it isn't known there, it is said again.
                let held = lane.ask(
                    queue,
                    HomeQuestion::Hold { consumer, runs },
                    || Err(NoConsumer::Gone),
                    |answer| match answer {
                        HomeAnswer::Carried(true) => Some(Ok(0)),
                        _ => None,
                    },
                );
                Some(held)
            }
        };
        clients.send_again(key, |number, runs, what| match what {
            Decision::Settle(Settlement::Reject { failed }) => {
                self.reject_on(lane, number, (key.1, runs.to_vec(), *failed));
                Sent::Answered
            }
            _ => {
                lane.call(queue, what.call(key.1, runs.to_vec()));
                Sent::Away(at)
            }
        });
        added
    }

    /// See [`crate::queue_handle::QueueRef::cancel`].
    pub(crate) fn cancel(&self, id: ConsumerId, now: Nanos) -> NowOrLater<Option<usize>> {
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let target = self.target(key.0).filter(|target| clients.at(key) == Some(target.at()));
        clients.leave(key);
        match target {
            None => NowOrLater::Now(None),
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
            None => NowOrLater::Now(None),
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
        if holder.takes(taken) {
            let runs = taken.iter().flat_map(Taken::runs).collect();
            self.keep(clients, [(key, runs)], &Decision::Settle(Settlement::Acknowledge), Some(&target));
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
    pub(super) fn report(&self) -> Vec<Run> {
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
