//! Delivery of messages whose bodies are in files: the bytes around the body, so that the body itself can be sent in
//! pieces.

use std::borrow::Cow;
use std::ops::Range;

use leveret_amqp10::message::{Sections, write_data_start};

use super::amqp10::write_start;
use super::amqp091::properties_of;
use super::{Amqp091, Delivery};
use crate::envelope::Encoding;
use crate::hub::{BodyForm, FileBody, Message};
use crate::stored::StoredMessage;

/// The properties of a message for a receiver over AMQP 0-9-1, and the part of its file that is the body there.
/// `start` is the beginning of the body, which has `length` bytes in all. `None` if the body has to be converted as a
/// whole.
pub fn file_to_amqp091<'a>(
    message: &StoredMessage<'a>,
    delivery: &Delivery,
    length: u32,
    start: &'a [u8],
) -> Option<(Cow<'a, [u8]>, Range<u64>)> {
    if message.encoding == Encoding::Amqp091 {
        let Amqp091 { properties, .. } = super::to_amqp091(message, delivery);
        return Some((properties, 0..u64::from(length)));
    }
    let plain = match message.encoding {
        Encoding::Mqtt => Some(Message::from_mqtt(message)),
        Encoding::Foreign(id) => Some(Message::from_foreign(message, id)),
        Encoding::Amqp091 | Encoding::Amqp10 => None,
    };
    if let Some(hub) = plain {
        return Some((Cow::Owned(properties_of(&hub, delivery, false)), 0..u64::from(length)));
    }
    let (bare, before) = Sections::parse_start(start)?;
    let hub = Message::from_amqp10(message, &bare);
    let (range, is_encoded) = match FileBody::of(hub.body, length, start, before)? {
        FileBody::Bytes(range) => (range, false),
        FileBody::Section(range) => (range, true),
    };
    Some((Cow::Owned(properties_of(&hub, delivery, is_encoded)), range))
}

/// Appends the bytes that precede the file's bytes for a receiver over AMQP 1.0. `start` is the beginning of the
/// body, which has `length` bytes in all. Returns false and appends nothing if the body has to be converted as a
/// whole.
pub fn file_to_amqp10(
    message: &StoredMessage<'_>,
    delivery: &Delivery,
    length: u32,
    start: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let before = out.len();
    let body = match write_start(message, delivery, out) {
        // The file holds the bare message, including its other sections.
        BodyForm::Sections => return true,
        form => FileBody::of(form, length, start, 0),
    };
    match body {
        Some(FileBody::Bytes(_)) => write_data_start(out, length),
        Some(FileBody::Section(_)) => {}
        None => out.truncate(before),
    }
    body.is_some()
}
