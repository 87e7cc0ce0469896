//! Reads messages of AMQP 0-9-1 into the hub form, by RabbitMQ's rules.
//!
//! | AMQP 0-9-1 | AMQP 1.0 |
//! |---|---|
//! | headers that begin with `x-`, `CC`, the property `type` | message annotations, the last two as `x-cc` and `x-basic-type` |
//! | other headers, but no arrays and tables | application properties |
//! | `app-id`, `reply-to` | `group-id`, `reply-to` as the queue's address |
//! | ids `urn:uuid:` and a UUID | UUIDs; text that isn't UTF-8 is binary |
//! | `t` bool, integers, `f`, `d` | boolean, the integer of the same width and sign, float, double |
//! | `S` long string | string if UTF-8, else binary |
//! | `x` bytes | binary |
//! | `T` seconds | timestamp in milliseconds |
//! | `V` void | null |
//! | `A` array, `F` table | list, map |
//! | `D` decimal | nothing: it is left out |

use leveret_amqp10::message::MessageId;
use leveret_amqp10::{Symbol, Value as Amqp10};
use leveret_amqp091::{Properties as Amqp091Properties, ShortStr, Table, Value as Field};

use super::{BodyForm, Entries, List, Map, Message, Properties, ReplyTo, TYPE_AMQP10, Value, uuid};
use crate::annotations::{X_BASIC_TYPE, X_CC, X_EXCHANGE, X_ROUTING_KEY};
use crate::stored::StoredMessage;

/// Reads the sections before the body.
#[inline]
pub(super) fn read<'a>(stored: &StoredMessage<'a>) -> Message<'a> {
    // They were checked when the message was received.
    let given = Amqp091Properties::decode(stored.properties).unwrap_or_default();
    let headers = given.headers.unwrap_or(Table::EMPTY);
    let kind = given.kind.map(|kind| Value::text(kind.as_bytes()));
    let is_sections = given.kind.is_some_and(|kind| kind.as_bytes() == TYPE_AMQP10.as_bytes());
    Message {
        envelope: stored.envelope,
        overlay: stored.overlay,
        annotations: Entries::amqp091_annotations(headers, kind),
        properties: Properties {
            message_id: given.message_id.map(message_id),
            user_id: given.user_id.map(|user| user.as_bytes()),
            reply_to: given.reply_to.map(|queue| ReplyTo::Queue(queue.as_bytes())),
            correlation_id: given.correlation_id.map(message_id),
            content_type: given.content_type.and_then(symbol),
            content_encoding: given.content_encoding.and_then(symbol),
            creation_time: given.timestamp.map(milliseconds),
            group_id: given.app_id.and_then(|app| app.as_str()),
            ..Properties::default()
        },
        application_properties: Entries::amqp091_properties(headers),
        body: if is_sections { BodyForm::Declared } else { BodyForm::Bytes },
        says_transient: false,
    }
}

/// A symbol, if the text is ASCII.
fn symbol(text: ShortStr<'_>) -> Option<Symbol<'_>> {
    text.as_str().and_then(Symbol::checked)
}

/// A UUID in its URN form becomes a UUID; other text stays text, and other bytes are binary.
fn message_id(id: ShortStr<'_>) -> MessageId<'_> {
    match std::str::from_utf8(id.as_bytes()) {
        Ok(text) => uuid::parse(text).map_or(MessageId::String(text), MessageId::Uuid),
        Err(_) => MessageId::Binary(id.as_bytes()),
    }
}

/// Milliseconds since the Unix epoch; clamped to the range.
fn milliseconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// Passes the message annotations among the headers to `take`, then the property `type`.
#[inline]
pub(super) fn annotations<'a>(headers: Table<'a>, kind: Option<Value<'a>>, mut take: impl FnMut(&'a str, Value<'a>)) {
    for (name, field) in headers.iter() {
        let Some(name) = name.as_str() else { continue };
        let name = match (name, field) {
            ("CC", Field::Array(_)) => X_CC,
            // Only the broker sets these.
            (X_EXCHANGE | X_ROUTING_KEY, _) => continue,
            (X_BASIC_TYPE, _) if kind.is_some() => continue,
            _ if name.starts_with("x-") => name,
            _ => continue,
        };
        if let Some(value) = value(field) {
            take(name, value);
        }
    }
    if let Some(kind) = kind {
        take(X_BASIC_TYPE, kind);
    }
}

/// Passes the application properties among the headers to `take`. The section can't hold lists and maps (3.2.5).
#[inline]
pub(super) fn application_properties<'a>(headers: Table<'a>, mut take: impl FnMut(&'a str, Value<'a>)) {
    for (name, field) in headers.iter() {
        if name.as_bytes().starts_with(b"x-") || matches!(field, Field::Array(_) | Field::Table(_)) {
            continue;
        }
        if let (Some(name), Some(value)) = (name.as_str(), value(field)) {
            take(name, value);
        }
    }
}

/// The value of a field, if the hub form has a counterpart.
#[inline]
pub(super) fn value(field: Field<'_>) -> Option<Value<'_>> {
    Some(Value::Simple(match field {
        Field::Bool(value) => Amqp10::Bool(value),
        Field::I8(value) => Amqp10::Byte(value),
        Field::U8(value) => Amqp10::Ubyte(value),
        Field::I16(value) => Amqp10::Short(value),
        Field::U16(value) => Amqp10::Ushort(value),
        Field::I32(value) => Amqp10::Int(value),
        Field::U32(value) => Amqp10::Uint(value),
        Field::I64(value) => Amqp10::Long(value),
        Field::F32(value) => Amqp10::Float(value),
        Field::F64(value) => Amqp10::Double(value),
        Field::LongString(bytes) => return Some(Value::text(bytes)),
        Field::Bytes(bytes) => Amqp10::Binary(bytes),
        Field::Timestamp(seconds) => Amqp10::Timestamp(milliseconds(seconds)),
        Field::Void => Amqp10::Null,
        Field::Array(array) => return Some(Value::List(List::amqp091(array))),
        Field::Table(table) => return Some(Value::Map(Map::amqp091(table))),
        Field::Decimal(_) => return None,
    }))
}
