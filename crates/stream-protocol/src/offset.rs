//! Offset specifications: where a consumer begins.

use crate::DecodeError;
use crate::wire::Reader;

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// No offset: a client's answer to a consumer update that makes its consumer inactive.
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
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
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
}
