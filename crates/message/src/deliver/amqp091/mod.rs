//! Deliveries over AMQP 0-9-1.

mod deaths;
mod headers;
mod message_id;
mod plain;
mod properties;
pub(super) mod value;
mod within;

use std::borrow::Cow;

use leveret_amqp10::message::BodyRef;
use leveret_amqp091::Properties;

use super::stamps::Stamps;
use super::{Amqp091, Delivery};
use crate::envelope::Encoding;
use crate::hub::{Body, Entries, Message};
use crate::stored::StoredMessage;

pub(super) use properties::write as properties_of;
pub use within::within;

/// The message for a receiver over AMQP 0-9-1: borrowed if it was published over it, never died and has no stamps.
#[inline]
pub fn to_amqp091<'a>(message: &StoredMessage<'a>, delivery: &Delivery) -> Amqp091<'a> {
    match message.encoding {
        Encoding::Amqp091 => {
            let properties = match message.overlay.is_empty() && !delivery.adds_headers() {
                true => Cow::Borrowed(message.properties),
                false => with_overlay(message, delivery),
            };
            Amqp091 { properties, body: Cow::Borrowed(message.body) }
        }
        Encoding::Amqp10 => match plain::body_of(message) {
            Some(body) if Stamps::of(&message.overlay, delivery).is_empty() => {
                let properties = plain::properties(&message.envelope, delivery.stream_offset);
                Amqp091 { properties: Cow::Owned(properties), body: Cow::Borrowed(body) }
            }
            _ => by_hub(message, delivery),
        },
        Encoding::Mqtt | Encoding::Foreign(_) => by_hub(message, delivery),
    }
}

/// Properties of a message with stamps, or of a dead letter, whose history is added to the headers and whose
/// expiration is removed.
#[cold]
fn with_overlay<'a>(message: &StoredMessage<'a>, delivery: &Delivery) -> Cow<'a, [u8]> {
    let (history, stamps) = (message.overlay.deaths(), Stamps::of(&message.overlay, delivery));
    if history.is_none() && stamps.is_empty() && stamps.stream_offset().is_none() {
        return Cow::Borrowed(message.properties);
    }
    // They were checked when the message was received.
    let mut properties = Properties::decode(message.properties).unwrap_or_default();
    let mut pairs = headers::Pairs::default();
    stamps.add_headers(|name, value| pairs.push(name.as_bytes(), value));
    if let Some(history) = &history {
        deaths::add_headers(history, &mut pairs);
    }
    if let Some(added) = stamps.added() {
        properties::add_annotations(&Entries::amqp10(Some(added)), &mut pairs);
    }
    for (key, value) in properties.headers.iter().flat_map(leveret_amqp091::Table::iter) {
        pairs.push(key.as_bytes(), value.into());
    }
    let table = pairs.into_table().encoded();
    properties.headers = Some(table.as_table());
    if history.is_some() && message.envelope.expiry_ms == 0 {
        properties.expiration = None;
    }
    properties.timestamp = stamps.timestamp().or(properties.timestamp);
    let mut out = Vec::new();
    properties.encode(&mut out);
    Cow::Owned(out)
}

#[cold]
fn by_hub<'a>(message: &StoredMessage<'a>, delivery: &Delivery) -> Amqp091<'a> {
    let Some((hub, body)) = Message::read(message) else {
        // Clients of the stream protocol may publish any bytes. Readers have to know where they are, to pass them.
        let properties = plain::properties(&message.envelope, delivery.stream_offset);
        return Amqp091 { properties: Cow::Owned(properties), body: Cow::Borrowed(message.body) };
    };
    let (body, is_encoded) = bytes_of(body);
    Amqp091 { properties: Cow::Owned(properties_of(&hub, delivery, is_encoded)), body }
}

/// The bytes of data sections. Other sections are left encoded, and the flag is true then.
fn bytes_of(body: Body<'_>) -> (Cow<'_, [u8]>, bool) {
    match body {
        Body::Bytes(bytes) => (Cow::Borrowed(bytes), false),
        Body::Text(text) => (Cow::Borrowed(text.as_bytes()), false),
        Body::Sections { body: BodyRef::Data(data), .. } => match data.single() {
            Some(bytes) => (Cow::Borrowed(bytes), false),
            None => (Cow::Owned(data.iter().flatten().copied().collect()), false),
        },
        Body::Sections { raw, .. } => (Cow::Borrowed(raw), true),
    }
}
