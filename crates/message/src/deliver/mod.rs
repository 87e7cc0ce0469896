//! Messages in the form in which receivers of each protocol get them.
//!
//! If the receiver uses its publisher's protocol, a message is sent as it was received. For AMQP 0-9-1, properties
//! and body are borrowed; for AMQP 1.0, the bare message is copied after a header and the annotations, whose stored
//! part isn't decoded. Every other message is read into its [hub form](crate::hub), from which the receiver's
//! protocol writes it by RabbitMQ's rules. Where these would fail or lose more than necessary, docs/differences.md
//! describes what we do instead.

mod amqp091;
mod amqp10;
mod deaths;
mod file;
mod mqtt;
mod stamps;

use std::borrow::Cow;

use leveret_amqp10::message::Sections;
use leveret_amqp091::Properties;

use crate::envelope::Encoding;
use crate::hub;
use crate::stored::StoredMessage;

pub use amqp10::{Amqp10Run, to_amqp10};
pub(crate) use amqp10::{MapWriter, write_body, write_start};
pub use amqp091::{to_amqp091, within};
pub(crate) use deaths::header as death_header;
pub use file::{file_to_amqp10, file_to_amqp091};
pub use mqtt::{MqttOrigin, mqtt_origin, to_mqtt};

/// A message for a receiver over AMQP 0-9-1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amqp091<'a> {
    /// Property flags and list (specification 4.2.6.1).
    pub properties: Cow<'a, [u8]>,
    /// The body.
    pub body: Cow<'a, [u8]>,
}

/// The property `timestamp` for a receiver over AMQP 0-9-1, in seconds since the Unix epoch. If the message was
/// published over AMQP 1.0, its body has to be present.
pub fn timestamp(message: &StoredMessage<'_>) -> Option<u64> {
    stamps::Stamps::of(&message.overlay, &Delivery::default()).timestamp().or_else(|| match message.encoding {
        Encoding::Amqp091 => Properties::decode(message.properties).ok()?.timestamp,
        Encoding::Mqtt => None,
        Encoding::Foreign(id) => {
            let created = hub::Message::from_foreign(message, id).properties.creation_time;
            created.and_then(amqp091::value::seconds)
        }
        Encoding::Amqp10 => {
            Sections::parse(message.body).ok()?.properties?.creation_time.and_then(amqp091::value::seconds)
        }
    })
}

/// The part of a message that belongs to one delivery of it: fields of its header (AMQP 1.0, 3.2.1), and annotations or headers
/// that its receiver gets beside the publisher's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delivery {
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Number of failed attempts before this one.
    pub delivery_count: u32,
    /// Number of attempts before this one, if its queue counts all: `x-acquired-count`, with `x-delivery-count` beside it.
    pub acquired_count: u32,
    /// Wall time in milliseconds since the Unix epoch, from which the remaining time to live is counted.
    pub now_ms: u64,
    /// Whether the receiver gets the time of sending (`message_interceptors.outgoing.timestamp.enabled`).
    pub sent_time: bool,
    /// Its offset in the stream that it comes from: `x-stream-offset`. In a series of deliveries, that of the first message.
    pub stream_offset: Option<u64>,
}

impl Delivery {
    /// Whether the receiver gets more than the publisher's headers or annotations.
    #[inline]
    fn adds_headers(&self) -> bool {
        self.sent_time || self.acquired_count > 0 || self.stream_offset.is_some()
    }
}
