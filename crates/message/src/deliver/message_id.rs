//! Message-ids and correlation-ids.

use leveret_amqp10::message::MessageId;
use leveret_amqp091::{FieldValue, ShortStr};

use super::headers::{NAME_MAX, Pairs};

const URN_UUID: &str = "urn:uuid:";

/// An id as AMQP 0-9-1 holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id<'a> {
    Text(&'a str),
    Owned(String),
}

impl Id<'_> {
    pub(super) fn as_short_str(&self) -> Option<ShortStr<'_>> {
        let text = match self {
            Self::Text(text) => text,
            Self::Owned(text) => text.as_str(),
        };
        ShortStr::new(text.as_bytes()).ok()
    }
}

/// The id as text; one that has none becomes the header `name`.
pub(super) fn to_amqp091<'a>(id: MessageId<'a>, name: &str, pairs: &mut Pairs) -> Option<Id<'a>> {
    match id {
        MessageId::Ulong(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Uint(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Int(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Long(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Uuid(bytes) => return Some(Id::Owned(uuid_text(&bytes))),
        MessageId::String(text) if text.len() <= NAME_MAX => return Some(Id::Text(text)),
        MessageId::Binary(bytes) => pairs.push(name.as_bytes(), FieldValue::Bytes(bytes.to_vec())),
        MessageId::String(text) => pairs.push(name.as_bytes(), FieldValue::from(text)),
    }
    None
}

/// A UUID in its URN form becomes a UUID, other text stays text, and what isn't UTF-8 is binary.
pub(super) fn to_amqp10(id: ShortStr<'_>) -> MessageId<'_> {
    match std::str::from_utf8(id.as_bytes()) {
        Ok(text) => parse_uuid(text).map_or(MessageId::String(text), MessageId::Uuid),
        Err(_) => MessageId::Binary(id.as_bytes()),
    }
}

/// `urn:uuid:` and the UUID in lower-case groups.
pub(super) fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(URN_UUID.len() + 36);
    text.push_str(URN_UUID);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("under 16"));
        }
    }
    text
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix(URN_UUID)?.as_bytes();
    let mut uuid = [0; 16];
    let mut at = 0;
    for (place, byte) in uuid.iter_mut().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            if text.get(at) != Some(&b'-') {
                return None;
            }
            at += 1;
        }
        for digit in text.get(at..at + 2)? {
            *byte = *byte << 4 | char::from(*digit).to_digit(16)? as u8;
        }
        at += 2;
    }
    (at == text.len()).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_come_back() {
        let text = "urn:uuid:10111213-1415-1617-1819-1a1b1c1d1e1f";
        let bytes = std::array::from_fn(|at| at as u8 + 16);
        assert_eq!(parse_uuid(text), Some(bytes));
        assert_eq!(uuid_text(&bytes), text);
        assert_eq!(parse_uuid(&text[..text.len() - 1]), None);
        assert_eq!(parse_uuid(&format!("{text}0")), None);
        assert_eq!(parse_uuid(&text.replace('-', ":")), None);
        assert_eq!(parse_uuid(&text.replace("uuid:1", "uuid:g")), None);
    }
}
