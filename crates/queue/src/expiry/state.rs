//! The times as a checkpoint keeps them: the state bytes of a queue's entry (docs/storage.md).
//!
//! Little endian; nothing at all when no time is known.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version: 1 |
//! | 1 | 4 | number of marks m |
//! | 5 | 8 | number of times t |
//! | 13 | 24 m | marks: latest arrival in milliseconds since the Unix epoch, first number, last number |
//! | | 20 t | times by number: number, expiry in milliseconds since the Unix epoch, body bytes (4) |

use roaring::RoaringTreemap;
use thiserror::Error;

use super::Expiry;

const VERSION: u8 = 1;
const HEAD: usize = 13;
const MARK: usize = 24;
const TIME: usize = 20;

/// State bytes that this version can't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExpiryStateError {
    /// Written by a newer version.
    #[error("unknown version {0} of a queue's expiry state")]
    Version(u8),
    /// Shorter or longer than its counts say.
    #[error("a queue's expiry state has {have} bytes, its counts ask for {need}")]
    Length {
        /// Bytes there.
        have: usize,
        /// Bytes wanted.
        need: u64,
    },
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(wide)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut wide = [0; 4];
    wide.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(wide)
}

impl Expiry {
    /// The bytes for a checkpoint. Numbers in `due` are due at once after a restart.
    pub(crate) fn encode(&self, due: &RoaringTreemap) -> Vec<u8> {
        let marks = self.arrivals.iter().count();
        // After a restart nobody has them, and their time is over.
        let overdue = &self.overdue | due;
        if marks == 0 && self.times.is_empty() && overdue.is_empty() {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(HEAD + marks * MARK + (self.times.len() as usize) * TIME);
        out.push(VERSION);
        out.extend_from_slice(&(marks as u32).to_le_bytes());
        out.extend_from_slice(&(self.times.len() + overdue.len()).to_le_bytes());
        for (latest_ms, first, last) in self.arrivals.iter() {
            for field in [latest_ms, first, last] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let mut overdue = overdue.iter().peekable();
        let mut time = |number: u64, time_ms: u64, bytes: u32| {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&time_ms.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        };
        for (number, time_ms, bytes) in self.times.iter() {
            while let Some(other) = overdue.next_if(|other| *other < number) {
                time(other, 0, 0);
            }
            time(number, time_ms, bytes);
        }
        overdue.for_each(|number| time(number, 0, 0));
        out
    }

    /// What [`crate::ClassicQueue::expiry_state`] wrote.
    ///
    /// # Errors
    /// [`ExpiryStateError`] when it is of another version or length.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExpiryStateError> {
        let mut expiry = Self::default();
        let Some(&version) = bytes.first() else { return Ok(expiry) };
        if version != VERSION {
            return Err(ExpiryStateError::Version(version));
        }
        let have = bytes.len();
        if have < HEAD {
            return Err(ExpiryStateError::Length { have, need: HEAD as u64 });
        }
        let (marks, times) = (u64::from(u32_at(bytes, 1)), u64_at(bytes, 5));
        let need = times.saturating_mul(TIME as u64).saturating_add(marks * MARK as u64 + HEAD as u64);
        if have as u64 != need {
            return Err(ExpiryStateError::Length { have, need });
        }
        let (marks, times) = bytes[HEAD..].split_at(marks as usize * MARK);
        for mark in marks.chunks_exact(MARK) {
            expiry.arrivals.restore(u64_at(mark, 0), u64_at(mark, 8), u64_at(mark, 16));
        }
        for time in times.chunks_exact(TIME) {
            expiry.times.push(u64_at(time, 0), u64_at(time, 8), u32_at(time, 16));
        }
        Ok(expiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry::Due;

    #[test]
    fn times_come_back_and_those_that_were_out_are_due() {
        let mut expiry = Expiry::default();
        expiry.arrived(3, 4, 1_700_000_000_000, 0);
        expiry.expires(4, 1_700_000_010_000, 77);
        expiry.overdue(3);
        let due = RoaringTreemap::from_iter([5]);
        let mut again = Expiry::decode(&expiry.encode(&due)).unwrap();
        assert_eq!(again.pop_due(1_700_000_000_000, Some(1_000)), Some(Due::One(3, 0)));
        assert_eq!(again.pop_due(1_700_000_000_000, Some(1_000)), Some(Due::One(5, 0)));
        assert_eq!(again.pop_due(1_700_000_000_999, Some(1_000)), None);
        assert_eq!(again.pop_due(1_700_000_001_000, Some(1_000)), Some(Due::Range(3, 6)));
        assert_eq!(again.pop_due(1_700_000_010_000, None), Some(Due::One(4, 77)));
        assert!(again.is_empty());
        assert!(Expiry::default().encode(&RoaringTreemap::new()).is_empty());
    }

    #[test]
    fn another_length_or_version_is_an_error() {
        let mut expiry = Expiry::default();
        expiry.expires(4, 1_700_000_010_000, 77);
        let mut bytes = expiry.encode(&RoaringTreemap::new());
        for end in 1..bytes.len() {
            assert!(matches!(Expiry::decode(&bytes[..end]), Err(ExpiryStateError::Length { .. })));
        }
        bytes[5..13].fill(0xff);
        assert!(matches!(Expiry::decode(&bytes), Err(ExpiryStateError::Length { .. })));
        bytes[0] = 9;
        assert_eq!(Expiry::decode(&bytes).unwrap_err(), ExpiryStateError::Version(9));
    }
}
