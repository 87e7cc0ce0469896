//! How far a placement's entries are in this node's store: the content of a control record of a log of its own, which is in one batch with
//! the records of the entry.
//!
//! Version 1 (1), term and index of the last entry (8 + 8), the placement's clock (8), term of its last leader's entries (8), number of the
//! next of these (8), term and index of the entry with the members (8 + 8), number of writers (4), of each its number (8), that of its last
//! publish (8), and the number (4) of those that were accepted in part, with number (8) and accepted messages (4) of each; the number (2) of
//! copies and of each its number (2); the last number that a copy was given (2); then the members as in that entry. All integers are little
//! endian.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};
use leveret_log::LogId;
use leveret_model::PlacementNumber;

use super::copies::CopyNumber;
use crate::planted::{Bug, is_planted};
use crate::publish_origin::WriterMark;

const VERSION: u8 = 1;
/// Logs of marks begin here: no queue has such an id.
const FIRST_LOG: u64 = 1 << 62;

/// The kind of the control record.
pub(crate) const CONTROL_APPLIED: u8 = 8;

/// The log with the marks of a placement.
pub(crate) fn log_of(placement: PlacementNumber) -> LogId {
    LogId(FIRST_LOG | u64::from(placement.0))
}

/// The placement whose marks are in this log, if it is such a one.
pub(crate) fn placement_of(log: LogId) -> Option<PlacementNumber> {
    let number = log.0.checked_sub(FIRST_LOG)?;
    u32::try_from(number).ok().map(PlacementNumber)
}

/// A placement as far as its entries are applied, as the one who commits them knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedState {
    /// Term and index of the last entry.
    pub applied: Option<(u64, u64)>,
    /// Term and index of the entry with the members.
    pub members_at: Option<(u64, u64)>,
    /// These, as in that entry.
    pub members: Vec<u8>,
    /// The placement's clock, in milliseconds since the Unix epoch.
    pub clock: u64,
}

/// A mark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedMark {
    /// The entries up to here are in the store.
    pub state: PlacedState,
    /// The term of the last entry with commands that was accepted, and the number that the next one of that term has: see
    /// [`AppliedMark::accepts`].
    pub next: (u64, u64),
    /// The committed publishes of each writer.
    pub writers: BTreeMap<u64, WriterMark>,
    /// Copies of this node that are complete, the oldest first: a queue is in the log of the last one of these that it has.
    pub(crate) copies: Vec<CopyNumber>,
    /// The last number that a copy of this node was given by then. What is left of a copy that was never completed may outlive what is known
    /// of it, so that its number isn't given again.
    pub(super) last_copy: CopyNumber,
}

impl AppliedMark {
    /// Whether an entry is accepted that has this number in its term: the next one. If a leader's entry was refused and a later one was not,
    /// the later one lacks what came before. This only depends on the entries before it, so that all members decide alike.
    pub(super) fn accepts(&self, term: u64, sequence: u64) -> bool {
        let due = if self.next.0 == term { self.next.1 } else { 0 };
        term >= self.next.0 && sequence == due
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let PlacedState { applied, members_at, members, clock } = &self.state;
        let mut to = Vec::with_capacity(57 + members.len());
        to.put_u8(VERSION);
        let place = |place: &Option<(u64, u64)>| place.map_or((u64::MAX, u64::MAX), |place| place);
        let ((term, index), (members_term, members_index)) = (place(applied), place(members_at));
        for number in [term, index, *clock, self.next.0, self.next.1, members_term, members_index] {
            to.put_u64_le(number);
        }
        let is_of_some = |_: &(&u64, &WriterMark)| !is_planted(Bug::OmitWriters);
        to.put_u32_le(self.writers.iter().filter(is_of_some).count() as u32);
        for (writer, WriterMark { last, in_part }) in self.writers.iter().filter(is_of_some) {
            to.put_u64_le(*writer);
            to.put_u64_le(*last);
            to.put_u32_le(in_part.len() as u32);
            for (number, accepted) in in_part {
                to.put_u64_le(*number);
                to.put_u32_le(*accepted);
            }
        }
        to.put_u16_le(self.copies.len() as u16);
        self.copies.iter().chain([&self.last_copy]).for_each(|copy| to.put_u16_le(copy.0));
        to.put_slice(members);
        to
    }

    pub(crate) fn decode(mut from: &[u8]) -> Option<Self> {
        if from.len() < 57 || from.get_u8() != VERSION {
            return None;
        }
        let [term, index, clock, next_term, next, members_term, members_index] = [(); 7].map(|()| from.get_u64_le());
        let place = |term, index| (term != u64::MAX).then_some((term, index));
        let (applied, members_at) = (place(term, index), place(members_term, members_index));
        let mut writers = BTreeMap::new();
        for _ in 0..from.try_get_u32_le().ok()? {
            let (writer, last) = (from.try_get_u64_le().ok()?, from.try_get_u64_le().ok()?);
            let mut in_part = BTreeMap::new();
            for _ in 0..from.try_get_u32_le().ok()? {
                let number = from.try_get_u64_le().ok()?;
                in_part.insert(number, from.try_get_u32_le().ok()?);
            }
            writers.insert(writer, WriterMark { last, in_part });
        }
        let mut copies = Vec::new();
        for _ in 0..from.try_get_u16_le().ok()? {
            copies.push(CopyNumber(from.try_get_u16_le().ok()?));
        }
        let last_copy = CopyNumber(from.try_get_u16_le().ok()?);
        let state = PlacedState { applied, members_at, members: from.to_vec(), clock };
        Some(Self { state, next: (next_term, next), writers, copies, last_copy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_again_and_a_cut_one_is_refused() {
        let state =
            PlacedState { applied: Some((3, 77)), members_at: Some((1, 2)), members: b"m".to_vec(), clock: 1_700 };
        let writer = WriterMark { last: 8, in_part: [(5, 0), (7, 2)].into() };
        let writers = [(1, WriterMark::default()), (2, writer)].into();
        let copies = vec![CopyNumber(3), CopyNumber(1)];
        let mark = AppliedMark { state, next: (3, 9), writers, copies, last_copy: CopyNumber(4) };
        let bytes = mark.encode();
        assert_eq!(AppliedMark::decode(&bytes), Some(mark));
        assert!((0..bytes.len() - 1).all(|length| AppliedMark::decode(&bytes[..length]).is_none()));
        assert_eq!(AppliedMark::decode(&AppliedMark::default().encode()), Some(AppliedMark::default()));
        let placement = PlacementNumber(24);
        assert_eq!(placement_of(log_of(placement)), Some(placement));
        assert_eq!([LogId(7), LogId(1 << 63), LogId::SHARED].map(placement_of), [None; 3]);
    }

    #[test]
    fn an_entry_behind_one_that_was_refused_is_refused_too() {
        let mark = AppliedMark { next: (3, 2), ..AppliedMark::default() };
        let accepted = [(3, 2), (4, 0)].map(|(term, number)| mark.accepts(term, number));
        let refused = [(3, 3), (3, 1), (4, 1), (2, 0)].map(|(term, number)| mark.accepts(term, number));
        assert_eq!((accepted, refused), ([true; 2], [false; 4]));
    }
}
