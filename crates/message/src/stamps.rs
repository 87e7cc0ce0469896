//! What a node notes on the messages that it receives, where it is told to: RabbitMQ's incoming message interceptors.
//!
//! Stamps stand in the [overlay](crate::overlay), so that what the publisher sent stays as it was sent.

use leveret_amqp091::Properties;

use crate::annotations::{TIMESTAMP_IN_MS, X_ROUTED_BY};
use crate::incoming::Incoming;
use crate::overlay::{Received, received_entry, routed_by_entry};

/// Which stamps messages get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stamps {
    /// When it was received (`message_interceptors.incoming.set_header_timestamp`).
    pub received_time: Option<IfPresent>,
    /// This node's name (`message_interceptors.incoming.set_header_routing_node`).
    pub routed_by: Option<(IfPresent, String)>,
}

/// What becomes of a publisher's own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfPresent {
    /// It stays (`overwrite = false`).
    Keep,
    /// The stamp takes its place (`overwrite = true`).
    Overwrite,
}

impl IfPresent {
    fn stamps(self, is_present: bool) -> bool {
        self == Self::Overwrite || !is_present
    }
}

/// What a publisher gave of its own.
struct Given {
    /// The header under which AMQP 0-9-1 shows the time.
    time_header: bool,
    /// `timestamp`, or `creation-time`.
    timestamp: bool,
    /// The node's header or annotation.
    node: bool,
}

impl Stamps {
    /// Appends to the overlay what a message with these properties gets that came over AMQP 0-9-1 at `received_ms`, in
    /// milliseconds since the Unix epoch.
    #[cold]
    pub fn encode_amqp091(&self, properties: &[u8], received_ms: u64, overlay: &mut Vec<u8>) {
        // They were checked before.
        let given = Properties::decode(properties).unwrap_or_default();
        let has = |name| given.headers.is_some_and(|table| table.lookup(name).is_some());
        let given =
            Given { time_header: has(TIMESTAMP_IN_MS), timestamp: given.timestamp.is_some(), node: has(X_ROUTED_BY) };
        self.encode(&given, received_ms, overlay);
    }

    /// As [`encode_amqp091`](Self::encode_amqp091) of a message that came over AMQP 1.0.
    #[cold]
    pub fn encode_amqp10(&self, message: &Incoming<'_>, received_ms: u64, overlay: &mut Vec<u8>) {
        let given = Given {
            // Its annotation for the time is the broker's alone, as in RabbitMQ.
            time_header: false,
            timestamp: message.has_creation_time,
            node: message.has_annotation(X_ROUTED_BY),
        };
        self.encode(&given, received_ms, overlay);
    }

    fn encode(&self, given: &Given, received_ms: u64, overlay: &mut Vec<u8>) {
        if let Some(time) = self.received_time {
            let (header, property) = (time.stamps(given.time_header), time.stamps(given.timestamp));
            if header || property {
                received_entry(overlay, &Received { ms: received_ms, header, property });
            }
        }
        if let Some((node, name)) = &self.routed_by
            && node.stamps(given.node)
        {
            routed_by_entry(overlay, name.as_bytes());
        }
    }
}
