//! Numbers in the order in which they came back.

use std::collections::BTreeMap;

/// A queue of numbers, from which any can be removed. Neighbours that came back one after the other take the memory of one.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    /// First and last number of each run, by its turn. A run takes as many turns as it has numbers.
    runs: BTreeMap<u64, (u64, u64)>,
    /// Turn of each run, by its first number.
    turns: BTreeMap<u64, u64>,
    next_turn: u64,
    len: u64,
}

impl Returns {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a number that isn't there behind all others.
    pub(crate) fn push(&mut self, number: u64) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.len += 1;
        if let Some(mut newest) = self.runs.last_entry() {
            let (at, (first, last)) = (*newest.key(), *newest.get());
            if last + 1 == number && at + (last - first) + 1 == turn {
                newest.get_mut().1 = number;
                return;
            }
        }
        self.insert(turn, number, number);
    }

    fn insert(&mut self, turn: u64, first: u64, last: u64) {
        self.runs.insert(turn, (first, last));
        self.turns.insert(first, turn);
    }

    /// The run with this number: its turn, first and last number.
    fn find(&self, number: u64) -> Option<(u64, u64, u64)> {
        let (first, turn) = self.turns.range(..=number).next_back()?;
        let (_, last) = self.runs[turn];
        (number <= last).then_some((*turn, *first, last))
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Returns whether the number was there.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Some((turn, first, last)) = self.find(number) else { return false };
        self.runs.remove(&turn);
        self.turns.remove(&first);
        if first < number {
            self.insert(turn, first, number - 1);
        }
        if number < last {
            self.insert(turn + (number - first) + 1, number + 1, last);
        }
        self.len -= 1;
        true
    }

    /// The number whose turn it is, and the last one of its run.
    pub(crate) fn first_run(&self) -> Option<(u64, u64)> {
        self.runs.first_key_value().map(|(_, run)| *run)
    }

    /// The run from this number on.
    pub(crate) fn run_from(&self, number: u64) -> Option<(u64, u64)> {
        self.find(number).map(|(.., last)| (number, last))
    }

    /// The runs from this number on, in order; none if it isn't there.
    pub(crate) fn runs_from(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let found = self.find(number);
        let behind = found.map(|(turn, ..)| self.runs.range(turn + 1..).map(|(_, run)| *run));
        found.map(|(.., last)| (number, last)).into_iter().chain(behind.into_iter().flatten())
    }

    /// The number behind one that is there.
    pub(crate) fn behind(&self, number: u64) -> Option<u64> {
        let (turn, _, last) = self.find(number)?;
        match number < last {
            true => Some(number + 1),
            false => self.runs.range(turn + 1..).next().map(|(_, (first, _))| *first),
        }
    }

    /// The number that has `before` others before it.
    pub(crate) fn nth(&self, mut before: u64) -> Option<u64> {
        for (first, last) in self.runs() {
            let length = last - first + 1;
            if before < length {
                return Some(first + before);
            }
            before -= length;
        }
        None
    }

    /// The lowest number from `from` on.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        if self.contains(from) {
            return Some(from);
        }
        self.turns.range(from..).next().map(|(first, _)| *first)
    }

    /// How many numbers there are from `from` on.
    pub(crate) fn count_from(&self, from: u64) -> u64 {
        self.runs().filter(|(_, last)| *last >= from).map(|(first, last)| last - first.max(from) + 1).sum()
    }

    /// All runs in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_list(steps in prop::collection::vec((0..3u8, 0..40u64), 1..120)) {
            let (mut returns, mut plain) = (Returns::default(), Vec::new());
            for (kind, number) in steps {
                match kind {
                    0 => {
                        prop_assert_eq!(returns.remove(number), plain.contains(&number));
                        plain.retain(|other| *other != number);
                    }
                    _ => {
                        for number in (number..number + 3).filter(|number| !plain.contains(number)).collect::<Vec<_>>() {
                            returns.push(number);
                            plain.push(number);
                        }
                    }
                }
                let order: Vec<u64> = returns.runs().flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(&order, &plain);
                prop_assert_eq!(returns.len(), plain.len() as u64);
                prop_assert_eq!(returns.first_run().map(|run| run.0), plain.first().copied());
                for (at, number) in plain.iter().enumerate() {
                    prop_assert_eq!(returns.nth(at as u64), Some(*number));
                    prop_assert_eq!(returns.behind(*number), plain.get(at + 1).copied());
                    let from = returns.runs_from(*number).flat_map(|(first, last)| first..=last);
                    prop_assert_eq!(from.collect::<Vec<_>>(), &plain[at..]);
                }
                let from = number;
                prop_assert_eq!(returns.contains(from), plain.contains(&from));
                prop_assert_eq!(returns.next(from), plain.iter().copied().filter(|other| *other >= from).min());
                prop_assert_eq!(returns.count_from(from), plain.iter().filter(|other| **other >= from).count() as u64);
            }
        }
    }
}
