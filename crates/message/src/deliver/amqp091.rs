//! Deliveries over AMQP 0-9-1.

use std::borrow::Cow;

use leveret_amqp10::message::Sections;
use leveret_amqp091::Properties;

use super::stamps::Stamps;
use super::{Amqp091, body, deaths, headers, message_annotations, properties};
use crate::envelope::Encoding;
use crate::stored::StoredMessage;

/// The message as a receiver over AMQP 0-9-1 gets it: borrowed, if it came that way, never died and has no stamps.
/// `sent_ms` is the wall time in milliseconds since the Unix epoch where the receiver is told it.
#[inline]
pub fn to_amqp091<'a>(message: &StoredMessage<'a>, sent_ms: Option<u64>) -> Amqp091<'a> {
    match message.encoding {
        Encoding::Amqp091 => {
            let properties = match message.overlay.is_empty() && sent_ms.is_none() {
                true => Cow::Borrowed(message.properties),
                false => with_overlay(message, sent_ms),
            };
            Amqp091 { properties, body: Cow::Borrowed(message.body) }
        }
        Encoding::Amqp10 => convert(message, sent_ms),
    }
}

/// Properties of a message with stamps, or of a dead letter: its history among the headers, and no expiration.
#[cold]
fn with_overlay<'a>(message: &StoredMessage<'a>, sent_ms: Option<u64>) -> Cow<'a, [u8]> {
    let (history, stamps) = (message.overlay.deaths(), Stamps::of(message, sent_ms));
    if history.is_none() && stamps.is_empty() {
        return Cow::Borrowed(message.properties);
    }
    // They were checked when the message came in.
    let mut properties = Properties::decode(message.properties).unwrap_or_default();
    let mut pairs = headers::Pairs::default();
    stamps.add_headers(&mut pairs);
    if let Some(history) = &history {
        deaths::add_headers(history, &mut pairs);
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
fn convert<'a>(message: &StoredMessage<'a>, sent_ms: Option<u64>) -> Amqp091<'a> {
    // It was checked when the message came in.
    let Ok(bare) = Sections::parse(message.body) else {
        return Amqp091 { properties: Cow::Borrowed(&[0, 0]), body: Cow::Borrowed(message.body) };
    };
    let (body, encoded) = body::to_amqp091(&bare, message.body);
    Amqp091 { properties: Cow::Owned(properties_of(message, sent_ms, &bare, encoded)), body }
}

/// Properties of a message that came over AMQP 1.0; `encoded` says that its body is sections.
pub(super) fn properties_of(
    message: &StoredMessage<'_>,
    sent_ms: Option<u64>,
    bare: &Sections<'_>,
    encoded: bool,
) -> Vec<u8> {
    // They were checked when the message came in.
    let annotations = Sections::parse(message.properties).ok().and_then(|sections| sections.message_annotations);
    let mut pairs = headers::Pairs::default();
    let stamps = Stamps::of(message, sent_ms);
    stamps.add_headers(&mut pairs);
    if let Some(deaths) = message.overlay.deaths() {
        deaths::add_headers(&deaths, &mut pairs);
    }
    let kind = annotations.and_then(message_annotations::basic_type);
    annotations.into_iter().for_each(|map| message_annotations::add_headers(map, &mut pairs));
    properties::to_amqp091(message, bare, kind, encoded, pairs, stamps.timestamp())
}
