//! `disposition` of a receiving client: the deliveries that it settles (specification 2.7.6, 3.4).

use std::sync::Arc;

use leveret_amqp10::performative::Disposition;
use leveret_amqp10::{DeliveryState, Role, Serial, condition};
use leveret_message::{Added, TooManyAdded};

use super::connection::Connection;
use super::error::{Failure, Result};
use super::held::InputHold;
use super::link::Link;
use super::session::Session;
use super::settlements::{Asked, LinkSettlement};
use super::transacted::Settled;
use leveret_broker::settlement::Settlement;
use leveret_broker::time::Now;
use leveret_broker::wait_for::WaitFor;

impl Connection {
    /// Handles a disposition of the client.
    pub(crate) fn disposition(&mut self, session: &mut Session, disposition: &Disposition<'_>, now: Now) -> Result<()> {
        let first = Serial(disposition.first);
        let last = disposition.last.map_or(first, Serial);
        if disposition.role == Role::Sender {
            // As a sender the client settles its own publishes: the outcome that we sent was settled already.
            return Ok(());
        }
        let (state, transaction) = match disposition.state {
            Some(DeliveryState::Transactional { txn_id, outcome }) => (outcome.map(DeliveryState::from), Some(txn_id)),
            state => (state, None),
        };
        if transaction.is_some_and(|id| !self.transactions.is_open(id)) {
            return Err(Failure::session(
                condition::TRANSACTION_UNKNOWN_ID,
                "disposition in a transaction that was never declared, or is discharged",
            ));
        }
        let settlement = match state {
            Some(DeliveryState::Accepted) => Settlement::Acknowledge,
            Some(DeliveryState::Rejected { .. }) => Settlement::Reject { failed: true },
            Some(DeliveryState::Released) => Settlement::Requeue { failed: false },
            Some(DeliveryState::Modified { undeliverable_here: true, delivery_failed, .. }) => {
                Settlement::Reject { failed: delivery_failed }
            }
            Some(DeliveryState::Modified { delivery_failed, .. }) => Settlement::Requeue { failed: delivery_failed },
            // The client settled without an outcome: the default outcome of our sources applies.
            None | Some(DeliveryState::Received { .. }) if disposition.settled => Settlement::Requeue { failed: false },
            None | Some(DeliveryState::Received { .. }) => return Ok(()),
            Some(other) => {
                return Err(Failure::session(
                    condition::INVALID_FIELD,
                    format!("Unrecognised state: {other:?} in DISPOSITION"),
                ));
            }
        };
        let added = annotations(state, transaction.is_some())?;
        // Elsewhere such annotations have no effect.
        if let Some(added) = &added
            && let Err(bad) = added.deferral_token()
            && matches!(settlement, Settlement::Requeue { .. })
            && session.receives_from_quorum_queues()
        {
            return Err(Failure::session(condition::INVALID_FIELD, bad.to_string()));
        }
        let repeated = repeated(state);
        let (settled, is_done) = session.unsettled.settle(first, last, &mut self.client.budget);
        if !is_done {
            // Deliveries settled so far are no longer there when the frame is handled again.
            self.held = InputHold::NextTurn;
        }
        session.unsettled.report(&mut self.client.account);
        if let Some(transaction) = transaction {
            self.check_transaction_limit(session, transaction, &settled, now)?;
        }
        let made_room = !settled.is_empty() && session.parked() > 0;
        for part in settled {
            let Some(Link::Consumer(consumer)) = session.link(part.handle) else { continue };
            let (queue, id, browses) = (consumer.queue().clone(), consumer.id(), consumer.browses());
            let asks = !disposition.settled;
            let ids = if asks { part.ids } else { Vec::new() };
            let asked = Asked { channel: session.channel(), handle: part.handle, ids, state: repeated };
            if !part.taken_back.is_empty() {
                // Their queue has them, whatever the client says of them now.
                self.settled_late(session, part.handle, part.taken_back, asks, now);
                if part.runs.is_empty() {
                    continue;
                }
            }
            if browses {
                // The consumer only browses: nothing has to become durable.
                self.answer(&asked, &WaitFor::default());
                continue;
            }
            if let Some(added) = added.as_ref().filter(|_| matches!(settlement, Settlement::Reject { .. }))
                && let Some(queue) = queue.as_ledger()
            {
                queue.annotate(&part.runs, added);
            }
            if let Some(transaction) = transaction {
                let settled = Settled { queue, consumer: id, runs: part.runs, settlement, asked };
                self.transactions.settle(transaction, settled)?;
                continue;
            }
            let added = added.clone().filter(|_| !matches!(settlement, Settlement::Reject { .. }));
            self.settlements.add(LinkSettlement { queue, consumer: id, settlement, added, runs: part.runs, asked });
        }
        if settlement != Settlement::Acknowledge {
            self.flush_settlements(now);
        }
        if made_room {
            // Consumers may have waited for these settlements.
            self.continue_session(session, now);
        }
        Ok(())
    }
}

/// The annotations of an outcome, which become part of the messages before it takes effect.
fn annotations(state: Option<DeliveryState<'_>>, in_transaction: bool) -> Result<Option<Arc<Added>>> {
    let Some(DeliveryState::Modified { message_annotations: Some(map), .. }) = state else { return Ok(None) };
    let too_many = |error: TooManyAdded| Failure::session(condition::RESOURCE_LIMIT_EXCEEDED, error.to_string());
    let Some(added) = Added::of(map).map_err(too_many)? else { return Ok(None) };
    if in_transaction {
        return Err(Failure::session(
            condition::NOT_IMPLEMENTED,
            "message-annotations of a modified outcome in a transaction; settle without a transaction",
        ));
    }
    Ok(Some(Arc::new(added)))
}

/// The client's state as the answer repeats it, without errors and annotations, which are the client's own.
fn repeated(state: Option<DeliveryState<'_>>) -> DeliveryState<'static> {
    match state {
        Some(DeliveryState::Accepted) => DeliveryState::Accepted,
        Some(DeliveryState::Rejected { .. }) => DeliveryState::Rejected { error: None },
        Some(DeliveryState::Modified { delivery_failed, undeliverable_here, .. }) => {
            DeliveryState::Modified { delivery_failed, undeliverable_here, message_annotations: None }
        }
        _ => DeliveryState::Released,
    }
}
