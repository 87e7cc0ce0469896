//! AMQP 0-9-1 as one of the broker's protocols.

use leveret_amqp091::PROTOCOL_HEADER;

use super::amqplain;
use super::session::Session;
use leveret_broker::protocol::{self, Accepted, PlainForm, Protocol, ProtocolInfo, Recognised};
use leveret_broker::time::Now;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::Driven;

/// The protocol AMQP 0-9-1.
#[derive(Debug, Clone, Copy)]
pub struct Amqp091Protocol;

const INFO: ProtocolInfo = ProtocolInfo { label: "amqp091", name: "AMQP 0-9-1", has_channels: true };

impl Protocol for Amqp091Protocol {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn recognise(&self, input: &[u8]) -> Recognised {
        match input.len() < PROTOCOL_HEADER.len() {
            true if PROTOCOL_HEADER.starts_with(input) => Recognised::Perhaps,
            false if input.starts_with(&PROTOCOL_HEADER) => Recognised::Yes(PROTOCOL_HEADER.len()),
            _ => Recognised::No,
        }
    }

    /// Clients of another AMQP 0-9 get the header of this one (specification 4.2.2), as from RabbitMQ 4.3.
    fn refusal(&self, received: &[u8]) -> Option<&'static [u8]> {
        received.starts_with(b"AMQP\x00\x00\x09").then_some(&PROTOCOL_HEADER)
    }

    fn plain_response(&self, mechanism: &str, response: &[u8]) -> Option<Result<Vec<u8>, String>> {
        (mechanism == "AMQPLAIN").then(|| amqplain::plain(response))
    }

    fn plain_form(&self) -> Option<&dyn PlainForm> {
        Some(self)
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn protocol::Session> {
        let mut session = Session::new(ClientConnection::new(accepted, now));
        session.start(now);
        Box::new(Driven(session))
    }
}
