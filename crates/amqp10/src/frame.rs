//! Frames and protocol headers (2.2, 2.3).

use crate::{DecodeError, Performative};

/// The protocol header of AMQP 1.0: `AMQP`, protocol id 0, then 1.0.0 (2.2).
pub const HEADER_AMQP: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

/// The protocol header of the SASL layer: protocol id 3 (5.3.1).
pub const HEADER_SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Smallest `max-frame-size`, in bytes, that both sides must accept (2.7.1, 5.3.1).
pub const FRAME_MIN_SIZE: u32 = 512;

/// Bytes of a frame header without an extended header.
pub const FRAME_HEADER_SIZE: usize = 8;

/// The type octet of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A performative, and a payload after it.
    Amqp = 0,
    /// A step of SASL.
    Sasl = 1,
}

/// A frame, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub kind: FrameKind,
    /// Its channel number; meaningless in a SASL frame.
    pub channel: u16,
    /// Everything after the frame header and the extended header. An AMQP frame without a body keeps an idle
    /// connection open (2.4.5).
    pub body: &'a [u8],
}

/// Decodes the first frame of `input`. Returns it with its length in bytes, or `None` if more bytes are needed.
///
/// `max_frame_size` is the limit of the whole frame in bytes, as announced in this side's `open`.
///
/// # Errors
/// As soon as the bytes present show one: a size below 8 or above `max_frame_size` (known from its first 4 bytes), an
/// invalid data offset, an unknown type.
#[inline]
pub fn decode_frame(input: &[u8], max_frame_size: u32) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some((header, _)) = input.split_first_chunk::<FRAME_HEADER_SIZE>() else {
        return match input.split_first_chunk::<4>() {
            Some((size, _)) => check_size(u32::from_be_bytes(*size), max_frame_size).map(|()| None),
            None => Ok(None),
        };
    };
    let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    check_size(size, max_frame_size)?;
    let data_offset = header[4];
    let body_start = usize::from(data_offset) * 4;
    if body_start < FRAME_HEADER_SIZE || body_start > size as usize {
        return Err(DecodeError::DataOffset { data_offset, size });
    }
    let kind = match header[5] {
        0 => FrameKind::Amqp,
        1 => FrameKind::Sasl,
        received => return Err(DecodeError::FrameType { received }),
    };
    let channel = u16::from_be_bytes([header[6], header[7]]);
    match input.get(body_start..size as usize) {
        Some(body) => Ok(Some((Frame { kind, channel, body }, size as usize))),
        None => Ok(None),
    }
}

#[inline(always)]
fn check_size(size: u32, max_frame_size: u32) -> Result<(), DecodeError> {
    if size < FRAME_HEADER_SIZE as u32 {
        return Err(DecodeError::FrameTooSmall { size });
    }
    if size > max_frame_size {
        return Err(DecodeError::FrameTooLarge { size, max_frame_size });
    }
    Ok(())
}

/// Offset of a frame that isn't finished yet.
#[derive(Debug)]
#[must_use = "a frame has no size before end_frame"]
pub struct FrameStart(usize);

/// Appends a frame header; the bytes appended until [`end_frame`] are the body.
#[inline(always)]
pub fn begin_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> FrameStart {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind as u8, high, low]);
    FrameStart(start)
}

/// Fills in the size of the frame that began at `start`, and returns it in bytes.
///
/// # Panics
/// If the frame has 4 GiB or more.
#[inline(always)]
pub fn end_frame(out: &mut [u8], start: FrameStart) -> u32 {
    let size = u32::try_from(out.len() - start.0).expect("a frame is shorter than 4 GiB");
    out[start.0..start.0 + 4].copy_from_slice(&size.to_be_bytes());
    size
}

/// Appends a frame with a performative and no payload.
#[inline]
pub fn encode_performative(out: &mut Vec<u8>, channel: u16, performative: &Performative<'_>) {
    let start = begin_frame(out, FrameKind::Amqp, channel);
    performative.encode(out);
    end_frame(out, start);
}

/// Appends a frame without a body, which keeps an idle connection open (2.4.5).
pub fn encode_empty(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0, 8, 2, FrameKind::Amqp as u8, 0, 0]);
}
