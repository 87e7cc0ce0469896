//! Frames: parts of bodies.
//!
//! A frame: length of the part (4), type (1), flags (1: first part, 2: last part), kind (1), zero (1), id (8), the part. The first part of
//! several begins with the length of the whole body (8). Types: 1 request, 2 answer, 3 refusal (an answer that is a text), 4 notice, 5 ping.
//! Kinds are the owner's. A side numbers its requests and its notices; answers and refusals have the id of their request.

use bytes::Bytes;

/// Bytes before a part.
pub const HEAD_BYTES: usize = 16;
/// Bytes of the length of a body of several parts.
pub(crate) const TOTAL_BYTES: usize = 8;
/// Most bytes of a part. Bodies of one link take turns after each.
pub const PART_BYTES_MAX: usize = 256 << 10;
/// Longest text of a refusal.
const TEXT_BYTES_MAX: usize = 4 << 10;

const FIRST: u8 = 1;
const LAST: u8 = 2;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrameType {
    Request = 1,
    Answer = 2,
    Refusal = 3,
    Notice = 4,
    Ping = 5,
}

impl FrameType {
    fn from_byte(byte: u8) -> Option<FrameType> {
        let all = [FrameType::Request, FrameType::Answer, FrameType::Refusal, FrameType::Notice, FrameType::Ping];
        all.into_iter().find(|known| *known as u8 == byte)
    }
}

/// A message that a link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A question.
    Request {
        /// Its number.
        id: u64,
        /// Its subject.
        kind: u8,
        /// Its content.
        body: Bytes,
    },
    /// The answer to a request, or the text with which it was refused.
    Answer {
        /// The request's number.
        id: u64,
        /// The answer.
        body: Result<Bytes, String>,
    },
    /// Something that isn't answered.
    Notice {
        /// Its subject.
        kind: u8,
        /// Its content.
        body: Bytes,
    },
    /// A sign of life.
    Ping,
}

impl PeerMessage {
    /// Its type, kind, id and body. `notice` is the id of a notice.
    pub(crate) fn into_parts(self, notice: u64) -> (FrameType, u8, u64, Bytes) {
        match self {
            PeerMessage::Request { id, kind, body } => (FrameType::Request, kind, id, body),
            PeerMessage::Answer { id, body: Ok(body) } => (FrameType::Answer, 0, id, body),
            PeerMessage::Answer { id, body: Err(text) } => {
                let text = Bytes::copy_from_slice(crate::wire::cut(&text, TEXT_BYTES_MAX).as_bytes());
                (FrameType::Refusal, 0, id, text)
            }
            PeerMessage::Notice { kind, body } => (FrameType::Notice, kind, notice, body),
            PeerMessage::Ping => (FrameType::Ping, 0, 0, Bytes::new()),
        }
    }

    pub(crate) fn from_parts(frame: FrameType, kind: u8, id: u64, body: Bytes) -> PeerMessage {
        match frame {
            FrameType::Request => PeerMessage::Request { id, kind, body },
            FrameType::Answer => PeerMessage::Answer { id, body: Ok(body) },
            FrameType::Refusal => PeerMessage::Answer { id, body: Err(crate::wire::harmless(&body, TEXT_BYTES_MAX)) },
            FrameType::Notice => PeerMessage::Notice { kind, body },
            FrameType::Ping => PeerMessage::Ping,
        }
    }
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPart<'a> {
    pub(crate) frame: FrameType,
    pub(crate) kind: u8,
    pub(crate) id: u64,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Bytes of the whole body; 0 unless it is the first part of several.
    pub(crate) total: u64,
    pub(crate) bytes: &'a [u8],
}

impl BodyPart<'_> {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let is_begin = self.is_first && !self.is_last;
        let length = self.bytes.len() + if is_begin { TOTAL_BYTES } else { 0 };
        to.extend((length as u32).to_le_bytes());
        let flags = FIRST * u8::from(self.is_first) + LAST * u8::from(self.is_last);
        to.extend([self.frame as u8, flags, self.kind, 0]);
        to.extend(self.id.to_le_bytes());
        if is_begin {
            to.extend(self.total.to_le_bytes());
        }
        to.extend(self.bytes);
    }
}

/// Bytes of a link that aren't frames of this version. The link has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The beginning of a frame is wrong.
    #[error("a frame that isn't one of this version: type {0}, flags {1}, {2} bytes")]
    Head(u8, u8, u32),
    /// A part without the parts before it, or with a kind of its own, a second first part, or a body of another length than was said.
    #[error("a part of message {0} that doesn't fit to those before it")]
    Unfit(u64),
    /// The unfinished bodies are too large.
    #[error("bodies of more than {0} bytes are on their way at once")]
    TooMuch(usize),
}

/// The first part in these bytes, and how many of them it has. `None` if it isn't complete.
///
/// # Errors
/// The bytes aren't a part.
pub fn decode(input: &[u8]) -> Result<Option<(BodyPart<'_>, usize)>, FrameError> {
    let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [l0, l1, l2, l3, frame, flags, kind, zero, id @ ..] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let wrong = FrameError::Head(frame, flags, length);
    let Some(frame) = FrameType::from_byte(frame) else { return Err(wrong) };
    let (is_first, is_last) = (flags & FIRST != 0, flags & LAST != 0);
    let is_whole = is_first && is_last;
    let is_ping = frame == FrameType::Ping;
    // Parts without bytes would go on for ever.
    if flags > FIRST + LAST
        || zero != 0
        || length as usize > PART_BYTES_MAX
        || (length == 0 && !is_whole)
        || (is_ping && !(is_whole && length == 0))
    {
        return Err(wrong);
    }
    let Some(mut bytes) = rest.get(..length as usize) else { return Ok(None) };
    let (id, mut total) = (u64::from_le_bytes(id), 0);
    if is_first && !is_last {
        let Some((announced, rest)) = bytes.split_first_chunk() else { return Err(wrong) };
        (total, bytes) = (u64::from_le_bytes(*announced), rest);
    }
    Ok(Some((BodyPart { frame, kind, id, is_first, is_last, total, bytes }, HEAD_BYTES + length as usize)))
}
