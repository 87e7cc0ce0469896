//! The history of one object: its numbers at several resolutions, coarser for longer periods.

use std::collections::VecDeque;
use std::sync::Arc;

use super::range::Range;

/// A step and the period that it is kept for, both in milliseconds.
pub(super) type Retention = (u64, u64);

/// RabbitMQ's default retention of the node; the other is that of everything else.
pub(super) const GLOBAL: &[Retention] =
    &[(5000, 605_000), (60_000, 3_660_000), (600_000, 29_400_000), (1_800_000, 86_400_000)];
pub(super) const BASIC: &[Retention] = &[(5000, 605_000), (60_000, 3_660_000)];

/// The history of one object.
pub(super) struct Ring {
    /// The names of the numbers, in the order of their values. The list only grows.
    columns: Vec<String>,
    tiers: Vec<Tier>,
}

struct Tier {
    step: u64,
    kept: u64,
    /// The time of the last sample, even if it wasn't kept.
    taken: u64,
    /// Only samples that differ from the previous one: an idle object costs nothing.
    samples: VecDeque<(u64, Arc<[u64]>)>,
}

impl Ring {
    pub(super) fn new(retention: &[Retention], now: u64, numbers: &[(String, u64)]) -> Self {
        let tier = |&(step, kept): &Retention| Tier { step, kept, taken: 0, samples: VecDeque::new() };
        let tiers = retention.iter().map(tier).collect();
        let mut ring = Ring { columns: Vec::new(), tiers };
        ring.add(now, numbers);
        ring
    }

    /// Adds a sample to every tier whose step has passed.
    pub(super) fn add(&mut self, now: u64, numbers: &[(String, u64)]) {
        let mut values = vec![0; self.columns.len()];
        for (name, value) in numbers {
            match self.columns.iter().position(|column| column == name) {
                Some(at) => values[at] = *value,
                None => {
                    self.columns.push(name.clone());
                    values.push(*value);
                }
            }
        }
        let values: Arc<[u64]> = values.into();
        for tier in &mut self.tiers {
            tier.add(now, &values);
        }
    }

    /// Times and values of one number, newest first.
    pub(super) fn samples(&self, name: &str, range: Range, now: u64) -> Vec<(u64, u64)> {
        let Some(column) = self.columns.iter().position(|column| column == name) else { return Vec::new() };
        let Some(tier) = self.tiers.iter().find(|tier| tier.kept >= range.age).or(self.tiers.last()) else {
            return Vec::new();
        };
        let last = now - now % range.step;
        let first = last.saturating_sub(range.age.min(tier.kept));
        let times = (0..).map_while(|at| last.checked_sub(at * range.step)).take_while(|time| *time >= first);
        // Before the first sample the value counts as unchanged: clients that request a number of samples must get
        // that many.
        times.map(|time| (time, tier.at(time).get(column).copied().unwrap_or(0))).collect()
    }
}

impl Tier {
    fn add(&mut self, now: u64, values: &Arc<[u64]>) {
        if self.taken > 0 && now / self.step == self.taken / self.step {
            return;
        }
        self.taken = now;
        // The clock was set back: these times weren't right, and samples are found by their order.
        self.samples.truncate(self.samples.partition_point(|(time, _)| *time <= now));
        if self.samples.back().is_none_or(|(_, last)| last != values) {
            self.samples.push_back((now, values.clone()));
        }
        // One sample before the period is kept, for the value at its beginning.
        while self.samples.get(1).is_some_and(|(time, _)| *time + self.kept <= now) {
            self.samples.pop_front();
        }
    }

    fn at(&self, time: u64) -> &[u64] {
        let after = self.samples.partition_point(|(taken, _)| *taken <= time);
        self.samples.get(after.saturating_sub(1)).map_or(&[], |(_, values)| values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    fn numbers(value: u64) -> Vec<(String, u64)> {
        vec![("constant".to_owned(), 7), ("growing".to_owned(), value)]
    }

    #[test]
    fn a_history_has_any_step_and_keeps_only_changes() {
        let start = 1_200_000 * SECOND;
        let mut ring = Ring::new(BASIC, start, &numbers(0));
        for at in (5..=7200).step_by(5) {
            ring.add(start + at * SECOND, &numbers((at / 1000) * 10));
        }
        assert!(ring.tiers[0].samples.len() <= 3 && ring.tiers[1].samples.len() <= 6);
        let now = start + 7200 * SECOND;
        let range = |age: u64, step: u64| Range { age: age * SECOND, step: step * SECOND };
        let near = ring.samples("growing", range(600, 100), now);
        let seen: Vec<_> = near.iter().map(|(time, value)| ((time - start) / SECOND, *value)).collect();
        assert_eq!(seen, [(7200, 70), (7100, 70), (7000, 70), (6900, 60), (6800, 60), (6700, 60), (6600, 60)]);
        let far = ring.samples("growing", range(3600, 1200), now);
        assert_eq!(far.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [70, 60, 40, 30]);
        assert_eq!(ring.samples("constant", range(5, 5), now), [(now, 7), (now - 5 * SECOND, 7)]);
        assert!(ring.samples("none", range(5, 5), now).is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_removes_what_is_later() {
        let start = 1_200_000 * SECOND;
        let mut ring = Ring::new(BASIC, start, &numbers(0));
        for at in [5, 10, 300, 305] {
            ring.add(start + at * SECOND, &numbers(at));
        }
        for at in [7, 12, 17] {
            ring.add(start + at * SECOND, &numbers(10_000 + at));
        }
        let range = Range { age: 20 * SECOND, step: 5 * SECOND };
        let seen = ring.samples("growing", range, start + 20 * SECOND);
        assert_eq!(seen.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [10_017, 10_012, 10_007, 5, 0]);
    }

    #[test]
    fn a_new_number_has_as_many_samples_as_are_asked_for() {
        let now = 1_000_003 * SECOND;
        let mut ring = Ring::new(BASIC, now, &numbers(3));
        let range = Range { age: 1800 * SECOND, step: 30 * SECOND };
        let seen = ring.samples("growing", range, now);
        assert_eq!((seen.len(), seen[0], seen[60]), (61, (999_990 * SECOND, 3), (998_190 * SECOND, 3)));
        let mut more = numbers(4);
        more.push(("new".to_owned(), 1));
        ring.add(now + 30 * SECOND, &more);
        let seen = ring.samples("new", range, now + 60 * SECOND);
        assert_eq!(seen.iter().map(|(_, value)| *value).take(3).collect::<Vec<_>>(), [1, 0, 0]);
        assert_eq!(seen.len(), 61);
    }
}
