//! Arrival times of a queue's messages in short intervals: a mark holds the latest arrival of its messages.

use std::collections::BTreeSet;

/// Interval in which all messages of a mark arrived, in milliseconds.
const MARK_MS: u64 = 10;
/// Number of marks above which a mark may cover [`WIDE_MARK_MS`]: a queue that holds days of messages shouldn't need
/// nearly one mark per message.
const MARKS_MAX: usize = 100_000;
const WIDE_MARK_MS: u64 = 500;

/// Messages with numbers `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub first: u64,
    pub last: u64,
    earliest_ms: u64,
    pub latest_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Latest arrival, first and last number. Usually in the order of the numbers.
    closed: BTreeSet<(u64, u64, u64)>,
    /// The mark that messages are still added to.
    open: Option<Mark>,
}

impl Arrivals {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }

    pub(super) fn push(&mut self, first: u64, count: u64, received_ms: u64, low: u64) {
        let last = first + count - 1;
        if let Some(mark) = &mut self.open {
            let earliest_ms = mark.earliest_ms.min(received_ms);
            let latest_ms = mark.latest_ms.max(received_ms);
            let width_ms = if self.closed.len() < MARKS_MAX { MARK_MS } else { WIDE_MARK_MS };
            if latest_ms - earliest_ms <= width_ms {
                *mark = Mark { first: mark.first, last, earliest_ms, latest_ms };
                return;
            }
            self.closed.insert((mark.latest_ms, mark.first, mark.last));
            // Normally the oldest messages are consumed first.
            while let Some(oldest) = self.closed.first()
                && oldest.2 < low
            {
                self.closed.pop_first();
            }
        }
        self.open = Some(Mark { first, last, earliest_ms: received_ms, latest_ms: received_ms });
    }

    /// The latest arrival of the oldest mark.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let closed = self.closed.first().map(|(latest_ms, ..)| *latest_ms);
        [closed, self.open.map(|mark| mark.latest_ms)].into_iter().flatten().min()
    }

    /// Removes and returns a mark whose messages all arrived up to `until_ms`.
    pub(super) fn pop_due(&mut self, until_ms: u64) -> Option<(u64, u64)> {
        if let Some((_, first, last)) = self.closed.first().copied().filter(|oldest| oldest.0 <= until_ms) {
            self.closed.pop_first();
            return Some((first, last));
        }
        let mark = self.open.take_if(|mark| mark.latest_ms <= until_ms)?;
        Some((mark.first, mark.last))
    }

    /// Puts back the rest of a mark that was due.
    pub(super) fn push_due(&mut self, first: u64, last: u64) {
        self.closed.insert((0, first, last));
    }

    /// Latest arrival, first and last number of each mark.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let open = self.open.map(|mark| (mark.latest_ms, mark.first, mark.last));
        self.closed.iter().copied().chain(open)
    }

    pub(super) fn restore(&mut self, latest_ms: u64, first: u64, last: u64) {
        self.closed.insert((latest_ms, first, last));
    }

    pub(super) fn memory(&self) -> usize {
        self.closed.len() * 36
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_milliseconds_of_messages_are_one_mark() {
        let mut arrivals = Arrivals::default();
        for number in 0..20 {
            arrivals.push(number, 1, 10_000 + number, 0);
        }
        assert_eq!(arrivals.closed.len(), 1);
        assert_eq!(arrivals.next_ms(), Some(10_010));
        assert_eq!(arrivals.pop_due(10_009), None);
        assert_eq!(arrivals.pop_due(10_010), Some((0, 10)));
        assert_eq!(arrivals.pop_due(10_018), None);
        assert_eq!(arrivals.pop_due(10_019), Some((11, 19)));
        assert!(arrivals.is_empty());
    }

    #[test]
    fn marks_become_wider_when_there_are_many() {
        let mut arrivals = Arrivals::default();
        let many = MARKS_MAX as u64;
        for number in 0..2 * many {
            arrivals.push(number, 1, 20 * number, 0);
        }
        assert!(arrivals.closed.len() as u64 <= many + many / 24, "{}", arrivals.closed.len());
    }

    #[test]
    fn a_message_that_arrived_long_before_its_number_is_due_first() {
        let mut arrivals = Arrivals::default();
        arrivals.push(0, 1, 10_000, 0);
        arrivals.push(1, 1, 2_000, 0);
        arrivals.push(2, 1, 10_001, 0);
        assert_eq!(arrivals.pop_due(9_000), Some((1, 1)));
        assert_eq!(arrivals.pop_due(9_000), None);
    }

    #[test]
    fn marks_of_consumed_messages_go() {
        let mut arrivals = Arrivals::default();
        for number in 0..100 {
            arrivals.push(number, 1, number * 1_000, number.saturating_sub(1));
        }
        assert!(arrivals.closed.len() <= 2, "{}", arrivals.closed.len());
    }
}
