//! Counters of an exchange, updated by every core: once for each run of messages.

use std::sync::atomic::{AtomicU64, Ordering};

use leveret_metrics::{Counter, Rates};
use parking_lot::Mutex;

use crate::time::Nanos;

/// Interval of marks for rates, in nanoseconds; the lock isn't taken in between.
const STEP: Nanos = 1_000_000_000;

/// The counters of an exchange.
#[derive(Debug)]
pub struct ExchangeCounters {
    /// Messages that clients published to it.
    pub published_in: Counter,
    /// Copies of these that it routed to queues.
    pub published_out: Counter,
    /// Messages returned to their publishers, because no queue matched.
    pub unroutable_returned: Counter,
    /// Messages dropped because no queue matched.
    pub unroutable_dropped: Counter,
    marked: AtomicU64,
    /// Rates of messages in and copies out.
    rates: Mutex<Rates<2>>,
}

impl Default for ExchangeCounters {
    fn default() -> Self {
        Self {
            published_in: Counter::default(),
            published_out: Counter::default(),
            unroutable_returned: Counter::default(),
            unroutable_dropped: Counter::default(),
            marked: AtomicU64::new(0),
            rates: Mutex::new(Rates::new(0, [0; 2])),
        }
    }
}

impl ExchangeCounters {
    /// Counts messages that came in and the copies that went out.
    pub(crate) fn count(&self, messages: u64, copies: u64, now: Nanos) {
        if now.saturating_sub(self.marked.load(Ordering::Relaxed)) >= STEP {
            self.marked.store(now, Ordering::Relaxed);
            self.rates.lock().mark(now, || self.counts());
        }
        self.published_in.add(messages);
        self.published_out.add(copies);
    }

    /// Messages in and copies out per second.
    pub fn per_second(&self, now: Nanos) -> [f64; 2] {
        self.rates.lock().per_second(now, &self.counts())
    }

    fn counts(&self) -> [u64; 2] {
        [self.published_in.value(), self.published_out.value()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let counters = ExchangeCounters::default();
        for ms in 0..5000 {
            counters.count(2, 6, ms * 1_000_000);
        }
        let [came, went] = counters.per_second(4_999_000_000);
        assert!((came - 2000.0).abs() < 20.0 && (went - 6000.0).abs() < 60.0, "{came} {went}");
        assert_eq!(counters.published_out.value(), 30_000);
        assert_eq!(counters.per_second(60_000_000_000), [0.0, 0.0]);
    }
}
