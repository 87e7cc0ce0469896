//! Number of queues that have each shared message, as ranges of equal counts: queues add and release messages in runs.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::planted::{Bug, is_planted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    /// The last message, inclusive.
    last: u64,
    /// At least 1.
    queues: u32,
}

/// Number of queues that have each shared message.
#[derive(Debug, Default)]
pub struct SharedCounts {
    /// Ranges by first number; they don't overlap, and neighbours differ.
    ranges: BTreeMap<u64, Range>,
}

impl SharedCounts {
    /// Counts `queues` more queues that have the messages from `first` to `last`.
    pub fn add(&mut self, first: u64, last: u64, queues: u32) {
        let queues = if is_planted(Bug::CountSharedShort) && queues > 1 { queues - 1 } else { queues };
        if queues == 0 || first > last {
            return;
        }
        self.split(first, last);
        let mut at = first;
        while at <= last {
            match self.ranges.range_mut(at..=last).next() {
                Some((&start, range)) if start == at => {
                    range.queues += queues;
                    at = range.last + 1;
                }
                next => {
                    let end = next.map_or(last, |(start, _)| start - 1);
                    self.ranges.insert(at, Range { last: end, queues });
                    at = end + 1;
                }
            }
        }
        self.join(first, last);
    }

    /// Counts one queue fewer for each message.
    ///
    /// # Panics
    /// When no queue had one of them: a queue counted wrongly, and the next release might lose a message.
    pub fn release(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        self.split(first, last);
        let mut at = first;
        while at <= last {
            let range = self.ranges.get_mut(&at);
            let range = range.unwrap_or_else(|| panic!("shared message {at} is released, and no queue has it"));
            let end = range.last;
            range.queues -= 1;
            if range.queues == 0 {
                self.ranges.remove(&at);
            }
            at = end + 1;
        }
        self.join(first, last);
    }

    /// Splits ranges so that one begins at `first` and one ends at `last`.
    fn split(&mut self, first: u64, last: u64) {
        for at in [first, last + 1] {
            if let Some((&start, range)) = self.ranges.range_mut(..at).next_back()
                && range.last >= at
            {
                let rest = *range;
                range.last = at - 1;
                debug_assert!(start < at);
                self.ranges.insert(at, rest);
            }
        }
    }

    /// Merges neighbours with the same count, from the one before `first` to the one behind `last`.
    fn join(&mut self, first: u64, last: u64) {
        let start = self.ranges.range(..first).next_back().map_or(first, |(start, _)| *start);
        let touched: Vec<u64> = self.ranges.range(start..=last + 1).map(|(start, _)| *start).collect();
        for pair in touched.windows(2).rev() {
            let (left, right) = (self.ranges[&pair[0]], self.ranges[&pair[1]]);
            if left.last + 1 == pair[1] && left.queues == right.queues {
                self.ranges.remove(&pair[1]);
                self.ranges.insert(pair[0], right);
            }
        }
    }

    /// Whether any queue has this message.
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, range)| range.last >= number)
    }

    /// The messages that at least one queue has.
    pub fn live(&self) -> RoaringTreemap {
        let mut live = RoaringTreemap::new();
        for (first, range) in &self.ranges {
            live.insert_range(*first..=range.last);
        }
        live
    }

    /// Number of messages that at least one queue has.
    pub fn messages(&self) -> u64 {
        self.ranges.iter().map(|(first, range)| range.last - first + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_added_in_order_are_one_range() {
        let mut counts = SharedCounts::default();
        for first in (0..10_000).step_by(50) {
            counts.add(first, first + 49, 100);
        }
        assert_eq!(counts.ranges.len(), 1);
        for _ in 0..99 {
            counts.release(0, 9_999);
        }
        counts.release(10, 9_999);
        assert_eq!(counts.live().iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(counts.messages(), 10);
        assert!(counts.contains(9) && !counts.contains(10));
        counts.release(0, 9);
        assert!(counts.ranges.is_empty());
    }

    #[test]
    #[should_panic(expected = "shared message 4 is released, and no queue has it")]
    fn a_release_too_many_is_found() {
        let mut counts = SharedCounts::default();
        counts.add(1, 3, 1);
        counts.release(2, 4);
    }

    proptest! {
        #[test]
        fn agrees_with_a_count_for_each(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..20, 1u32..4), 1..80)
        ) {
            let mut counts = SharedCounts::default();
            let mut plain = [0u32; 100];
            for (adds, first, length, queues) in steps {
                let last = first + length - 1;
                let range = &mut plain[first as usize..=last as usize];
                if adds {
                    counts.add(first, last, queues);
                    range.iter_mut().for_each(|count| *count += queues);
                } else if range.iter().all(|count| *count > 0) {
                    counts.release(first, last);
                    range.iter_mut().for_each(|count| *count -= 1);
                }
                let live: Vec<u64> = (0..100).filter(|at| plain[*at as usize] > 0).collect();
                prop_assert_eq!(counts.live().iter().collect::<Vec<_>>(), live);
                let ranges: Vec<_> = counts.ranges.iter().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].1.last < *pair[1].0);
                    let joined = pair[0].1.last + 1 == *pair[1].0 && pair[0].1.queues == pair[1].1.queues;
                    prop_assert!(!joined, "neighbours are joined");
                }
            }
        }
    }
}
