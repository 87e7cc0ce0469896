//! Decisions of this node's clients about messages of a replicated queue. Each is kept until it is known to be committed, since a leader
//! may go with what nobody else has.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Added;
use leveret_queue::{ConsumerId, Deliveries, Run, Unsent};
use parking_lot::MutexGuard;

use super::placements::Placements;
use super::queue::{CallTarget, Machine, PlacedQueue};
use crate::asked::NowOrLater;
use crate::claims::Claims;
use crate::decision_answer::DecisionAnswer;
use crate::holders::{At, Clients, Decision, HolderKey, Sent};
use crate::outbox::Outbox;
use crate::queue_handle::Reason;
use crate::remote::{CallKind, HeldBy, HeldRuns, HomeAnswer, HomeQuestion, Lane};
use crate::settlement::Settlement;
use crate::ticket::{Awaited, StreamId, Ticket};
use crate::time::Nanos;
use crate::wait_for::{WaitEnd, WaitFor};

impl Machine {
    /// Carries out a decision.
    pub(super) fn decide(
        &self,
        consumer: Option<ConsumerId>,
        runs: &[Run],
        what: &Decision,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        let deliveries = Deliveries::of(consumer, runs);
        match what {
            Decision::Settle(how) => self.queue.decide(deliveries, *how, wait, now),
            Decision::Modify { failed, added } => self.queue.modify(deliveries, *failed, added, wait, now),
        }
    }
}

/// The key of a holder of this core.
fn key_of(consumer: Option<ConsumerId>) -> HolderKey {
    (Placements::this_core(), consumer)
}

impl PlacedQueue {
    /// Where a decision of this holder goes; `None` if it isn't known to the leader yet.
    fn target_of(&self, clients: &Clients, key: HolderKey) -> Option<CallTarget> {
        self.target(key.0).filter(|target| clients.at(key) == Some(target.at()))
    }

    /// Keeps a decision.
    pub(super) fn decided(
        &self,
        clients: &mut Clients,
        by: HolderKey,
        (claims, what): (Claims, Decision),
        sent: Option<Sent>,
    ) -> Option<u64> {
        if claims.is_empty() {
            return None;
        }
        let streams = &self.services.streams;
        clients.forget_committed(|sent| match sent {
            Sent::Here(ticket) => {
                let reached = streams.reached(ticket.stream());
                reached.is_some_and(|reached| Awaited::durable(*ticket).is_reached(reached))
            }
            Sent::Moving(wait) => wait.end(&|stream| streams.reached(stream)).is_some_and(|end| end.is_reached()),
            Sent::Away(_) | Sent::Answered => false,
        });
        if sent.is_none() {
            // Its holder comes to the next leader with it.
            self.placement.has_unregistered();
        }
        Some(clients.decided(by, claims, what, sent))
    }

    /// Keeps a decision about messages of several holders, which was carried out by `target` just now, and asks a leader elsewhere how far it
    /// has committed such.
    pub(super) fn keep(
        self: &Arc<Self>,
        mut clients: MutexGuard<'_, Clients>,
        decided: impl IntoIterator<Item = (HolderKey, Claims)>,
        what: &Decision,
        target: Option<&CallTarget>,
    ) {
        let sent = target.map(CallTarget::sent);
        for (key, claims) in decided {
            let _ = self.decided(&mut clients, key, (claims, what.clone()), sent.clone());
        }
        drop(clients);
        if let Some(target @ CallTarget::Lane(lane, _)) = target {
            self.ask_committed(lane, target.at());
        }
    }

    /// Takes messages from their holders for a decision. Returns those whose holders the target knows, and their claims; the decision about
    /// others is kept.
    fn release_known(
        &self,
        clients: &mut Clients,
        held: &[HeldBy],
        what: &Decision,
        target: Option<&CallTarget>,
    ) -> (HeldRuns, Vec<(HolderKey, Claims)>) {
        let at = target.map(CallTarget::at);
        let (mut known, mut claimed) = (HeldRuns::with_capacity(held.len()), Vec::with_capacity(held.len()));
        for (consumer, runs) in held {
            let key = key_of(*consumer);
            let claims = clients.release(key, runs);
            match (claims.is_empty(), at.is_some() && clients.at(key) == at) {
                (true, _) => {}
                (false, true) => {
                    known.push((*consumer, claims.runs().to_vec()));
                    claimed.push((key, claims));
                }
                (false, false) => _ = self.decided(clients, key, (claims, what.clone()), None),
            }
        }
        (known, claimed)
    }

    /// Asks a leader on another node how far decisions are committed, if it wasn't asked.
    pub(super) fn ask_committed(self: &Arc<Self>, lane: &Arc<Lane>, at: At) {
        let Some(through) = self.clients.lock().ask(at) else { return };
        let asked = lane.ask(
            self.info.id,
            HomeQuestion::Committed(at.term),
            || false,
            |answer| match answer {
                HomeAnswer::Carried(is_committed) => Some(is_committed),
                _ => None,
            },
        );
        let (queue, lane) = (Arc::downgrade(self), lane.clone());
        asked.then(move |is_committed| {
            if let Some(queue) = queue.upgrade() {
                let mut clients = queue.clients.lock();
                clients.answered(at, is_committed.then_some(through));
                if is_committed {
                    drop(clients);
                    queue.ask_committed(&lane, at);
                } else if clients.unsend_all(at) {
                    // They may have come before it led, or before it knew their consumers.
                    queue.placement.has_unregistered();
                }
            }
        });
    }

    /// See [`crate::queue_handle::QueueRef::settle`].
    pub(crate) fn settle(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        how: Settlement,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        self.decide(deliveries, Decision::Settle(how), wait, now)
    }

    /// See [`crate::queue_handle::QueueRef::modify`].
    pub(crate) fn modify(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        failed: bool,
        added: &Arc<Added>,
        wait: Wait,
        now: Nanos,
    ) -> Option<Ticket> {
        self.decide(deliveries, Decision::Modify { failed, added: added.clone() }, wait, now)
    }

    fn decide(self: &Arc<Self>, deliveries: Deliveries<'_>, what: Decision, wait: Wait, now: Nanos) -> Option<Ticket> {
        let key = key_of(deliveries.consumer);
        let mut clients = self.clients.lock();
        let claims = clients.release(key, deliveries.runs);
        if claims.is_empty() {
            return None;
        }
        let target = self.target_of(&clients, key);
        let ticket = match &target {
            None => None,
            Some(CallTarget::Machine(machine)) => machine.decide(key.1, claims.runs(), &what, wait, now),
            Some(CallTarget::Lane(lane, _)) => {
                let call = what.call(key.1, claims.runs().to_vec());
                match wait {
                    Wait::Lazy => {
                        lane.call(self.info.id, call);
                        None
                    }
                    Wait::Written | Wait::Confirm => lane.call_and_wait(self.info.id, call),
                }
            }
        };
        self.keep(clients, [(key, claims)], &what, target.as_ref());
        ticket
    }

    /// See [`crate::queue_handle::QueueRef::acknowledge_and_wait`].
    pub(crate) fn acknowledge_and_wait(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        outbox: &Arc<Outbox>,
        now: Nanos,
    ) -> WaitFor {
        let key = key_of(deliveries.consumer);
        let what = Decision::Settle(Settlement::Acknowledge);
        let mut clients = self.clients.lock();
        let claims = clients.release(key, deliveries.runs);
        let target = self.target_of(&clients, key);
        let sent = target.as_ref().map(|target| match target {
            CallTarget::Machine(machine) => {
                let ticket = machine.decide(key.1, claims.runs(), &what, Wait::Confirm, now);
                Sent::Here(ticket.unwrap_or_else(|| machine.stream.appended_ticket()))
            }
            CallTarget::Lane(lane, _) => {
                lane.call(self.info.id, what.call(key.1, claims.runs().to_vec()));
                Sent::Away(target.at())
            }
        });
        let Some(number) = self.decided(&mut clients, key, (claims, what), sent.clone()) else {
            return WaitFor::default();
        };
        let answer = DecisionAnswer::new(outbox, StreamId::LOCAL);
        let wait = answer.wait();
        clients.awaited(number, answer);
        drop(clients);
        match (sent, target) {
            (Some(Sent::Here(ticket)), _) => self.over_at([(number, ticket)]),
            (Some(Sent::Away(at)), Some(CallTarget::Lane(lane, _))) => self.ask_committed(&lane, at),
            _ => {}
        }
        wait
    }

    /// Answers decisions once their tickets are reached. If the leadership ends before, they are sent to the next leader.
    pub(super) fn over_at(self: &Arc<Self>, decisions: impl IntoIterator<Item = (u64, Ticket)>) {
        for (number, ticket) in decisions {
            let queue = Arc::downgrade(self);
            let over = move |end: WaitEnd| {
                if let Some(queue) = queue.upgrade().filter(|_| end.is_reached()) {
                    queue.clients.lock().over(number);
                }
            };
            self.services.streams.when_over(ticket, Box::new(over));
        }
    }

    /// See [`crate::queue_handle::QueueRef::acknowledge`].
    pub(crate) fn acknowledge(self: &Arc<Self>, settled: &[HeldBy], now: Nanos) {
        let mut clients = self.clients.lock();
        let target = self.target(Placements::this_core());
        let acknowledged = Decision::Settle(Settlement::Acknowledge);
        let (known, claimed) = self.release_known(&mut clients, settled, &acknowledged, target.as_ref());
        match &target {
            _ if known.is_empty() => return,
            None => return,
            Some(CallTarget::Machine(machine)) => machine.queue.acknowledge(&known, now),
            Some(CallTarget::Lane(lane, _)) => lane.call(self.info.id, CallKind::Acknowledge(known)),
        }
        self.keep(clients, claimed, &acknowledged, target.as_ref());
    }

    /// See [`crate::queue_handle::QueueRef::reject`].
    pub(crate) fn reject(
        self: &Arc<Self>,
        deliveries: Deliveries<'_>,
        failed: bool,
        (outbox, reason): (&Arc<Outbox>, Reason),
        now: Nanos,
    ) -> WaitFor {
        let key = key_of(deliveries.consumer);
        let mut clients = self.clients.lock();
        let claims = clients.release(key, deliveries.runs);
        if claims.is_empty() {
            return WaitFor::default();
        }
        let what = Decision::Settle(Settlement::Reject { failed });
        match self.target_of(&clients, key) {
            Some(CallTarget::Machine(machine)) => {
                let wait = machine.queue.reject(Deliveries::of(key.1, claims.runs()), failed, outbox, reason, now);
                let _ = self.decided(&mut clients, key, (claims, what), Some(Sent::Moving(wait.clone())));
                wait
            }
            target => {
                // It is answered once it is carried out, by whichever leader.
                let answer = DecisionAnswer::new(outbox, StreamId::LOCAL);
                let wait = answer.wait();
                let is_sent = target.is_some().then_some(Sent::Answered);
                let runs = claims.runs().to_vec();
                let Some(number) = self.decided(&mut clients, key, (claims, what), is_sent) else { return wait };
                clients.awaited(number, answer);
                if let Some(CallTarget::Lane(lane, _)) = target {
                    self.reject_on(&lane, number, (key.1, runs, failed));
                }
                wait
            }
        }
    }

    /// Sends a rejection to a leader on another node.
    pub(super) fn reject_on(self: &Arc<Self>, lane: &Lane, number: u64, what: (Option<ConsumerId>, Vec<Run>, bool)) {
        let queue = Arc::downgrade(self);
        lane.reject(self.info.id, what, move |is_done| {
            if let Some(queue) = queue.upgrade().filter(|_| is_done) {
                queue.clients.lock().over(number);
            }
        });
    }

    /// See [`crate::queue_handle::QueueRef::settle_in`]. If the group isn't carried out, its messages are ready again after a change of the
    /// leader. `None` if the leader doesn't know their holder yet.
    pub(crate) fn release_in_group(&self, deliveries: Deliveries<'_>) -> Option<Vec<Run>> {
        let key = key_of(deliveries.consumer);
        let mut clients = self.clients.lock();
        self.target_of(&clients, key)?;
        Some(clients.release(key, deliveries.runs).runs().to_vec())
    }

    /// See [`crate::queue_handle::QueueRef::take_back`].
    pub(crate) fn take_back(self: &Arc<Self>, id: ConsumerId, runs: &[Run], unsent: Option<Unsent>, now: Nanos) {
        let key = key_of(Some(id));
        let mut clients = self.clients.lock();
        Self::took_back(&mut clients, key, unsent);
        let claims = clients.release(key, runs);
        let target = self.target_of(&clients, key);
        match &target {
            None => {}
            Some(CallTarget::Machine(machine)) => machine.queue.take_back(id, claims.runs(), unsent, now),
            Some(CallTarget::Lane(lane, _)) => {
                let runs = claims.runs().to_vec();
                lane.call(self.info.id, CallKind::TakeBack { id, runs, unsent });
            }
        }
        let returned = Decision::Settle(Settlement::Requeue { failed: false });
        self.keep(clients, [(key, claims)], &returned, target.as_ref());
    }

    /// See [`crate::queue_handle::QueueRef::leave`]; `is_asked` says whether the answer matters.
    pub(crate) fn leave(
        self: &Arc<Self>,
        (consumers, held): (&[ConsumerId], &[HeldBy]),
        failed: bool,
        is_asked: bool,
        now: Nanos,
    ) -> NowOrLater<Option<usize>> {
        let mut clients = self.clients.lock();
        let target = self.target(Placements::this_core());
        let returned = Decision::Settle(Settlement::Requeue { failed });
        let (released, claimed) = self.release_known(&mut clients, held, &returned, target.as_ref());
        let at = target.as_ref().map(CallTarget::at);
        let mut known = consumers.to_vec();
        known.retain(|id| {
            let key = key_of(Some(*id));
            let is_known = at.is_some() && clients.at(key) == at;
            if !is_known {
                self.leave_earlier(key, clients.last_of(key));
            }
            is_known
        });
        consumers.iter().for_each(|id| drop(clients.leave(key_of(Some(*id)))));
        let left = match &target {
            _ if known.is_empty() && released.is_empty() => return NowOrLater::Now(None),
            None => return NowOrLater::Now(None),
            Some(CallTarget::Machine(machine)) => {
                let left = machine.queue.leave(&known, &released, failed, now);
                NowOrLater::Now(left.filter(|_| is_asked))
            }
            Some(CallTarget::Lane(lane, _)) => self.away.leave_on(lane, &known, &released, failed, is_asked),
        };
        self.keep(clients, claimed, &returned, target.as_ref());
        left
    }
}
