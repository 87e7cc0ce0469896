//! Virtual time.

use leveret_broker::{Broker, Epoch, Nanos, Now, Reading, TimeSource};

/// Wall time at which a simulation begins, in milliseconds since the Unix epoch.
const START_WALL_MS: u64 = 1_760_000_000_000;

const NANOS_PER_MS: u64 = 1_000_000;

/// The clocks of a machine: a monotonic one that only advances when the simulation says so, and the system's clock, which may be set. Wall
/// time is that of the broker, which follows the system's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    nanos: Nanos,
    epoch: Epoch,
    /// The time of the system's clock at zero, in nanoseconds since the Unix epoch.
    system_ns: u64,
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
        Self { nanos: 0, epoch: Epoch::new(start_wall_ms), system_ns: start_wall_ms * NANOS_PER_MS }
    }

    /// The same clock, with wall time by the epoch of a broker.
    #[must_use]
    pub(crate) fn with_epoch(self, epoch: &Epoch) -> Self {
        Self { epoch: epoch.clone(), ..self }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { monotonic: self.nanos, wall_ms: self.epoch.wall_ms(self.nanos) }
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

    /// Sets the system's clock forward by so many nanoseconds, or back.
    pub fn set_system(&mut self, by_ns: i64) {
        self.system_ns = self.system_ns.saturating_add_signed(by_ns);
    }

    /// Reads the system's clock.
    #[must_use]
    pub fn read_system(&self) -> Reading {
        Reading { monotonic: self.nanos, system_ns: self.system_ns + self.nanos, source: TimeSource::System }
    }

    /// The time of the system's clock in milliseconds since the Unix epoch.
    #[must_use]
    pub fn system_ms(&self) -> u64 {
        self.read_system().system_ns / NANOS_PER_MS
    }

    /// Has wall time follow the system's clock when it is time to, as a node does.
    pub(crate) fn follow(&self, broker: &Broker) {
        if broker.next_look_at_clock() <= self.nanos {
            broker.follow_clock(self.nanos, || self.read_system());
        }
    }

    /// When to call [`Clock::follow`] next; never while there is nothing to follow, so that a world comes to rest.
    pub(crate) fn next_look(&self, broker: &Broker) -> Option<Nanos> {
        let differs = self.system_ns.abs_diff(self.epoch.ms() * NANOS_PER_MS) >= NANOS_PER_MS;
        differs.then(|| broker.next_look_at_clock())
    }
}
