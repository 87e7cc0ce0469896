//! Message-ids and correlation-ids.

use leveret_amqp10::message::MessageId;
use leveret_amqp091::{FieldValue, ShortStr};

use super::headers::{NAME_MAX, Pairs};
use crate::hub::uuid;

/// An id in the form of AMQP 0-9-1.
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

/// The id as text; an id that has no text form becomes the header `name`.
pub(super) fn write<'a>(id: MessageId<'a>, name: &str, pairs: &mut Pairs) -> Option<Id<'a>> {
    match id {
        MessageId::Ulong(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Uint(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Int(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Long(number) => return Some(Id::Owned(number.to_string())),
        MessageId::Uuid(bytes) => return Some(Id::Owned(uuid::text(&bytes))),
        MessageId::String(text) if text.len() <= NAME_MAX => return Some(Id::Text(text)),
        MessageId::Binary(bytes) => pairs.push(name.as_bytes(), FieldValue::Bytes(bytes.to_vec())),
        MessageId::String(text) => pairs.push(name.as_bytes(), FieldValue::from(text)),
    }
    None
}
