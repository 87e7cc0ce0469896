//! Latencies that are read while a round is running.

use std::sync::atomic::{AtomicU32, Ordering};

/// Resolution of the buckets: 256 ns, and a sixteenth of each power of two.
const STEP_BITS: u32 = 8;
const PARTS_BITS: u32 = 4;
const PARTS: u64 = 1 << PARTS_BITS;
/// Enough for 18 minutes.
const BUCKETS: usize = 29 << PARTS_BITS;

/// The latencies of all consumers.
pub(crate) struct Latencies(Vec<Counters>);

/// The latencies of one consumer: a wrapping counter per bucket. Only the consumer writes to it, so it needs no
/// locked instruction; handing over a histogram several times a second would cost more than a message.
pub(crate) struct Counters(Box<[AtomicU32]>);

/// The counters of all consumers at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Counts(Vec<u32>);

impl Latencies {
    pub(crate) fn new(consumers: u32) -> Self {
        Self((0..consumers).map(|_| Counters::new()).collect())
    }

    pub(crate) fn of(&self, consumer: u32) -> &Counters {
        &self.0[consumer as usize]
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = vec![0u32; BUCKETS];
        for consumer in &self.0 {
            for (count, counter) in counts.iter_mut().zip(&consumer.0) {
                *count = count.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        Counts(counts)
    }
}

impl Counters {
    fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU32::new(0)).collect())
    }

    #[inline]
    pub(crate) fn record(&self, nanos: u64) {
        let counter = &self.0[bucket(nanos)];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Counts {
    /// The p99 in nanoseconds of latencies counted after `before`, at most a sixteenth too high; `None` if there are
    /// none.
    pub(crate) fn p99_since(&self, before: &Self) -> Option<u64> {
        let counts: Vec<u64> =
            self.0.iter().zip(&before.0).map(|(now, before)| now.wrapping_sub(*before).into()).collect();
        let all: u64 = counts.iter().sum();
        let mut above = 0;
        let holds = |(_, count): &(usize, &u64)| {
            above += **count;
            above * 100 > all
        };
        counts.iter().enumerate().rev().find(holds).map(|(bucket, _)| highest_of(bucket))
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let steps = nanos >> STEP_BITS;
    if steps < PARTS {
        return steps as usize;
    }
    let shift = steps.ilog2() - PARTS_BITS;
    ((u64::from(shift) << PARTS_BITS) + (steps >> shift)).min(BUCKETS as u64 - 1) as usize
}

/// The highest latency in a bucket.
fn highest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let steps = if bucket < PARTS {
        bucket + 1
    } else {
        let shift = (bucket >> PARTS_BITS) - 1;
        (PARTS + bucket % PARTS + 1) << shift
    };
    (steps << STEP_BITS) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_in_a_bucket_differ_by_at_most_a_sixteenth() {
        for nanos in [0, 255, 256, 4095, 4096, 5000, 1_000_000, 77_777_777, 60_000_000_000] {
            let highest = highest_of(bucket(nanos));
            assert!(highest >= nanos, "{nanos}: {highest}");
            assert!(highest - nanos <= (nanos / 16).max(256), "{nanos}: {highest}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for bucket in 1..BUCKETS {
            assert!(highest_of(bucket) > highest_of(bucket - 1), "{bucket}");
            assert_eq!(super::bucket(highest_of(bucket)), bucket);
        }
    }

    #[test]
    fn the_p99_covers_all_consumers_since_the_last_reading() {
        let latencies = Latencies::new(2);
        latencies.of(0).record(60_000_000_000);
        // The counters wrap.
        latencies.of(1).0[bucket(1000)].store(u32::MAX, Ordering::Relaxed);
        let before = latencies.counts();
        assert_eq!(before.p99_since(&before), None);
        for nanos in (1..=200).map(|count| count * 1000) {
            latencies.of((nanos % 2000 / 1000) as u32).record(nanos);
        }
        let p99 = latencies.counts().p99_since(&before).expect("some came");
        assert!((197_000..=212_000).contains(&p99), "{p99}");
    }
}
