//! Up to 1,024 messages with a time each. Consecutive numbers and equal sizes take no memory.

use crate::timing::times::scale::Scale;

/// Messages with ascending numbers, each with its time and its body bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    scale: Scale,
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

#[cfg(test)]
thread_local! {
    /// How often a chunk's lowest number with the soonest time was looked for.
    pub(super) static SEARCHES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Chunk {
    /// Maximum number of messages. Scanning this many for the soonest takes under a microsecond.
    pub(super) const LEN_MAX: usize = 1024;
    /// Bytes of an encoded chunk before its numbers: the first number, the count, the encoding of the numbers, and the scale.
    const HEAD_BYTES: usize = 11 + Scale::BYTES;

    /// An empty chunk; its messages get this number or a higher one, and times of this scale, unless it has to change.
    pub(super) fn new(first: u64, scale: Scale) -> Self {
        Self { scale, first, numbers: Numbers::Dense, ticks: Vec::new(), sizes: Sizes::Same(0), soonest: u32::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    /// The soonest time.
    pub(super) fn soonest_ms(&self) -> Option<u64> {
        (!self.ticks.is_empty()).then(|| self.scale.time_ms(self.soonest))
    }

    /// The lowest number with the soonest time.
    pub(super) fn soonest_number(&self) -> Option<u64> {
        #[cfg(test)]
        SEARCHES.set(SEARCHES.get() + 1);
        self.ticks.iter().position(|tick| *tick == self.soonest).map(|at| self.number(at))
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<u64> {
        (!self.ticks.is_empty()).then(|| self.number(0))
    }

    /// The highest number.
    pub(super) fn last(&self) -> Option<u64> {
        self.len().checked_sub(1).map(|at| self.number(at))
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

    /// The index of a number, or the one that it would get.
    fn find(&self, number: u64) -> Result<usize, usize> {
        let Some(offset) = number.checked_sub(self.first) else { return Err(0) };
        match &self.numbers {
            Numbers::Dense if offset < self.len() as u64 => Ok(offset as usize),
            Numbers::Dense => Err(self.len()),
            Numbers::Sparse(offsets) => {
                u16::try_from(offset).map_or(Err(self.len()), |offset| offsets.binary_search(&offset))
            }
        }
    }

    /// Time and body bytes of a message.
    pub(super) fn get(&self, number: u64) -> Option<(u64, u32)> {
        self.find(number).ok().map(|at| (self.scale.time_ms(self.ticks[at]), self.size(at)))
    }

    /// Number, time in milliseconds and body bytes of each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, u32)> {
        (0..self.len()).map(|at| (self.number(at), self.scale.time_ms(self.ticks[at]), self.size(at)))
    }

    /// Whether another message with this number fits in.
    pub(super) fn takes(&self, number: u64) -> bool {
        self.len() < Self::LEN_MAX && number.checked_sub(self.first).is_some_and(|offset| offset <= u64::from(u16::MAX))
    }

    /// Adds a message that it [`takes`](Self::takes) and doesn't have.
    pub(super) fn insert(&mut self, number: u64, time_ms: u64, bytes: u32) {
        if !self.scale.covers(time_ms) {
            self.rescale(time_ms);
        }
        let at = self.find(number).expect_err("it is new");
        let offset = (number - self.first) as u16;
        if usize::from(offset) != self.len() {
            self.thin_out();
        }
        if let Numbers::Sparse(offsets) = &mut self.numbers {
            offsets.insert(at, offset);
        }
        self.insert_size(at, bytes);
        let tick = self.scale.tick(time_ms);
        self.ticks.insert(at, tick);
        self.soonest = self.soonest.min(tick);
    }

    /// Changes the scale, so that it covers this time, too.
    #[cold]
    fn rescale(&mut self, time_ms: u64) {
        let old = self.scale;
        let times = || self.ticks.iter().map(|tick| old.time_ms(*tick)).chain([time_ms]);
        let (soonest, latest) = (times().min().unwrap_or(time_ms), times().max().unwrap_or(time_ms));
        self.scale = Scale::about(soonest, latest);
        for tick in &mut self.ticks {
            *tick = self.scale.tick(old.time_ms(*tick));
        }
        self.find_soonest();
    }

    fn find_soonest(&mut self) {
        self.soonest = self.ticks.iter().copied().min().unwrap_or(u32::MAX);
    }

    /// Replaces the dense form by a list of numbers.
    fn thin_out(&mut self) {
        if self.numbers == Numbers::Dense {
            self.numbers = Numbers::Sparse((0..self.len()).map(|at| at as u16).collect());
        }
    }

    fn insert_size(&mut self, at: usize, bytes: u32) {
        let len = self.ticks.len();
        match &mut self.sizes {
            Sizes::Same(size) if len == 0 => *size = bytes,
            Sizes::Same(size) if *size == bytes => {}
            Sizes::Same(size) => {
                self.sizes = match u16::try_from(*size) {
                    Ok(size) => Sizes::Short(vec![size; len]),
                    Err(_) => Sizes::Long(vec![*size; len]),
                };
                self.insert_size(at, bytes);
            }
            Sizes::Short(sizes) => match u16::try_from(bytes) {
                Ok(bytes) => sizes.insert(at, bytes),
                Err(_) => {
                    self.sizes = Sizes::Long(sizes.iter().map(|size| u32::from(*size)).collect());
                    self.insert_size(at, bytes);
                }
            },
            Sizes::Long(sizes) => sizes.insert(at, bytes),
        }
    }

    /// Removes and returns the message whose time is soonest: number and body bytes.
    ///
    /// # Panics
    /// When there is none.
    pub(super) fn pop_soonest(&mut self) -> (u64, u32) {
        let at = self.ticks.iter().position(|tick| *tick == self.soonest).expect("the soonest is there");
        let (number, _, bytes) = self.take_out(at);
        (number, bytes)
    }

    /// Removes a message. Returns its time and body bytes.
    pub(super) fn remove(&mut self, number: u64) -> Option<(u64, u32)> {
        let (_, time_ms, bytes) = self.find(number).ok().map(|at| self.take_out(at))?;
        Some((time_ms, bytes))
    }

    fn take_out(&mut self, at: usize) -> (u64, u64, u32) {
        let taken = (self.number(at), self.scale.time_ms(self.ticks[at]), self.size(at));
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
            Sizes::Short(sizes) => _ = sizes.remove(at),
            Sizes::Long(sizes) => _ = sizes.remove(at),
        }
        if self.ticks.remove(at) == self.soonest {
            self.find_soonest();
        }
        self.give_back();
        taken
    }

    /// Frees memory when most messages are gone: with times in random order, all chunks empty at the same rate.
    fn give_back(&mut self) {
        let len = self.len();
        if len < self.ticks.capacity() / 2 {
            let room = len + len / 4;
            self.ticks.shrink_to(room);
            if let Numbers::Sparse(offsets) = &mut self.numbers {
                offsets.shrink_to(room);
            }
            match &mut self.sizes {
                Sizes::Same(_) => {}
                Sizes::Short(sizes) => sizes.shrink_to(room),
                Sizes::Long(sizes) => sizes.shrink_to(room),
            }
        }
    }

    /// Moves the upper half of its messages to a new chunk, and returns that.
    pub(super) fn split(&mut self) -> Self {
        let messages: Vec<_> = self.iter().collect();
        let (lower, upper) = messages.split_at(messages.len() / 2);
        let scale = self.scale;
        let of = |messages: &[(u64, u64, u32)]| {
            let mut chunk = Self::new(messages[0].0, scale);
            messages.iter().for_each(|(number, time_ms, bytes)| chunk.insert(*number, *time_ms, *bytes));
            chunk
        };
        *self = of(lower);
        of(upper)
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
        self.scale.encode(out);
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

    /// Decodes a chunk written by [`Chunk::encode`] from the front of `bytes`, or one of an older form without a scale of its own.
    /// `None` if it isn't a whole chunk with ascending numbers.
    pub(super) fn decode(bytes: &mut &[u8], older: Option<Scale>) -> Option<Self> {
        let first = u64::from_le_bytes(*take(bytes)?);
        let len = usize::from(u16::from_le_bytes(*take(bytes)?));
        let [how] = *take::<1>(bytes)?;
        if len == 0 || len > Self::LEN_MAX || how & !(SPARSE | SHORT | LONG) != 0 || how & SHORT != 0 && how & LONG != 0
        {
            return None;
        }
        let scale = match older {
            Some(scale) => scale,
            None => Scale::decode(*take(bytes)?)?,
        };
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
        Some(Self { scale, first, numbers, ticks, sizes, soonest })
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

    const START: u64 = 1_700_000_000_000;

    proptest! {
        #[test]
        fn a_chunk_is_a_list_and_comes_back_from_its_bytes(
            messages in prop::collection::vec((0..3_000u64, 0..50u64, 0..3usize), 1..200),
            pops in 0..200usize,
            gone in 0..3_000u64,
        ) {
            let sizes = [7, 60_000, 70_000];
            let mut chunk = Chunk::new(1_000, Scale::about(START, START));
            let mut plain: Vec<(u64, u64, u32)> = Vec::new();
            for (number, time, size) in messages {
                let (number, time_ms) = (1_000 + number, START + time);
                if plain.iter().all(|(other, ..)| *other != number) {
                    prop_assert!(chunk.takes(number));
                    chunk.insert(number, time_ms, sizes[size]);
                    plain.push((number, time_ms, sizes[size]));
                    plain.sort_unstable();
                }
            }
            let removed = plain.iter().position(|(number, ..)| *number == 1_000 + gone).map(|at| plain.remove(at));
            prop_assert_eq!(chunk.remove(1_000 + gone), removed.map(|(_, time_ms, size)| (time_ms, size)));
            for _ in 0..pops.min(plain.len().saturating_sub(1)) {
                let soonest = plain.iter().map(|(_, time_ms, _)| *time_ms).min().unwrap();
                prop_assert_eq!(chunk.soonest_ms(), Some(soonest));
                let at = plain.iter().position(|(_, time_ms, _)| *time_ms == soonest).unwrap();
                let (number, _, size) = plain.remove(at);
                prop_assert_eq!(chunk.pop_soonest(), (number, size));
            }
            prop_assert!(chunk.iter().eq(plain.iter().copied()));
            prop_assert_eq!(chunk.last(), plain.last().map(|message| message.0));
            if plain.is_empty() {
                return Ok(());
            }
            let mut bytes = Vec::new();
            chunk.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), chunk.encoded_bytes());
            for end in 0..bytes.len() {
                prop_assert_eq!(Chunk::decode(&mut &bytes[..end], None), None);
            }
            let mut rest = &bytes[..];
            let again = Chunk::decode(&mut rest, None);
            prop_assert_eq!(again.as_ref(), Some(&chunk));
            prop_assert!(rest.is_empty());
            let lower = if plain.len() < 2 { None } else { Some(chunk.split()) };
            prop_assert!(chunk.iter().chain(lower.iter().flat_map(Chunk::iter)).eq(plain.iter().copied()));
        }

        #[test]
        fn arbitrary_bytes_decode_to_a_sorted_chunk_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(chunk) = Chunk::decode(&mut &bytes[..], None) {
                prop_assert!(chunk.iter().is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
