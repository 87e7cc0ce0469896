//! Time, as a queue is told it.

/// Monotonic nanoseconds, as the caller counts them.
pub type Nanos = u64;
