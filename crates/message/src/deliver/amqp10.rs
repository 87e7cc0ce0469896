//! Deliveries over AMQP 1.0.

use leveret_amqp10::message::Header;
use leveret_amqp091::{Properties, Table};

use super::body::Body;
use super::stamps::Stamps;
use super::types::text;
use super::{Delivery, application_properties, message_annotations, properties};
use crate::envelope::Encoding;
use crate::stored::StoredMessage;

/// Bytes of a header and of the annotations that name exchange and routing key, without these names.
const ROUTE_AND_HEADER: usize = 80;

/// Appends all sections of the message as a receiver over AMQP 1.0 gets it.
#[inline]
pub fn to_amqp10(message: &StoredMessage<'_>, delivery: &Delivery, out: &mut Vec<u8>) {
    let envelope = &message.envelope;
    // All that a message of AMQP 1.0 needs, so that nothing grows halfway.
    out.reserve(
        ROUTE_AND_HEADER
            + envelope.exchange.len()
            + envelope.routing_key.len()
            + message.properties.len()
            + message.body.len(),
    );
    write_start(message, delivery, out);
    Body::of(message).write(message.body, out);
}

/// Appends the sections before what stands in [`StoredMessage::body`].
#[inline]
pub(super) fn write_start(message: &StoredMessage<'_>, delivery: &Delivery, out: &mut Vec<u8>) {
    let envelope = &message.envelope;
    let header = Header {
        durable: Some(envelope.durable),
        priority: envelope.priority,
        ttl: (envelope.expiry_ms != 0).then(|| remaining(envelope.expiry_ms, delivery.now_ms)),
        first_acquirer: !delivery.redelivered,
        delivery_count: delivery.delivery_count,
    };
    header.encode(out);
    let stamps = Stamps::of(message, delivery.sent_time.then_some(delivery.now_ms));
    match message.encoding {
        Encoding::Amqp10 => message_annotations::write_stored(message, &stamps, out),
        Encoding::Amqp091 => convert(message, &stamps, out),
    }
}

/// What is left of a time to live (3.2.1 asks intermediaries to count it down).
fn remaining(expiry_ms: u64, now_ms: u64) -> u32 {
    u32::try_from(expiry_ms.saturating_sub(now_ms)).unwrap_or(u32::MAX)
}

fn convert(message: &StoredMessage<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) {
    // They were checked when the message came in.
    let given = Properties::decode(message.properties).unwrap_or_default();
    let headers = given.headers.unwrap_or(Table::EMPTY);
    let kind = given.kind.map(|kind| text(kind.as_bytes()));
    message_annotations::write_converted(message, stamps, headers, kind, out);
    properties::write_amqp10(&given, out);
    application_properties::write(headers, out);
}
