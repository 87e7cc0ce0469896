//! A commit that is carried out in parts.

use leveret_amqp091::Method;
use leveret_amqp091::method::tx;

use super::error::{ProtocolError, precondition};
use super::held::Answer;
use super::session::{Phase, Session};
use super::tx::Committing;
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::DELIVERY;
use leveret_session::commit::{Committed, PartialReason};

/// Cost of a client's settlement that is added to a commit.
const ADDED: u32 = 2;

impl Session {
    /// Continues a commit, as far as the turn allows. True if nothing is left.
    pub(super) fn commit_part(&mut self, committing: &mut Committing, now: Now) -> bool {
        let number = committing.channel();
        match committing.check(&mut self.client.budget) {
            None => return false,
            Some(Err(queue)) => {
                self.refuse_commit(committing, &queue, now);
                return true;
            }
            Some(Ok(())) => {}
        }
        while !committing.has_all_settlements() {
            if self.client.budget.is_spent() {
                return false;
            }
            // A channel ends after its commit.
            let Some(channel) = self.channels.get_mut(&number) else { return true };
            let count = committing.settle_next(channel.unsettled_mut()).unwrap_or(0);
            self.client.budget.spend(ADDED + count as u32 * DELIVERY);
        }
        let Some(committed) = committing.part(&mut self.client, now) else { return false };
        self.committed(committing, committed, now);
        true
    }

    /// Refuses a commit, of which nothing was carried out, because of a stopped queue.
    fn refuse_commit(&mut self, committing: &mut Committing, queue: &QueueRef, now: Now) {
        let number = committing.channel();
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.unsettled_mut().transaction_dropped(committing.take_deliveries());
            channel.unsettled_mut().watch_restored(number, &mut self.client.looks);
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
        let is_open = self.channels.get(&number).is_some_and(|channel| !channel.is_closing());
        is_open && self.phase == Phase::Running && !self.client.is_gone()
    }

    /// Ends a commit that was carried out.
    fn committed(&mut self, committing: &Committing, committed: Committed, now: Now) {
        let number = committing.channel();
        committing.send_replies();
        if !self.is_serving(number) {
            return;
        }
        if let Ok(channel) = self.channel(number) {
            channel.unsettled_mut().transaction_committed();
        }
        self.settled_some(number, now);
        for returned in committing.returned() {
            self.return_message(number, &returned);
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
}

/// An error of `tx.commit`, which may be found in a later turn.
fn in_commit(error: ProtocolError) -> ProtocolError {
    error.in_method(&Method::TxCommit(tx::Commit {}))
}
