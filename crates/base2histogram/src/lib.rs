//! Takes the place of the crate of the same name, in which the engine of placements counts sizes of batches, for figures that nothing here
//! reads. The original keeps tables for all its scales, 26 MB in each node of a cluster. This has one bucket for each power of two.

use std::fmt;
use std::marker::PhantomData;

/// Buckets: one for 0, and one for each number of significant bits.
const BUCKETS: usize = 65;

/// Counts of values by their magnitude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: [u64; BUCKETS],
    of: PhantomData<T>,
}

impl<T> Histogram<T> {
    /// One without values.
    #[must_use]
    pub fn new() -> Self {
        Histogram { counts: [0; BUCKETS], of: PhantomData }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value that was seen so many times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// The values at some ranks, each rounded down to a power of two.
    #[must_use]
    pub fn percentile_stats(&self) -> PercentileStats {
        let samples = self.counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        let at = |of_thousand: u128| {
            let rank = (u128::from(samples) * of_thousand).div_ceil(1000).max(1);
            let mut seen = 0u128;
            let found = self.counts.iter().position(|count| {
                seen += u128::from(*count);
                seen >= rank
            });
            found.map_or(0, |bucket| if bucket == 0 { 0 } else { 1 << (bucket - 1) })
        };
        PercentileStats {
            samples,
            p0_1: at(1),
            p1: at(10),
            p5: at(50),
            p10: at(100),
            p50: at(500),
            p90: at(900),
            p99: at(990),
            p99_9: at(999),
        }
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Values of a histogram at some ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileStats {
    /// Number of values.
    pub samples: u64,
    /// At 0.1 %.
    pub p0_1: u64,
    /// At 1 %.
    pub p1: u64,
    /// At 5 %.
    pub p5: u64,
    /// At 10 %.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// At 90 %.
    pub p90: u64,
    /// At 99 %.
    pub p99: u64,
    /// At 99.9 %.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values, median {}, p99 {}, p99.9 {}", self.samples, self.p50, self.p99, self.p99_9)
    }
}

/// Histograms one below the other.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart(Vec<(String, PercentileStats)>);

impl AsciiChart {
    /// One without histograms.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a histogram under this name.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> Self {
        self.0.push((name.into(), histogram.percentile_stats()));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, stats)| writeln!(f, "{name}: {stats}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_found_as_powers_of_two() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats().samples, 0);
        histogram.record_n(0, 10);
        histogram.record_n(5, 980);
        (0..10).for_each(|_| histogram.record(u64::MAX));
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p1, stats.p50, stats.p99), (1000, 0, 4, 4));
        assert_eq!(stats.p99_9, 1 << 63);
    }
}
