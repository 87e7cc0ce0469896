use crate::Counter;

/// RabbitMQ's upper bounds of the buckets in bytes, inclusive. Larger messages are in none of them.
pub const SIZE_BOUNDS: [u64; 8] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

/// Number of buckets, including one for larger messages.
const BUCKETS: usize = SIZE_BOUNDS.len() + 1;

/// Sizes of messages, counted by one connection alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    buckets: [u32; BUCKETS],
    bytes: u64,
}

impl Sizes {
    /// Counts a message of this many bytes.
    pub fn count(&mut self, bytes: u64) {
        let bucket = SIZE_BOUNDS.iter().position(|bound| bytes <= *bound).unwrap_or(BUCKETS - 1);
        self.buckets[bucket] += 1;
        self.bytes += bytes;
    }
}

/// Sizes of messages, shared by all connections of a core.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SizeHistogram {
    buckets: [Counter; BUCKETS],
    bytes: Counter,
}

impl SizeHistogram {
    /// Moves a connection's counts here.
    pub fn take(&self, sizes: &mut Sizes) {
        for (bucket, count) in self.buckets.iter().zip(std::mem::take(&mut sizes.buckets)) {
            if count > 0 {
                bucket.add(u64::from(count));
            }
        }
        if sizes.bytes > 0 {
            self.bytes.add(std::mem::take(&mut sizes.bytes));
        }
    }
}

/// The sum of one or more [`SizeHistogram`]s, read at about the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeTotals {
    buckets: [u64; BUCKETS],
    bytes: u64,
}

impl SizeTotals {
    /// Adds the counts of a core.
    pub fn add(&mut self, histogram: &SizeHistogram) {
        for (total, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *total += bucket.value();
        }
        self.bytes += histogram.bytes.value();
    }

    /// Each bound with the number of messages up to it.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        SIZE_BOUNDS.iter().zip(self.buckets).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }

    /// Number of messages.
    pub fn messages(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_counts_are_moved_once() {
        let (mut sizes, histogram) = (Sizes::default(), SizeHistogram::default());
        for bytes in [0, 100, 101, 1_000, 100_000_000, 100_000_001] {
            sizes.count(bytes);
        }
        histogram.take(&mut sizes);
        histogram.take(&mut sizes);
        let mut totals = SizeTotals::default();
        totals.add(&histogram);
        let counts: Vec<u64> = totals.up_to().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!((totals.messages(), totals.bytes()), (6, 200_001_202));
    }
}
