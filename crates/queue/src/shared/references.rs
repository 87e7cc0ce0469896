//! The messages of a queue that are stored in the shared log.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;
use smallvec::SmallVec;

use crate::ledger::Ledger;

/// Bytes of a stretch in the state of a checkpoint.
const STRETCH_BYTES: usize = 24;

/// Consecutive numbers of a queue whose messages are consecutive in the shared log, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    last: u64,
    /// Number of the first message in the shared log.
    shared: u64,
    /// Number of messages that aren't released yet.
    left: u64,
}

/// The location of a queue's messages in the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPlace {
    /// Number of the first message in the queue.
    pub first: u64,
    /// Number of messages that are consecutive in both, including the first.
    pub count: u64,
    /// Number of the first message in the shared log.
    pub shared: u64,
}

/// The messages of a queue that are stored in the shared log.
#[derive(Debug, Default)]
pub struct References {
    /// Stretches by first number.
    stretches: BTreeMap<u64, Stretch>,
    /// Released numbers within stretches, except their first ones.
    released: RoaringTreemap,
}

impl References {
    /// Whether no message of the queue is stored in the shared log.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// The numbers of the stretches, including released ones within a stretch.
    pub fn numbers(&self) -> RoaringTreemap {
        let mut numbers = RoaringTreemap::new();
        for (first, stretch) in &self.stretches {
            numbers.insert_range(*first..=stretch.last);
        }
        numbers
    }

    /// Adds `count` messages from `first` on, stored in the shared log from `shared` on.
    pub fn add(&mut self, first: u64, count: u64, shared: u64) {
        if count == 0 {
            return;
        }
        let last = first + count - 1;
        if let Some((start, stretch)) = self.stretches.iter_mut().next_back()
            && stretch.last + 1 == first
            && stretch.shared + (first - *start) == shared
        {
            stretch.last = last;
            stretch.left += count;
            return;
        }
        self.stretches.insert(first, Stretch { last, shared, left: count });
    }

    /// Releases the messages from `first` to `last`, which left the queue. Calls `release` for those that are in the shared log
    /// and weren't released before, with their first and last numbers there.
    pub fn release(&mut self, first: u64, last: u64, mut release: impl FnMut(u64, u64)) {
        let across = self.stretches.range(..=first).next_back().filter(|(_, stretch)| stretch.last >= first);
        let start = across.map_or(first, |(start, _)| *start);
        if start > last {
            return;
        }
        let touched: SmallVec<[u64; 4]> = self.stretches.range(start..=last).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(stretch) = self.stretches.remove(&start) else { continue };
            let (from, to) = (first.max(start), last.min(stretch.last));
            let mut newly = 0;
            self.unreleased(from, to, |from, to| {
                newly += to - from + 1;
                release(stretch.shared + (from - start), stretch.shared + (to - start));
            });
            let left = stretch.left - newly;
            if left == 0 {
                self.released.remove_range(start..=stretch.last);
            } else if from == start {
                // The head moves on: messages released in order leave nothing behind.
                let mut head = to + 1;
                while self.released.contains(head) {
                    head += 1;
                }
                self.released.remove_range(start..head);
                self.stretches.insert(head, Stretch { shared: stretch.shared + (head - start), left, ..stretch });
            } else {
                self.released.insert_range(from..=to);
                self.stretches.insert(start, Stretch { left, ..stretch });
            }
        }
    }

    /// Calls `tell` for each unreleased run of `from..=to`.
    fn unreleased(&self, from: u64, to: u64, mut tell: impl FnMut(u64, u64)) {
        let below = from.checked_sub(1).map_or(0, |number| self.released.rank(number));
        if self.released.is_empty() || self.released.rank(to) == below {
            return tell(from, to);
        }
        let mut start = None;
        for number in from..=to {
            match (self.released.contains(number), start) {
                (false, None) => start = Some(number),
                (true, Some(first)) => {
                    tell(first, number - 1);
                    start = None;
                }
                _ => {}
            }
        }
        if let Some(first) = start {
            tell(first, to);
        }
    }

    /// The location of the first message from `number` on that is, or was, in the shared log.
    pub fn place(&self, number: u64) -> Option<SharedPlace> {
        let across = self.stretches.range(..=number).next_back().filter(|(_, stretch)| stretch.last >= number);
        let (start, stretch) = across.or_else(|| self.stretches.range(number..).next())?;
        let first = number.max(*start);
        Some(SharedPlace { first, count: stretch.last - first + 1, shared: stretch.shared + (first - start) })
    }

    /// These runs of first and last number in parts that are stored in one log each, with the first number in the shared log of those
    /// that are, or were, there.
    pub fn split(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64, Option<u64>)> {
        let mut parts = Vec::with_capacity(runs.len());
        for &(mut first, last) in runs {
            while first <= last {
                let place = self.place(first).filter(|place| place.first <= last);
                let (until, shared) = match place {
                    Some(place) if place.first == first => (last.min(first + place.count - 1), Some(place.shared)),
                    _ => (place.map_or(last, |place| place.first - 1), None),
                };
                parts.push((first, until, shared));
                first = until + 1;
            }
        }
        parts
    }

    /// Whether the queue has this message and it is stored in the shared log.
    pub fn holds(&self, number: u64) -> bool {
        let across = self.stretches.range(..=number).next_back();
        across.is_some_and(|(_, stretch)| stretch.last >= number) && !self.released.contains(number)
    }

    /// Calls `tell` for each run that this queue has in the shared log: first and last numbers there.
    pub fn each(&self, mut tell: impl FnMut(u64, u64)) {
        for (start, stretch) in &self.stretches {
            self.unreleased(*start, stretch.last, |from, to| {
                tell(stretch.shared + (from - start), stretch.shared + (to - start));
            });
        }
    }

    /// All stretches by their numbers, released or not.
    pub fn stretches(&self) -> impl Iterator<Item = SharedPlace> {
        self.stretches.iter().map(|(first, stretch)| SharedPlace {
            first: *first,
            count: stretch.last - first + 1,
            shared: stretch.shared,
        })
    }

    /// Forgets messages that aren't in the queue's ledger, after a restart.
    pub fn keep_live(&mut self, ledger: &Ledger) {
        let mut dead: Vec<(u64, u64)> = Vec::new();
        for (start, stretch) in &self.stretches {
            let mut at = *start;
            while at <= stretch.last {
                let (from, to) = ledger.live_run(at).unwrap_or((u64::MAX, u64::MAX));
                if from > at {
                    dead.push((at, stretch.last.min(from - 1)));
                }
                at = to.saturating_add(1);
            }
        }
        for (first, last) in dead {
            self.release(first, last, |_, _| ());
        }
    }

    /// Appends the stretches to the state of a checkpoint, as far as their numbers are below `next`: records of higher numbers
    /// are replayed.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, next: u64) {
        let stretches = self.stretches.range(..next);
        out.extend_from_slice(&(stretches.clone().count() as u32).to_le_bytes());
        for (first, stretch) in stretches {
            for field in [*first, stretch.last.min(next - 1), stretch.shared] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
    }

    /// Decodes bytes written by [`References::encode`], and returns the rest; `None` if they are too short or out of order.
    /// Released numbers are known from the ledger: see [`References::keep_live`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(STRETCH_BYTES)?;
        let (stretches, rest) = rest.split_at_checked(length)?;
        let mut references = Self::default();
        let mut low = 0;
        for bytes in stretches.chunks_exact(STRETCH_BYTES) {
            let field = |at: usize| bytes[at..].first_chunk::<8>().map(|field| u64::from_le_bytes(*field));
            let (first, last, shared) = (field(0)?, field(8)?, field(16)?);
            if first < low || last < first || last == u64::MAX || shared.checked_add(last - first).is_none() {
                return None;
            }
            references.add(first, last - first + 1, shared);
            low = last + 1;
        }
        Some((references, rest))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::ledger::Departure;

    #[test]
    fn messages_added_and_released_in_order_are_one_stretch() {
        let mut references = References::default();
        for first in (1..10_000).step_by(10) {
            references.add(first, 10, first + 500);
        }
        assert_eq!(references.stretches.len(), 1);
        let mut gone = Vec::new();
        for number in 1..9_000 {
            references.release(number, number, |from, to| gone.push((from, to)));
        }
        assert_eq!(gone.len(), 8_999);
        assert_eq!(gone[0], (501, 501));
        assert!(references.released.is_empty());
        assert_eq!(references.place(1), Some(SharedPlace { first: 9_000, count: 1_001, shared: 9_500 }));
        references.release(0, 20_000, |from, to| assert_eq!((from, to), (9_500, 10_500)));
        assert!(references.is_empty());
    }

    #[test]
    fn a_checkpoint_keeps_stretches_and_the_ledger_the_live_ones() {
        let mut references = References::default();
        references.add(3, 5, 100);
        references.add(20, 4, 105);
        let mut ledger = Ledger::default();
        ledger.accept(3, 5, 0);
        ledger.accept(20, 4, 0);
        ledger.settle(4, 5, 0, Departure::Settled);
        ledger.settle(20, 23, 0, Departure::Settled);
        let mut bytes = Vec::new();
        references.encode(&mut bytes, 24);
        bytes.push(9);
        let (mut again, rest) = References::decode(&bytes).unwrap();
        assert_eq!(rest, [9]);
        again.keep_live(&ledger);
        let mut left = Vec::new();
        again.each(|from, to| left.push((from, to)));
        assert_eq!(left, [(100, 100), (103, 104)]);
        for end in 0..bytes.len() - 1 {
            assert!(References::decode(&bytes[..end]).is_none());
        }
        bytes[4..12].fill(0xff);
        assert!(References::decode(&bytes).is_none());
        let mut bytes = Vec::new();
        references.encode(&mut bytes, 5);
        let (early, _) = References::decode(&bytes).unwrap();
        assert_eq!((early.place(4).unwrap().count, early.place(5)), (1, None), "what isn't applied is in its record");
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(
            steps in prop::collection::vec((any::<bool>(), 0u64..120, 1u64..12, 0u64..3), 1..60)
        ) {
            let mut references = References::default();
            let mut plain = BTreeMap::new();
            let (mut next, mut shared) = (0, 0);
            for (adds, at, count, gap) in steps {
                if adds {
                    next += gap;
                    shared += gap % 2;
                    references.add(next, count, shared);
                    plain.extend((0..count).map(|i| (next + i, shared + i)));
                    next += count;
                    shared += count;
                } else {
                    let mut gone = Vec::new();
                    references.release(at, at + count - 1, |from, to| gone.extend(from..=to));
                    let mut expected = Vec::new();
                    for number in at..at + count {
                        expected.extend(plain.remove(&number));
                    }
                    prop_assert_eq!(gone, expected);
                }
                let mut left = Vec::new();
                references.each(|from, to| left.extend(from..=to));
                prop_assert_eq!(left, plain.values().copied().collect::<Vec<_>>());
                prop_assert_eq!(references.is_empty(), plain.is_empty());
                for (number, there) in &plain {
                    let place = references.place(*number).unwrap();
                    prop_assert_eq!((place.first, place.shared), (*number, *there));
                }
                let parts = references.split(&[(at, at + count), (0, next)]);
                let numbers = parts.iter().flat_map(|(first, last, _)| *first..=*last);
                prop_assert!(numbers.eq((at..=at + count).chain(0..=next)));
                let there = parts.iter().flat_map(|(first, last, shared)| {
                    (*first..=*last).filter_map(move |number| Some((number, (*shared)? + number - first)))
                });
                for (number, there) in there.filter(|(number, _)| plain.contains_key(number)).collect::<Vec<_>>() {
                    prop_assert_eq!(plain[&number], there);
                }
                for number in 0..next + 2 {
                    prop_assert_eq!(references.holds(number), plain.contains_key(&number));
                }
            }
        }
    }
}
