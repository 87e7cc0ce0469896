use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_broker::{Epoch, Nanos, Now, Reading, TimeSource};

/// How often both clocks are read for one reading.
const READINGS: usize = 16;

const NANOS_PER_MS: u32 = 1_000_000;

/// The node's only clock.
///
/// Wall time begins as the system's clock says at the start, and is advanced by the monotonic clock. It follows the system's clock by the
/// rule of [`leveret_broker::WallTime`], whose epoch this clock shares once the node has a broker.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Where a millisecond of wall time began, so that milliseconds of both clocks change at once, as [`Now`] promises.
    start: Instant,
    /// Wall time of the start.
    epoch: Epoch,
    /// Milliseconds by which the system's clock is taken to be ahead of what it says. For tests; otherwise 0.
    system_ahead_ms: u64,
}

impl Clock {
    /// Starts at less than a millisecond, now.
    #[must_use]
    pub fn start() -> Self {
        Self::start_ahead(0)
    }

    /// The same on a machine whose clock is taken to be ahead by so many milliseconds, for tests of clocks that are wrong.
    pub(crate) fn start_ahead(system_ahead_ms: u64) -> Self {
        Self::at(closest(readings()), system_ahead_ms)
    }

    fn at((instant, wall): (Instant, Duration), system_ahead_ms: u64) -> Self {
        let since_ms = Duration::from_nanos(u64::from(wall.subsec_nanos() % NANOS_PER_MS));
        let epoch = Epoch::new(millis(wall).saturating_add(system_ahead_ms));
        Self { start: instant - since_ms, epoch, system_ahead_ms }
    }

    /// The same monotonic clock, with wall time by an epoch that others share.
    pub(crate) fn with_epoch(self, epoch: &Epoch) -> Self {
        Self { epoch: epoch.clone(), ..self }
    }

    /// Reads the system's clock.
    pub(crate) fn read_system(&self) -> Reading {
        let (instant, wall) = closest(readings());
        let ahead_ns = self.system_ahead_ms.saturating_mul(u64::from(NANOS_PER_MS));
        let system_ns = nanos(wall).saturating_add(ahead_ns);
        let monotonic = nanos(instant.saturating_duration_since(self.start));
        Reading { monotonic, system_ns, source: TimeSource::System }
    }

    /// The system's clock, in milliseconds since the Unix epoch.
    pub(crate) fn system_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        millis(now).saturating_add(self.system_ahead_ms)
    }

    /// Monotonic and wall time, from one reading.
    #[must_use]
    pub fn now(&self) -> Now {
        let elapsed = self.start.elapsed();
        let monotonic = nanos(elapsed);
        Now { monotonic, wall_ms: self.epoch.wall_ms(monotonic) }
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

/// Readings of both clocks: the instant before each, the wall time, and how long it took.
fn readings() -> impl Iterator<Item = (Instant, Duration, Duration)> {
    (0..READINGS).map(|_| {
        // In this order the time is never behind the system's.
        let before = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (before, wall, before.elapsed())
    })
}

/// The reading that took the least time. It is ahead of the system's clock by at most that, and a thread that loses its core in between
/// would be ahead by milliseconds.
fn closest(readings: impl Iterator<Item = (Instant, Duration, Duration)>) -> (Instant, Duration) {
    let (instant, wall, _) = readings.min_by_key(|(.., took)| *took).expect("it is read at least once");
    (instant, wall)
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
        let clock = Clock::at((Instant::now(), at), 0);
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
        let clock = Clock::at(closest(readings), 0);
        assert_eq!((clock.start - begin, clock.epoch.ms()), (ms(8), 1_000_008));
    }

    #[test]
    fn a_reading_of_a_clock_that_nobody_set_agrees_with_wall_time() {
        let clock = Clock::start();
        let reading = clock.read_system();
        let wall_ns = clock.epoch.ms() * 1_000_000 + reading.monotonic;
        assert!(reading.system_ns.abs_diff(wall_ns) < 1_000_000, "{reading:?} {wall_ns}");
    }

    #[test]
    fn a_clock_that_is_wrong_stays_so_when_it_is_read_again() {
        const HOUR_MS: u64 = 3_600_000;
        let clock = Clock::start_ahead(HOUR_MS);
        assert!(clock.now().wall_ms.abs_diff(Clock::start().now().wall_ms + HOUR_MS) < 60_000);
        let reading = clock.read_system();
        let wall_ns = clock.epoch.ms() * 1_000_000 + reading.monotonic;
        assert!(reading.system_ns.abs_diff(wall_ns) < 1_000_000, "{reading:?} {wall_ns}");
    }

    #[test]
    fn an_instant_is_the_start_plus_the_offset() {
        let clock = Clock::start();
        assert_eq!(clock.instant(5_000) - clock.instant(0), Duration::from_nanos(5_000));
    }
}
