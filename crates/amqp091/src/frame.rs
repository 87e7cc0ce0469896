//! Frames (4.2.3).

use crate::wire::write_short_string;
use crate::{DecodeError, Method};

/// The protocol header, with which a client begins: `AMQP`, 0, then 0-9-1 (4.2.2).
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// Smallest `frame_max`, in bytes, that both sides must accept.
pub const FRAME_MIN_SIZE: u32 = 4096;

/// The octet that ends every frame.
pub const FRAME_END: u8 = 0xCE;

/// Bytes before the payload: type, channel, payload size.
pub const FRAME_HEADER_SIZE: usize = 7;

/// Bytes of a frame apart from its payload: the frame header and the end marker.
pub const FRAME_OVERHEAD: usize = FRAME_HEADER_SIZE + 1;

/// Bytes of a content header frame apart from the properties: [`FRAME_OVERHEAD`], then class, weight and body size
/// (4.2.3, 4.2.6.1).
pub const HEADER_OVERHEAD: usize = FRAME_OVERHEAD + 12;

/// The type octet of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A method.
    Method = 1,
    /// A content header.
    Header = 2,
    /// A part of a content body.
    Body = 3,
    /// A heartbeat.
    Heartbeat = 8,
}

/// A frame, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub kind: FrameKind,
    /// Its channel number; 0 for the connection itself.
    pub channel: u16,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Decodes the first frame of `input`. Returns it with its length in bytes, or `None` if more bytes are needed.
///
/// `frame_max` limits the whole frame, in bytes. 0 isn't special here: if 0 (no limit) was negotiated, the caller
/// passes a limit of its own.
///
/// # Errors
/// The frame has an unknown type, is larger than `frame_max`, or has a wrong end marker, or it is a heartbeat with a
/// payload or a channel. An error is returned as soon as the bytes show it; for a frame that is too large, 7 bytes are
/// enough.
#[inline]
pub fn decode_frame(input: &[u8], frame_max: u32) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some((header, rest)) = input.split_first_chunk::<FRAME_HEADER_SIZE>() else {
        return match input.first() {
            Some(&first) => frame_kind(first).map(|_| None),
            None => Ok(None),
        };
    };
    let kind = frame_kind(header[0])?;
    let channel = u16::from_be_bytes([header[1], header[2]]);
    let payload_size = u32::from_be_bytes([header[3], header[4], header[5], header[6]]);
    if u64::from(payload_size) + FRAME_OVERHEAD as u64 > u64::from(frame_max) {
        return Err(DecodeError::FrameTooLarge { payload_size, frame_max });
    }
    if kind == FrameKind::Heartbeat && (channel != 0 || payload_size != 0) {
        return Err(DecodeError::Heartbeat { channel, payload_size });
    }
    let size = payload_size as usize;
    match rest.get(size) {
        Some(&FRAME_END) => Ok(Some((Frame { kind, channel, payload: &rest[..size] }, size + FRAME_OVERHEAD))),
        Some(&received) => Err(DecodeError::FrameEnd { received }),
        None => Ok(None),
    }
}

#[inline(always)]
fn frame_kind(octet: u8) -> Result<FrameKind, DecodeError> {
    match octet {
        1 => Ok(FrameKind::Method),
        2 => Ok(FrameKind::Header),
        3 => Ok(FrameKind::Body),
        8 => Ok(FrameKind::Heartbeat),
        received => Err(DecodeError::FrameType { received }),
    }
}

/// Appends a method frame.
///
/// # Panics
/// If a long string or table of the method has 4 GiB or more.
pub fn encode_method(out: &mut Vec<u8>, channel: u16, method: &Method<'_>) {
    let start = begin(out, FrameKind::Method, channel);
    method.encode(out);
    finish(out, start);
}

/// Appends a content header frame. `raw_properties` are the property flags and the property list, as found in
/// [`ContentHeader`](crate::ContentHeader) or encoded by [`Properties::encode`](crate::Properties::encode).
#[inline]
pub fn encode_header(out: &mut Vec<u8>, channel: u16, class_id: u16, body_size: u64, raw_properties: &[u8]) {
    let start = begin(out, FrameKind::Header, channel);
    let mut fixed = [0; 12];
    fixed[0..2].copy_from_slice(&class_id.to_be_bytes());
    fixed[4..12].copy_from_slice(&body_size.to_be_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(raw_properties);
    finish(out, start);
}

/// Appends one body frame.
///
/// # Panics
/// If `chunk` has 4 GiB or more.
#[inline]
pub fn encode_body(out: &mut Vec<u8>, channel: u16, chunk: &[u8]) {
    let start = begin(out, FrameKind::Body, channel);
    out.extend_from_slice(chunk);
    finish(out, start);
}

/// Appends one body frame with the payload that `write` appends.
///
/// # Panics
/// If the payload has 4 GiB or more.
pub fn encode_body_with(out: &mut Vec<u8>, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out, FrameKind::Body, channel);
    write(out);
    finish(out, start);
}

/// Appends a body, split into frames of at most `frame_max` bytes. An empty body has no frame.
///
/// # Panics
/// If `frame_max` leaves no room for a payload.
#[inline]
pub fn encode_content_body(out: &mut Vec<u8>, channel: u16, body: &[u8], frame_max: u32) {
    let payload_max = (frame_max as usize).saturating_sub(FRAME_OVERHEAD);
    assert!(payload_max > 0, "frame_max {frame_max} leaves no room for a payload");
    if !body.is_empty() && body.len() <= payload_max {
        encode_body(out, channel, body);
        return;
    }
    for chunk in body.chunks(payload_max) {
        encode_body(out, channel, chunk);
    }
}

/// Appends a heartbeat frame.
pub fn encode_heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(&[FrameKind::Heartbeat as u8, 0, 0, 0, 0, 0, 0, FRAME_END]);
}

/// Appends a `basic.deliver` frame: a fast path with the same result as [`encode_method`].
///
/// # Panics
/// If one of the names has more than 255 octets.
#[inline]
pub fn encode_deliver(
    out: &mut Vec<u8>,
    channel: u16,
    consumer_tag: &[u8],
    delivery_tag: u64,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
) {
    let names = consumer_tag.len() + exchange.len() + routing_key.len();
    let payload_size = 4 + 3 + 9 + names;
    out.reserve(payload_size + FRAME_OVERHEAD);
    let mut fixed = [0; FRAME_HEADER_SIZE + 4];
    fixed[0] = FrameKind::Method as u8;
    fixed[1..3].copy_from_slice(&channel.to_be_bytes());
    fixed[3..7].copy_from_slice(&(payload_size as u32).to_be_bytes());
    fixed[7..11].copy_from_slice(&[0, 60, 0, 60]);
    out.extend_from_slice(&fixed);
    write_short_string(out, consumer_tag);
    let mut tag = [0; 9];
    tag[..8].copy_from_slice(&delivery_tag.to_be_bytes());
    tag[8] = u8::from(redelivered);
    out.extend_from_slice(&tag);
    write_short_string(out, exchange);
    write_short_string(out, routing_key);
    out.push(FRAME_END);
}

/// Appends a frame header with the size 0, which [`finish`] replaces. Returns the offset of the frame.
#[inline(always)]
fn begin(out: &mut Vec<u8>, kind: FrameKind, channel: u16) -> usize {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[kind as u8, high, low, 0, 0, 0, 0]);
    start
}

/// Completes the frame that begins at `start`: fills in its size and appends the end marker.
#[inline(always)]
fn finish(out: &mut Vec<u8>, start: usize) {
    let size = u32::try_from(out.len() - start - FRAME_HEADER_SIZE).expect("a payload is shorter than 4 GiB");
    out[start + 3..start + 7].copy_from_slice(&size.to_be_bytes());
    out.push(FRAME_END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::basic;
    use crate::{DecodeError, ShortStr};

    #[test]
    fn a_frame_of_exactly_frame_max_is_taken() {
        let mut out = Vec::new();
        encode_body(&mut out, 7, &[0xCE; 4088]);
        let (frame, used) = decode_frame(&out, 4096).unwrap().unwrap();
        assert_eq!((frame.kind, frame.channel, frame.payload.len(), used), (FrameKind::Body, 7, 4088, 4096));
        assert_eq!(
            decode_frame(&out[..7], 4095),
            Err(DecodeError::FrameTooLarge { payload_size: 4088, frame_max: 4095 })
        );
    }

    #[test]
    fn sizes_near_the_top_of_their_range_do_not_wrap() {
        let input = [1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0];
        assert!(matches!(decode_frame(&input, 131_072), Err(DecodeError::FrameTooLarge { .. })));
    }

    #[test]
    fn wrong_markers_are_errors_at_once() {
        assert_eq!(decode_frame(b"GET /", 4096), Err(DecodeError::FrameType { received: b'G' }));
        assert_eq!(decode_frame(&[3, 0, 1, 0, 0, 0, 1, 9, 0xCF], 4096), Err(DecodeError::FrameEnd { received: 0xCF }));
        assert_eq!(
            decode_frame(&[8, 0, 1, 0, 0, 0, 0], 4096),
            Err(DecodeError::Heartbeat { channel: 1, payload_size: 0 })
        );
        assert_eq!(
            decode_frame(&[8, 0, 0, 0, 0, 0, 1], 4096),
            Err(DecodeError::Heartbeat { channel: 0, payload_size: 1 })
        );
    }

    #[test]
    fn every_prefix_needs_more_bytes() {
        let mut out = Vec::new();
        encode_header(&mut out, 1, 60, 12, &[0, 0]);
        for end in 0..out.len() {
            assert_eq!(decode_frame(&out[..end], 4096), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn bodies_are_split_at_frame_max() {
        let body: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        let mut out = Vec::new();
        encode_content_body(&mut out, 3, &body, 4096);
        let mut joined = Vec::new();
        let mut sizes = Vec::new();
        let mut rest = out.as_slice();
        while let Some((frame, used)) = decode_frame(rest, 4096).unwrap() {
            joined.extend_from_slice(frame.payload);
            sizes.push(frame.payload.len());
            rest = &rest[used..];
        }
        assert_eq!(sizes, [4088, 4088, 1824]);
        assert_eq!(joined, body);
        out.clear();
        encode_content_body(&mut out, 3, b"", 4096);
        assert!(out.is_empty());
    }

    #[test]
    fn the_fast_deliver_writes_the_same_bytes() {
        let deliver = basic::Deliver {
            consumer_tag: ShortStr::literal("ctag"),
            delivery_tag: 0x0102_0304_0506_0708,
            redelivered: true,
            exchange: ShortStr::literal("amq.topic"),
            routing_key: ShortStr::literal("a.b"),
        };
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        encode_method(&mut slow, 258, &Method::BasicDeliver(deliver));
        encode_deliver(&mut fast, 258, b"ctag", deliver.delivery_tag, true, b"amq.topic", b"a.b");
        assert_eq!(slow, fast);
    }
}
