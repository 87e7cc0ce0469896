//! Consumers of a replicated queue: they are registered where its leader is, and at the next one with what they hold.

use std::sync::Arc;

use leveret_queue::{
    ConsumerFlow, ConsumerId, ConsumerOptions, CreditState, Flow, NoConsumer, Portion, Run, Signal, Taken, TurnEnd,
    Unsent,
};

use super::clients::{Clients, Decision, HolderKey, Registered, Sent};
use super::placements::Placements;
use super::queue::{Machine, PlacedQueue, Target};
use crate::asked::{NowOrLater, later_or};
use crate::remote::{CallKind, Lane};
use crate::settlement::Settlement;
use crate::streams::CommitStream as _;
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
        let delivery_count = match options.flow {
            ConsumerFlow::Credit { delivery_count } => delivery_count,
            ConsumerFlow::Prefetch(_) => 0,
        };
        let mut clients = self.clients.lock();
        let target = self.target(key.0);
        let registered = Registered { options: options.clone(), delivery_count, granted: None };
        clients.add(key, registered, target.as_ref().map(Target::stream));
        match target {
            None => NowOrLater::Now(Ok(())),
            Some(Target::Machine(machine)) => {
                let added = machine.queue.add_consumer(id, options, now);
                if added.is_err() {
                    clients.leave(key);
                }
                NowOrLater::Now(added)
            }
            Some(Target::Lane(lane)) => {
                let asked = self.away.consume_on(&lane, id, options, Vec::new());
                drop(clients);
                let (place, later) = later_or(|| Err(NoConsumer::Gone));
                let queue = Arc::downgrade(self);
                asked.then(move |added| {
                    if let Some(queue) = queue.upgrade() {
                        queue.added_at(&lane, key, &added);
                    }
                    // If it wasn't the leader, or the link has ended, it is registered elsewhere.
                    let is_to_come = matches!(added, Err(NoConsumer::Gone));
                    place.answer(if is_to_come { Ok(()) } else { added });
                });
                NowOrLater::Later(later)
            }
        }
    }

    /// The leader has answered to a registration. If it wasn't the leader, or the link has ended, the consumer is registered again later.
    /// Returns the consumer if it was refused for good.
    fn added_at(&self, lane: &Lane, key: HolderKey, added: &Result<(), NoConsumer>) -> Option<Registered> {
        let mut clients = self.clients.lock();
        match added {
            Ok(()) => None,
            Err(NoConsumer::Gone) => {
                if let Some(holder) = clients.holder(key).filter(|one| one.at == Some(lane.stream_id())) {
                    holder.at = None;
                    self.placement.has_unregistered();
                }
                None
            }
            Err(_) => clients.leave(key),
        }
    }

    /// Registers those who hold messages, of one core or of all, where the queue's calls go now; and has what they decided carried out there
    /// as far as it isn't known to be committed.
    pub(super) fn register(self: &Arc<Self>, of_core: Option<usize>, now: Nanos) {
        let mut asked = Vec::new();
        {
            let mut clients = self.clients.lock();
            for key in clients.keys() {
                if of_core.is_some_and(|core| core != key.0) {
                    continue;
                }
                let Some(target) = self.target(key.0) else { continue };
                if clients.at(key) == Some(target.stream()) {
                    continue;
                }
                let drained = clients.consumer(key).and_then(Registered::give_up_credit);
                if let Some((link, signal)) = drained {
                    link.signal(signal);
                }
                match target {
                    Target::Machine(machine) => self.register_here(&machine, key, &mut clients, now),
                    Target::Lane(lane) => {
                        let added = self.register_on(&lane, key, &mut clients);
                        asked.push((lane, key, added));
                    }
                }
            }
        }
        for (lane, key, added) in asked {
            if let Some(added) = added {
                let (queue, lane) = (Arc::downgrade(self), lane.clone());
                added.then(move |added| {
                    let refused = queue.upgrade().and_then(|queue| queue.added_at(&lane, key, &added));
                    if let Some(Registered { options, .. }) = refused {
                        options.link.signal(Signal::Cancelled(options.key));
                    }
                });
            }
            self.ask_committed(&lane);
        }
        self.services.streams.announce();
    }

    fn register_here(&self, machine: &Machine, key: HolderKey, clients: &mut Clients, now: Nanos) {
        let runs = machine.queue.take_over(self.services.member, &clients.all_of(key));
        clients.known_with(key, machine.stream.id(), &runs);
        if let (Some(id), Some(consumer)) = (key.1, clients.consumer(key)) {
            let added = machine.queue.add_consumer_with(id, consumer.options_now(), &runs, now);
            match (added, consumer.granted) {
                (Ok(()), Some((delivery_count, link_credit, drain))) => {
                    let _ = machine.queue.grant(id, Flow::Credit { delivery_count, link_credit, drain }, now);
                }
                (Ok(()), None) => {}
                (Err(_), _) => {
                    if let Some(Registered { options, .. }) = clients.leave(key) {
                        options.link.signal(Signal::Cancelled(options.key));
                    }
                }
            }
        }
        clients.send_again(key, |runs, what| {
            let _ = machine.decide(key.1, runs, what, leveret_log::Wait::Lazy, now);
            Sent::Here(machine.stream.appended_ticket())
        });
    }

    fn register_on(
        &self,
        lane: &Arc<Lane>,
        key: HolderKey,
        clients: &mut Clients,
    ) -> Option<NowOrLater<Result<(), NoConsumer>>> {
        let (queue, runs) = (self.info.id, clients.all_of(key));
        let holder = clients.holder_or_new(key, lane.stream_id());
        holder.at = Some(lane.stream_id());
        let added = match (key.1, &holder.consumer) {
            (Some(id), Some(consumer)) => {
                let added = self.away.consume_on(lane, id, consumer.options_now(), runs);
                if let Some((delivery_count, link_credit, drain)) = consumer.granted {
                    let _ = self.away.grant_on(lane, id, delivery_count, link_credit, drain);
                }
                Some(added)
            }
            (consumer, _) => {
                if !runs.is_empty() {
                    lane.call(queue, CallKind::Hold { consumer, runs });
                }
                None
            }
        };
        clients.send_again(key, |runs, what| {
            lane.call(queue, what.call(key.1, runs.to_vec()));
            Sent::Away(lane.stream_id())
        });
        added
    }

    /// See [`crate::queue_handle::QueueRef::cancel`].
    pub(crate) fn cancel(&self, id: ConsumerId, now: Nanos) -> NowOrLater<Option<usize>> {
        let key = key_of(id);
        let mut clients = self.clients.lock();
        let target = self.target(key.0).filter(|target| clients.at(key) == Some(target.stream()));
        clients.leave(key);
        match target {
            None => NowOrLater::Now(None),
            Some(Target::Machine(machine)) => NowOrLater::Now(machine.queue.cancel(id, now)),
            Some(Target::Lane(lane)) => self.away.cancel_on(&lane, id),
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
        if let Some(consumer) = clients.consumer(key) {
            consumer.granted = Some((delivery_count, link_credit, drain));
        }
        match self.target(key.0).filter(|target| clients.at(key) == Some(target.stream())) {
            None => NowOrLater::Now(None),
            Some(Target::Machine(machine)) => {
                let state = machine.queue.grant(id, Flow::Credit { delivery_count, link_credit, drain }, now);
                clients.granted(key, state);
                NowOrLater::Now(state)
            }
            Some(Target::Lane(lane)) => {
                let granted = self.away.grant_on(&lane, id, delivery_count, link_credit, drain);
                drop(clients);
                let queue = Arc::downgrade(self);
                granted.map(move |state| {
                    if let Some(queue) = queue.upgrade() {
                        queue.clients.lock().granted(key, state);
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
        let target = self.target(key.0).filter(|target| clients.at(key) == Some(target.stream()));
        let Some(target) = target.filter(|_| !self.placement.is_changing()) else { return TurnEnd::Done };
        let before = out.len();
        let end = match &target {
            Target::Machine(machine) => machine.queue.take_tapped(id, most, now, out),
            Target::Lane(lane) => lane.take(id, most, out),
        };
        let taken = &out[before..];
        let Some(holder) = clients.holder(key).filter(|_| !taken.is_empty()) else { return end };
        if holder.takes(taken) {
            let sent = match &target {
                Target::Machine(machine) => Sent::Here(machine.stream.appended_ticket()),
                Target::Lane(lane) => Sent::Away(lane.stream_id()),
            };
            let runs = taken.iter().flat_map(Taken::runs).collect();
            self.decided(&mut clients, key, (runs, Decision::Settle(Settlement::Acknowledge)), Some(sent));
            drop(clients);
            if let Target::Lane(lane) = &target {
                self.ask_committed(lane);
            }
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

    /// Has its consumers look for messages again.
    pub(super) fn wake_consumers(&self) {
        for Registered { options, .. } in self.clients.lock().consumers() {
            options.link.signal(Signal::Scheduled(options.key));
        }
    }
}
