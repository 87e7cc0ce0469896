//! Time as a parameter: the broker owns no clock.

/// Monotonic nanoseconds since the process started.
pub type Nanos = u64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

const NANOS_PER_MS: Nanos = 1_000_000;

/// The time of a call. Wall time is only used for display and for absolute expiry.
///
/// Monotonic zero is a whole millisecond of wall time, and both advance alike: whoever counts monotonic milliseconds from it is never
/// ahead of who reads `wall_ms`. Wall time follows a clock that is set ([`crate::WallTime`]), so it may go back; an order of times must
/// not be relied on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// Never goes back.
    pub monotonic: Nanos,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

impl Now {
    /// Wall time at another monotonic time, in milliseconds since the Unix epoch: by the present clock, and the same whenever it is asked
    /// for until that is set.
    #[must_use]
    pub fn wall_ms_at(self, monotonic: Nanos) -> u64 {
        (self.wall_ms + monotonic / NANOS_PER_MS).saturating_sub(self.monotonic / NANOS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_of_a_moment_doesnt_depend_on_when_it_is_asked_for() {
        let start_ms = 100_000;
        for elapsed in (0..3 * NANOS_PER_MS).step_by(77_777) {
            let now = Now { monotonic: elapsed, wall_ms: start_ms + elapsed / NANOS_PER_MS };
            assert_eq!((now.wall_ms_at(0), now.wall_ms_at(2_900_000)), (start_ms, start_ms + 2), "asked at {elapsed}");
            assert_eq!(now.wall_ms_at(elapsed), now.wall_ms);
        }
    }
}
