//! A set of message numbers in compressed containers: a million neighbours take under 130 KB, even if every second one is
//! missing.

use roaring::RoaringTreemap;

/// A set of message numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberSet(RoaringTreemap);

impl NumberSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.0.contains(number)
    }

    /// Returns whether the number is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        self.0.insert(number)
    }

    /// Returns whether the number was present.
    /// Inserts consecutive numbers.
    pub(crate) fn insert_range(&mut self, first: u64, last: u64) {
        self.0.insert_range(first..=last);
    }

    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.0.remove(number)
    }

    /// Removes `first..=last`.
    pub(crate) fn remove_range(&mut self, first: u64, last: u64) {
        self.0.remove_range(first..=last);
    }

    /// The numbers of both sets.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// The numbers that are in `others`, too.
    pub(crate) fn among(&self, others: &RoaringTreemap) -> Self {
        Self(&self.0 & others)
    }

    /// The lowest number.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.min()
    }

    /// The highest number.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.max()
    }

    /// The lowest number from `from` on.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let mut numbers = self.0.iter();
        numbers.advance_to(from);
        numbers.next()
    }

    /// The first number from `from` on that isn't in the set, at most `end`.
    pub(crate) fn first_absent(&self, from: u64, end: u64) -> u64 {
        first_absent(&self.0, from, end)
    }

    /// The number that has `before` others before it.
    pub(crate) fn nth(&self, before: u64) -> Option<u64> {
        self.0.select(before)
    }

    /// How many numbers there are from `from` on.
    pub(crate) fn count_from(&self, from: u64) -> u64 {
        if self.is_empty() { 0 } else { self.0.range_cardinality(from..) }
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Keeps these numbers only.
    pub(crate) fn keep(&mut self, stays: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self.0.iter().filter(|number| !stays(*number)).collect();
        for number in gone {
            self.0.remove(number);
        }
    }

    /// Appends its portable form to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.0.serialize_into(out).expect("memory takes all bytes");
    }

    /// All numbers, the lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter()
    }
}

impl From<RoaringTreemap> for NumberSet {
    fn from(numbers: RoaringTreemap) -> Self {
        Self(numbers)
    }
}

/// The first number from `from` on that isn't in the set, at most `end`. A long run of numbers isn't checked one by one.
pub(crate) fn first_absent(set: &RoaringTreemap, from: u64, end: u64) -> u64 {
    const LOOKS: u64 = 16;
    let mut first = from;
    while first < end && set.contains(first) {
        if first - from < LOOKS {
            first += 1;
            continue;
        }
        // All of `first..=known` are in the set; not all of `first..=limit` are.
        let has_all = |last: u64| set.range_cardinality(first..=last) == last - first + 1;
        let (mut known, mut step) = (first, LOOKS);
        while known + step < end && has_all(known + step) {
            known += step;
            step *= 2;
        }
        let mut limit = (known + step).min(end);
        while known + 1 < limit {
            let middle = known + (limit - known) / 2;
            match has_all(middle) {
                true => known = middle,
                false => limit = middle,
            }
        }
        return known + 1;
    }
    first
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0..9u64, 0..200_000u64), 1..200)) {
            let (mut set, mut plain) = (NumberSet::default(), BTreeSet::new());
            for (inserts, high, low) in steps {
                // Numbers beyond 32 bits, too.
                let number = (high << 31) + low;
                if inserts {
                    prop_assert_eq!(set.insert(number), plain.insert(number));
                } else {
                    prop_assert_eq!(set.remove(number), plain.remove(&number));
                    set.remove_range(number + 1, number + low);
                    plain.retain(|other| !(number + 1..=number + low).contains(other));
                }
                prop_assert_eq!(set.first(), plain.first().copied());
                for from in [0, low, number, number + 1] {
                    prop_assert_eq!(set.next(from), plain.range(from..).next().copied());
                    prop_assert_eq!(set.count_from(from), plain.range(from..).count() as u64);
                    prop_assert_eq!(set.contains(from), plain.contains(&from));
                }
            }
            prop_assert!(set.iter().eq(plain));
        }
    }
}
