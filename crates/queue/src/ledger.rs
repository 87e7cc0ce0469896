//! The live numbers of a queue, and counters of how the others left.
//!
//! Deterministic: the same records give the same ledger, because each record contains the outcome of its decision.
//! Numbers are dense and never reused; a gap (a volatile message of an earlier run) is a number that was never live.

use std::ops::Range;

use roaring::RoaringTreemap;

use crate::number_set::first_absent;
use crate::planted::{Bug, is_planted};

/// Counters of how messages left a queue. Conservation: `accepted` is the sum of all others and the remaining messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Applied to the queue, including messages found at recovery.
    pub accepted: u64,
    /// Acknowledged, or delivered with automatic acknowledgement.
    pub settled: u64,
    /// Moved to a dead-letter exchange.
    pub dead_lettered: u64,
    /// Past their time to live.
    pub expired: u64,
    /// Dropped by a length limit, or rejected without a dead-letter exchange.
    pub dropped: u64,
    /// Removed by a purge.
    pub purged: u64,
    /// Set aside at their delivery limit.
    pub parked: u64,
}

impl Conservation {
    /// Number of messages that left the queue.
    pub fn gone(&self) -> u64 {
        self.settled + self.dead_lettered + self.expired + self.dropped + self.purged + self.parked
    }
}

/// How a message leaves a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Acknowledged by its consumer.
    Settled,
    /// Rejected or dropped, for good.
    Dropped,
    /// Removed by a purge.
    Purged,
    /// Its time to live was over.
    Expired,
    /// Moved to the dead-letter exchange's queues.
    DeadLettered,
}

/// The live numbers of a queue.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Every number below is settled.
    low: u64,
    /// The next applied message gets this number or a higher one.
    next: u64,
    /// Settled numbers (and gaps) from `low` on.
    holes: RoaringTreemap,
    /// Number of holes, cached because the set would have to sum over its containers.
    hole_count: u64,
    /// Body bytes of live messages.
    bytes: u64,
    counters: Conservation,
}

impl Ledger {
    /// An empty ledger whose first message gets this number.
    pub fn starting_at(first: u64) -> Self {
        Self { low: first, next: first, ..Self::default() }
    }

    /// A ledger as a checkpoint described it.
    pub fn restore(next: u64, live: &RoaringTreemap, bytes: u64) -> Self {
        let low = live.min().unwrap_or(next);
        let mut holes = RoaringTreemap::new();
        holes.insert_range(low..next);
        holes -= live;
        let hole_count = holes.len();
        let accepted = (next - low) - hole_count;
        let (next, hole_count) = match live.max().filter(|_| is_planted(Bug::ReuseNumber)) {
            Some(last) => (last + 1, hole_count - holes.remove_range(last + 1..)),
            None => (next, hole_count),
        };
        Self { low, next, holes, hole_count, bytes, counters: Conservation { accepted, ..Conservation::default() } }
    }

    /// The lowest number that the next message may get.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Every lower number is gone.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// Number of live messages.
    pub fn len(&self) -> u64 {
        self.next - self.low - self.hole_count
    }

    /// Whether there is no live message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Body bytes of all live messages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counters of all messages.
    pub fn counters(&self) -> Conservation {
        self.counters
    }

    /// Adds `count` messages with consecutive numbers from `first` on.
    ///
    /// # Panics
    /// When a number would be used twice: the log or its replay is wrong.
    pub fn accept(&mut self, first: u64, count: u64, bytes: u64) {
        assert!(first >= self.next, "number {first} used twice, next is {}", self.next);
        if first > self.next {
            self.close_range(self.next, first - 1);
        }
        self.next = first + count;
        self.bytes += bytes;
        self.counters.accepted += count;
    }

    fn close_range(&mut self, first: u64, last: u64) {
        if first == self.low {
            // `next` moves right after, so an all-dead ledger stays without holes.
            self.low = last + 1;
            self.next = self.next.max(self.low);
            self.absorb();
        } else {
            self.hole_count += self.holes.insert_range(first..=last);
        }
    }

    /// Removes numbers, and `bytes` of bodies; returns how many were live. Settling twice changes nothing, nor does
    /// settling a number that was lost in a crash before it was recorded.
    pub fn settle(&mut self, first: u64, last: u64, bytes: u64, outcome: Departure) -> u64 {
        let removed = self.take_out(first, last, outcome);
        if removed > 0 {
            self.bytes = if self.is_empty() { 0 } else { self.bytes.saturating_sub(bytes) };
        }
        removed
    }

    fn take_out(&mut self, first: u64, last: u64, outcome: Departure) -> u64 {
        let first = first.max(self.low);
        let last = last.min(self.next.saturating_sub(1));
        if self.low >= self.next || first > last {
            return 0;
        }
        let removed = if first == self.low {
            let before = self.len();
            self.low = last + 1;
            if self.hole_count > 0 {
                self.hole_count -= self.holes.remove_range(first..=last);
                self.absorb();
            }
            before - self.len()
        } else {
            let inserted = self.holes.insert_range(first..=last);
            self.hole_count += inserted;
            inserted
        };
        match outcome {
            Departure::Settled => self.counters.settled += removed,
            Departure::Dropped => self.counters.dropped += removed,
            Departure::Purged => self.counters.purged += removed,
            Departure::Expired => self.counters.expired += removed,
            Departure::DeadLettered => self.counters.dead_lettered += removed,
        }
        removed
    }

    /// Dead letters were routed to no queue: counts them as dropped.
    pub fn had_nowhere_to_go(&mut self, count: u64) {
        self.counters.dead_lettered -= count;
        self.counters.dropped += count;
    }

    /// Moves `low` over the holes that touch it.
    fn absorb(&mut self) {
        if self.hole_count == 0 || self.holes.min() != Some(self.low) {
            return;
        }
        let start = self.low;
        while self.low < self.next && self.holes.contains(self.low) {
            self.low += 1;
        }
        self.hole_count -= self.holes.remove_range(start..self.low);
    }

    /// Whether the message is in the queue.
    pub fn is_live(&self, number: u64) -> bool {
        number >= self.low && number < self.next && (self.hole_count == 0 || !self.holes.contains(number))
    }

    /// Whether numbers between the first live one and the last one were never live, or have left.
    pub fn has_holes(&self) -> bool {
        self.hole_count > 0
    }

    /// The run of live numbers that begins at the first one at or after `from`: first and last.
    pub fn live_run(&self, from: u64) -> Option<(u64, u64)> {
        let mut first = from.max(self.low);
        if self.hole_count == 0 {
            return (first < self.next).then(|| (first, self.next - 1));
        }
        first = self.after_holes(first);
        if first >= self.next {
            return None;
        }
        // `rank` counts the holes up to `first`, so `select` gives the next one after it.
        let last = self.holes.select(self.holes.rank(first)).map_or(self.next - 1, |hole| hole - 1);
        Some((first, last))
    }

    /// The runs of live numbers from `first` to `last`: first and last of each.
    pub fn live_runs(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let (from, to) = self.live_run(at).filter(|(from, _)| *from <= last)?;
            at = to + 1;
            Some((from, to.min(last)))
        })
    }

    /// The first number from `from` on that is no hole. A length limit leaves long runs of holes before a message that
    /// is on its way to its consumer.
    fn after_holes(&self, from: u64) -> u64 {
        first_absent(&self.holes, from, self.next)
    }

    /// The runs of numbers without a message, behind the first live one and ascending.
    pub fn holes(&self) -> Vec<Range<u64>> {
        let (mut holes, mut at) = (Vec::new(), self.low);
        while self.hole_count > 0 && at < self.next {
            let (first, after) = self.live_run(at).map_or((self.next, self.next), |(first, last)| (first, last + 1));
            if first > at {
                holes.push(at..first);
            }
            at = after;
        }
        holes
    }

    /// Number of live messages from `from` on.
    pub fn live_count(&self, from: u64) -> u64 {
        let from = from.max(self.low);
        if from >= self.next {
            return 0;
        }
        let holes_before = if self.hole_count == 0 || from == 0 { 0 } else { self.holes.rank(from - 1) };
        self.next - from - (self.hole_count - holes_before)
    }

    /// The live number that has `before` others before it, from `from` on.
    pub fn nth_live(&self, from: u64, before: u64) -> Option<u64> {
        let from = from.max(self.low);
        if self.live_count(from) <= before {
            return None;
        }
        let (mut low, mut high) = (from + before, self.next - 1);
        if self.hole_count == 0 {
            return Some(low);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let live = middle - from + 1 - self.holes.range_cardinality(from..=middle);
            match live > before {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(low)
    }

    /// The set of live numbers, for a checkpoint.
    pub fn live_set(&self) -> RoaringTreemap {
        let mut live = RoaringTreemap::new();
        live.insert_range(self.low..self.next);
        live -= &self.holes;
        live
    }

    /// Resets the counters, so that conservation counts from here.
    pub fn start_counting(&mut self) {
        self.counters = Conservation { accepted: self.len(), ..Conservation::default() };
    }

    /// Counts on from these counters.
    pub(crate) fn continue_counting(&mut self, counters: Conservation) {
        self.counters = counters;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn live(ledger: &Ledger) -> Vec<u64> {
        ledger.live_set().iter().collect()
    }

    #[test]
    fn settling_in_order_needs_no_holes() {
        let mut ledger = Ledger::default();
        ledger.accept(0, 1000, 12_000);
        for number in 0..1000 {
            assert_eq!(ledger.settle(number, number, 12, Departure::Settled), 1);
            assert_eq!(ledger.hole_count, 0);
        }
        assert!(ledger.is_empty());
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn settling_twice_counts_once() {
        let mut ledger = Ledger::default();
        ledger.accept(0, 10, 0);
        assert_eq!(ledger.settle(3, 5, 0, Departure::Settled), 3);
        assert_eq!(ledger.settle(3, 5, 0, Departure::Settled), 0);
        assert_eq!(ledger.settle(0, 9, 0, Departure::Dropped), 7);
        assert_eq!(ledger.settle(0, 9, 0, Departure::Dropped), 0);
        assert_eq!(ledger.counters().settled, 3);
        assert_eq!(ledger.counters().dropped, 7);
    }

    #[test]
    fn a_gap_is_never_live() {
        let mut ledger = Ledger::default();
        ledger.accept(5, 2, 0);
        assert_eq!(live(&ledger), [5, 6]);
        ledger.accept(10, 1, 0);
        assert_eq!(live(&ledger), [5, 6, 10]);
        assert_eq!(ledger.settle(0, 4, 0, Departure::Settled), 0);
        assert_eq!(ledger.settle(7, 9, 0, Departure::Settled), 0);
        assert_eq!(ledger.len(), 3);
    }

    #[test]
    #[should_panic(expected = "used twice")]
    fn a_number_cannot_be_used_twice() {
        let mut ledger = Ledger::default();
        ledger.accept(0, 2, 0);
        ledger.accept(1, 1, 0);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(steps in prop::collection::vec((0u8..3, 0u64..300, 1u64..40), 1..80)) {
            let mut ledger = Ledger::default();
            let mut plain = BTreeSet::new();
            let mut accepted = 0;
            for (kind, at, count) in steps {
                if kind == 0 {
                    let first = ledger.next() + at % 3;
                    ledger.accept(first, count, 0);
                    plain.extend(first..first + count);
                    accepted += count;
                } else {
                    let removed = ledger.settle(at, at + count - 1, 0, Departure::Settled);
                    let before = plain.len();
                    plain.retain(|number| *number < at || *number >= at + count);
                    prop_assert_eq!(removed as usize, before - plain.len());
                }
                prop_assert_eq!(ledger.len() as usize, plain.len());
                prop_assert_eq!(live(&ledger), plain.iter().copied().collect::<Vec<_>>());
                let is_hole = ledger.holes().iter().any(|hole| hole.contains(&at));
                prop_assert_eq!(is_hole, (ledger.low()..ledger.next()).contains(&at) && !plain.contains(&at));
                prop_assert_eq!(ledger.live_run(at).map(|run| run.0), plain.range(at..).next().copied());
                prop_assert_eq!(ledger.live_count(at) as usize, plain.range(at..).count());
                if let Some((first, last)) = ledger.live_run(at) {
                    prop_assert!((first..=last).all(|number| plain.contains(&number)));
                    prop_assert!(!plain.contains(&(last + 1)));
                }
                let counters = ledger.counters();
                prop_assert_eq!(counters.accepted, accepted);
                prop_assert_eq!(counters.accepted, counters.gone() + ledger.len());
                let restored = Ledger::restore(ledger.next(), &ledger.live_set(), 0);
                prop_assert_eq!(live(&restored), live(&ledger));
                prop_assert_eq!(restored.len(), ledger.len());
            }
        }
    }
}
