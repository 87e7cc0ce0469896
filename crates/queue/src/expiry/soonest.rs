//! Expiry times to the millisecond, for a limited number of messages: each takes twenty bytes more than in ticks.

use std::collections::BTreeMap;

/// Maximum number of messages kept here; further ones are kept in ticks, in [`super::times`].
pub(super) const SOONEST_MAX: usize = 1 << 17;
/// Number of departed messages below which pruning isn't worthwhile.
const GONE_MAX: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Soonest {
    /// Body bytes by time, in milliseconds since the Unix epoch, and number.
    times: BTreeMap<(u64, u64), u32>,
}

impl Soonest {
    pub(super) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.times.len() >= SOONEST_MAX
    }

    pub(super) fn insert(&mut self, number: u64, time_ms: u64, bytes: u32) {
        self.times.insert((time_ms, number), bytes);
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.times.first_key_value().map(|((time_ms, _), _)| *time_ms)
    }

    /// Removes and returns a message that is due at `now_ms`: number and body bytes.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<(u64, u32)> {
        let first = self.times.first_entry().filter(|first| first.key().0 <= now_ms)?;
        let ((_, number), bytes) = first.remove_entry();
        Some((number, bytes))
    }

    /// Forgets departed messages once they are the majority of the entries; `live` is the number of all live messages.
    pub(super) fn prune(&mut self, live: u64, is_live: impl Fn(u64) -> bool) {
        if self.times.len() as u64 > 2 * live + GONE_MAX {
            self.times.retain(|(_, number), _| is_live(*number));
        }
    }

    /// Number, time and body bytes of all messages, by number.
    pub(super) fn by_number(&self) -> Vec<(u64, u64, u32)> {
        let mut all: Vec<_> = self.times.iter().map(|((time_ms, number), bytes)| (*number, *time_ms, *bytes)).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn memory(&self) -> usize {
        self.times.len() * 28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_due_in_its_millisecond() {
        let mut soonest = Soonest::default();
        for (number, time_ms) in [(0, 5_000), (1, 1), (7, 700), (8, 5_000)] {
            soonest.insert(number, time_ms, number as u32);
        }
        assert_eq!((soonest.next_ms(), soonest.pop_due(0)), (Some(1), None));
        assert_eq!(soonest.pop_due(1), Some((1, 1)));
        assert_eq!((soonest.pop_due(699), soonest.pop_due(700)), (None, Some((7, 7))));
        assert_eq!(soonest.by_number(), [(0, 5_000, 0), (8, 5_000, 8)]);
    }

    #[test]
    fn messages_that_are_gone_are_forgotten() {
        let mut soonest = Soonest::default();
        for number in 0..100_000 {
            soonest.insert(number, 1_000_000, 0);
            soonest.prune(10, |other| other + 10 > number);
        }
        assert!(soonest.times.len() < 5_000, "{}", soonest.times.len());
    }
}
