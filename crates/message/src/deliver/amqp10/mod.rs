//! Deliveries over AMQP 1.0.

mod annotations;
mod application_properties;
mod deaths;
mod map_writer;
mod properties;
mod run;
mod value;

use leveret_amqp10::Value;
use leveret_amqp10::message::{Header, write_data, write_value};

use super::Delivery;
use super::stamps::Stamps;
use crate::envelope::{Encoding, Envelope};
use crate::hub::{Body, BodyForm, Message};
use crate::stored::StoredMessage;

pub(crate) use map_writer::MapWriter;
pub use run::Amqp10Run;

/// Bytes of a header and of the annotations for exchange and routing key, without the values of these.
const ROUTE_AND_HEADER: usize = 80;

/// Appends all sections of the message for a receiver over AMQP 1.0.
#[inline]
pub fn to_amqp10(message: &StoredMessage<'_>, delivery: &Delivery, out: &mut Vec<u8>) {
    let envelope = &message.envelope;
    // Reserves enough for a message of AMQP 1.0, so that the buffer doesn't grow halfway.
    out.reserve(
        ROUTE_AND_HEADER
            + envelope.exchange.len()
            + envelope.routing_key.len()
            + message.properties.len()
            + message.body.len(),
    );
    let form = write_start(message, delivery, out);
    write_body(form, message.body, out);
}

/// Appends the sections that precede [`StoredMessage::body`], and returns how the body is to be read.
#[inline]
pub(crate) fn write_start(message: &StoredMessage<'_>, delivery: &Delivery, out: &mut Vec<u8>) -> BodyForm {
    let envelope = &message.envelope;
    let header = Header {
        durable: Some(envelope.durable),
        priority: envelope.priority,
        ttl: time_to_live(envelope, delivery),
        // As in RabbitMQ, a dead letter was acquired before, whether anybody had it or not.
        first_acquirer: !delivery.redelivered && message.overlay.deaths().is_none(),
        delivery_count: delivery.delivery_count,
    };
    header.encode(out);
    let stamps = Stamps::of(&message.overlay, delivery);
    match message.encoding {
        Encoding::Amqp10 => {
            annotations::write_stored(message, &stamps, out);
            BodyForm::Sections
        }
        Encoding::Amqp091 => write_sections(&Message::from_amqp091(message), &stamps, out),
        Encoding::Mqtt | Encoding::Foreign(_) => write_other(message, &stamps, out),
    }
}

/// Inlined where the encoding is known, so that the sections aren't asked for theirs.
#[inline(always)]
fn write_sections(hub: &Message<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) -> BodyForm {
    annotations::write(hub, stamps, out);
    properties::write(&hub.properties, out);
    application_properties::write(&hub.application_properties, out);
    hub.body
}

/// A function of its own, so that a message of AMQP 0-9-1 is read to where it is needed.
#[cold]
#[inline(never)]
fn write_other(message: &StoredMessage<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) -> BodyForm {
    let hub = match message.encoding {
        Encoding::Foreign(id) => Message::from_foreign(message, id),
        _ => Message::from_mqtt(message),
    };
    write_sections(&hub, stamps, out)
}

/// The remaining time to live (3.2.1 asks intermediaries to count it down). A stream keeps its messages whatever their time to live:
/// they have all of it, as in RabbitMQ, or receivers would discard the old ones.
#[inline]
fn time_to_live(envelope: &Envelope<'_>, delivery: &Delivery) -> Option<u32> {
    if envelope.expiry_ms == 0 {
        return None;
    }
    let since_ms = if delivery.stream_offset.is_some() { envelope.received_ms } else { delivery.now_ms };
    Some(u32::try_from(envelope.expiry_ms.saturating_sub(since_ms)).unwrap_or(u32::MAX))
}

/// Appends the sections in [`StoredMessage::body`].
#[inline]
pub(crate) fn write_body(form: BodyForm, bytes: &[u8], out: &mut Vec<u8>) {
    match form {
        // It is the bare message, including its other sections.
        BodyForm::Sections => out.extend_from_slice(bytes),
        _ => write_read(form, bytes, out),
    }
}

/// A function of its own, so that the code for most messages stays short.
#[inline(never)]
fn write_read(form: BodyForm, bytes: &[u8], out: &mut Vec<u8>) {
    if form == BodyForm::Bytes {
        return write_data(out, bytes);
    }
    match Body::read(form, bytes) {
        Some(Body::Sections { raw, .. }) => out.extend_from_slice(raw),
        Some(Body::Text(text)) => write_value(out, &Value::String(text)),
        _ => write_data(out, bytes),
    }
}
