//! How much all publishers together may have on its way to the disk, so that one who publishes little doesn't wait
//! behind many megabytes of those who publish much.
//!
//! It grows while syncs take no longer than twice what they took at their fastest, and shrinks while they do. Those that
//! have something on its way share it evenly.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::settings::UNDURABLE_BYTES_MAX;
use crate::time::Nanos;

/// What all may always have: less would make the disk wait for publishers.
const BYTES_MIN: u64 = 1 << 20;
/// The two buffers of the log hold no more.
const BYTES_MAX: u64 = 32 << 20;
/// What one may always have: about what one read of its socket brings.
const EACH_MIN: u64 = 64 << 10;
/// By how much it grows with a sync.
const STEP: u64 = 128 << 10;
/// Syncs that take less are never too slow.
const QUICK_NS: Nanos = 3_000_000;

/// See the module.
#[derive(Debug)]
pub struct Allowance {
    bytes: AtomicU64,
    fastest: AtomicU64,
    publishers: AtomicUsize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: AtomicU64::new(BYTES_MAX), fastest: AtomicU64::new(Nanos::MAX), publishers: AtomicUsize::new(0) }
    }
}

impl Allowance {
    /// A sync ended; with those before it, it took `smoothed`.
    pub(crate) fn synced(&self, smoothed: Nanos) {
        let fastest = self.fastest.load(Ordering::Relaxed).min(smoothed);
        self.fastest.store(fastest, Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        let bytes = match smoothed <= QUICK_NS.max(fastest.saturating_mul(2)) {
            true => bytes + STEP,
            false => bytes - bytes / 8,
        };
        self.bytes.store(bytes.clamp(BYTES_MIN, BYTES_MAX), Ordering::Relaxed);
    }

    /// One more has something on its way.
    pub fn enter(&self) {
        self.publishers.fetch_add(1, Ordering::Relaxed);
    }

    /// All of one's is durable.
    pub fn leave(&self) {
        self.publishers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether one who has so many bytes on the way has more than it may. It is asked for each frame, and mostly they are
    /// few: then nothing is looked at that other cores write to, nor divided.
    #[inline]
    pub fn is_exceeded_by(&self, bytes: u64) -> bool {
        bytes > EACH_MIN && bytes > self.each()
    }

    /// What each may have on its way, in bytes.
    fn each(&self) -> u64 {
        let publishers = self.publishers.load(Ordering::Relaxed).max(1) as u64;
        (self.bytes.load(Ordering::Relaxed) / publishers).clamp(EACH_MIN, UNDURABLE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn slow_syncs_shrink_it_and_quick_ones_let_it_grow() {
        let allowance = Allowance::default();
        assert_eq!(allowance.each(), UNDURABLE_BYTES_MAX);
        allowance.synced(5 * MS);
        (0..100).for_each(|_| allowance.synced(9 * MS));
        assert_eq!(allowance.bytes.load(Ordering::Relaxed), BYTES_MAX, "a slow disk isn't a busy one");
        (0..30).for_each(|_| allowance.synced(11 * MS));
        assert_eq!(allowance.bytes.load(Ordering::Relaxed), BYTES_MIN);
        (0..300).for_each(|_| allowance.synced(6 * MS));
        assert_eq!(allowance.bytes.load(Ordering::Relaxed), BYTES_MAX);
    }

    #[test]
    fn publishers_share_it() {
        let allowance = Allowance::default();
        (0..16).for_each(|_| allowance.enter());
        assert_eq!(allowance.each(), 2 << 20);
        assert!(allowance.is_exceeded_by((2 << 20) + 1) && !allowance.is_exceeded_by(2 << 20));
        (0..10_000).for_each(|_| allowance.enter());
        assert_eq!(allowance.each(), EACH_MIN);
        assert!(allowance.is_exceeded_by(EACH_MIN + 1) && !allowance.is_exceeded_by(EACH_MIN));
        (0..10_015).for_each(|_| allowance.leave());
        assert_eq!(allowance.each(), UNDURABLE_BYTES_MAX);
    }
}
