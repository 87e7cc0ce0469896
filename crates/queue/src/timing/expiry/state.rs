//! Encoding of expiry times in a checkpoint: the state bytes of a queue's entry (docs/storage.md).
//!
//! Little endian; no bytes at all when no time is known.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version: 5 |
//! | 1 | 4 | number of marks m |
//! | 5 | 4 | number of chunks c |
//! | 9 | 4 | bytes of the set of numbers that are due at once, s |
//! | 13 | 24 m | marks: latest arrival in milliseconds since the Unix epoch, first number, last number |
//! | | s | numbers due at once, in roaring's portable format |
//! | | | c chunks, see [`crate::timing::times`] |
//!
//! A number that is due at once, and whose body bytes are known, is in a chunk, with a time that is always past.

use roaring::RoaringTreemap;
use thiserror::Error;

use super::Expiry;
use crate::records::Run;
use crate::timing::times::{Scale, Times};

/// Version of the encoding. Version 1 wrote twenty bytes for each time; 2, 4 and 6 are versions of [`crate::Parts`].
const VERSION: u8 = 5;
/// The version before, whose times are half seconds.
const HALF_SECONDS: u8 = 3;
const HEAD: usize = 13;
/// A time that is always past.
const LONG_PAST_MS: u64 = 1;
const MARK: usize = 24;

/// State bytes that this version can't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExpiryStateError {
    /// They were written by another version.
    #[error("unknown version {0} of a queue's expiry state")]
    Version(u8),
    /// The length doesn't match the counts.
    #[error("the {have} bytes of a queue's expiry state don't add up: {what}")]
    Malformed {
        /// Number of bytes.
        have: usize,
        /// The part that doesn't match.
        what: &'static str,
    },
}

impl Expiry {
    /// The bytes for a checkpoint. The messages in `due` are due at once after a restart.
    pub(crate) fn encode(&self, due: impl Iterator<Item = Run>) -> Vec<u8> {
        let marks = self.arrivals.iter().count();
        // After a restart no consumer has these messages, and they have expired.
        let mut overdue = &self.overdue | &self.due;
        let mut sized = Times::default();
        let sizes = self.overdue_bytes.iter().map(|(number, bytes)| (*number, *bytes));
        let died = due.flat_map(Run::singly).map(|run| (run.first, u32::try_from(run.bytes).unwrap_or(u32::MAX)));
        for (number, bytes) in sizes.chain(died) {
            if self.times.get(number).is_some() {
                // A time of its own, which isn't over, has the bytes.
                overdue.insert(number);
            } else {
                overdue.remove(number);
                sized.insert(number, LONG_PAST_MS, bytes);
            }
        }
        if marks == 0 && self.times.is_empty() && overdue.is_empty() && sized.is_empty() {
            return Vec::new();
        }
        let [(chunks, bytes), (more_chunks, more_bytes)] = [self.times.encoded(), sized.encoded()];
        let mut out = Vec::with_capacity(HEAD + marks * MARK + overdue.serialized_size() + bytes + more_bytes);
        out.push(VERSION);
        out.extend_from_slice(&(marks as u32).to_le_bytes());
        out.extend_from_slice(&(chunks + more_chunks).to_le_bytes());
        out.extend_from_slice(&(overdue.serialized_size() as u32).to_le_bytes());
        for (latest_ms, first, last) in self.arrivals.iter() {
            for field in [latest_ms, first, last] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        overdue.serialize_into(&mut out).expect("memory takes it");
        self.times.encode(&mut out);
        sized.encode(&mut out);
        out
    }

    /// Decodes the bytes of a checkpoint.
    ///
    /// # Errors
    /// [`ExpiryStateError`] if they are of another version or their counts don't add up.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExpiryStateError> {
        let have = bytes.len();
        match bytes.split_first() {
            None => Ok(Self::default()),
            Some((version, rest)) => {
                let older = match *version {
                    VERSION => None,
                    HALF_SECONDS => Some(Scale::HALF_SECONDS),
                    other => return Err(ExpiryStateError::Version(other)),
                };
                decode_rest(rest, older).map_err(|what| ExpiryStateError::Malformed { have, what })
            }
        }
    }
}

fn decode_rest(bytes: &[u8], older: Option<Scale>) -> Result<Expiry, &'static str> {
    let (head, rest) = bytes.split_at_checked(HEAD - 1).ok_or("the head is cut off")?;
    let count = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")) as usize;
    let (marks, rest) = rest.split_at_checked(count(0) * MARK).ok_or("the marks are cut off")?;
    let (due, mut rest) = rest.split_at_checked(count(8)).ok_or("the set of numbers is cut off")?;
    let mut expiry = Expiry::default();
    for mark in marks.as_chunks::<MARK>().0 {
        let field = |at: usize| u64::from_le_bytes(mark[at..at + 8].try_into().expect("eight bytes"));
        expiry.arrivals.restore(field(0), field(8), field(16));
    }
    expiry.due = RoaringTreemap::deserialize_from(due).map_err(|_| "the set of numbers isn't one")?;
    expiry.times = Times::decode(count(4), &mut rest, older)?;
    if rest.is_empty() { Ok(expiry) } else { Err("more than all of the chunks") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::expiry::Due;

    #[test]
    fn times_come_back_and_those_that_were_out_are_due() {
        let mut expiry = Expiry::default();
        expiry.arrived(3, 4, 1_700_000_000_000, 0);
        expiry.expires(4, 1_700_000_010_000, 77);
        expiry.overdue(3, None);
        expiry.overdue(6, Some(66));
        let due = Run { first: 7, last: 8, bytes: 150, durable: true };
        let mut again = Expiry::decode(&expiry.encode([due].into_iter())).unwrap();
        for due in [Due::One(3, None), Due::One(6, Some(66)), Due::One(7, Some(75)), Due::One(8, Some(75))] {
            assert_eq!(again.pop_due(1_700_000_000_000, Some(1_000)), Some(due));
        }
        assert_eq!(again.pop_due(1_700_000_000_999, Some(1_000)), None);
        assert_eq!(again.pop_due(1_700_000_001_000, Some(1_000)), Some(Due::Range(3, 6)));
        assert_eq!(again.pop_due(1_700_000_010_000, None), Some(Due::One(4, Some(77))));
        assert!(again.is_empty());
        assert!(Expiry::default().encode(std::iter::empty()).is_empty());
    }

    #[test]
    fn another_length_or_version_is_an_error() {
        let mut expiry = Expiry::default();
        expiry.expires(4, 1_700_000_010_000, 77);
        let mut bytes = expiry.encode(std::iter::empty());
        for end in 1..bytes.len() {
            assert!(matches!(Expiry::decode(&bytes[..end]), Err(ExpiryStateError::Malformed { .. })), "{end}");
        }
        bytes.push(0);
        assert!(matches!(Expiry::decode(&bytes), Err(ExpiryStateError::Malformed { .. })));
        bytes[1..13].fill(0xff);
        assert!(matches!(Expiry::decode(&bytes), Err(ExpiryStateError::Malformed { .. })));
        bytes[0] = 9;
        assert_eq!(Expiry::decode(&bytes).unwrap_err(), ExpiryStateError::Version(9));
    }
}
