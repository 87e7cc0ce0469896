use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_broker::{Nanos, Now};

/// The node's only clock.
///
/// Wall time is read once, at start, and advanced by the monotonic clock, so that a jump of the system's clock neither
/// expires nor revives a message.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    start_wall_ms: u64,
}

impl Clock {
    /// Starts at zero, now.
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_wall_ms: millis(wall) }
    }

    /// Monotonic and wall time, from one reading.
    #[must_use]
    pub fn now(&self) -> Now {
        let elapsed = self.start.elapsed();
        Now { monotonic: nanos(elapsed), wall_ms: self.start_wall_ms + millis(elapsed) }
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub fn monotonic(&self) -> Nanos {
        nanos(self.start.elapsed())
    }

    /// The instant at `monotonic` nanoseconds since the start.
    #[must_use]
    pub fn instant(&self, monotonic: Nanos) -> Instant {
        self.start + Duration::from_nanos(monotonic)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_advances_with_monotonic_time() {
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(second.monotonic >= first.monotonic);
        assert_eq!(second.wall_ms - first.wall_ms, second.monotonic / 1_000_000 - first.monotonic / 1_000_000);
    }

    #[test]
    fn an_instant_is_the_start_plus_the_offset() {
        let clock = Clock::start();
        assert_eq!(clock.instant(5_000) - clock.instant(0), Duration::from_nanos(5_000));
    }
}
