//! Errors in the peer's bytes.

use crate::{Symbol, condition};

/// The peer's bytes are not AMQP 1.0. The text contains the received value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A frame is shorter than its own header (2.3.1).
    #[error("frame size ({size} bytes) < minimum frame size (8 bytes)")]
    FrameTooSmall {
        /// The size received, in bytes.
        size: u32,
    },
    /// A frame is larger than negotiated (2.3.1).
    #[error("frame size ({size} bytes) > maximum frame size ({max_frame_size} bytes)")]
    FrameTooLarge {
        /// The size received, in bytes.
        size: u32,
        /// The limit, in bytes.
        max_frame_size: u32,
    },
    /// The data offset points into the frame header or past the frame (2.3.1).
    #[error("{}", data_offset_text(*data_offset, *size))]
    DataOffset {
        /// The offset received, in words of 4 bytes.
        data_offset: u8,
        /// The frame's size, in bytes.
        size: u32,
    },
    /// The type octet of a frame is neither 0 nor 1 (2.3.1).
    #[error("unexpected frame type {received} (expected 0 for AMQP, or 1 for SASL)")]
    FrameType {
        /// The octet received.
        received: u8,
    },
    /// A frame body, section or state begins with a descriptor that isn't allowed in this place.
    #[error("{place}: {problem}")]
    Descriptor {
        /// The part being decoded.
        place: &'static str,
        /// The problem with its descriptor.
        problem: Problem,
    },
    /// A value outside of any composite type is malformed.
    #[error("cannot decode {place}: {problem}")]
    Value {
        /// The part being decoded.
        place: &'static str,
        /// The problem.
        problem: Problem,
    },
    /// A field of a composite type is malformed.
    #[error("cannot decode field {field} of {composite}: {problem}")]
    Field {
        /// The composite type, such as `attach`.
        composite: &'static str,
        /// The field in the specification's spelling, such as `delivery-tag`.
        field: &'static str,
        /// The problem.
        problem: Problem,
    },
    /// A mandatory field is null or missing.
    #[error("mandatory field {field} of {composite} is missing")]
    MissingField {
        /// The composite type.
        composite: &'static str,
        /// The field in the specification's spelling.
        field: &'static str,
    },
    /// A composite type has more fields than the specification gives it, and they aren't null.
    #[error("{composite} has {received} fields, expected at most {limit}")]
    ExtraFields {
        /// The composite type.
        composite: &'static str,
        /// Fields received.
        received: u32,
        /// Fields that the type has.
        limit: u32,
    },
    /// A section of a message is out of order (3.2).
    #[error("message section {section} is repeated or out of order")]
    SectionOrder {
        /// The section's name, such as `properties`.
        section: &'static str,
    },
    /// Bytes are left where none are allowed.
    #[error("{count} bytes follow {place}, expected none")]
    TrailingBytes {
        /// The part that was decoded.
        place: &'static str,
        /// Number of bytes left.
        count: u32,
    },
}

/// RabbitMQ's text, in the unit of each limit.
fn data_offset_text(data_offset: u8, size: u32) -> String {
    match data_offset {
        0 | 1 => format!("data offset ({data_offset}) < minimum data offset (2)"),
        words => format!("data offset ({} bytes) > frame size ({size} bytes)", u32::from(words) * 4),
    }
}

impl DecodeError {
    /// The error condition to close with: `amqp:connection:framing-error` for framing errors (2.8.16),
    /// `amqp:invalid-field` for fields with an impossible or missing value, and `amqp:decode-error` for everything
    /// else (2.8.15).
    #[must_use]
    pub fn condition(&self) -> Symbol<'static> {
        match self {
            Self::FrameTooSmall { .. }
            | Self::FrameTooLarge { .. }
            | Self::DataOffset { .. }
            | Self::FrameType { .. } => condition::FRAMING_ERROR,
            Self::MissingField { .. } | Self::ExtraFields { .. } => condition::INVALID_FIELD,
            Self::Field {
                problem: Problem::Choice { .. } | Problem::ChoiceName { .. } | Problem::TooLong { .. },
                ..
            } => condition::INVALID_FIELD,
            _ => condition::DECODE_ERROR,
        }
    }
}

/// The problem with one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end within a value.
    #[error("{part} needs {needed} bytes, {available} are left")]
    Truncated {
        /// The part of a value that was being read.
        part: &'static str,
        /// Bytes needed.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// No type has this constructor (1.6).
    #[error("constructor {received:#04x} is unknown")]
    Constructor {
        /// The constructor received.
        received: u8,
    },
    /// A value of another type was expected.
    #[error("received a value of type {received}, expected {expected}")]
    Type {
        /// The type received.
        received: &'static str,
        /// The type expected.
        expected: &'static str,
    },
    /// A descriptor isn't allowed in this place.
    #[error("descriptor {received:#x} is unknown here, expected {expected}")]
    Descriptor {
        /// The code received.
        received: u64,
        /// The descriptor expected.
        expected: &'static str,
    },
    /// A descriptor symbol is unknown.
    #[error("a descriptor symbol that is unknown here, expected {expected}")]
    DescriptorName {
        /// The descriptor expected.
        expected: &'static str,
    },
    /// A string isn't UTF-8 (1.6.20).
    #[error("a string is not UTF-8")]
    Utf8,
    /// A symbol isn't ASCII (1.6.21).
    #[error("a symbol is not ASCII")]
    Ascii,
    /// A char is no Unicode scalar value (1.6.16).
    #[error("char {received:#x} is not Unicode")]
    Char {
        /// The number received.
        received: u32,
    },
    /// A boolean is neither 0 nor 1 (1.6.2).
    #[error("boolean {received:#04x} is neither 0 nor 1")]
    Boolean {
        /// The octet received.
        received: u8,
    },
    /// A list, map or array announces more items than it has bytes for.
    #[error("{count} items are announced in {available} bytes")]
    Count {
        /// Items announced.
        count: u32,
        /// Bytes available for them.
        available: u32,
    },
    /// A map has a key without a value.
    #[error("a map has an odd number of items, {count}")]
    OddMap {
        /// Items announced.
        count: u32,
    },
    /// A list, map or array is longer than its items.
    #[error("{count} bytes are left after the last item")]
    Excess {
        /// Number of excess bytes.
        count: u32,
    },
    /// Values are nested too deeply.
    #[error("values are nested more than {limit} deep")]
    Depth {
        /// The limit exceeded.
        limit: u32,
    },
    /// Arrays hold too many items that take no bytes.
    #[error("arrays hold more than {limit} items without bytes")]
    ZeroWidth {
        /// The limit exceeded.
        limit: u32,
    },
    /// A number isn't one of the choices.
    #[error("received {received}, expected {expected}")]
    Choice {
        /// The number received.
        received: u64,
        /// The choices.
        expected: &'static str,
    },
    /// A symbol isn't one of the choices.
    #[error("received an unknown symbol, expected {expected}")]
    ChoiceName {
        /// The choices.
        expected: &'static str,
    },
    /// A binary is longer than its type allows.
    #[error("{length} bytes are too long, at most {limit} are allowed")]
    TooLong {
        /// Bytes received.
        length: u32,
        /// The limit, in bytes.
        limit: u32,
    },
    /// A composite type within this field lacks a field.
    #[error("{field} of {composite} is missing")]
    Missing {
        /// The inner composite type.
        composite: &'static str,
        /// Its field.
        field: &'static str,
    },
    /// A composite type within this field has a malformed field.
    #[error("{field} of {composite} is malformed")]
    Inner {
        /// The inner composite type.
        composite: &'static str,
        /// Its field.
        field: &'static str,
    },
    /// A composite type within this field has too many fields.
    #[error("{composite} has {received} fields, expected at most {limit}")]
    Extra {
        /// The inner composite type.
        composite: &'static str,
        /// Fields received.
        received: u32,
        /// Fields that the type has.
        limit: u32,
    },
}

/// A problem with a composite type whose place isn't known yet.
pub(crate) enum CompositeProblem {
    Whole(Problem),
    Field(&'static str, Problem),
    Missing(&'static str),
    Extra(u32),
}
