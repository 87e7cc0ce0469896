use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_broker::{Nanos, Now};

/// The node's only clock.
///
/// Wall time is read once, at start, and advanced by the monotonic clock, so that a jump of the system's clock neither
/// expires nor revives a message.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// Time from the Unix epoch to the start.
    start_wall: Duration,
}

impl Clock {
    /// Starts at zero, now.
    #[must_use]
    pub fn start() -> Self {
        // In this order the time is never behind the system's.
        let start = Instant::now();
        Self { start, start_wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }

    /// Monotonic and wall time, from one reading.
    #[must_use]
    pub fn now(&self) -> Now {
        let elapsed = self.start.elapsed();
        Now { monotonic: nanos(elapsed), wall_ms: millis(self.start_wall + elapsed) }
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
        let (wall, monotonic) = (second.wall_ms - first.wall_ms, second.monotonic - first.monotonic);
        assert!(wall.abs_diff(monotonic / 1_000_000) <= 1, "{wall} ms, {monotonic} ns");
    }

    /// A client that looks at the system's clock sees its message stored no earlier than it was sent.
    #[test]
    fn wall_time_is_never_behind_the_systems() {
        let clock = Clock::start();
        for _ in 0..2_000 {
            let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            assert!(clock.now().wall_ms >= millis(system));
        }
    }

    #[test]
    fn an_instant_is_the_start_plus_the_offset() {
        let clock = Clock::start();
        assert_eq!(clock.instant(5_000) - clock.instant(0), Duration::from_nanos(5_000));
    }
}
