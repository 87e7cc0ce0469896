//! A channel's open transaction.

use std::sync::Arc;
use std::vec::IntoIter;

use leveret_message::Batch;

use super::run::Returned;
use super::unsettled::{Delivery, Settled, Unsettled, by_source};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::reply_to::ReplyTarget;
use leveret_broker::route::Route;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::TurnBudget;
use leveret_session::ClientConnection;
use leveret_session::commit::{Commit, Committed};
use leveret_session::transaction::Transaction;

/// A channel's open transaction.
#[derive(Default)]
pub(crate) struct Tx {
    transaction: Transaction,
    /// Settlements in the order in which they came.
    settled: Vec<(Settlement, Vec<Delivery>)>,
    returns: Vec<UnroutedMessage>,
    /// Answers to requesters of direct reply-to.
    replies: Vec<(Arc<ReplyTarget>, Arc<Batch>)>,
}

/// The open transactions of a connection, as sums.
#[derive(Default)]
pub(crate) struct OpenTransactions {
    /// Number of channels in transaction mode (`tx.select`).
    channels: u32,
    /// Bytes of memory that wait for `tx.commit`.
    bytes: u64,
}

impl OpenTransactions {
    /// Whether any channel is in transaction mode.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.channels > 0
    }

    /// Bytes of memory that wait for `tx.commit`.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A channel enters transaction mode.
    pub(super) fn begin(&mut self) {
        self.channels += 1;
    }

    /// Something of this many bytes was added to a transaction.
    pub(super) fn added(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A transaction was taken out, to be committed or dropped.
    pub(super) fn taken(&mut self, tx: &Tx) {
        self.bytes -= tx.bytes();
    }

    /// A channel in transaction mode ends with its transaction.
    pub(super) fn end(&mut self, tx: &Tx) {
        self.channels -= 1;
        self.taken(tx);
    }
}

/// Exchange, routing key, properties and body of a message that goes back to its publisher.
struct UnroutedMessage([Box<[u8]>; 4]);

impl UnroutedMessage {
    fn returned(&self) -> Returned<'_> {
        let [exchange, routing_key, properties, body] = &self.0;
        Returned { exchange, routing_key, properties, body }
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64 + 16).sum()
    }
}

/// A commit that is carried out in parts.
pub(crate) struct Committing {
    channel: u16,
    commit: Commit,
    /// No target of its messages has stopped.
    is_checked: bool,
    /// Settlements that the commit doesn't have yet.
    settled: IntoIter<(Settlement, Vec<Delivery>)>,
    returns: Vec<UnroutedMessage>,
    replies: Vec<(Arc<ReplyTarget>, Arc<Batch>)>,
}

impl Committing {
    /// The channel whose transaction it is.
    pub(super) fn channel(&self) -> u16 {
        self.channel
    }

    /// Looks for a stopped queue among the targets of its messages, as far as the turn allows. `None` if some weren't checked.
    ///
    /// # Errors
    /// The stopped queue.
    pub(super) fn check(&mut self, budget: &mut TurnBudget) -> Option<Result<(), QueueRef>> {
        if !self.is_checked {
            let checked = self.commit.check(budget)?;
            self.is_checked = checked.is_ok();
            return Some(checked);
        }
        Some(Ok(()))
    }

    /// Hands the next settlement of these deliveries to the commit. Returns how many deliveries it settles; none if no more are left.
    pub(super) fn settle_next(&mut self, unsettled: &mut Unsettled) -> Option<usize> {
        let (settlement, deliveries) = self.settled.next()?;
        for Settled { source, runs } in by_source(&deliveries) {
            let source = unsettled.source(source);
            self.commit.settle(&source.queue, source.consumer, runs, settlement);
        }
        unsettled.have_left(&deliveries);
        Some(deliveries.len())
    }

    /// Whether the commit has all of its settlements.
    pub(super) fn has_all_settlements(&self) -> bool {
        self.settled.as_slice().is_empty()
    }

    /// Takes out the deliveries whose settlement the commit doesn't have: nothing of it is carried out.
    pub(super) fn take_deliveries(&mut self) -> impl Iterator<Item = Delivery> + use<> {
        std::mem::take(&mut self.settled).flat_map(|(_, deliveries)| deliveries)
    }

    /// Carries out as much as the turn allows: see [`Commit::part`].
    pub(super) fn part(&mut self, client: &mut ClientConnection, now: Now) -> Option<Committed> {
        self.commit.part(client, now)
    }

    /// Sends its answers to requesters of direct reply-to.
    pub(super) fn send_replies(&self) {
        for (target, batch) in &self.replies {
            target.send(batch);
        }
    }

    /// The messages that go back to their publisher.
    pub(super) fn returned(&self) -> impl Iterator<Item = Returned<'_>> {
        self.returns.iter().map(UnroutedMessage::returned)
    }
}

impl Tx {
    /// Number of messages and of acknowledgements that wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let acknowledged = self.settled.iter().map(|(_, deliveries)| deliveries.len()).sum();
        (self.transaction.message_count() + self.returns.len() + self.replies.len(), acknowledged)
    }

    /// Keeps a settlement for the commit.
    pub(super) fn settle(&mut self, settlement: Settlement, deliveries: Vec<Delivery>) {
        self.settled.push((settlement, deliveries));
    }

    /// The deliveries that it settles.
    pub(super) fn deliveries_mut(&mut self) -> impl Iterator<Item = &mut Delivery> {
        self.settled.iter_mut().flat_map(|(_, deliveries)| deliveries)
    }

    /// Keeps messages for the commit. Returns the bytes of memory that they take.
    pub(super) fn publish(&mut self, route: &Route, batch: &Arc<Batch>, persistent: bool) -> u64 {
        let before = self.transaction.bytes();
        self.transaction.publish(&route.queues, batch.clone(), persistent);
        self.replies.extend(route.replies.iter().map(|reply| (reply.clone(), batch.clone())));
        self.transaction.bytes() - before + route.replies.len() as u64 * batch.memory() as u64
    }

    /// Keeps a message that is returned at the commit. Returns the bytes of memory that it takes.
    pub(super) fn give_back(&mut self, returned: &Returned<'_>) -> u64 {
        let Returned { exchange, routing_key, properties, body } = *returned;
        let unrouted = UnroutedMessage([exchange, routing_key, properties, body].map(Into::into));
        let bytes = unrouted.bytes();
        self.returns.push(unrouted);
        bytes
    }

    /// Begins its commit.
    pub(super) fn commit(self, channel: u16, now: Now) -> Committing {
        let Self { transaction, settled, returns, replies } = self;
        let commit = Commit::new(transaction, now);
        Committing { channel, commit, is_checked: false, settled: settled.into_iter(), returns, replies }
    }

    /// Drops it. Returns the deliveries that it would have settled.
    pub(super) fn into_deliveries(self) -> impl Iterator<Item = Delivery> {
        self.settled.into_iter().flat_map(|(_, deliveries)| deliveries)
    }

    /// Bytes that its commit writes to the log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.transaction.log_bytes()
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.transaction.bytes()
            + self.returns.iter().map(UnroutedMessage::bytes).sum::<u64>()
            + self.replies.iter().map(|(_, batch)| batch.memory() as u64).sum::<u64>()
    }
}
