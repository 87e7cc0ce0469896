//! The open transactions of a connection, and the link that controls them.

use leveret_amqp10::{Outcome, Serial, condition, performative::Transfer};
use leveret_message::{BatchBuilder, StoredMessage};
use rustc_hash::FxHashMap;

use super::assembly::{Assembly, Complete};
use super::error::{Failure, Result, Scope};
use super::grant::Grant;
use super::settlements::Asked;
use super::transacted::{Settled, Transacted};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::settings::LinkCredit;
use leveret_broker::streams::waits::InOrder;
use leveret_broker::ticket::Awaited;
use leveret_broker::time::Now;
use leveret_broker::wait_for::{Reached, WaitEnd, WaitFor};
use leveret_session::ClientConnection;
use leveret_session::commit::{Commit, Committed};
use leveret_session::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_LOG_BYTES_MAX, Transaction};

/// Number of requests that a coordinator's client may send ahead.
const CREDIT: LinkCredit =
    LinkCredit { start: 100, adaptive: false, unconfirmed_messages_max: 100, unconfirmed_bytes_max: 1 << 20 };
/// Largest request; one is a few dozen bytes.
pub(super) const REQUEST_BYTES_MAX: u64 = 4096;
/// Number of transactions that one connection may have open.
const OPEN_MAX: usize = 1024;

/// The receiving endpoint of a coordinator's link.
pub(crate) struct Coordinator {
    /// The owner's key of this link's transactions.
    key: u64,
    grant: Grant,
    assembly: Assembly,
    flow_due: bool,
}

impl Coordinator {
    /// A link with this key, whose requests come in by `assembly`.
    pub(super) fn new(key: u64, initial: Serial, assembly: Assembly) -> Self {
        Self { key, grant: Grant::new(CREDIT, initial), assembly, flow_due: true }
    }

    /// Whether the client has to be sent a flow with its credit.
    pub(crate) fn is_flow_due(&self) -> bool {
        self.flow_due
    }

    /// The client may have asked for the state of the link.
    pub(crate) fn echo(&mut self, is_asked: bool) {
        self.flow_due |= is_asked;
    }

    /// The credit that the client has to be sent, if it has to.
    pub(crate) fn take_flow(&mut self) -> Option<&Grant> {
        std::mem::take(&mut self.flow_due).then_some(&self.grant)
    }

    /// The owner's key of its transactions.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Takes a transfer; returns the request if it is complete.
    ///
    /// # Errors
    /// It breaks the rules of transfers.
    pub(super) fn receive<'a>(&mut self, transfer: &Transfer<'a>, payload: &'a [u8]) -> Result<Option<Complete<'a>>> {
        let complete = self.assembly.receive(transfer, payload, REQUEST_BYTES_MAX, &mut self.grant)?;
        self.flow_due |= self.grant.top_up_fixed(0);
        Ok(complete)
    }
}

/// An open transaction.
pub(super) struct Open {
    owner: u64,
    transaction: Transaction,
    settled: Transacted<QueueRef>,
    /// A part of it was refused. As all of it or nothing takes effect, it can only be rolled back.
    refused: bool,
}

impl Open {
    /// Whether it can only be rolled back.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// The settlements of a transaction that is rolled back.
    pub(super) fn into_settled(self) -> Transacted<QueueRef> {
        self.settled
    }

    /// Begins the commit of a discharge that came on this channel as this delivery.
    pub(super) fn commit(self, channel: u16, id: Serial, now: Now) -> Committing {
        let Self { owner, transaction, settled, .. } = self;
        let commit = Commit::new(transaction, now);
        Committing { owner: Some(owner), channel, id, commit, unchecked: Some(settled), answers: Vec::new() }
    }
}

/// A discharge whose commit takes several turns.
pub(super) struct Committing {
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

impl Committing {
    /// Channel and delivery of the discharge, with the owner's key; none if it isn't answered any more.
    pub(super) fn discharge(&self) -> Option<Discharged> {
        self.owner.map(|owner| Discharged { owner, channel: self.channel, id: self.id })
    }

    /// Carries out as much as the turn allows. `None` if something is left.
    ///
    /// # Errors
    /// A queue among its targets has stopped: these settlements are rolled back, and nothing is carried out.
    pub(super) fn part(
        &mut self,
        client: &mut ClientConnection,
        now: Now,
    ) -> core::result::Result<Option<Committed>, Transacted<QueueRef>> {
        if let Some(settled) = self.unchecked.take() {
            match self.commit.check(&mut client.budget) {
                None => {
                    self.unchecked = Some(settled);
                    return Ok(None);
                }
                Some(Err(_)) => return Err(settled),
                Some(Ok(())) => {
                    for Settled { queue, consumer, runs, settlement, asked } in settled.into_settled() {
                        self.answers.push(asked);
                        self.commit.settle(&queue, Some(consumer), runs, settlement);
                    }
                }
            }
        }
        Ok(self.commit.part(client, now))
    }

    /// The deliveries that it settles, and that are answered with it.
    pub(super) fn answers(&self) -> &[Asked] {
        &self.answers
    }

    /// A link or a session has ended, of which `is_its` says what belongs to it: its deliveries aren't answered any more.
    fn forget(&mut self, is_its: impl Fn(&Asked) -> bool) {
        self.answers.retain(|asked| !is_its(asked));
    }
}

/// A discharge that waits for the disk.
pub(super) struct Discharged {
    /// The owner's key, as in [`Open`].
    pub owner: u64,
    pub channel: u16,
    pub id: Serial,
}

/// The open transactions of a connection.
#[derive(Default)]
pub(crate) struct Transactions {
    declared: u64,
    open: FxHashMap<u64, Open>,
    /// Bytes of memory of the messages in them.
    bytes: u64,
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
            committing.forget(|asked| asked.is_of(channel, handle));
            committing.unchecked.iter_mut().for_each(|settled| settled.forget_link(channel, handle));
        }
    }

    /// Bytes of memory of the messages in open transactions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Opens a transaction of a coordinator's link; returns its number.
    ///
    /// # Errors
    /// Too many are open.
    pub(super) fn declare(&mut self, owner: u64) -> Result<u64> {
        if self.open.len() >= OPEN_MAX {
            let text = format!("{OPEN_MAX} transactions are open on this connection, which is the limit");
            return Err(Failure::link(condition::RESOURCE_LIMIT_EXCEEDED, text));
        }
        self.declared += 1;
        let open = Open { owner, transaction: Transaction::default(), refused: false, settled: Transacted::default() };
        self.open.insert(self.declared, open);
        Ok(self.declared)
    }

    /// Takes out an open transaction.
    pub(super) fn take(&mut self, txn_id: &[u8]) -> Option<Open> {
        let open = self.open.remove(&number(txn_id)?)?;
        self.uncount(&open);
        Some(open)
    }

    /// Takes out the open transactions of a coordinator's link that ends, oldest first. Its discharges aren't answered any more.
    pub(super) fn leave(&mut self, owner: u64) -> Vec<Open> {
        self.discharged.retain(|discharged| discharged.owner != owner);
        if let Some(committing) = &mut self.committing {
            committing.owner = committing.owner.filter(|other| *other != owner);
        }
        let mut left: Vec<_> = self.open.extract_if(|_, open| open.owner == owner).collect();
        left.sort_by_key(|(number, _)| *number);
        left.into_iter()
            .map(|(_, open)| {
                self.uncount(&open);
                open
            })
            .collect()
    }

    /// Puts the commit that is under way in its place.
    pub(super) fn put_committing(&mut self, committing: Box<Committing>) {
        self.committing = Some(committing);
    }

    /// Takes out the commit that is under way.
    pub(super) fn take_committing(&mut self) -> Option<Box<Committing>> {
        self.committing.take()
    }

    /// A discharge waits for the disk.
    pub(super) fn discharge(&mut self, wait: WaitFor, discharged: Discharged) {
        self.discharged.push(wait, discharged);
    }

    /// Whether a discharge waits for the disk.
    pub(super) fn has_discharged(&self) -> bool {
        !self.discharged.is_empty()
    }

    /// Takes out the next discharge whose wait has ended, and how.
    pub(super) fn next_durable(&mut self, reached: &impl Reached) -> Option<(Discharged, WaitEnd)> {
        self.discharged.pop(reached)
    }

    /// Keeps a message for its transaction; returns the outcome that it will have.
    ///
    /// # Errors
    /// There is no such transaction, or it would be too large.
    pub(super) fn publish(
        &mut self,
        txn_id: &[u8],
        route: &Route,
        message: &StoredMessage<'_>,
    ) -> Result<Outcome<'static>> {
        let held = self.bytes + message.body.len() as u64;
        let open = number(txn_id).and_then(|number| self.open.get_mut(&number)).ok_or_else(unknown)?;
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
        if route.queues.is_empty() {
            return Ok(Outcome::Released);
        }
        let mut builder = BatchBuilder::default();
        builder.push_message(message);
        let before = open.transaction.bytes();
        open.transaction.publish(&route.queues, builder.finish().into(), message.envelope.durable);
        self.bytes += open.transaction.bytes() - before;
        Ok(Outcome::Accepted)
    }

    /// Keeps settled deliveries of one link for their transaction.
    ///
    /// # Errors
    /// There is no such transaction.
    pub(super) fn settle(&mut self, txn_id: &[u8], settled: Settled<QueueRef>) -> Result<()> {
        let open = number(txn_id).and_then(|number| self.open.get_mut(&number));
        let open = open.ok_or_else(|| unknown().ending(Scope::Session))?;
        let before = open.settled.count();
        open.settled.add(settled);
        self.settled += open.settled.count() - before;
        Ok(())
    }

    /// Checks that so many more deliveries may be settled in the open transactions. If not, this one can only be rolled back.
    ///
    /// # Errors
    /// There would be too many.
    pub(super) fn check_settled(&mut self, txn_id: &[u8], count: u64, max: u64) -> Result<()> {
        let held = self.settled + count;
        if held <= max {
            return Ok(());
        }
        if let Some(open) = number(txn_id).and_then(|number| self.open.get_mut(&number)) {
            open.refused = true;
        }
        let text = format!(
            "transaction too large: {held} deliveries would be settled in the open transactions of this connection, of \
             {max}; discharge more often"
        );
        Err(Failure::session(condition::RESOURCE_LIMIT_EXCEEDED, text))
    }

    /// Whether a transaction with this id is open.
    pub(super) fn is_open(&self, txn_id: &[u8]) -> bool {
        number(txn_id).is_some_and(|number| self.open.contains_key(&number))
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
            committing.forget(|asked| asked.channel == channel);
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
