//! Messages out of their parts.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::frame::{BodyPart, FrameError, FrameType, PeerMessage};

/// Bytes that an unfinished body counts besides its own: many small ones are bounded as well.
const BODY_COST: usize = 256;

struct Unfinished {
    kind: u8,
    total: usize,
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
    /// Room for a whole body is set aside when it begins, within the bound: a long one isn't copied again and again while it grows, and
    /// its memory isn't used before its bytes come.
    ///
    /// # Errors
    /// The part doesn't fit to those before it, or there is too much.
    pub fn take(&mut self, part: BodyPart<'_>) -> Result<Option<PeerMessage>, FrameError> {
        let BodyPart { frame, kind, id, is_first, is_last, total, bytes } = part;
        let key = (frame, id);
        let unfit = FrameError::Unfit(id);
        if is_first && self.unfinished.contains_key(&key) {
            return Err(unfit);
        }
        if is_first && is_last {
            return Ok(Some(PeerMessage::from_parts(frame, kind, id, Bytes::copy_from_slice(bytes))));
        }
        if is_first {
            let left = self.bytes_max.saturating_sub(self.bytes + BODY_COST);
            let total = usize::try_from(total).ok().filter(|total| *total <= left);
            let total = total.ok_or(FrameError::TooMuch(self.bytes_max))?;
            self.bytes += total + BODY_COST;
            self.unfinished.insert(key, Unfinished { kind, total, bytes: Vec::with_capacity(total) });
        }
        let body = self.unfinished.get_mut(&key).filter(|body| body.kind == kind);
        let body = body.filter(|body| body.total - body.bytes.len() >= bytes.len()).ok_or(unfit.clone())?;
        body.bytes.extend(bytes);
        if !is_last {
            return Ok(None);
        }
        let body = self.unfinished.remove(&key).filter(|body| body.bytes.len() == body.total).ok_or(unfit)?;
        self.bytes -= body.total + BODY_COST;
        Ok(Some(PeerMessage::from_parts(frame, kind, id, body.bytes.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{PART_BYTES_MAX, decode};

    const TOTAL: u64 = 2;

    fn part(frame: FrameType, id: u64, is_first: bool, is_last: bool, bytes: &[u8]) -> BodyPart<'_> {
        BodyPart { frame, kind: 3, id, is_first, is_last, total: if is_first && !is_last { TOTAL } else { 0 }, bytes }
    }

    #[test]
    fn parts_that_dont_fit_are_refused() {
        let request = FrameType::Request;
        let begun = || {
            let mut assembler = Assembler::new(1 << 20);
            assert_eq!(assembler.take(part(request, 1, true, false, b"a")), Ok(None));
            assembler
        };
        assert_eq!(begun().take(part(request, 1, true, false, b"b")), Err(FrameError::Unfit(1)));
        assert_eq!(begun().take(part(request, 1, true, true, b"b")), Err(FrameError::Unfit(1)));
        assert_eq!(begun().take(part(request, 2, false, true, b"b")), Err(FrameError::Unfit(2)));
        assert_eq!(begun().take(part(FrameType::Answer, 1, false, true, b"b")), Err(FrameError::Unfit(1)));
        assert_eq!(
            begun().take(BodyPart { kind: 4, ..part(request, 1, false, true, b"b") }),
            Err(FrameError::Unfit(1))
        );
        let body = Bytes::from_static(b"ab");
        let whole = PeerMessage::Request { id: 1, kind: 3, body };
        assert_eq!(begun().take(part(request, 1, false, true, b"b")), Ok(Some(whole)));
    }

    #[test]
    fn unfinished_bodies_are_bounded_together() {
        let begin = |id, total| BodyPart { total, ..part(FrameType::Notice, id, true, false, b"a") };
        let mut assembler = Assembler::new(10_000);
        for id in 0..9 {
            assembler.take(begin(id, 800)).unwrap();
        }
        let error = assembler.take(begin(10, 800)).unwrap_err();
        assert_eq!(error.to_string(), "bodies of more than 10000 bytes are on their way at once");
        // Finished ones make room.
        assert!(assembler.take(part(FrameType::Notice, 0, false, true, &[0; 799])).unwrap().is_some());
        assembler.take(begin(10, 800)).unwrap();
        for huge in [10_000, u64::MAX] {
            assert!(Assembler::new(10_000).take(begin(1, huge)).is_err());
        }
        let mut tiny = Assembler::new(10_000);
        let refused = (0..100).find(|id| tiny.take(begin(*id, 2)).is_err());
        assert_eq!(refused, Some(38));
    }

    #[test]
    fn a_body_has_the_length_that_was_said() {
        for (middle, last) in [(&b"bcd"[..], &b"e"[..]), (b"b", b"c"), (b"b", b"cde")] {
            let mut assembler = Assembler::new(10_000);
            let begin = BodyPart { total: 4, ..part(FrameType::Request, 1, true, false, b"a") };
            assembler.take(begin).unwrap();
            let middle = assembler.take(part(FrameType::Request, 1, false, false, middle));
            let last = middle.and_then(|_| assembler.take(part(FrameType::Request, 1, false, true, last)));
            assert_eq!(last, Err(FrameError::Unfit(1)));
        }
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
            [&head(7, 1, 1, 0)[..], &[0; 7]].concat(),
        ] {
            assert!(matches!(decode(&wrong), Err(FrameError::Head(..))), "{wrong:?}");
        }
    }
}
