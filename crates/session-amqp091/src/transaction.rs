//! `tx.select`, `tx.commit`, `tx.rollback` (specification 1.9).
//!
//! Messages are routed when they are published. Everything else, including returns, happens at the [commit](super::committing).

use leveret_amqp091::method::tx;
use leveret_amqp091::{Method, encode_method};

use super::error::{Result, precondition};
use super::session::Session;
use super::unfinished::Unfinished;
use leveret_broker::time::Now;

impl Session {
    /// `tx.select`; a second one changes nothing.
    pub(crate) fn tx_select(&mut self, number: u16) -> Result<()> {
        let entry = self.channel(number)?;
        if entry.confirms().is_some() {
            return Err(precondition("cannot switch from confirm to tx mode"));
        }
        if entry.select_tx() {
            self.transactions.begin();
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

    /// `tx.rollback`: messages are dropped, deliveries are unsettled again.
    pub(crate) fn tx_rollback(&mut self, number: u16) -> Result<()> {
        let tx = self.take_tx(number)?;
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.unsettled_mut().transaction_dropped(tx.into_deliveries());
            channel.unsettled_mut().watch_restored(number, &mut self.client.looks);
        }
        encode_method(self.out(number), number, &Method::TxRollbackOk(tx::RollbackOk {}));
        Ok(())
    }
}
