//! Messages and settlements that wait for the commit of their transaction.

use std::sync::Arc;

use leveret_message::Batch;

use super::channel::Channel;
use super::error::{Result, precondition};
use super::run::Returned;
use super::session::Session;
use super::tx::Tx;
use leveret_broker::route::Route;
use leveret_broker::settlement::Settlement;
use leveret_session::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_LOG_BYTES_MAX};

impl Session {
    pub(super) fn take_tx(&mut self, number: u16) -> Result<Tx> {
        let tx = self.channel(number)?.tx_mut().map(std::mem::take);
        let tx = tx.ok_or_else(|| precondition("channel is not transactional"))?;
        self.transactions.taken(&tx);
        Ok(tx)
    }

    /// Drops the transaction of a channel that ends.
    pub(super) fn tx_end(&mut self, channel: &mut Channel) {
        let Some(tx) = channel.take_tx() else { return };
        self.transactions.end(&tx);
        channel.unsettled_mut().transaction_dropped(tx.into_deliveries());
    }

    /// Refuses a message that would make a transaction too large.
    pub(super) fn check_transaction(&self, number: u16, body: usize, queues: usize) -> Result<()> {
        let Some(tx) = self.channels.get(&number).and_then(|channel| channel.tx()) else { return Ok(()) };
        let held = self.transactions.bytes() + body as u64;
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
        let Some(tx) = self.channels.get_mut(&number).and_then(|channel| channel.tx_mut()) else { return false };
        let added = tx.publish(route, batch, persistent);
        self.transactions.added(added);
        self.client.counters.routed.add(batch.len() as u64);
        self.client.counters.enqueued.add(batch.len() as u64 * route.queues.len() as u64);
        true
    }

    /// Keeps a message that is returned at the commit. False when the channel isn't transactional.
    pub(super) fn tx_return(&mut self, number: u16, returned: &Returned<'_>) -> Result<bool> {
        self.check_transaction(number, returned.body.len(), 0)?;
        let Some(tx) = self.channel(number)?.tx_mut() else { return Ok(false) };
        let added = tx.give_back(returned);
        self.transactions.added(added);
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
        if entry.tx().is_none() {
            return Ok(false);
        }
        match entry.settle_in_transaction(tag, multiple, settlement) {
            true => Ok(true),
            false => Err(unknown_tag(tag)),
        }
    }
}

pub(super) fn unknown_tag(tag: u64) -> super::error::ProtocolError {
    precondition(format!("unknown delivery tag {tag}"))
}
