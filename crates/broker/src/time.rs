//! Time as a parameter: the broker owns no clock.

/// Monotonic nanoseconds since the process started.
pub type Nanos = u64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// The time of a call. Wall time is only used for display and for absolute expiry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// Never goes back.
    pub monotonic: Nanos,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}
