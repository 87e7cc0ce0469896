//! Ids of messages (3.2.11 to 3.2.14).

use crate::error::Problem;
use crate::field::{Field, unexpected};
use crate::value::{Value, code};
use crate::wire::Reader;

/// A message-id or correlation-id.
///
/// The specification allows four types. Clients in languages that only have signed numbers send those too (RabbitMQ's
/// for Go sends any `int` as a long), and RabbitMQ passes them on unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageId<'a> {
    /// An unsigned number.
    Ulong(u64),
    /// A number of a type that the specification doesn't allow here.
    Uint(u32),
    /// A number of a type that the specification doesn't allow here.
    Int(i32),
    /// A number of a type that the specification doesn't allow here.
    Long(i64),
    /// A UUID.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(&'a [u8]),
    /// A text.
    String(&'a str),
}

/// A [`MessageId`] that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedMessageId {
    /// Of one of the types that have a fixed width.
    Fixed(MessageId<'static>),
    /// Bytes.
    Binary(Box<[u8]>),
    /// A text.
    String(Box<str>),
}

impl OwnedMessageId {
    /// The same id, borrowed.
    pub fn borrowed(&self) -> MessageId<'_> {
        match self {
            Self::Fixed(id) => *id,
            Self::Binary(bytes) => MessageId::Binary(bytes),
            Self::String(text) => MessageId::String(text),
        }
    }
}

impl From<MessageId<'_>> for OwnedMessageId {
    fn from(id: MessageId<'_>) -> Self {
        match id {
            MessageId::Ulong(number) => Self::Fixed(MessageId::Ulong(number)),
            MessageId::Uint(number) => Self::Fixed(MessageId::Uint(number)),
            MessageId::Int(number) => Self::Fixed(MessageId::Int(number)),
            MessageId::Long(number) => Self::Fixed(MessageId::Long(number)),
            MessageId::Uuid(uuid) => Self::Fixed(MessageId::Uuid(uuid)),
            MessageId::Binary(bytes) => Self::Binary(bytes.into()),
            MessageId::String(text) => Self::String(text.into()),
        }
    }
}

impl<'a> From<MessageId<'a>> for Value<'a> {
    fn from(id: MessageId<'a>) -> Self {
        match id {
            MessageId::Ulong(number) => Value::Ulong(number),
            MessageId::Uint(number) => Value::Uint(number),
            MessageId::Int(number) => Value::Int(number),
            MessageId::Long(number) => Value::Long(number),
            MessageId::Uuid(uuid) => Value::Uuid(uuid),
            MessageId::Binary(bytes) => Value::Binary(bytes),
            MessageId::String(text) => Value::String(text),
        }
    }
}

impl<'a> Field<'a> for MessageId<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match code {
            code::ULONG | code::ULONG_SMALL | code::ULONG_0 => u64::read(code, reader).map(Self::Ulong),
            code::UINT | code::UINT_SMALL | code::UINT_0 => u32::read(code, reader).map(Self::Uint),
            code::INT => reader.array("int").map(i32::from_be_bytes).map(Self::Int),
            code::INT_SMALL => reader.octet("int").map(|octet| Self::Int(i32::from(octet as i8))),
            code::LONG => reader.array("long").map(i64::from_be_bytes).map(Self::Long),
            code::LONG_SMALL => reader.octet("long").map(|octet| Self::Long(i64::from(octet as i8))),
            code::UUID => reader.array("uuid").map(Self::Uuid),
            code::BINARY_8 | code::BINARY_32 => <&[u8]>::read(code, reader).map(Self::Binary),
            code::STRING_8 | code::STRING_32 => <&str>::read(code, reader).map(Self::String),
            _ => Err(unexpected(code, "ulong, uint, long, int, uuid, binary or string")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        Value::from(*self).encode(out);
    }
}
