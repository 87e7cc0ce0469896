use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::nanos::Nanos;

const NANOS_PER_MS: u64 = 1_000_000;

/// Wall time of monotonic zero, in milliseconds since the Unix epoch. All queues of a node share it.
///
/// It changes when wall time follows a clock that was set, in both directions. Between two changes, wall time advances as monotonic time
/// does, and both begin a millisecond at the same moment.
#[derive(Debug, Clone, Default)]
pub struct Epoch(Arc<AtomicU64>);

impl Epoch {
    /// An epoch that begins with this wall time.
    pub fn new(ms: u64) -> Self {
        Self(Arc::new(AtomicU64::new(ms)))
    }

    /// The present wall time of monotonic zero.
    #[inline]
    pub fn ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the wall time of monotonic zero, for all that share this epoch. Nobody may rely on wall time that only advances, so no
    /// order is needed.
    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    /// Wall time in milliseconds since the Unix epoch.
    #[inline]
    pub fn wall_ms(&self, now: Nanos) -> u64 {
        self.ms() + now / NANOS_PER_MS
    }

    /// The first moment at which wall time is at least this, unless it is set until then.
    pub fn nanos(&self, wall_ms: u64) -> Nanos {
        wall_ms.saturating_sub(self.ms()).saturating_mul(NANOS_PER_MS)
    }
}
