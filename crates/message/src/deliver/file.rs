//! Messages whose bodies stand in files of their own: what goes around them, so that the bodies themselves pass in pieces.

use std::borrow::Cow;
use std::ops::Range;

use leveret_amqp10::message::{SectionStart, Sections};
use leveret_amqp091::Properties;

use super::amqp10::write_start;
use super::{Amqp091, Delivery, body};
use crate::envelope::Encoding;
use crate::stored::StoredMessage;

/// The properties of a message as a receiver over AMQP 0-9-1 gets them, and the part of its file that is the body there.
/// `start` is the beginning of the body, `length` bytes in all. None when the body has to be converted as a whole.
pub fn file_to_amqp091<'a>(
    message: &StoredMessage<'a>,
    sent_ms: Option<u64>,
    length: u32,
    start: &'a [u8],
) -> Option<(Cow<'a, [u8]>, Range<u64>)> {
    let length = u64::from(length);
    if message.encoding == Encoding::Amqp091 {
        let Amqp091 { properties, .. } = super::to_amqp091(message, sent_ms);
        return Some((properties, 0..length));
    }
    let (bare, at) = Sections::parse_start(start)?;
    let section = SectionStart::of(&start[at..])?;
    let content = (at + section.length) as u64;
    let range = match section.is_data {
        true if content + section.content == length => content..length,
        // Several sections, or a footer: their bytes are put together.
        true => return None,
        false => at as u64..length,
    };
    let properties = super::amqp091::properties_of(message, sent_ms, &bare, !section.is_data);
    Some((Cow::Owned(properties), range))
}

/// Appends what comes before the file's bytes of a message as a receiver over AMQP 1.0 gets it. `start` is the beginning
/// of the body, `length` bytes in all. False, and nothing appended, when the body has to be converted as a whole.
pub fn file_to_amqp10(
    message: &StoredMessage<'_>,
    delivery: &Delivery,
    length: u32,
    start: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut is_sections = message.encoding == Encoding::Amqp10;
    if !is_sections {
        let given = Properties::decode(message.properties).unwrap_or_default();
        if given.kind.and_then(|kind| kind.as_str()) == Some(body::TYPE_AMQP10) {
            is_sections = SectionStart::of(start)
                .is_some_and(|section| section.length as u64 + section.content == u64::from(length));
            if !is_sections {
                return false;
            }
        }
    }
    write_start(message, delivery, out);
    if !is_sections {
        leveret_amqp10::message::write_data_start(out, length);
    }
    true
}
