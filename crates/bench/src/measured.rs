//! What the two sides of a round share and measure.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Bytes written at once at most.
pub(crate) const WRITE_MAX: usize = 64 << 10;

/// When each message was encoded: nanoseconds since the start, by sequence number. Bodies are too small to carry it.
pub(crate) type SentAt = [AtomicU64];

/// What the publisher measured.
pub(crate) struct Published {
    /// From the start until the last confirm, or the last write without confirms.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding to confirm.
    pub(crate) confirm_latency: Histogram<u64>,
}

/// What the consumer measured.
pub(crate) struct Consumed {
    /// From the start until the last message.
    pub(crate) elapsed: Duration,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Nanoseconds from encoding at the publisher to decoding here.
    pub(crate) latency: Histogram<u64>,
}

/// Nanoseconds with three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are legal")
}
