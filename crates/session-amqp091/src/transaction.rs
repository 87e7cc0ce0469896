//! `tx.select`, `tx.commit`, `tx.rollback` (specification 1.9).
//!
//! Messages are routed when they are published. Everything else, including returns, happens at the commit.

use std::sync::Arc;
use std::vec::IntoIter;

use leveret_amqp091::{Method, encode_method, method::tx};
use leveret_message::Batch;

use super::acknowledge::unknown_tag;
use super::channel::Channel;
use super::error::{ProtocolError, Result, precondition};
use super::held::Answer;
use super::run::Returned;
use super::session::{Phase, Session};
use super::tx::{Committing, Tx};
use super::unfinished::Unfinished;
use super::unsettled::{Delivery, Settled, by_source};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::DELIVERY;
use leveret_session::commit::{Committed, PartialReason};
use leveret_session::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_LOG_BYTES_MAX};

/// Cost of a client's settlement that is added to a commit.
const ADDED: u32 = 2;

/// An error of `tx.commit`, which may be found in a later turn.
fn in_commit(error: ProtocolError) -> ProtocolError {
    error.in_method(&Method::TxCommit(tx::Commit {}))
}

impl Session {
    /// `tx.select`; a second one changes nothing.
    pub(crate) fn tx_select(&mut self, number: u16) -> Result<()> {
        let entry = self.channel(number)?;
        if entry.confirms.is_some() {
            return Err(precondition("cannot switch from confirm to tx mode"));
        }
        if entry.tx.is_none() {
            entry.tx = Some(Tx::default());
            self.transactions += 1;
        }
        encode_method(self.out(number), number, &Method::TxSelectOk(tx::SelectOk {}));
        Ok(())
    }

    /// `tx.commit`: the answer follows when all of the transaction is durable.
    pub(crate) fn tx_commit(&mut self, number: u16, now: Now) -> Result<()> {
        let committing = self.take_tx(number)?.commit(number, now);
        self.begin_work(Unfinished::Commit(Box::new(committing)), now);
        Ok(())
    }

    /// Continues a commit, as far as the turn allows. True if nothing is left.
    pub(super) fn commit_part(&mut self, committing: &mut Committing, now: Now) -> bool {
        let Committing { channel: number, commit, is_checked, settled, .. } = committing;
        let number = *number;
        if !*is_checked {
            match commit.check(&mut self.client.budget) {
                None => return false,
                Some(Err(queue)) => {
                    self.refuse_commit(number, &queue, std::mem::take(settled), now);
                    return true;
                }
                Some(Ok(())) => *is_checked = true,
            }
        }
        while let Some((settlement, deliveries)) = settled.as_slice().first() {
            if self.client.budget.is_spent() {
                return false;
            }
            // A channel ends after its commit.
            let Some(channel) = self.channels.get_mut(&number) else { return true };
            for Settled { source, runs } in by_source(deliveries) {
                let source = channel.unsettled.source(source);
                commit.settle(&source.queue, source.consumer, runs, *settlement);
            }
            channel.unsettled.have_left(deliveries);
            self.client.budget.spend(ADDED + deliveries.len() as u32 * DELIVERY);
            settled.next();
        }
        let Some(committed) = commit.part(&mut self.client, now) else { return false };
        self.committed(committing, committed, now);
        true
    }

    /// Refuses a commit, of which nothing was carried out, because of a stopped queue.
    fn refuse_commit(
        &mut self,
        number: u16,
        queue: &QueueRef,
        settled: IntoIter<(Settlement, Vec<Delivery>)>,
        now: Now,
    ) {
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.unsettled.transaction_dropped(settled.flat_map(|(_, deliveries)| deliveries));
            channel.unsettled.watch_restored(number, &mut self.client.looks);
        }
        if self.is_serving(number) {
            let text = format!(
                "tx.commit: nothing was committed, since queue '{}' in vhost '{}' has stopped",
                queue.info().name,
                queue.info().vhost
            );
            self.fail(number, in_commit(precondition(text)), now);
        }
    }

    /// Whether the channel isn't being closed, from our side or by a broken socket.
    fn is_serving(&self, number: u16) -> bool {
        let is_open = self.channels.get(&number).is_some_and(|channel| !channel.closing);
        is_open && self.phase == Phase::Running && !self.client.gone
    }

    /// Ends a commit that was carried out.
    fn committed(&mut self, committing: &mut Committing, committed: Committed, now: Now) {
        let number = committing.channel;
        for (target, batch) in &committing.replies {
            target.send(batch);
        }
        if !self.is_serving(number) {
            return;
        }
        if let Ok(channel) = self.channel(number) {
            channel.unsettled.transaction_committed();
        }
        self.settled_some(number, now);
        for unrouted in &committing.returns {
            self.return_message(number, &unrouted.returned());
        }
        if let Some(reason) = committed.refused {
            return self.commit_is_partial(number, reason, now);
        }
        self.answer_when_durable(committed.wait, Answer::TxCommitOk { channel: number });
    }

    /// A queue didn't get all of its messages of a commit.
    pub(crate) fn commit_is_partial(&mut self, number: u16, reason: PartialReason, now: Now) {
        let text = format!("partial tx completion: {}", reason.text());
        self.fail(number, in_commit(precondition(text)), now);
    }

    /// `tx.rollback`: messages are dropped, deliveries are unsettled again.
    pub(crate) fn tx_rollback(&mut self, number: u16) -> Result<()> {
        let tx = self.take_tx(number)?;
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.unsettled.transaction_dropped(tx.into_deliveries());
            channel.unsettled.watch_restored(number, &mut self.client.looks);
        }
        encode_method(self.out(number), number, &Method::TxRollbackOk(tx::RollbackOk {}));
        Ok(())
    }

    fn take_tx(&mut self, number: u16) -> Result<Tx> {
        let tx = self.channel(number)?.tx.as_mut().map(std::mem::take);
        let tx = tx.ok_or_else(|| precondition("channel is not transactional"))?;
        self.transaction_bytes -= tx.bytes();
        Ok(tx)
    }

    /// Drops the transaction of a channel that ends.
    pub(super) fn tx_end(&mut self, channel: &mut Channel) {
        let Some(tx) = channel.tx.take() else { return };
        self.transactions -= 1;
        self.transaction_bytes -= tx.bytes();
        channel.unsettled.transaction_dropped(tx.into_deliveries());
    }

    /// Refuses a message that would make a transaction too large.
    pub(super) fn check_transaction(&self, number: u16, body: usize, queues: usize) -> Result<()> {
        let Some(tx) = self.channels.get(&number).and_then(|channel| channel.tx.as_ref()) else { return Ok(()) };
        let held = self.transaction_bytes + body as u64;
        if held > TRANSACTION_BYTES_MAX {
            return Err(precondition(format!(
                "transaction too large: the open transactions of this connection would hold {held} bytes, the limit \
                 is {TRANSACTION_BYTES_MAX}; commit more often"
            )));
        }
        let written = tx.log_bytes() + body as u64 * queues as u64;
        if written > TRANSACTION_LOG_BYTES_MAX {
            return Err(precondition(format!(
                "transaction too large: its messages would write {written} bytes for all their queues, the limit is \
                 {TRANSACTION_LOG_BYTES_MAX}; commit more often"
            )));
        }
        Ok(())
    }

    /// Keeps messages for the commit. False when the channel isn't transactional.
    pub(super) fn tx_publish(&mut self, number: u16, route: &Route, batch: &Arc<Batch>, persistent: bool) -> bool {
        let Some(tx) = self.channels.get_mut(&number).and_then(|channel| channel.tx.as_mut()) else { return false };
        self.transaction_bytes += tx.publish(route, batch, persistent);
        self.client.counters.routed.add(batch.len() as u64);
        self.client.counters.enqueued.add(batch.len() as u64 * route.queues.len() as u64);
        true
    }

    /// Keeps a message that is returned at the commit. False when the channel isn't transactional.
    pub(super) fn tx_return(&mut self, number: u16, returned: &Returned<'_>) -> Result<bool> {
        self.check_transaction(number, returned.body.len(), 0)?;
        let Some(tx) = self.channel(number)?.tx.as_mut() else { return Ok(false) };
        self.transaction_bytes += tx.give_back(returned);
        Ok(true)
    }

    /// Keeps a settlement for the commit. False when the channel isn't transactional.
    pub(super) fn tx_settle(
        &mut self,
        number: u16,
        (tag, multiple): (u64, bool),
        settlement: Settlement,
    ) -> Result<bool> {
        let entry = self.channel(number)?;
        if entry.tx.is_none() {
            return Ok(false);
        }
        match entry.settle_in_transaction(tag, multiple, settlement) {
            true => Ok(true),
            false => Err(unknown_tag(tag)),
        }
    }
}
