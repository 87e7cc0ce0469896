//! Virtual time.

use leveret_broker::{Nanos, Now};

/// Wall time at which a simulation begins, in milliseconds since the Unix epoch.
const START_WALL_MS: u64 = 1_760_000_000_000;

/// A clock that only advances when the simulation says so.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    nanos: Nanos,
    /// Wall time at zero.
    start_wall_ms: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::at(START_WALL_MS)
    }
}

impl Clock {
    /// The clock of a machine that starts at this wall time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(start_wall_ms: u64) -> Self {
        Self { nanos: 0, start_wall_ms }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { monotonic: self.nanos, wall_ms: self.start_wall_ms + self.nanos / 1_000_000 }
    }

    /// Monotonic time in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> Nanos {
        self.nanos
    }

    /// Advances the clock.
    pub fn advance(&mut self, by: Nanos) {
        self.nanos += by;
    }

    /// Advances the clock to a time, unless that is past.
    pub fn advance_to(&mut self, at: Nanos) {
        self.nanos = self.nanos.max(at);
    }
}
