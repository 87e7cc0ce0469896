use std::sync::atomic::{AtomicU64, Ordering};

/// Number of buckets. Bucket `i` counts values below 2^i (and not below 2^(i-1)); the last one counts all larger
/// values.
pub const BUCKETS: usize = 40;

/// A histogram by powers of two, of any unit.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `count` times.
    pub fn record_many(&self, value: u64, count: u64) {
        self.buckets[bucket_of(value)].fetch_add(count, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn totals(&self) -> HistogramTotals {
        let mut totals = HistogramTotals::default();
        totals.add(self);
        totals
    }
}

/// The sum of one or more [`Histogram`]s, read at about the same moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramTotals {
    /// Counts by bucket, see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
}

impl Default for HistogramTotals {
    fn default() -> Self {
        HistogramTotals { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl HistogramTotals {
    /// Totals of counts that were kept elsewhere in the same buckets, without a sum: that is estimated from the
    /// middles of the buckets.
    pub fn estimated(counts: &[u64]) -> Self {
        let mut totals = HistogramTotals::default();
        for (at, count) in counts.iter().enumerate() {
            totals.buckets[at.min(BUCKETS - 1)] += count;
            let middle = upper_bound(at.min(BUCKETS - 1)) / 4 * 3;
            totals.sum = totals.sum.saturating_add(middle.saturating_mul(*count));
        }
        totals
    }

    /// Adds the counts of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total += bucket.load(Ordering::Relaxed);
        }
        self.sum = self.sum.wrapping_add(histogram.sum.load(Ordering::Relaxed));
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound of the given share (0 to 1) of all values; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= wanted.max(1) {
                return upper_bound(at);
            }
        }
        0
    }
}

/// The exclusive upper bound of a bucket.
pub(crate) fn upper_bound(bucket: usize) -> u64 {
    1 << bucket
}

fn bucket_of(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    bits.min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_below_the_bound_of_their_bucket() {
        for value in [0, 1, 2, 3, 4, 1023, 1024, 1 << 30] {
            let bucket = bucket_of(value);
            assert!(value < upper_bound(bucket), "{value}");
            assert!(bucket == 0 || value >= upper_bound(bucket - 1), "{value}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_sums() {
        let histogram = Histogram::default();
        histogram.record_many(3, 99);
        histogram.record(1000);
        let totals = histogram.totals();
        assert_eq!((totals.count(), totals.sum), (100, 1297));
        assert_eq!(totals.quantile(0.5), 4);
        assert_eq!(totals.quantile(0.99), 4);
        assert_eq!(totals.quantile(1.0), 1024);
        assert_eq!(HistogramTotals::default().quantile(0.5), 0);
        let estimated = HistogramTotals::estimated(&[0, 0, 0, 2]);
        assert_eq!((estimated.count(), estimated.sum, estimated.quantile(1.0)), (2, 12, 8));
    }
}
