//! Offset specifications: where a consumer begins.

use crate::DecodeError;
use crate::wire::FieldReader;

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// No offset: only in the answer to a consumer update, where the consumer keeps the offset that it subscribed with.
    None,
    /// The first message of the stream.
    First,
    /// The last chunk of the stream.
    Last,
    /// The next message that is published.
    Next,
    /// An offset.
    Offset(u64),
    /// A time, in milliseconds since 1970.
    Timestamp(i64),
}

impl OffsetSpec {
    /// Reads a specification that may be none.
    pub(crate) fn read_or_none(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u16("offset type")? {
            0 => Ok(Self::None),
            1 => Ok(Self::First),
            2 => Ok(Self::Last),
            3 => Ok(Self::Next),
            4 => reader.u64("offset").map(Self::Offset),
            5 => reader.u64("timestamp").map(|time| Self::Timestamp(time.cast_signed())),
            received => Err(DecodeError::OffsetType { key: reader.key(), received }),
        }
    }

    /// Reads a specification that isn't none.
    pub(crate) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match Self::read_or_none(reader)? {
            Self::None => Err(DecodeError::OffsetType { key: reader.key(), received: 0 }),
            spec => Ok(spec),
        }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let (kind, value): (u16, Option<[u8; 8]>) = match self {
            Self::None => (0, None),
            Self::First => (1, None),
            Self::Last => (2, None),
            Self::Next => (3, None),
            Self::Offset(offset) => (4, Some(offset.to_be_bytes())),
            Self::Timestamp(time) => (5, Some(time.to_be_bytes())),
        };
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(value.as_ref().map_or(&[], |value| value));
    }
}
