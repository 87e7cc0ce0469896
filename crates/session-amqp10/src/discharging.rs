//! The ends of transactions. Their publishes and settlements wait in [`leveret_session::transaction`] and take effect with the discharge,
//! together or not at all.

use leveret_amqp10::performative::Disposition;
use leveret_amqp10::transaction::Discharge;
use leveret_amqp10::{DeliveryState, Error, Performative, Role, Serial, condition, encode_performative};
use leveret_log::Wait;
use leveret_message::StoredMessage;
use leveret_queue::{Deliveries, Flow, Run, Watermarks};

use super::connection::Connection;
use super::error::Result;
use super::link::Link;
use super::session::Session;
use super::transacted::{Settled, Transacted};
use super::transactions::{Committing, Coordinator};
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::queue_handle::QueueRef;
use leveret_broker::route::Route;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;
use leveret_session::commit::{Committed, PartialReason};

const ROLLED_BACK: &str = "a part of the transaction was refused, so that it was rolled back as a whole";

impl Connection {
    pub(super) fn discharge_transaction(&mut self, channel: u16, discharge: &Discharge<'_>, id: Serial, now: Now) {
        let Some(open) = self.transactions.take(discharge.txn_id) else {
            let error = Error::new(condition::TRANSACTION_UNKNOWN_ID, "no such transaction");
            return self.send_coordinator_outcome(channel, id, DeliveryState::Rejected { error: Some(error) });
        };
        if discharge.fail {
            self.roll_back(open.into_settled(), now);
            return self.send_coordinator_outcome(channel, id, DeliveryState::Accepted);
        }
        if open.is_refused() {
            self.roll_back(open.into_settled(), now);
            return self.send_rolled_back(channel, id, ROLLED_BACK);
        }
        self.transactions.put_committing(Box::new(open.commit(channel, id, now)));
        self.go_on_committing(now);
    }

    /// Continues the commit of a discharge, as far as the turn allows. True if none is under way.
    pub(super) fn go_on_committing(&mut self, now: Now) -> bool {
        let Some(mut committing) = self.transactions.take_committing() else { return true };
        let Committed { wait, refused } = match committing.part(&mut self.client, now) {
            Ok(Some(committed)) => committed,
            Ok(None) => {
                self.transactions.put_committing(committing);
                return false;
            }
            Err(settled) => {
                self.roll_back(settled, now);
                self.end_discharge(&committing, Err(ROLLED_BACK.to_owned()));
                return true;
            }
        };
        committing.answers().iter().for_each(|asked| self.answer(asked, &wait));
        let outcome = match refused {
            Some(reason) => Err(partial(reason)),
            None => Ok(wait),
        };
        self.end_discharge(&committing, outcome);
        true
    }

    /// Answers a discharge with an error, or when all of it is durable.
    fn end_discharge(&mut self, committing: &Committing, outcome: core::result::Result<WaitFor, String>) {
        // The coordinator's link may have ended.
        let Some(discharged) = committing.discharge() else { return };
        match outcome {
            Ok(wait) => self.transactions.discharge(wait, discharged),
            Err(text) => self.send_rolled_back(discharged.channel, discharged.id, &text),
        }
    }

    fn send_rolled_back(&mut self, channel: u16, id: Serial, text: &str) {
        let error = Error::new(condition::TRANSACTION_ROLLBACK, text);
        self.send_coordinator_outcome(channel, id, DeliveryState::Rejected { error: Some(error) });
    }

    /// Rolls a transaction back; deliveries that were settled in it are requeued in place.
    fn roll_back(&mut self, settled: Transacted<QueueRef>, now: Now) {
        for Settled { queue, consumer, runs, mut asked, .. } in settled.into_settled() {
            queue.settle(
                Deliveries::of(Some(consumer), &runs),
                Settlement::Requeue { failed: true },
                Wait::Lazy,
                now.monotonic,
            );
            asked.release();
            self.answer(&asked, &WaitFor::default());
        }
    }

    /// Rolls back the transactions that a coordinator's link leaves open.
    pub(crate) fn leave_coordinator(&mut self, coordinator: &Coordinator, now: Now) {
        for open in self.transactions.leave(coordinator.key()) {
            self.roll_back(open.into_settled(), now);
        }
    }

    /// Answers the discharges that became durable.
    pub(crate) fn answer_discharges(&mut self) {
        if !self.transactions.has_discharged() {
            return;
        }
        let (streams, applied) = (self.client.broker.streams.clone(), self.client.applied());
        let reached = |stream| match is_planted(Bug::DischargeEarly) {
            true => streams.get(stream).map(|stream| Watermarks::synced(stream.appended())),
            false => applied(stream),
        };
        while let Some((done, end)) = self.transactions.next_durable(&reached) {
            match PartialReason::of(&end) {
                None => self.send_coordinator_outcome(done.channel, done.id, DeliveryState::Accepted),
                Some(reason) => self.send_rolled_back(done.channel, done.id, &partial(reason)),
            }
        }
    }

    pub(super) fn send_coordinator_outcome(&mut self, channel: u16, id: Serial, state: DeliveryState<'_>) {
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
        let outcome = self.transactions.publish(txn_id, route, message)?;
        if !settled {
            let state = DeliveryState::Transactional { txn_id, outcome: Some(outcome) };
            self.send_coordinator_outcome(channel, id, state);
        }
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
                && !consumer.browses()
            {
                consumed.push((consumer.queue().clone(), consumer.id(), &part.runs));
            }
        }
        let count: u64 = consumed.iter().flat_map(|(.., runs)| *runs).map(Run::count).sum();
        let max = u64::from(self.client.broker.settings.unsettled_max);
        let Err(failure) = self.transactions.check_settled(txn_id, count, max) else { return Ok(()) };
        // None of these links must get the requeued messages again.
        consumed.iter().for_each(|(queue, id, _)| queue.flow(*id, Flow::Room(false), now.monotonic));
        consumed.iter().for_each(|(queue, id, runs)| {
            queue.settle(
                Deliveries::of(Some(*id), runs),
                Settlement::Requeue { failed: true },
                Wait::Lazy,
                now.monotonic,
            );
        });
        Err(failure)
    }
}

/// The text of a discharge of which a queue didn't get all messages.
fn partial(reason: PartialReason) -> String {
    format!("partial transaction completion: {}", reason.text())
}
