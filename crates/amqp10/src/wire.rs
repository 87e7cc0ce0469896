//! Reading the elementary parts of an encoding (1.2).

use crate::error::Problem;

/// Reads bytes from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes read since this reader was at `earlier`.
    #[inline(always)]
    pub(crate) fn taken_since(&self, earlier: &Self) -> &'a [u8] {
        &earlier.rest[..earlier.rest.len() - self.rest.len()]
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, count: usize, part: &'static str) -> Result<&'a [u8], Problem> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated(part, count, self.rest.len())),
        }
    }

    #[inline(always)]
    pub(crate) fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], Problem> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(truncated(part, N, self.rest.len())),
        }
    }

    #[inline(always)]
    pub(crate) fn octet(&mut self, part: &'static str) -> Result<u8, Problem> {
        self.array::<1>(part).map(|[octet]| octet)
    }

    #[inline(always)]
    pub(crate) fn word(&mut self, part: &'static str) -> Result<u32, Problem> {
        self.array(part).map(u32::from_be_bytes)
    }

    /// The bytes of a variable-width value whose size has one octet.
    #[inline(always)]
    pub(crate) fn short_bytes(&mut self, part: &'static str) -> Result<&'a [u8], Problem> {
        let size = self.octet(part)?;
        self.bytes(usize::from(size), part)
    }

    /// The bytes of a variable-width value whose size has four octets.
    #[inline(always)]
    pub(crate) fn long_bytes(&mut self, part: &'static str) -> Result<&'a [u8], Problem> {
        let size = self.word(part)?;
        self.bytes(size as usize, part)
    }
}

#[cold]
fn truncated(part: &'static str, needed: usize, available: usize) -> Problem {
    Problem::Truncated { part, needed: saturate(needed), available: saturate(available) }
}

pub(crate) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
