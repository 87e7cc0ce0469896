//! Decisions of this node's clients about messages of a replicated queue. Each is kept until it is known to be committed, since a leader
//! may go with what nobody else has.

use std::sync::Arc;

use leveret_log::Wait;
use leveret_message::Added;
use leveret_queue::{ConsumerId, Deliveries, Run, Unsent};

use super::placements::Placements;
use super::queue::{CallTarget, Machine, PlacedQueue};
use crate::asked::NowOrLater;
use crate::holders::{At, Clients, Decision, HolderKey, Sent};
use crate::outbox::Outbox;
use crate::queue_handle::Reason;
use crate::remote::{CallKind, HeldBy, HeldRuns, HomeAnswer, HomeQuestion, Lane};
use crate::settlement::Settlement;
use crate::ticket::{Awaited, Ticket};
use crate::time::Nanos;
use crate::wait_for::WaitFor;

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
        (runs, what): (Vec<Run>, Decision),
        sent: Option<Sent>,
    ) {
        if runs.is_empty() {
            return;
        }
        let streams = &self.services.streams;
        clients.forget_committed(|ticket| {
            let reached = streams.reached(ticket.stream());
            reached.is_some_and(|reached| Awaited::durable(ticket).is_reached(reached))
        });
        if sent.is_none() {
            // Its holder comes to the next leader with it.
            self.placement.has_unregistered();
        }
        clients.decided(by, runs, what, sent);
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
                queue.clients.lock().answered(at, is_committed.then_some(through));
                if is_committed {
                    queue.ask_committed(&lane, at);
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
        let runs = clients.release(key, deliveries.runs);
        if runs.is_empty() {
            return None;
        }
        let (ticket, sent) = match self.target_of(&clients, key) {
            None => (None, None),
            Some(CallTarget::Machine(machine)) => {
                let ticket = machine.decide(key.1, &runs, &what, wait, now);
                (ticket, Some(Sent::Here(machine.stream.appended_ticket())))
            }
            Some(CallTarget::Lane(lane, term)) => {
                let at = At { stream: lane.stream_id(), term };
                let call = what.call(key.1, runs.clone());
                let ticket = match wait {
                    Wait::Lazy => {
                        lane.call(self.info.id, call);
                        None
                    }
                    Wait::Written | Wait::Confirm => lane.call_and_wait(self.info.id, call),
                };
                self.decided(&mut clients, key, (runs, what), Some(Sent::Away(at)));
                drop(clients);
                self.ask_committed(&lane, at);
                return ticket;
            }
        };
        self.decided(&mut clients, key, (runs, what), sent);
        ticket
    }

    /// See [`crate::queue_handle::QueueRef::acknowledge`].
    pub(crate) fn acknowledge(self: &Arc<Self>, settled: &[(Option<ConsumerId>, Vec<Run>)], now: Nanos) {
        let mut clients = self.clients.lock();
        let target = self.target(Placements::this_core());
        let mut released: HeldRuns = Vec::with_capacity(settled.len());
        let acknowledged = || Decision::Settle(Settlement::Acknowledge);
        for (consumer, runs) in settled {
            let key = key_of(*consumer);
            let runs = clients.release(key, runs);
            let is_known = target.as_ref().is_some_and(|target| clients.at(key) == Some(target.at()));
            match (runs.is_empty(), is_known) {
                (true, _) => {}
                (false, true) => released.push((*consumer, runs)),
                (false, false) => self.decided(&mut clients, key, (runs, acknowledged()), None),
            }
        }
        let Some(target) = target.filter(|_| !released.is_empty()) else { return };
        let sent = match &target {
            CallTarget::Machine(machine) => {
                machine.queue.acknowledge(&released, now);
                Sent::Here(machine.stream.appended_ticket())
            }
            CallTarget::Lane(lane, term) => {
                lane.call(self.info.id, CallKind::Acknowledge(released.clone()));
                Sent::Away(At { stream: lane.stream_id(), term: *term })
            }
        };
        for (consumer, runs) in released {
            self.decided(&mut clients, key_of(consumer), (runs, acknowledged()), Some(sent));
        }
        drop(clients);
        if let CallTarget::Lane(lane, _) = &target {
            self.ask_committed(lane, target.at());
        }
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
        let runs = clients.release(key, deliveries.runs);
        if runs.is_empty() {
            return WaitFor::default();
        }
        let target = self.target_of(&clients, key);
        let (wait, sent) = match &target {
            None => (WaitFor::default(), None),
            Some(CallTarget::Machine(machine)) => {
                let deliveries = Deliveries::of(key.1, &runs);
                let wait = machine.queue.reject(deliveries, failed, outbox, reason, now);
                (wait, Some(Sent::Here(machine.stream.appended_ticket())))
            }
            Some(CallTarget::Lane(lane, term)) => {
                let call = CallKind::Reject { consumer: key.1, runs: runs.clone(), failed };
                let ticket = lane.call_and_wait(self.info.id, call);
                (
                    ticket.map_or_else(WaitFor::default, WaitFor::from),
                    Some(Sent::Away(At { stream: lane.stream_id(), term: *term })),
                )
            }
        };
        self.decided(&mut clients, key, (runs, Decision::Settle(Settlement::Reject { failed })), sent);
        drop(clients);
        if let Some(target @ CallTarget::Lane(lane, _)) = &target {
            self.ask_committed(lane, target.at());
        }
        wait
    }

    /// See [`crate::queue_handle::QueueRef::settle_in`]. If the group isn't carried out, its messages are ready again after a change of the
    /// leader. `None` if the leader doesn't know their holder yet.
    pub(crate) fn release_in_group(&self, deliveries: Deliveries<'_>) -> Option<Vec<Run>> {
        let key = key_of(deliveries.consumer);
        let mut clients = self.clients.lock();
        self.target_of(&clients, key)?;
        Some(clients.release(key, deliveries.runs))
    }

    /// See [`crate::queue_handle::QueueRef::take_back`].
    pub(crate) fn take_back(self: &Arc<Self>, id: ConsumerId, runs: &[Run], unsent: Option<Unsent>, now: Nanos) {
        let key = key_of(Some(id));
        let mut clients = self.clients.lock();
        Self::took_back(&mut clients, key, unsent);
        let runs = clients.release(key, runs);
        let target = self.target_of(&clients, key);
        let sent = match &target {
            None => None,
            Some(CallTarget::Machine(machine)) => {
                machine.queue.take_back(id, &runs, unsent, now);
                Some(Sent::Here(machine.stream.appended_ticket()))
            }
            Some(CallTarget::Lane(lane, term)) => {
                lane.call(self.info.id, CallKind::TakeBack { id, runs: runs.clone(), unsent });
                Some(Sent::Away(At { stream: lane.stream_id(), term: *term }))
            }
        };
        let returned = Decision::Settle(Settlement::Requeue { failed: false });
        self.decided(&mut clients, key, (runs, returned), sent);
        drop(clients);
        if let Some(target @ CallTarget::Lane(lane, _)) = &target {
            self.ask_committed(lane, target.at());
        }
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
        let returned = || Decision::Settle(Settlement::Requeue { failed });
        let mut released: HeldRuns = Vec::with_capacity(held.len());
        for (consumer, runs) in held {
            let key = key_of(*consumer);
            let runs = clients.release(key, runs);
            let is_known = target.as_ref().is_some_and(|target| clients.at(key) == Some(target.at()));
            match (runs.is_empty(), is_known) {
                (true, _) => {}
                (false, true) => released.push((*consumer, runs)),
                (false, false) => self.decided(&mut clients, key, (runs, returned()), None),
            }
        }
        let at = target.as_ref().map(CallTarget::at);
        let mut known = consumers.to_vec();
        known.retain(|id| clients.at(key_of(Some(*id))) == at);
        consumers.iter().for_each(|id| drop(clients.leave(key_of(Some(*id)))));
        let (left, sent) = match &target {
            _ if known.is_empty() && released.is_empty() => return NowOrLater::Now(None),
            None => return NowOrLater::Now(None),
            Some(CallTarget::Machine(machine)) => {
                let left = machine.queue.leave(&known, &released, failed, now);
                (NowOrLater::Now(left.filter(|_| is_asked)), Sent::Here(machine.stream.appended_ticket()))
            }
            Some(CallTarget::Lane(lane, term)) => {
                let left = self.away.leave_on(lane, &known, &released, failed, is_asked);
                (left, Sent::Away(At { stream: lane.stream_id(), term: *term }))
            }
        };
        for (consumer, runs) in released {
            self.decided(&mut clients, key_of(consumer), (runs, returned()), Some(sent));
        }
        drop(clients);
        if let Some(target @ CallTarget::Lane(lane, _)) = &target {
            self.ask_committed(lane, target.at());
        }
        left
    }
}
