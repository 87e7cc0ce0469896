//! Due times of messages.

use std::time::Duration;

use crate::settings::Settings;

/// The shortest wait, which the kernel turns into 50 µs. At hundreds of thousands of messages per second one is due
/// after each write: a publisher that didn't wait would take a whole core, which the broker shares, and would send
/// messages one at a time.
const WAIT_MIN: Duration = Duration::from_micros(1);
/// A publisher that is late by this much doesn't wait.
const BEHIND_NANOS: u64 = 50_000;

/// The pace of one publisher; without a rate all messages are due at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Nanoseconds between two messages.
    interval: Option<f64>,
    /// Nanoseconds before the first message, so that publishers take turns.
    offset: f64,
}

impl Pace {
    pub(crate) fn of(settings: &Settings, publisher: u32) -> Self {
        let all = f64::from(settings.publishers);
        let interval = settings.rate.map(|rate| 1e9 * all / rate);
        Self { interval, offset: interval.unwrap_or(0.0) * f64::from(publisher) / all }
    }

    /// Number of messages due within this time.
    pub(crate) fn due_within(&self, nanos: u64) -> u64 {
        match self.interval {
            None => u64::MAX,
            Some(_) if (nanos as f64) < self.offset => 0,
            Some(interval) => ((nanos as f64 - self.offset) / interval) as u64 + 1,
        }
    }

    /// Due time of a message, in nanoseconds; `now` without a rate.
    pub(crate) fn due_at(&self, message: u64, now: u64) -> u64 {
        self.interval.map_or(now, |interval| (self.offset + interval * message as f64) as u64)
    }

    /// Time to wait until a message is due; `None` if it is due now.
    pub(crate) fn wait_for(&self, message: u64, now: u64) -> Option<Duration> {
        self.interval?;
        let due = self.due_at(message, now);
        let wait = Duration::from_nanos(due.saturating_sub(now));
        Some(if now.saturating_sub(due) >= BEHIND_NANOS { wait } else { wait.max(WAIT_MIN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_one_after_the_other() {
        let pace = Pace { interval: Some(1000.0), offset: 500.0 };
        assert_eq!([0, 499, 500, 1499, 1500].map(|nanos| pace.due_within(nanos)), [0, 0, 1, 1, 2]);
        assert_eq!(pace.due_at(3, 7), 3500);
        assert_eq!(pace.wait_for(3, 1400), Some(Duration::from_nanos(2100)));
        let unpaced = Pace { interval: None, offset: 0.0 };
        assert_eq!((unpaced.due_within(0), unpaced.due_at(3, 7), unpaced.wait_for(3, 7)), (u64::MAX, 7, None));
    }

    #[test]
    fn a_publisher_on_time_never_spins() {
        let pace = Pace { interval: Some(1000.0), offset: 0.0 };
        assert_eq!(pace.wait_for(1, 900), Some(WAIT_MIN));
        assert_eq!(pace.wait_for(1, 1000 + BEHIND_NANOS - 1), Some(WAIT_MIN));
        assert_eq!(pace.wait_for(1, 1000 + BEHIND_NANOS), Some(Duration::ZERO));
    }
}
