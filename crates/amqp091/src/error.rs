//! Errors in the peer's bytes.

use crate::ReplyCode;

/// The peer's bytes are not AMQP 0-9-1. The text contains the received value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first octet of a frame is none of 1, 2, 3, 8 (4.2.3).
    #[error("frame type {received} is unknown, expected 1 (method), 2 (header), 3 (body) or 8 (heartbeat)")]
    FrameType {
        /// The octet received.
        received: u8,
    },
    /// The frame header announces more than the negotiated `frame_max` allows (4.2.3).
    #[error("frame payload of {payload_size} bytes is too large, frame_max {frame_max} allows {}", frame_max.saturating_sub(8))]
    FrameTooLarge {
        /// Payload size announced, in bytes.
        payload_size: u32,
        /// The limit of the whole frame, in bytes.
        frame_max: u32,
    },
    /// The octet after the payload isn't 0xCE (4.2.3).
    #[error("frame end marker is {received:#04x}, expected 0xce")]
    FrameEnd {
        /// The octet received.
        received: u8,
    },
    /// A heartbeat isn't empty or isn't on channel 0 (4.2.7).
    #[error("heartbeat on channel {channel} with {payload_size} bytes, expected channel 0 and no bytes")]
    Heartbeat {
        /// Channel number received.
        channel: u16,
        /// Payload size received, in bytes.
        payload_size: u32,
    },
    /// The payload ends within a field.
    #[error("cannot decode {field}: it needs {needed} bytes, {available} are left")]
    Truncated {
        /// The type of the field that was being read.
        field: &'static str,
        /// Bytes that the field needs.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// Bytes are left after the last field.
    #[error("cannot decode: {count} bytes are left after the last field")]
    TrailingBytes {
        /// Number of bytes left.
        count: u32,
    },
    /// No method has these ids.
    #[error("unknown method: class {class_id}, method {method_id}")]
    UnknownMethod {
        /// Class id received.
        class_id: u16,
        /// Method id received.
        method_id: u16,
    },
    /// A table or array holds a value of a type that doesn't exist (4.2.1 and RabbitMQ's errata).
    #[error("field table value of unknown type {:?}", char::from(*received))]
    FieldType {
        /// The type letter received.
        received: u8,
    },
    /// Tables and arrays are nested too deeply.
    #[error("field table is nested more than {limit} deep")]
    TableDepth {
        /// The limit exceeded.
        limit: u32,
    },
    /// The property flags of a content header announce a second word of flags; there are 14 properties (4.2.6.1).
    #[error("content header property flags {received:#06x} announce more than 15 properties")]
    PropertyFlags {
        /// The flags received.
        received: u16,
    },
}

impl DecodeError {
    /// The code to close the connection with.
    ///
    /// RabbitMQ answers a malformed frame or argument list with 501 FRAME_ERROR, although the specification requires
    /// 502 for arguments; we answer as RabbitMQ does. On an unknown method or malformed table RabbitMQ 4.3 drops the
    /// socket, and on malformed properties it answers 541 INTERNAL_ERROR; we answer 540 NOT_IMPLEMENTED and 501,
    /// which blame the client.
    #[must_use]
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::UnknownMethod { .. } => ReplyCode::NotImplemented,
            Self::Heartbeat { channel, .. } if *channel != 0 => ReplyCode::UnexpectedFrame,
            _ => ReplyCode::FrameError,
        }
    }
}
