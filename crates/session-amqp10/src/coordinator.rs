//! Transactions: requests to the coordinator that a client's link controls (specification 4).

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp10::performative::{Attach, Transfer};
use leveret_amqp10::transaction::TransactionRequest;
use leveret_amqp10::{
    Coordinator as Target, DeliveryState, ReceiverSettleMode, Role, Serial, Symbol, Symbols, TargetArchetype, condition,
};

use super::assembly::Assembly;
use super::connection::Connection;
use super::error::{Failure, Result};
use super::link::Link;
use super::session::Session;
use super::transactions::{Coordinator, REQUEST_BYTES_MAX};
use leveret_broker::time::Now;

const CAPABILITIES: [Symbol<'static>; 2] =
    [Symbol::new("amqp:local-transactions"), Symbol::new("amqp:multi-txns-per-ssn")];

impl Connection {
    /// Handles the attach of a link that controls transactions.
    pub(crate) fn attach_coordinator(&mut self, session: &mut Session, attach: &Attach<'_>) -> Result<()> {
        let initial = Serial(attach.initial_delivery_count.unwrap_or(0));
        let assembly = Assembly::new(attach.snd_settle_mode, self.client.partial.clone());
        let coordinator = Coordinator::new(self.client.broker.fresh_id(), initial, assembly);
        session.put(attach.handle, Box::new(Link::Coordinator(coordinator)));
        session.note_granted(attach.handle);
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
        self.send_attach(session.channel(), answer)?;
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
        let complete = coordinator.receive(transfer, payload)?;
        if coordinator.is_flow_due() {
            session.note_granted(transfer.handle);
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
            TransactionRequest::Declare(_) => {
                let number = self.transactions.declare(coordinator.key())?.to_be_bytes();
                let declared = DeliveryState::Declared { txn_id: &number };
                self.send_coordinator_outcome(session.channel(), complete.id, declared);
            }
            TransactionRequest::Discharge(discharge) => {
                // Messages that the client sent earlier are published first.
                self.flush_whole_runs(session, now);
                self.discharge_transaction(session.channel(), &discharge, complete.id, now);
            }
        }
        Ok(())
    }
}
