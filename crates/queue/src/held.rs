//! Messages that consumers hold who are away from their queue.
//!
//! If the way to them ends, they return to their queues. And only what a consumer holds can be settled by it: a settlement that comes on a new
//! way is about a message that has returned, and perhaps gone to somebody else.

use std::collections::BTreeMap;

use crate::records::{Run, push_sized};

/// Messages that are held, as runs of messages of one size, by their first number.
#[derive(Debug, Default)]
pub struct HeldSet(BTreeMap<u64, Run>);

impl HeldSet {
    /// These messages.
    pub fn of(runs: &[Run]) -> Self {
        let mut set = Self::default();
        set.add(runs.to_vec());
        set
    }

    /// Adds messages.
    pub fn add(&mut self, runs: Vec<Run>) {
        self.0.extend(runs.into_iter().map(|run| (run.first, run)));
    }

    /// Removes those of these messages that are held, and returns them.
    #[must_use]
    pub fn remove(&mut self, runs: &[Run]) -> Vec<Run> {
        let mut removed = Vec::new();
        for run in runs {
            self.remove_range(run.first, run.last, &mut removed);
        }
        removed
    }

    /// The messages of a run that aren't held.
    pub fn without(&self, run: Run) -> Vec<Run> {
        let (mut next, mut left) = (run.first, Vec::new());
        let before = self.0.range(..run.first).next_back().filter(|(_, held)| held.last >= run.first);
        for (_, held) in before.into_iter().chain(self.0.range(run.first..=run.last)) {
            if held.first > next {
                left.push(part(run, next, held.first - 1));
            }
            next = next.max(held.last + 1);
        }
        if next <= run.last {
            left.push(part(run, next, run.last));
        }
        left
    }

    fn remove_range(&mut self, first: u64, last: u64, removed: &mut Vec<Run>) {
        let before = self.0.range(..first).next_back().map(|(at, run)| (*at, *run));
        let begin = before.filter(|(_, run)| run.last >= first).map_or(first, |(at, _)| at);
        let found: Vec<Run> = self.0.range(begin..=last).map(|(_, run)| *run).collect();
        for run in found {
            self.0.remove(&run.first);
            let (from, to) = (run.first.max(first), run.last.min(last));
            if run.first < from {
                self.0.insert(run.first, part(run, run.first, from - 1));
            }
            if to < run.last {
                self.0.insert(to + 1, part(run, to + 1, run.last));
            }
            push_sized(removed, part(run, from, to));
        }
    }

    /// Whether none are held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.0.values().copied()
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

/// A part of a run whose messages have one size.
fn part(run: Run, first: u64, last: u64) -> Run {
    let size = run.bytes / (run.last - run.first + 1);
    Run { first, last, bytes: size * (last - first + 1), durable: run.durable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, last: u64) -> Run {
        Run { first, last, bytes: 10 * (last - first + 1), durable: true }
    }

    fn ends(runs: &[Run]) -> Vec<(u64, u64, u64)> {
        runs.iter().map(|run| (run.first, run.last, run.bytes)).collect()
    }

    #[test]
    fn a_part_of_a_run_is_removed_and_its_ends_stay() {
        let mut held = HeldSet::default();
        held.add(vec![run(10, 19), run(30, 39)]);
        assert_eq!(ends(&held.remove(&[run(12, 13)])), [(12, 13, 20)]);
        assert_eq!(ends(&held.remove(&[run(13, 31)])), [(14, 19, 60), (30, 31, 20)]);
        assert_eq!(ends(&held.remove(&[run(12, 13), run(50, 60)])), [], "they aren't held any more");
        assert_eq!(ends(&held.take_all()), [(10, 11, 20), (32, 39, 80)]);
        assert_eq!(ends(&held.take_all()), []);
    }

    #[test]
    fn a_run_without_those_that_are_held() {
        let mut held = HeldSet::default();
        held.add(vec![run(10, 19), run(30, 39)]);
        let without = |first, last| ends(&held.without(run(first, last)));
        assert_eq!(without(1, 9), [(1, 9, 90)]);
        assert_eq!(without(12, 18), []);
        assert_eq!(without(15, 45), [(20, 29, 100), (40, 45, 60)]);
        assert_eq!(without(5, 12), [(5, 9, 50)]);
    }

    #[test]
    fn messages_that_come_again_are_held_again() {
        let mut held = HeldSet::default();
        held.add(vec![run(1, 4)]);
        let _ = held.remove(&[run(2, 2)]);
        held.add(vec![run(2, 2)]);
        assert_eq!(ends(&held.remove(&[run(1, 4)])), [(1, 4, 40)]);
    }
}
