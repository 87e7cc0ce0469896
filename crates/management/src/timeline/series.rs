//! Numbers of one object, minute by minute.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Samples, oldest first. A minute in which nothing changed and nothing was counted has none: an idle object costs nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Series {
    /// Minutes since 1970.
    minutes: VecDeque<u32>,
    /// The values of each sample, lengths before rates.
    values: VecDeque<f32>,
    width: usize,
}

/// The bytes of a sample with so many values.
pub(super) fn sample_bytes(width: usize) -> usize {
    size_of::<u32>() + width * size_of::<f32>()
}

impl Series {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.minutes.len()
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds a sample of the present minute, unless there is one. Later ones go: the clock was set back. `lengths` of its values stay as they are until the next one; the others are rates, which
    /// are 0 in a minute without a sample. Returns whether it is kept.
    pub(super) fn add(&mut self, minute: u32, values: &[f32], lengths: usize) -> bool {
        assert_eq!(values.len(), self.width, "a series has as many values in each sample");
        self.forget_after(minute);
        if self.minutes.back() == Some(&minute) {
            return false;
        }
        let before: Vec<f32> = self.values.range(self.values.len().saturating_sub(self.width)..).copied().collect();
        let is_quiet = |values: &[f32]| values[lengths..].iter().all(|rate| *rate == 0.0);
        if self.len() > 0 && before[..lengths] == values[..lengths] && is_quiet(&before) && is_quiet(values) {
            return false;
        }
        self.minutes.push_back(minute);
        self.values.extend(values);
        true
    }

    /// Removes the samples before this minute. Returns their number.
    pub(super) fn forget_before(&mut self, minute: u32) -> usize {
        let old = self.minutes.partition_point(|at| *at < minute);
        self.minutes.drain(..old);
        self.values.drain(..old * self.width);
        old
    }

    fn forget_after(&mut self, minute: u32) {
        let stay = self.minutes.partition_point(|at| *at <= minute);
        self.minutes.truncate(stay);
        self.values.truncate(stay * self.width);
    }

    /// Minutes and values of the samples in a range, and of the last one before it, which says how it began.
    pub(super) fn within(&self, range: RangeInclusive<u32>) -> impl Iterator<Item = (u32, Vec<f32>)> + '_ {
        let from = self.minutes.partition_point(|at| at < range.start()).saturating_sub(1);
        let to = self.minutes.partition_point(|at| at <= range.end());
        (from..to).map(|at| {
            let values = self.values.range(at * self.width..(at + 1) * self.width);
            (self.minutes[at], values.copied().collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_without_anything_have_no_sample() {
        let mut series = Series::new(3);
        for (minute, values, is_kept) in [
            (10, [1.0, 5.0, 0.0], true),
            (11, [1.0, 5.0, 0.0], false),
            (12, [1.0, 5.0, 2.5], true),
            (12, [9.0, 9.0, 9.0], false),
            // The rate ends.
            (13, [1.0, 5.0, 0.0], true),
            (14, [1.0, 5.0, 0.0], false),
            (15, [1.0, 6.0, 0.0], true),
        ] {
            assert_eq!(series.add(minute, &values, 2), is_kept, "{minute}");
        }
        let minutes = |range| series.within(range).map(|(minute, _)| minute).collect::<Vec<_>>();
        assert_eq!(minutes(0..=20), [10, 12, 13, 15]);
        assert_eq!(minutes(14..=14), [13], "the state at its beginning");
        assert_eq!(minutes(12..=13), [10, 12, 13]);
        assert_eq!(series.within(15..=15).last(), Some((15, vec![1.0, 6.0, 0.0])));
        assert_eq!(series.forget_before(13), 2);
        assert_eq!((series.len(), series.within(0..=99).next()), (2, Some((13, vec![1.0, 5.0, 0.0]))));
    }
}
