use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_broker::{Nanos, Now};

/// How often both clocks are read at start.
const READINGS: usize = 16;

const NANOS_PER_MS: u32 = 1_000_000;

/// The node's only clock.
///
/// Wall time is read once, at start, and advanced by the monotonic clock, so that a jump of the system's clock neither
/// expires nor revives a message.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Where a millisecond of wall time began, so that milliseconds of both clocks change at once, as [`Now`] promises.
    start: Instant,
    /// Wall time of the start, in milliseconds since the Unix epoch.
    start_wall_ms: u64,
}

impl Clock {
    /// Starts at less than a millisecond, now.
    #[must_use]
    pub fn start() -> Self {
        Self::closest((0..READINGS).map(|_| {
            // In this order the time is never behind the system's.
            let before = Instant::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (before, wall, before.elapsed())
        }))
    }

    /// The clock of the reading that took the least time. A reading is the instant before it, the wall time, and how long it took: the
    /// clock is ahead of the system's by at most that, and a thread that loses its core in between would be ahead by milliseconds.
    fn closest(readings: impl Iterator<Item = (Instant, Duration, Duration)>) -> Self {
        let (instant, wall, _) = readings.min_by_key(|(.., took)| *took).expect("it is read at least once");
        let since_ms = Duration::from_nanos(u64::from(wall.subsec_nanos() % NANOS_PER_MS));
        Self { start: instant - since_ms, start_wall_ms: millis(wall) }
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
        assert_eq!(second.wall_ms_at(first.monotonic), first.wall_ms);
    }

    /// A queue counts milliseconds from monotonic zero. If that were within a millisecond of wall time, a message would be delivered, or
    /// expire, a part of a millisecond early.
    #[test]
    fn milliseconds_of_both_times_begin_together() {
        let at = Duration::new(1_000, 999_700_000);
        let clock = Clock::closest([(Instant::now(), at, Duration::ZERO)].into_iter());
        let start = clock.now().wall_ms_at(0);
        assert_eq!(start, 1_000_999);
        for _ in 0..100_000 {
            assert_eq!(clock.now().wall_ms_at(0), start);
        }
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

    /// A message that is due at a time of the system's clock isn't delivered before it.
    #[test]
    fn a_start_that_lost_its_core_between_the_readings_isnt_ahead() {
        let (begin, ms, wall) =
            (Instant::now(), Duration::from_millis, |ms: u64| Duration::from_millis(1_000_000 + ms));
        let readings = [(0, 7, ms(8)), (8, 8, Duration::from_nanos(60)), (9, 14, ms(6))];
        let readings = readings.into_iter().map(|(before, at, took)| (begin + ms(before), wall(at), took));
        let clock = Clock::closest(readings);
        assert_eq!((clock.start - begin, clock.start_wall_ms), (ms(8), 1_000_008));
    }

    #[test]
    fn an_instant_is_the_start_plus_the_offset() {
        let clock = Clock::start();
        assert_eq!(clock.instant(5_000) - clock.instant(0), Duration::from_nanos(5_000));
    }
}
