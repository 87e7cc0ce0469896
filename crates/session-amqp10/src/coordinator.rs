//! Transactions: the coordinator that a client's link controls (specification 4). A transaction's publishes and
//! settlements wait in [`leveret_session::transaction`] and take effect with its discharge, together or not at all.

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::transaction::{Discharge, TransactionRequest};
use leveret_amqp10::{
    Coordinator as Target, DeliveryState, Error, Outcome as TransactedOutcome, Performative, ReceiverSettleMode, Role,
    Serial, Symbol, Symbols, TargetArchetype, condition, encode_performative,
    performative::{Attach, Disposition, Transfer},
};
use leveret_message::{BatchBuilder, StoredMessage};
use leveret_queue::{Deliveries, Run, Watermarks};
use rustc_hash::FxHashMap;

use super::assembly::Assembly;
use super::connection::Connection;
use super::disposition::Asked;
use super::error::{Failure, Result, Scope};
use super::grant::Grant;
use super::link::Link;
use super::session::Session;
use super::transacted::{Settled, Transacted};
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::settings::LinkCredit;
use leveret_broker::streams::waits::InOrder;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_session::commit::{Commit, Committed};
use leveret_session::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_LOG_BYTES_MAX, Transaction};

/// Number of requests that a coordinator's client may send ahead.
const CREDIT: LinkCredit =
    LinkCredit { start: 100, adaptive: false, unconfirmed_messages_max: 100, unconfirmed_bytes_max: 1 << 20 };
/// Largest request; one is a few dozen bytes.
const REQUEST_BYTES_MAX: u64 = 4096;
const ROLLED_BACK: &str = "a part of the transaction was refused, so that it was rolled back as a whole";
/// Number of transactions that one connection may have open.
const OPEN_MAX: usize = 1024;
const CAPABILITIES: [Symbol<'static>; 2] =
    [Symbol::new("amqp:local-transactions"), Symbol::new("amqp:multi-txns-per-ssn")];

/// The receiving endpoint of a coordinator's link.
pub(crate) struct Coordinator {
    /// The owner's key of this link's transactions.
    key: u64,
    pub grant: Grant,
    assembly: Assembly,
    pub flow_due: bool,
}

struct Open {
    owner: u64,
    transaction: Transaction,
    settled: Transacted<QueueRef>,
    /// A part of it was refused. As all of it or nothing takes effect, it can only be rolled back.
    refused: bool,
}

/// A discharge whose commit takes several turns.
struct Committing {
    /// The owner's key, as in [`Open`]; `None` if its link or session has ended, and isn't answered any more.
    owner: Option<u64>,
    channel: u16,
    id: Serial,
    commit: Commit,
    /// Its settlements, until all targets of its messages are checked.
    unchecked: Option<Transacted<QueueRef>>,
    /// Answers to its settlements.
    answers: Vec<Asked>,
}

/// A discharge that waits for the disk.
struct Discharged {
    /// The owner's key, as in [`Open`].
    owner: u64,
    channel: u16,
    id: Serial,
}

/// The open transactions of a connection.
#[derive(Default)]
pub(crate) struct Transactions {
    declared: u64,
    open: FxHashMap<u64, Open>,
    /// Bytes of memory of the messages in them.
    pub(crate) bytes: u64,
    /// Number of deliveries that were settled in them.
    settled: u64,
    committing: Option<Box<Committing>>,
    discharged: InOrder<Discharged>,
}

impl Transactions {
    /// The positions that the oldest discharges wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.discharged.awaited()
    }

    /// Drops the answers of a receiver's link that has ended.
    pub(crate) fn forget_link(&mut self, channel: u16, handle: u32) {
        self.open.values_mut().for_each(|open| open.settled.forget_link(channel, handle));
        if let Some(committing) = &mut self.committing {
            committing.answers.retain(|asked| !asked.is_of(channel, handle));
            committing.unchecked.iter_mut().for_each(|settled| settled.forget_link(channel, handle));
        }
    }

    /// Subtracts an open transaction that has ended from the counters.
    fn uncount(&mut self, open: &Open) {
        self.bytes -= open.transaction.bytes();
        self.settled -= open.settled.count();
    }

    /// Drops discharges of a session that has ended: they aren't answered.
    pub(crate) fn forget_channel(&mut self, channel: u16) {
        self.discharged.retain(|discharged| discharged.channel != channel);
        if let Some(committing) = &mut self.committing {
            committing.owner = committing.owner.filter(|_| committing.channel != channel);
            committing.answers.retain(|asked| asked.channel != channel);
        }
    }

    /// Whether a commit is under way.
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }
}

/// The number in a transaction's id; the broker's ids have eight bytes.
fn number(txn_id: &[u8]) -> Option<u64> {
    txn_id.try_into().ok().map(u64::from_be_bytes)
}

fn unknown() -> Failure {
    Failure::link(condition::TRANSACTION_UNKNOWN_ID, "no such transaction: it was never declared, or is discharged")
}

impl Connection {
    /// Handles the attach of a link that controls transactions.
    pub(crate) fn attach_coordinator(&mut self, session: &mut Session, attach: &Attach<'_>) -> Result<()> {
        let initial = Serial(attach.initial_delivery_count.unwrap_or(0));
        let coordinator = Coordinator {
            key: self.client.broker.fresh_id(),
            grant: Grant::new(CREDIT, initial),
            assembly: Assembly::new(attach.snd_settle_mode, self.client.partial.clone()),
            flow_due: true,
        };
        session.put(attach.handle, Box::new(Link::Coordinator(coordinator)));
        session.granted.push(attach.handle);
        let target = Target { capabilities: Symbols::of(&CAPABILITIES) };
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            role: Role::Receiver,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: attach.source,
            target: Some(TargetArchetype::Coordinator(target)),
            max_message_size: Some(REQUEST_BYTES_MAX),
            ..Attach::default()
        };
        self.send_attach(session.channel, answer)?;
        self.send_session_flows(session);
        Ok(())
    }

    /// Handles a transfer to the coordinator.
    pub(crate) fn receive_transaction_request<'a>(
        &mut self,
        session: &mut Session,
        coordinator: &mut Coordinator,
        transfer: &Transfer<'a>,
        payload: &'a [u8],
        now: Now,
    ) -> Result<()> {
        let Coordinator { key, grant, assembly, flow_due } = coordinator;
        let complete = assembly.receive(transfer, payload, REQUEST_BYTES_MAX, grant)?;
        *flow_due |= grant.top_up_fixed(0);
        if *flow_due {
            session.granted.push(transfer.handle);
        }
        let Some(complete) = complete else { return Ok(()) };
        if complete.settled {
            let text = "a message to the coordinator must not be settled: its outcome is the answer";
            return Err(Failure::link(condition::NOT_ALLOWED, text));
        }
        let sections = Sections::parse(complete.payload.bytes())
            .map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        let value = match sections.body {
            BodyRef::Value(value) => value.as_bytes(),
            _ => return Err(Failure::link(condition::INVALID_FIELD, "expected declare or discharge as amqp-value")),
        };
        let request =
            TransactionRequest::decode(value).map_err(|error| Failure::link(error.condition(), error.to_string()))?;
        match request {
            TransactionRequest::Declare(declare) if declare.global_id.is_some() => {
                let text = "distributed transactions (global-id) are not supported";
                return Err(Failure::link(condition::NOT_IMPLEMENTED, text));
            }
            TransactionRequest::Declare(_) => self.declare_transaction(session.channel, *key, complete.id)?,
            TransactionRequest::Discharge(discharge) => {
                // Messages that the client sent earlier are published first.
                self.flush_whole_runs(session, now);
                self.discharge_transaction(session.channel, &discharge, complete.id, now);
            }
        }
        Ok(())
    }

    fn declare_transaction(&mut self, channel: u16, owner: u64, id: Serial) -> Result<()> {
        if self.transactions.open.len() >= OPEN_MAX {
            let text = format!("{OPEN_MAX} transactions are open on this connection, which is the limit");
            return Err(Failure::link(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.transactions.declared += 1;
        let number = self.transactions.declared;
        let open = Open { owner, transaction: Transaction::default(), refused: false, settled: Transacted::default() };
        self.transactions.open.insert(number, open);
        self.send_coordinator_outcome(channel, id, DeliveryState::Declared { txn_id: &number.to_be_bytes() });
        Ok(())
    }

    fn discharge_transaction(&mut self, channel: u16, discharge: &Discharge<'_>, id: Serial, now: Now) {
        let open = number(discharge.txn_id).and_then(|number| self.transactions.open.remove(&number));
        let Some(open) = open else {
            let error = Error::new(condition::TRANSACTION_UNKNOWN_ID, "no such transaction");
            return self.send_coordinator_outcome(channel, id, DeliveryState::Rejected { error: Some(error) });
        };
        self.transactions.uncount(&open);
        if discharge.fail {
            self.roll_back(open.settled, now);
            return self.send_coordinator_outcome(channel, id, DeliveryState::Accepted);
        }
        if open.refused {
            self.roll_back(open.settled, now);
            return self.send_rolled_back(channel, id, ROLLED_BACK);
        }
        let Open { owner, transaction, settled, .. } = open;
        let commit = Commit::new(transaction, now);
        let unchecked = Some(settled);
        self.transactions.committing =
            Some(Box::new(Committing { owner: Some(owner), channel, id, commit, unchecked, answers: Vec::new() }));
        self.go_on_committing(now);
    }

    /// Continues the commit of a discharge, as far as the turn allows. True if none is under way.
    pub(super) fn go_on_committing(&mut self, now: Now) -> bool {
        let Some(mut committing) = self.transactions.committing.take() else { return true };
        if let Some(settled) = committing.unchecked.take() {
            match committing.commit.check(&mut self.client.budget) {
                None => committing.unchecked = Some(settled),
                Some(Err(_)) => {
                    self.roll_back(settled, now);
                    self.end_discharge(&committing, Err(ROLLED_BACK.to_owned()));
                    return true;
                }
                Some(Ok(())) => {
                    for Settled { queue, consumer, runs, settlement, asked } in settled.into_settled() {
                        committing.answers.push(asked);
                        committing.commit.settle(&queue, Some(consumer), runs, settlement);
                    }
                }
            }
        }
        let committed = match committing.unchecked {
            None => committing.commit.part(&mut self.client, now),
            Some(_) => None,
        };
        let Some(Committed { wait, refused }) = committed else {
            self.transactions.committing = Some(committing);
            return false;
        };
        committing.answers.iter().for_each(|asked| self.answer(asked, &wait));
        let outcome = match refused {
            Some(reason) => Err(format!("partial transaction completion: {}", reason.text())),
            None => Ok(wait),
        };
        self.end_discharge(&committing, outcome);
        true
    }

    /// Answers a discharge with an error, or when all of it is durable.
    fn end_discharge(&mut self, committing: &Committing, outcome: core::result::Result<WaitFor, String>) {
        let &Committing { owner, channel, id, .. } = committing;
        // The coordinator's link may have ended.
        let Some(owner) = owner else { return };
        match outcome {
            Ok(wait) => self.transactions.discharged.push(wait, Discharged { owner, channel, id }),
            Err(text) => self.send_rolled_back(channel, id, &text),
        }
    }

    fn send_rolled_back(&mut self, channel: u16, id: Serial, text: &str) {
        let error = Error::new(condition::TRANSACTION_ROLLBACK, text);
        self.send_coordinator_outcome(channel, id, DeliveryState::Rejected { error: Some(error) });
    }

    /// Rolls a transaction back; deliveries that were settled in it are requeued in place.
    fn roll_back(&mut self, settled: Transacted<QueueRef>, now: Now) {
        for Settled { queue, consumer, runs, mut asked, .. } in settled.into_settled() {
            queue.requeue(Deliveries::of(Some(consumer), &runs), true, now.monotonic);
            asked.release();
            self.answer(&asked, &WaitFor::default());
        }
    }

    /// Rolls back the transactions that a coordinator's link leaves open.
    pub(crate) fn leave_coordinator(&mut self, coordinator: &Coordinator, now: Now) {
        // The link can't get these answers any more.
        self.transactions.discharged.retain(|discharged| discharged.owner != coordinator.key);
        if let Some(committing) = &mut self.transactions.committing {
            committing.owner = committing.owner.filter(|owner| *owner != coordinator.key);
        }
        let mut left: Vec<_> = self.transactions.open.extract_if(|_, open| open.owner == coordinator.key).collect();
        left.sort_by_key(|(number, _)| *number);
        for (_, open) in left {
            self.transactions.uncount(&open);
            self.roll_back(open.settled, now);
        }
    }

    /// Answers the discharges that became durable.
    pub(crate) fn answer_discharges(&mut self) {
        if self.transactions.discharged.is_empty() {
            return;
        }
        let (streams, applied) = (self.client.broker.streams.clone(), self.client.applied());
        let reached = |stream| match is_planted(Bug::DischargeEarly) {
            true => Watermarks::synced(streams.get(stream).appended()),
            false => applied(stream),
        };
        while let Some(done) = self.transactions.discharged.pop(&reached) {
            self.send_coordinator_outcome(done.channel, done.id, DeliveryState::Accepted);
        }
    }

    fn send_coordinator_outcome(&mut self, channel: u16, id: Serial, state: DeliveryState<'_>) {
        let answer = Disposition {
            role: Role::Receiver,
            first: id.0,
            last: None,
            settled: true,
            state: Some(state),
            batchable: false,
        };
        encode_performative(self.client.output.buffer(), channel, &Performative::Disposition(answer));
    }

    /// Keeps a message for its transaction; the client is sent the outcome that it will have.
    pub(crate) fn publish_in_transaction(
        &mut self,
        channel: u16,
        txn_id: &[u8],
        (id, settled): (Serial, bool),
        route: &Route,
        message: &StoredMessage<'_>,
    ) -> Result<()> {
        let held = self.transactions.bytes + message.body.len() as u64;
        let open = number(txn_id).and_then(|number| self.transactions.open.get_mut(&number)).ok_or_else(unknown)?;
        let written = open.transaction.log_bytes() + (message.body.len() * route.queues.len()) as u64;
        if held > TRANSACTION_BYTES_MAX || written > TRANSACTION_LOG_BYTES_MAX {
            open.refused = true;
            return Err(Failure::link(
                condition::RESOURCE_LIMIT_EXCEEDED,
                format!(
                    "transaction too large: it would hold {held} of {TRANSACTION_BYTES_MAX} bytes and write {written} of \
                     {TRANSACTION_LOG_BYTES_MAX}; discharge more often"
                ),
            ));
        }
        let outcome = if route.queues.is_empty() {
            TransactedOutcome::Released
        } else {
            let mut builder = BatchBuilder::default();
            builder.push_message(message);
            let before = open.transaction.bytes();
            open.transaction.publish(&route.queues, builder.finish().into(), message.envelope.durable);
            self.transactions.bytes += open.transaction.bytes() - before;
            TransactedOutcome::Accepted
        };
        if !settled {
            let state = DeliveryState::Transactional { txn_id, outcome: Some(outcome) };
            self.send_coordinator_outcome(channel, id, state);
        }
        Ok(())
    }

    /// Keeps settled deliveries of one link for their transaction.
    pub(crate) fn settle_in_transaction(&mut self, txn_id: &[u8], settled: Settled<QueueRef>) -> Result<()> {
        let open = number(txn_id).and_then(|number| self.transactions.open.get_mut(&number));
        let open = open.ok_or_else(|| unknown().ending(Scope::Session))?;
        let before = open.settled.count();
        open.settled.add(settled);
        self.transactions.settled += open.settled.count() - before;
        Ok(())
    }

    /// Refuses deliveries that `session` settles in a transaction if the open transactions have too many of them: they
    /// no longer count as unsettled, but still use memory. They are requeued in place, like the session's other
    /// deliveries when this error ends it.
    pub(crate) fn check_transaction_limit(
        &mut self,
        session: &mut Session,
        txn_id: &[u8],
        parts: &[super::unsettled::Settled],
        now: Now,
    ) -> Result<()> {
        let mut consumed = Vec::new();
        for part in parts {
            if let Some(Link::Consumer(consumer)) = session.link(part.handle)
                && !consumer.browses
            {
                consumed.push((consumer.queue.clone(), consumer.id, &part.runs));
            }
        }
        let count: u64 = consumed.iter().flat_map(|(.., runs)| *runs).map(Run::count).sum();
        let (held, max) = (self.transactions.settled + count, u64::from(self.client.broker.settings.unsettled_max));
        if held <= max {
            return Ok(());
        }
        if let Some(open) = number(txn_id).and_then(|number| self.transactions.open.get_mut(&number)) {
            open.refused = true;
        }
        // None of these links must get the requeued messages again.
        consumed.iter().for_each(|(queue, id, _)| queue.set_room(*id, false, now.monotonic));
        consumed
            .iter()
            .for_each(|(queue, id, runs)| queue.requeue(Deliveries::of(Some(*id), runs), true, now.monotonic));
        let text = format!(
            "transaction too large: {held} deliveries would be settled in the open transactions of this connection, of \
             {max}; discharge more often"
        );
        Err(Failure::session(condition::RESOURCE_LIMIT_EXCEEDED, text))
    }

    /// Whether a transaction with this id is open.
    pub(crate) fn is_open_transaction(&self, txn_id: &[u8]) -> bool {
        number(txn_id).is_some_and(|number| self.transactions.open.contains_key(&number))
    }
}
