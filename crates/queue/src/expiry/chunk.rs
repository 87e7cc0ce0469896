//! Up to 1,024 messages with expiry times of their own. Consecutive numbers and equal sizes take no memory.

/// Messages with ascending numbers, each with its tick and its body bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    first: u64,
    numbers: Numbers,
    ticks: Vec<u32>,
    sizes: Sizes,
    soonest: u32,
}

/// Numbers as distances from the first.
#[derive(Debug, PartialEq, Eq)]
enum Numbers {
    /// Each is one more than the one before it.
    Dense,
    Sparse(Vec<u16>),
}

/// Body bytes of each message.
#[derive(Debug, PartialEq, Eq)]
enum Sizes {
    Same(u32),
    Short(Vec<u16>),
    Long(Vec<u32>),
}

const SPARSE: u8 = 1;
const SHORT: u8 = 2;
const LONG: u8 = 4;

impl Chunk {
    /// Maximum number of messages. Scanning this many for the soonest takes under a microsecond.
    pub(super) const LEN_MAX: usize = 1024;
    /// Bytes of an encoded chunk before its numbers: the first number, the count, and the encoding of the numbers.
    pub(super) const HEAD_BYTES: usize = 11;

    /// An empty chunk; its first message gets this number or a higher one.
    pub(super) fn new(first: u64) -> Self {
        Self { first, numbers: Numbers::Dense, ticks: Vec::new(), sizes: Sizes::Same(0), soonest: u32::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    /// The soonest tick.
    pub(super) fn soonest(&self) -> Option<u32> {
        (!self.ticks.is_empty()).then_some(self.soonest)
    }

    /// The lowest number.
    pub(super) fn first(&self) -> u64 {
        self.number(0)
    }

    fn number(&self, at: usize) -> u64 {
        self.first
            + match &self.numbers {
                Numbers::Dense => at as u64,
                Numbers::Sparse(offsets) => u64::from(offsets[at]),
            }
    }

    fn size(&self, at: usize) -> u32 {
        match &self.sizes {
            Sizes::Same(size) => *size,
            Sizes::Short(sizes) => u32::from(sizes[at]),
            Sizes::Long(sizes) => sizes[at],
        }
    }

    /// The highest number.
    pub(super) fn last(&self) -> Option<u64> {
        self.len().checked_sub(1).map(|at| self.number(at))
    }

    /// Number, tick and body bytes of each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        (0..self.len()).map(|at| (self.number(at), self.ticks[at], self.size(at)))
    }

    /// Whether this number, which is above all others, fits in.
    pub(super) fn takes(&self, number: u64) -> bool {
        self.len() < Self::LEN_MAX && number - self.first <= u64::from(u16::MAX)
    }

    pub(super) fn push(&mut self, number: u64, tick: u32, bytes: u32) {
        let offset = (number - self.first) as u16;
        if usize::from(offset) != self.len() {
            self.thin_out();
        }
        if let Numbers::Sparse(offsets) = &mut self.numbers {
            offsets.push(offset);
        }
        self.push_size(bytes);
        self.ticks.push(tick);
        self.soonest = self.soonest.min(tick);
    }

    /// Replaces the dense form by a list of numbers.
    fn thin_out(&mut self) {
        if self.numbers == Numbers::Dense {
            self.numbers = Numbers::Sparse((0..self.len()).map(|at| at as u16).collect());
        }
    }

    fn push_size(&mut self, bytes: u32) {
        let len = self.ticks.len();
        match &mut self.sizes {
            Sizes::Same(size) if len == 0 => *size = bytes,
            Sizes::Same(size) if *size == bytes => {}
            Sizes::Same(size) => {
                self.sizes = match u16::try_from(*size) {
                    Ok(size) => Sizes::Short(vec![size; len]),
                    Err(_) => Sizes::Long(vec![*size; len]),
                };
                self.push_size(bytes);
            }
            Sizes::Short(sizes) => match u16::try_from(bytes) {
                Ok(bytes) => sizes.push(bytes),
                Err(_) => {
                    let long = sizes.iter().map(|size| u32::from(*size)).chain([bytes]).collect();
                    self.sizes = Sizes::Long(long);
                }
            },
            Sizes::Long(sizes) => sizes.push(bytes),
        }
    }

    /// Removes and returns the message that expires soonest: number and body bytes.
    ///
    /// # Panics
    /// When there is none.
    pub(super) fn pop_soonest(&mut self) -> (u64, u32) {
        let at = self.ticks.iter().position(|tick| *tick == self.soonest).expect("the soonest is there");
        let due = (self.number(at), self.size(at));
        if self.numbers == Numbers::Dense && at == 0 {
            self.first += 1;
        } else if at + 1 < self.len() {
            self.thin_out();
        }
        if let Numbers::Sparse(offsets) = &mut self.numbers {
            offsets.remove(at);
        }
        match &mut self.sizes {
            Sizes::Same(_) => {}
            Sizes::Short(sizes) => {
                sizes.remove(at);
            }
            Sizes::Long(sizes) => {
                sizes.remove(at);
            }
        }
        self.ticks.remove(at);
        self.soonest = self.ticks.iter().copied().min().unwrap_or(u32::MAX);
        due
    }

    pub(super) fn memory(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Dense => 0,
            Numbers::Sparse(offsets) => 2 * offsets.capacity(),
        };
        let sizes = match &self.sizes {
            Sizes::Same(_) => 0,
            Sizes::Short(sizes) => 2 * sizes.capacity(),
            Sizes::Long(sizes) => 4 * sizes.capacity(),
        };
        size_of::<Self>() + numbers + 4 * self.ticks.capacity() + sizes
    }

    /// Number of bytes that [`Chunk::encode`] writes.
    pub(super) fn encoded_bytes(&self) -> usize {
        let numbers = if self.numbers == Numbers::Dense { 0 } else { 2 };
        let (same, sizes) = match self.sizes {
            Sizes::Same(_) => (4, 0),
            Sizes::Short(_) => (0, 2),
            Sizes::Long(_) => (0, 4),
        };
        Self::HEAD_BYTES + same + self.len() * (4 + numbers + sizes)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&(self.len() as u16).to_le_bytes());
        let sparse = if self.numbers == Numbers::Dense { 0 } else { SPARSE };
        let (same, sizes) = match &self.sizes {
            Sizes::Same(size) => (Some(size.to_le_bytes()), 0),
            Sizes::Short(_) => (None, SHORT),
            Sizes::Long(_) => (None, LONG),
        };
        out.push(sparse | sizes);
        if let Numbers::Sparse(offsets) = &self.numbers {
            out.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        }
        out.extend(self.ticks.iter().flat_map(|tick| tick.to_le_bytes()));
        out.extend(same.into_iter().flatten());
        match &self.sizes {
            Sizes::Same(_) => {}
            Sizes::Short(sizes) => out.extend(sizes.iter().flat_map(|size| size.to_le_bytes())),
            Sizes::Long(sizes) => out.extend(sizes.iter().flat_map(|size| size.to_le_bytes())),
        }
    }

    /// Decodes a chunk written by [`Chunk::encode`] from the front of `bytes`. `None` if it isn't a whole chunk with
    /// ascending numbers.
    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let first = u64::from_le_bytes(*take(bytes)?);
        let len = usize::from(u16::from_le_bytes(*take(bytes)?));
        let [how] = *take::<1>(bytes)?;
        if len == 0 || len > Self::LEN_MAX || how & !(SPARSE | SHORT | LONG) != 0 || how & SHORT != 0 && how & LONG != 0
        {
            return None;
        }
        let numbers = match how & SPARSE {
            0 => Numbers::Dense,
            _ => Numbers::Sparse(shorts(bytes, len)?),
        };
        if let Numbers::Sparse(offsets) = &numbers
            && !offsets.is_sorted_by(|one, next| one < next)
        {
            return None;
        }
        first.checked_add(u64::from(u16::MAX))?;
        let ticks = longs(bytes, len)?;
        let sizes = match how & (SHORT | LONG) {
            SHORT => Sizes::Short(shorts(bytes, len)?),
            LONG => Sizes::Long(longs(bytes, len)?),
            _ => Sizes::Same(u32::from_le_bytes(*take(bytes)?)),
        };
        let soonest = ticks.iter().copied().min()?;
        Some(Self { first, numbers, ticks, sizes, soonest })
    }
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(head)
}

fn shorts(bytes: &mut &[u8], len: usize) -> Option<Vec<u16>> {
    let (head, rest) = bytes.split_at_checked(2 * len)?;
    *bytes = rest;
    Some(head.as_chunks().0.iter().map(|short| u16::from_le_bytes(*short)).collect())
}

fn longs(bytes: &mut &[u8], len: usize) -> Option<Vec<u32>> {
    let (head, rest) = bytes.split_at_checked(4 * len)?;
    *bytes = rest;
    Some(head.as_chunks().0.iter().map(|long| u32::from_le_bytes(*long)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_chunk_is_a_list_and_comes_back_from_its_bytes(
            messages in prop::collection::vec((prop_oneof![Just(1u64), 1..40u64], 0..50u32, 0..3usize), 1..200),
            pops in 0..200usize,
        ) {
            let sizes = [7, 60_000, 70_000];
            let mut number = 1_000;
            let mut chunk = Chunk::new(number + 1);
            let mut plain = Vec::new();
            for (step, tick, size) in messages {
                number += step;
                if chunk.takes(number) {
                    chunk.push(number, tick, sizes[size]);
                    plain.push((number, tick, sizes[size]));
                }
            }
            for _ in 0..pops.min(plain.len() - 1) {
                let soonest = plain.iter().map(|(_, tick, _)| *tick).min().unwrap();
                prop_assert_eq!(chunk.soonest(), Some(soonest));
                let at = plain.iter().position(|(_, tick, _)| *tick == soonest).unwrap();
                let (number, _, size) = plain.remove(at);
                prop_assert_eq!(chunk.pop_soonest(), (number, size));
            }
            prop_assert!(chunk.iter().eq(plain.iter().copied()));
            prop_assert_eq!(chunk.last(), plain.last().map(|message| message.0));
            let mut bytes = Vec::new();
            chunk.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), chunk.encoded_bytes());
            for end in 0..bytes.len() {
                prop_assert_eq!(Chunk::decode(&mut &bytes[..end]), None);
            }
            let mut rest = &bytes[..];
            prop_assert_eq!(Chunk::decode(&mut rest), Some(chunk));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_decode_to_a_sorted_chunk_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(chunk) = Chunk::decode(&mut &bytes[..]) {
                prop_assert!(chunk.iter().is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
