//! Errors in the peer's bytes.

use crate::key;

/// The bytes can't be cut into frames: nothing behind them can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is larger than agreed.
    #[error("frame of {size} bytes is too large, the limit is {max}")]
    TooLarge {
        /// The size received, without the size field.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// The frame has no room for a key and a version.
    #[error("frame of {size} bytes is too small, key and version need 4")]
    TooSmall {
        /// The size received, without the size field.
        size: u32,
    },
}

/// The bytes of a frame are no command. The text contains what was received and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No command has this key, or it isn't one that this side receives.
    #[error("cannot decode {}: unknown key {key:#06x}{}", direction(*.is_response), known(*.key))]
    UnknownKey {
        /// The key received, without bit 15.
        key: u16,
        /// Whether bit 15 was set.
        is_response: bool,
    },
    /// The command has no such version.
    #[error("cannot decode {}: unknown version {version}", command(*.key))]
    UnknownVersion {
        /// The key received, without bit 15.
        key: u16,
        /// The version received.
        version: u16,
    },
    /// The frame ends within a field.
    #[error("cannot decode {}: {field} needs {needed} bytes, {available} are left", command(*.key))]
    Truncated {
        /// The key of the command.
        key: u16,
        /// The field that was being read.
        field: &'static str,
        /// Bytes that the field needs.
        needed: u32,
        /// Bytes available.
        available: u32,
    },
    /// A length is negative, but isn't -1, which is null.
    #[error("cannot decode {}: {field} has the length {received}", command(*.key))]
    Length {
        /// The key of the command.
        key: u16,
        /// The field that was being read.
        field: &'static str,
        /// The length received.
        received: i32,
    },
    /// A string isn't UTF-8.
    #[error("cannot decode {}: {field} isn't UTF-8 from byte {valid_up_to} of it on", command(*.key))]
    NotUtf8 {
        /// The key of the command.
        key: u16,
        /// The field that was being read.
        field: &'static str,
        /// Number of bytes of the string before the first wrong one.
        valid_up_to: u16,
    },
    /// There is no such kind of offset specification, or it isn't one for this command.
    #[error("cannot decode {}: unknown offset type {received}, expected 1 to 5", command(*.key))]
    OffsetType {
        /// The key of the command.
        key: u16,
        /// The type received.
        received: u16,
    },
    /// Bytes are left after the last field.
    #[error("cannot decode {}: {count} bytes are left after the last field", command(*.key))]
    Excess {
        /// The key of the command.
        key: u16,
        /// Number of bytes left.
        count: u32,
    },
}

fn command(key: u16) -> &'static str {
    key::name(key).unwrap_or("command")
}

fn direction(is_response: bool) -> &'static str {
    if is_response { "response" } else { "request" }
}

fn known(key: u16) -> &'static str {
    if key::name(key).is_some() { " (sent only by the other side)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_command_the_field_and_the_bytes() {
        let truncated = DecodeError::Truncated { key: key::CREATE, field: "stream", needed: 9, available: 2 };
        assert_eq!(truncated.to_string(), "cannot decode create: stream needs 9 bytes, 2 are left");
        let unknown = DecodeError::UnknownKey { key: 99, is_response: false };
        assert_eq!(unknown.to_string(), "cannot decode request: unknown key 0x0063");
        let deliver = DecodeError::UnknownKey { key: key::DELIVER, is_response: false };
        assert_eq!(deliver.to_string(), "cannot decode request: unknown key 0x0008 (sent only by the other side)");
    }
}
