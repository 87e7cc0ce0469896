//! Stamps that a node adds to received messages if configured to: RabbitMQ's incoming message interceptors.
//!
//! Stamps are stored in the [overlay](crate::overlay), so that the publisher's bytes stay unchanged.

use leveret_amqp091::Properties;

use crate::annotations::{TIMESTAMP_IN_MS, X_ROUTED_BY};
use crate::incoming::Incoming;
use crate::mqtt::MqttHead;
use crate::overlay::{ReceivedStamp, received_entry, routed_by_entry};

/// The stamps that messages get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stamps {
    /// The time of receipt (`message_interceptors.incoming.set_header_timestamp`).
    pub received_time: Option<IfPresent>,
    /// This node's name (`message_interceptors.incoming.set_header_routing_node`).
    pub routed_by: Option<(IfPresent, String)>,
}

/// Treatment of a publisher's own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfPresent {
    /// Keep it (`overwrite = false`).
    Keep,
    /// Replace it by the stamp (`overwrite = true`).
    Overwrite,
}

impl IfPresent {
    fn stamps(self, is_present: bool) -> bool {
        self == Self::Overwrite || !is_present
    }
}

/// The publisher's own values that a message has.
struct Given {
    /// The header with the time in AMQP 0-9-1.
    time_header: bool,
    /// `timestamp`, or `creation-time`.
    timestamp: bool,
    /// The header or annotation with the node.
    node: bool,
}

impl Stamps {
    /// Appends to the overlay the stamps of a message with these properties that was received over AMQP 0-9-1 at
    /// `received_ms`, in milliseconds since the Unix epoch.
    #[cold]
    pub fn encode_amqp091(&self, properties: &[u8], received_ms: u64, overlay: &mut Vec<u8>) {
        // They were checked before.
        let given = Properties::decode(properties).unwrap_or_default();
        let has = |name| given.headers.is_some_and(|table| table.lookup(name).is_some());
        let given =
            Given { time_header: has(TIMESTAMP_IN_MS), timestamp: given.timestamp.is_some(), node: has(X_ROUTED_BY) };
        self.encode(&given, received_ms, overlay);
    }

    /// As [`encode_amqp091`](Self::encode_amqp091), for a message received over AMQP 1.0.
    #[cold]
    pub fn encode_amqp10(&self, message: &Incoming<'_>, received_ms: u64, overlay: &mut Vec<u8>) {
        let given = Given {
            // Only the broker sets its annotation for the time, as in RabbitMQ.
            time_header: false,
            timestamp: message.has_creation_time,
            node: message.has_annotation(X_ROUTED_BY),
        };
        self.encode(&given, received_ms, overlay);
    }

    /// As [`encode_amqp091`](Self::encode_amqp091), for a message received over MQTT, which has no property for the time.
    #[cold]
    pub fn encode_mqtt(&self, head: &MqttHead<'_>, received_ms: u64, overlay: &mut Vec<u8>) {
        let node = head.properties.user().any(|(name, _)| name == X_ROUTED_BY);
        self.encode(&Given { time_header: false, timestamp: false, node }, received_ms, overlay);
    }

    fn encode(&self, given: &Given, received_ms: u64, overlay: &mut Vec<u8>) {
        if let Some(time) = self.received_time {
            let (header, property) = (time.stamps(given.time_header), time.stamps(given.timestamp));
            if header || property {
                received_entry(overlay, &ReceivedStamp { ms: received_ms, header, property });
            }
        }
        if let Some((node, name)) = &self.routed_by
            && node.stamps(given.node)
        {
            routed_by_entry(overlay, name.as_bytes());
        }
    }
}
