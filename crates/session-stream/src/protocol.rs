//! The stream protocol as one of the broker's protocols.

use std::sync::Arc;

use leveret_broker::protocol::{self, Accepted, Protocol, ProtocolInfo, Recognised, RefusedCommands};
use leveret_broker::time::Now;
use leveret_session::client_connection::ClientConnection;
use leveret_session::driven::Driven;

use super::open_connections::OpenConnections;
use super::refused::RefusedCounts;
use super::session::Session;
use super::settings::StreamSettings;

/// RabbitMQ's stream protocol.
#[derive(Debug, Clone, Default)]
pub struct StreamProtocol {
    settings: Arc<StreamSettings>,
    refused: Arc<RefusedCounts>,
    open: OpenConnections,
}

const INFO: ProtocolInfo = ProtocolInfo { label: "stream", name: "stream", has_channels: false };

/// Bytes of a frame up to its key.
const HEAD: usize = 6;

impl StreamProtocol {
    /// The protocol with these settings.
    pub fn new(settings: StreamSettings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }
}

impl Protocol for StreamProtocol {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    /// There is no header: a connection begins with a short frame, whose key is that of a command.
    fn recognise(&self, input: &[u8]) -> Recognised {
        match input {
            [0, 0, _, _, 0, 1..=31, ..] => Recognised::Yes(0),
            [0, 0, _, _, 0] | [0, 0, ..] | [0] | [] if input.len() < HEAD => Recognised::Perhaps,
            _ => Recognised::No,
        }
    }

    fn begin(&self, accepted: Accepted, now: Now) -> Box<dyn protocol::Session> {
        let client = ClientConnection::new(accepted, now);
        Box::new(Driven(Session::new(client, self.settings.clone(), self.refused.clone(), self.open.clone())))
    }

    fn refused(&self) -> Vec<RefusedCommands> {
        self.refused.shown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_told_apart_by_their_first_bytes() {
        let recognise = |input: &[u8]| StreamProtocol::default().recognise(input);
        let properties = [0, 0, 0, 12, 0, 17, 0, 1];
        assert_eq!(recognise(&properties), Recognised::Yes(0));
        for length in 0..HEAD {
            assert_eq!(recognise(&properties[..length]), Recognised::Perhaps);
        }
        assert_eq!(recognise(b"AMQP\0\0\x09\x01"), Recognised::No);
        assert_eq!(recognise(b"GET / HTTP/1.1"), Recognised::No);
        assert_eq!(recognise(&[0x16, 3, 1]), Recognised::No);
        assert_eq!(recognise(&[0, 0, 0, 8, 0, 99]), Recognised::No);
    }
}
