//! Reading and writing the elementary types (MQTT 5, 1.5): big-endian integers, variable byte integers, strings and binary data
//! with a length of 16 bits.

use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;

/// The largest variable byte integer.
pub(crate) const VARIABLE_MAX: u32 = 268_435_455;
/// Largest string or binary data, in bytes.
pub(crate) const SIZED_MAX: usize = u16::MAX as usize;

pub(crate) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A variable byte integer at the beginning of `bytes`, and its length; `None` if more bytes are needed.
#[inline]
pub(crate) fn variable_at(bytes: &[u8], field: &'static str) -> Decoded<Option<(u32, usize)>> {
    let mut value = 0u32;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return match at > 0 && *byte == 0 {
                true => Err(DecodeError::LongVariableInteger { field }),
                false => Ok(Some((value, at + 1))),
            };
        }
    }
    if bytes.len() >= 4 { Err(DecodeError::VariableInteger { field }) } else { Ok(None) }
}

/// Reads elementary types from the front of a packet's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
    /// The type of the packet, for errors.
    kind: PacketKind,
}

impl<'a> FieldReader<'a> {
    #[inline(always)]
    pub(crate) fn new(kind: PacketKind, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, kind }
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> PacketKind {
        self.kind
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, count: usize, field: &'static str) -> Decoded<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated(count, field)),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize, field: &'static str) -> DecodeError {
        let (needed, available) = (saturate(needed), saturate(self.rest.len()));
        DecodeError::Truncated { kind: self.kind, field, needed, available }
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self, field: &'static str) -> Decoded<u8> {
        self.take(1, field).map(|bytes| bytes[0])
    }

    #[inline(always)]
    pub(crate) fn u16(&mut self, field: &'static str) -> Decoded<u16> {
        self.take(2, field).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, field: &'static str) -> Decoded<u32> {
        self.take(4, field).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    #[inline]
    pub(crate) fn variable(&mut self, field: &'static str) -> Decoded<u32> {
        let (value, length) =
            variable_at(self.rest, field)?.ok_or_else(|| self.truncated(self.rest.len() + 1, field))?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// Binary data (1.5.6).
    #[inline]
    pub(crate) fn binary(&mut self, field: &'static str) -> Decoded<&'a [u8]> {
        let length = self.u16(field)?;
        self.take(length.into(), field)
    }

    /// A UTF-8 encoded string (1.5.4).
    #[inline]
    pub(crate) fn string(&mut self, field: &'static str) -> Decoded<&'a str> {
        let bytes = self.binary(field)?;
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid_up_to = u16::try_from(error.valid_up_to()).unwrap_or(u16::MAX);
            DecodeError::NotUtf8 { kind: self.kind, field, valid_up_to }
        })?;
        match bytes.contains(&0) {
            true => Err(DecodeError::NullCharacter { kind: self.kind, field }),
            false => Ok(text),
        }
    }

    /// A packet identifier (2.2.1).
    #[inline]
    pub(crate) fn packet_id(&mut self) -> Decoded<u16> {
        match self.u16("packet identifier")? {
            0 => Err(DecodeError::PacketIdZero { kind: self.kind }),
            id => Ok(id),
        }
    }

    /// Fails if bytes are left.
    #[inline]
    pub(crate) fn finish(self) -> Decoded<()> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::Excess { kind: self.kind, count: saturate(count) }),
        }
    }
}

/// Number of bytes of a variable byte integer.
#[inline]
pub(crate) fn variable_length(value: u32) -> usize {
    match value {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    }
}

/// Appends a variable byte integer.
///
/// # Panics
/// Above [`VARIABLE_MAX`].
#[inline]
pub(crate) fn put_variable(out: &mut Vec<u8>, mut value: u32) {
    assert!(value <= VARIABLE_MAX, "{value} doesn't fit a variable byte integer");
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends binary data or a string. What is longer than its length field can say is cut.
#[inline]
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= SIZED_MAX, "{} bytes don't fit their length field", bytes.len());
    let bytes = &bytes[..bytes.len().min(SIZED_MAX)];
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a packet whose length isn't known before it is written.
pub(crate) fn put_packet(out: &mut Vec<u8>, head: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(head);
    let start = out.len();
    write(out);
    put_length_before(out, start);
}

/// Inserts the length of everything behind `start` there.
pub(crate) fn put_length_before(out: &mut Vec<u8>, start: usize) {
    let length = saturate(out.len() - start);
    let mut bytes = [0; 4];
    let count = variable_length(length);
    let mut rest = length;
    for (at, byte) in bytes.iter_mut().take(count).enumerate() {
        *byte = (rest & 0x7f) as u8 | if at + 1 < count { 0x80 } else { 0 };
        rest >>= 7;
    }
    out.splice(start..start, bytes[..count].iter().copied());
}
