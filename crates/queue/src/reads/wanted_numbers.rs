//! Numbers of stored messages that a read is for, where their neighbours in the log aren't wanted.
//!
//! Messages that came due, or expired at times of their own, lie anywhere in the log. A read of all that follows the first of them
//! would find few others.

/// Most runs of numbers for one read: each is found and read alone.
const RUNS_MAX: usize = 256;
/// Most numbers for one read. It ends at a number of bytes, too.
const NUMBERS_MAX: u64 = 4096;

/// The numbers for a read, in the order in which they are needed.
#[derive(Debug, Default)]
pub(crate) struct WantedNumbers {
    /// First and last number of each run.
    runs: Vec<(u64, u64)>,
    count: u64,
}

impl WantedNumbers {
    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() >= RUNS_MAX || self.count >= NUMBERS_MAX
    }

    /// Adds consecutive numbers, as far as there is room.
    pub(crate) fn push(&mut self, first: u64, last: u64) {
        if self.is_full() {
            return;
        }
        let last = last.min(first + (NUMBERS_MAX - self.count) - 1);
        self.count += last - first + 1;
        match self.runs.last_mut() {
            Some(run) if run.1 + 1 == first => run.1 = last,
            _ => self.runs.push((first, last)),
        }
    }

    /// The runs in the order in which they are read: the first number is the first one, since the read may end early. From there on
    /// they ascend, and then come the lower ones.
    pub(crate) fn in_reading_order(mut self) -> Vec<(u64, u64)> {
        if let Some(&(needed, _)) = self.runs.first() {
            self.runs.sort_unstable();
            let lower = self.runs.partition_point(|(first, _)| *first < needed);
            self.runs.rotate_left(lower);
        }
        self.runs.dedup_by(|run, before| {
            let is_next = before.1 + 1 == run.0;
            if is_next {
                before.1 = run.1;
            }
            is_next
        });
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_needed_first_is_read_first() {
        let mut wanted = WantedNumbers::default();
        for (first, last) in [(50, 50), (10, 12), (51, 51), (90, 95), (96, 97)] {
            wanted.push(first, last);
        }
        assert!(!wanted.is_full());
        assert_eq!(wanted.in_reading_order(), [(50, 51), (90, 97), (10, 12)]);
        assert_eq!(WantedNumbers::default().in_reading_order(), []);
    }

    #[test]
    fn a_read_has_limits() {
        let mut wanted = WantedNumbers::default();
        wanted.push(7, 1_000_000);
        wanted.push(3, 3);
        assert_eq!(wanted.in_reading_order(), [(7, 6 + NUMBERS_MAX)]);
        let mut wanted = WantedNumbers::default();
        (0..1_000).for_each(|number| wanted.push(2 * number, 2 * number));
        assert_eq!(wanted.in_reading_order().len(), RUNS_MAX);
    }
}
