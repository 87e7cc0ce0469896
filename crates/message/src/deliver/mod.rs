//! Messages as receivers of each protocol see them.
//!
//! A message goes out as it came in when the receiver speaks its publisher's protocol: properties and body of AMQP
//! 0-9-1 are borrowed, the bare message of AMQP 1.0 is copied byte for byte behind a header and annotations whose
//! stored part isn't decoded. Every other message is read into its [hub form](crate::hub), from which the receiver's
//! protocol writes it, with RabbitMQ's rules; where these would fail or lose more than they must, docs/differences.md
//! says what happens here.

mod amqp091;
mod amqp10;
mod deaths;
mod file;
mod stamps;

use std::borrow::Cow;

use leveret_amqp10::message::Sections;
use leveret_amqp091::Properties;

use crate::envelope::Encoding;
use crate::stored::StoredMessage;

pub use amqp10::{Amqp10Run, to_amqp10};
pub use amqp091::{to_amqp091, within};
pub(crate) use deaths::header as death_header;
pub use file::{file_to_amqp10, file_to_amqp091};

/// A message as a receiver over AMQP 0-9-1 gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amqp091<'a> {
    /// Property flags and list (specification 4.2.6.1).
    pub properties: Cow<'a, [u8]>,
    /// The body.
    pub body: Cow<'a, [u8]>,
}

/// The property `timestamp` as a receiver over AMQP 0-9-1 gets it, in seconds since the Unix epoch. The body of a message
/// that came over AMQP 1.0 has to be at hand.
pub fn timestamp(message: &StoredMessage<'_>) -> Option<u64> {
    stamps::Stamps::of(&message.overlay, None).timestamp().or_else(|| match message.encoding {
        Encoding::Amqp091 => Properties::decode(message.properties).ok()?.timestamp,
        Encoding::Amqp10 => {
            Sections::parse(message.body).ok()?.properties?.creation_time.and_then(amqp091::value::seconds)
        }
    })
}

/// What a message's header says about this delivery (AMQP 1.0, 3.2.1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Delivery {
    /// A receiver had it before.
    pub redelivered: bool,
    /// Failed attempts before this one.
    pub delivery_count: u32,
    /// Wall time in milliseconds since the Unix epoch: what is left of a time to live is counted from here.
    pub now_ms: u64,
    /// The receiver is told that it is sent now (`message_interceptors.outgoing.timestamp.enabled`).
    pub sent_time: bool,
}
