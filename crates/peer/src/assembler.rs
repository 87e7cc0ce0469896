//! Messages out of their parts.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::frame::{FrameError, FrameType, Message, Part};

/// Bytes that an unfinished body counts besides its own: many small ones are bounded as well.
const BODY_COST: usize = 256;

struct Unfinished {
    kind: u8,
    bytes: Vec<u8>,
}

/// Puts messages together whose parts take turns.
#[derive(Default)]
pub struct Assembler {
    bytes_max: usize,
    bytes: usize,
    unfinished: BTreeMap<(FrameType, u64), Unfinished>,
}

impl std::fmt::Debug for Assembler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Assembler {
    /// One whose unfinished bodies have at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Assembler {
        Assembler { bytes_max, ..Assembler::default() }
    }

    /// Takes a part. Returns the message if that was the last one of it.
    ///
    /// # Errors
    /// The part doesn't fit to those before it, or there is too much.
    pub fn take(&mut self, part: Part<'_>) -> Result<Option<Message>, FrameError> {
        let Part { frame, kind, id, is_first, is_last, bytes } = part;
        let key = (frame, id);
        if is_first && is_last {
            if self.unfinished.contains_key(&key) {
                return Err(FrameError::Part(id));
            }
            return Ok(Some(Message::from_parts(frame, kind, id, Bytes::copy_from_slice(bytes))));
        }
        let cost = bytes.len() + if is_first { BODY_COST } else { 0 };
        if self.bytes + cost > self.bytes_max {
            return Err(FrameError::TooMuch(self.bytes_max));
        }
        if is_first && self.unfinished.insert(key, Unfinished { kind, bytes: bytes.to_vec() }).is_some() {
            return Err(FrameError::Part(id));
        }
        self.bytes += cost;
        if is_first {
            return Ok(None);
        }
        let body = self.unfinished.get_mut(&key).filter(|body| body.kind == kind).ok_or(FrameError::Part(id))?;
        body.bytes.extend(bytes);
        if !is_last {
            return Ok(None);
        }
        let body = self.unfinished.remove(&key).ok_or(FrameError::Part(id))?;
        self.bytes -= body.bytes.len() + BODY_COST;
        Ok(Some(Message::from_parts(frame, kind, id, body.bytes.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{PART_BYTES_MAX, decode};

    fn part(frame: FrameType, id: u64, is_first: bool, is_last: bool, bytes: &[u8]) -> Part<'_> {
        Part { frame, kind: 3, id, is_first, is_last, bytes }
    }

    #[test]
    fn parts_that_dont_fit_are_refused() {
        let request = FrameType::Request;
        let begun = || {
            let mut assembler = Assembler::new(1 << 20);
            assert_eq!(assembler.take(part(request, 1, true, false, b"a")), Ok(None));
            assembler
        };
        assert_eq!(begun().take(part(request, 1, true, false, b"b")), Err(FrameError::Part(1)));
        assert_eq!(begun().take(part(request, 1, true, true, b"b")), Err(FrameError::Part(1)));
        assert_eq!(begun().take(part(request, 2, false, true, b"b")), Err(FrameError::Part(2)));
        assert_eq!(begun().take(part(FrameType::Answer, 1, false, true, b"b")), Err(FrameError::Part(1)));
        assert_eq!(begun().take(Part { kind: 4, ..part(request, 1, false, true, b"b") }), Err(FrameError::Part(1)));
        let body = Bytes::from_static(b"ab");
        let whole = Message::Request { id: 1, kind: 3, body };
        assert_eq!(begun().take(part(request, 1, false, true, b"b")), Ok(Some(whole)));
    }

    #[test]
    fn unfinished_bodies_are_bounded_together() {
        let mut assembler = Assembler::new(10_000);
        for id in 0..9 {
            assembler.take(part(FrameType::Notice, id, true, false, &[0; 800])).unwrap();
        }
        let error = assembler.take(part(FrameType::Notice, 10, true, false, &[0; 800])).unwrap_err();
        assert_eq!(error.to_string(), "bodies of more than 10000 bytes are on their way at once");
        // Finished ones make room.
        assert!(assembler.take(part(FrameType::Notice, 0, false, true, &[0; 100])).unwrap().is_some());
        assembler.take(part(FrameType::Notice, 10, true, false, &[0; 800])).unwrap();
        let mut tiny = Assembler::new(10_000);
        let refused = (0..100).find(|id| tiny.take(part(FrameType::Request, *id, true, false, b"a")).is_err());
        assert_eq!(refused, Some(38));
    }

    #[test]
    fn wrong_heads_are_refused_before_their_bytes_come() {
        let head = |length: u32, frame: u8, flags: u8, zero: u8| {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend([frame, flags, 0, zero]);
            bytes.extend([0; 8]);
            bytes
        };
        let most = PART_BYTES_MAX as u32;
        assert_eq!(decode(&head(most, 1, 3, 0)), Ok(None));
        assert!(decode(&head(0, 5, 3, 0)).unwrap().is_some());
        for wrong in [
            head(most + 1, 1, 3, 0),
            head(0, 1, 1, 0),
            head(0, 1, 2, 0),
            head(1, 1, 4, 0),
            head(1, 1, 3, 1),
            head(1, 0, 3, 0),
            head(1, 6, 3, 0),
            head(1, 5, 3, 0),
        ] {
            assert!(matches!(decode(&wrong), Err(FrameError::Head(..))), "{wrong:?}");
        }
    }
}
