//! Dates of lines and of rotations, all UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Microseconds since 1970.
    pub(super) microseconds: u64,
    date: OffsetDateTime,
}

impl Moment {
    pub(crate) fn of(time: SystemTime) -> Self {
        // A clock before 1970 isn't set.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let date = OffsetDateTime::UNIX_EPOCH.saturating_add(since.try_into().unwrap_or(time::Duration::MAX));
        Self { microseconds: since.as_micros() as u64, date }
    }

    pub(super) fn date(&self) -> OffsetDateTime {
        self.date
    }

    /// In the form `2026-11-22 18:13:38.431951+00:00`.
    pub(crate) fn rfc3339(&self, between: char) -> String {
        format!("{}{between}{}.{:06}+00:00", self.day(), self.clock(), self.date.microsecond())
    }

    /// In the form `2026-11-22 18:13:38.431`.
    pub(super) fn milliseconds(&self) -> String {
        format!("{} {}.{:03}", self.day(), self.clock(), self.date.millisecond())
    }

    fn day(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.date.year(), u8::from(self.date.month()), self.date.day())
    }

    pub(super) fn clock(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.date.hour(), self.date.minute(), self.date.second())
    }
}
