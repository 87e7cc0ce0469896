//! The encoding of the toy protocol's messages, which no crate knows: the properties are notes, lines `NAME VALUE`, and the body is text.

use std::borrow::Cow;

use leveret_message::hub::{Body, ForeignEncoding, Message, Properties, Value};
use leveret_message::{Encoding, ForeignId, StoredMessage, deliver::Delivery, deliver::to_amqp091};

pub(crate) static NOTES: Notes = Notes;

pub(crate) struct Notes;

impl Notes {
    pub(crate) const ID: ForeignId = ForeignId::new(201);
}

impl ForeignEncoding for Notes {
    fn id(&self) -> ForeignId {
        Self::ID
    }

    fn name(&self) -> &'static str {
        "TOY 1"
    }

    fn is_text(&self, _: &[u8]) -> bool {
        true
    }

    fn properties<'a>(&self, _: &'a [u8]) -> Properties<'a> {
        Properties::default()
    }

    fn application_properties<'a>(&self, properties: &'a [u8], take: &mut dyn FnMut(&'a str, Value<'a>)) {
        let lines = std::str::from_utf8(properties).unwrap_or_default().lines();
        lines.filter_map(|line| line.split_once(' ')).for_each(|(name, value)| take(name, Value::from(value)));
    }
}

/// Notes and body of a message for a receiver: as they came over this protocol, or else from the hub form.
pub(crate) fn content<'a>(message: &StoredMessage<'a>) -> (Cow<'a, str>, Cow<'a, str>) {
    if message.encoding == Encoding::Foreign(Notes::ID) {
        return (String::from_utf8_lossy(message.properties), String::from_utf8_lossy(message.body));
    }
    let mut notes = String::new();
    let Some((hub, body)) = Message::read(message) else { return Default::default() };
    hub.application_properties.each(|name, value| {
        if let Some(value) = value.as_text() {
            notes.push_str(&format!("{name} {value}\n"));
        }
    });
    let body = match body {
        Body::Bytes(bytes) => String::from_utf8_lossy(bytes),
        Body::Text(text) => Cow::Borrowed(text),
        // AMQP 0-9-1 has bytes for all of them.
        Body::Sections { .. } => {
            String::from_utf8_lossy(&to_amqp091(message, &Delivery::default()).body).into_owned().into()
        }
    };
    (notes.into(), body)
}
