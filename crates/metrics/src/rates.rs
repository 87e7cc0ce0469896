/// Time without a mark after which a rate is 0, in nanoseconds. Otherwise a rate covers the last whole second or two
/// before its reading.
const SILENCE: u64 = 5_000_000_000;
/// Least interval between marks, in nanoseconds.
const STEP: u64 = 1_000_000_000;

/// Rates of `N` counters, from marks that are made when something is counted: no timer is needed while nothing is.
///
/// Times are nanoseconds of any monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates<const N: usize> {
    older: (u64, [u64; N]),
    newer: (u64, [u64; N]),
}

impl<const N: usize> Rates<N> {
    /// Begins with these counts at this time.
    pub fn new(now: u64, counts: [u64; N]) -> Self {
        Rates { older: (now, counts), newer: (now, counts) }
    }

    /// Marks the counts so far. To be called before each change of them.
    pub fn mark(&mut self, now: u64, counts: impl FnOnce() -> [u64; N]) {
        if now.saturating_sub(self.newer.0) >= STEP {
            self.older = self.newer;
            self.newer = (now, counts());
        }
    }

    /// The rate of each per second, given the current counts. A value that shrinks, such as a queue's length, has a
    /// negative rate.
    pub fn per_second(&self, now: u64, counts: &[u64; N]) -> [f64; N] {
        let quiet = now.saturating_sub(self.newer.0);
        if quiet > SILENCE {
            return [0.0; N];
        }
        let (since, before) = if quiet >= STEP { &self.newer } else { &self.older };
        let seconds = now.saturating_sub(*since).max(STEP) as f64 / 1e9;
        std::array::from_fn(|at| counts[at].wrapping_sub(before[at]).cast_signed() as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn steady_counting_has_its_rate_and_silence_none() {
        let mut counts = [0];
        let mut rates = Rates::new(0, counts);
        for ms in 0..10_000 {
            rates.mark(ms * MS, || counts);
            counts[0] += 3;
            if ms > 3000 {
                let [rate] = rates.per_second(ms * MS, &counts);
                assert!((rate - 3000.0).abs() < 10.0, "{rate} after {ms} ms");
            }
        }
        let [soon] = rates.per_second(11_000 * MS, &counts);
        assert!(soon > 0.0 && soon < 3000.0);
        assert_eq!(rates.per_second(16_000 * MS, &counts), [0.0]);
    }

    #[test]
    fn a_change_is_seen_within_two_seconds() {
        let mut counts = [0];
        let mut rates = Rates::new(0, counts);
        let mut at = |ms: u64, add: u64, counts: &mut [u64; 1]| {
            rates.mark(ms * MS, || *counts);
            counts[0] += add;
            rates.per_second(ms * MS, counts)[0]
        };
        for ms in 0..5000 {
            at(ms, 1, &mut counts);
        }
        let mut last = 0.0;
        for ms in 5000..7001 {
            last = at(ms, 10, &mut counts);
        }
        assert!((last - 10_000.0).abs() < 50.0, "{last}");
    }

    #[test]
    fn a_shrinking_value_has_a_negative_rate() {
        let mut rates = Rates::new(0, [1000]);
        rates.mark(1000 * MS, || [1000]);
        rates.mark(2000 * MS, || [900]);
        assert_eq!(rates.per_second(2500 * MS, &[850]), [-100.0]);
    }
}
