//! AMQP 1.0 as one of the broker's protocols.

use leveret_amqp10::{HEADER_AMQP, HEADER_SASL};

use super::connection::Connection;
use leveret_broker::protocol::{Accepted, Protocol, ProtocolInfo, Recognised, Session};
use leveret_broker::time::Now;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::Driven;

/// The protocol AMQP 1.0.
#[derive(Debug, Clone, Copy)]
pub struct Amqp10Protocol;

const INFO: ProtocolInfo = ProtocolInfo { label: "amqp10", name: "AMQP 1-0", has_channels: false };

impl Protocol for Amqp10Protocol {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn recognise(&self, input: &[u8]) -> Recognised {
        // A client without SASL is refused once its header is complete.
        let begins = |header: [u8; 8]| header.starts_with(input);
        match input.len() < HEADER_SASL.len() {
            true if begins(HEADER_SASL) || begins(HEADER_AMQP) => Recognised::Perhaps,
            false if input.starts_with(&HEADER_SASL) => Recognised::Yes(HEADER_SASL.len()),
            _ => Recognised::No,
        }
    }

    /// Answers other headers with the SASL header, with which a connection begins here (specification 2.2).
    fn refusal(&self, _: &[u8]) -> Option<&'static [u8]> {
        Some(&HEADER_SASL)
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn Session> {
        let mut connection = Connection::new(ClientConnection::new(accepted, now));
        connection.start();
        Box::new(Driven(connection))
    }
}
