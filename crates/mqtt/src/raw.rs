//! Cutting packets off the front of what a transport brings (MQTT 5, 2.1).

use crate::error::{DecodeError, Decoded};
use crate::kind::PacketKind;
use crate::wire::{VARIABLE_MAX, variable_at};

/// The largest packet that the protocol allows, in bytes.
pub const PACKET_MAX: u32 = VARIABLE_MAX + 5;

/// A packet whose content isn't decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawPacket<'a> {
    /// Its type.
    pub kind: PacketKind,
    /// The flags of its fixed header, which were checked unless it is a PUBLISH.
    pub flags: u8,
    /// Everything behind the fixed header.
    pub content: &'a [u8],
}

/// Cuts the first packet off `input`: the packet, and how many bytes it took. `None` if it isn't complete. A packet of more than
/// `max` bytes is refused as soon as its length is there, so that nobody has to keep its beginning.
///
/// # Errors
/// No packet begins so, or it is too large: nothing behind it can be read.
#[inline]
pub fn next_packet(input: &[u8], max: u32) -> Decoded<Option<(RawPacket<'_>, usize)>> {
    let Some((head, rest)) = input.split_first() else { return Ok(None) };
    let kind = PacketKind::of(head >> 4).ok_or(DecodeError::ForbiddenKind)?;
    let flags = head & 0x0f;
    if let Some(expected) = kind.flags().filter(|expected| *expected != flags) {
        return Err(DecodeError::Flags { kind, received: flags, expected });
    }
    let Some((length, length_bytes)) = variable_at(rest, "remaining length")? else { return Ok(None) };
    let before = 1 + length_bytes;
    let size = length + before as u32;
    if size > max {
        return Err(DecodeError::TooLarge { size, max });
    }
    let content = rest.get(length_bytes..length_bytes + length as usize);
    Ok(content.map(|content| (RawPacket { kind, flags, content }, size as usize)))
}
