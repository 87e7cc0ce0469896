//! The payload of a record with second copies of metadata records.
//!
//! It covers a range of positions: every metadata record of that range is in it. So it also says where there is none.

use super::{is_zero, put, u32_at, u64_at};
use crate::types::Position;

/// Bytes before the first copy.
pub(crate) const COPIES_HEAD_BYTES: usize = 16;
/// Bytes of a copy before its payload.
const COPY_HEAD_BYTES: usize = 16;

/// A copy of a metadata record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy<'a> {
    /// Position of the first copy, which this one repeats.
    pub position: Position,
    /// Kind of the control record.
    pub detail: u8,
    pub payload: &'a [u8],
}

/// All metadata records with positions above `after` and up to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copies<'a> {
    pub after: Position,
    pub to: Position,
    pub copies: Vec<Copy<'a>>,
}

/// Bytes that a copy with a payload of this length takes.
pub(crate) fn copy_bytes(payload: usize) -> usize {
    COPY_HEAD_BYTES + payload
}

impl<'a> Copies<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let content: usize = self.copies.iter().map(|copy| copy_bytes(copy.payload.len())).sum();
        let mut bytes = Vec::with_capacity(COPIES_HEAD_BYTES + content);
        bytes.extend_from_slice(&self.after.to_le_bytes());
        bytes.extend_from_slice(&self.to.to_le_bytes());
        for copy in &self.copies {
            let mut head = [0; COPY_HEAD_BYTES];
            put(&mut head, 0, &copy.position.to_le_bytes());
            head[8] = copy.detail;
            let length = u32::try_from(copy.payload.len()).expect("records are below 4 GiB");
            put(&mut head, 12, &length.to_le_bytes());
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(copy.payload);
        }
        bytes
    }

    /// The copies in these bytes, if they are whole, ascending, and within their range.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Copies<'a>> {
        let (head, mut rest) = bytes.split_at_checked(COPIES_HEAD_BYTES)?;
        let (after, to) = (u64_at(head, 0), u64_at(head, 8));
        let mut copies: Vec<Copy<'a>> = Vec::new();
        let mut last = after;
        while !rest.is_empty() {
            let (head, behind) = rest.split_at_checked(COPY_HEAD_BYTES)?;
            let (payload, behind) = behind.split_at_checked(u32_at(head, 12) as usize)?;
            let copy = Copy { position: u64_at(head, 0), detail: head[8], payload };
            if !is_zero(&head[9..12]) || copy.position <= last || copy.position > to {
                return None;
            }
            last = copy.position;
            copies.push(copy);
            rest = behind;
        }
        (after <= to).then_some(Copies { after, to, copies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_found_as_written_and_only_whole() {
        let copy = |position, payload| Copy { position, detail: 1, payload };
        let copies = Copies { after: 3, to: 9, copies: vec![copy(4, &b"declare"[..]), copy(9, b"")] };
        let bytes = copies.encode();
        assert_eq!(Copies::decode(&bytes), Some(copies));
        for cut in (1..bytes.len()).filter(|cut| ![16, 39].contains(cut)) {
            assert_eq!(Copies::decode(&bytes[..cut]), None, "{cut} bytes");
        }
        let none = Copies { after: 3, to: 9, copies: Vec::new() };
        assert_eq!(Copies::decode(&none.encode()), Some(none));
    }

    #[test]
    fn copies_outside_their_range_are_refused() {
        let copy = |position| Copy { position, detail: 1, payload: b"x" };
        for (after, to, positions) in [(3, 9, vec![3]), (3, 9, vec![10]), (3, 9, vec![5, 5]), (9, 3, vec![])] {
            let copies = positions.into_iter().map(copy).collect();
            assert_eq!(Copies::decode(&Copies { after, to, copies }.encode()), None);
        }
    }
}
