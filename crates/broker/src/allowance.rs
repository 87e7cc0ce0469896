//! Limit of bytes that all publishers together may have in flight to the disk, so that a publisher of little doesn't wait
//! behind many megabytes of others.
//!
//! It grows while syncs take no longer than twice the fastest ones, and shrinks while they do. Publishers with bytes in flight
//! share it evenly.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::settings::UNDURABLE_BYTES_MAX;
use crate::time::Nanos;

/// Lower bound of the limit: with less, the disk would wait for publishers.
const BYTES_MIN: u64 = 1 << 20;
/// Upper bound of the limit: the capacity of the log's two buffers.
const BYTES_MAX: u64 = 32 << 20;
/// Bytes that a single publisher may always have: about one read of its socket.
const EACH_MIN: u64 = 64 << 10;
/// Growth with each sync.
const STEP: u64 = 128 << 10;
/// Syncs that take less are never too slow.
const QUICK_NS: Nanos = 3_000_000;

/// Limit of bytes in flight to the disk, shared by all publishers.
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
    /// A sync ended; `smoothed` is the smoothed time of syncs, including this one.
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

    /// Counts one more publisher with bytes in flight.
    pub fn enter(&self) {
        self.publishers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one publisher less: all of its bytes are durable.
    pub fn leave(&self) {
        self.publishers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a publisher with this many bytes in flight exceeds its share. This is called for each frame, mostly with few
    /// bytes: then it neither reads a value that other cores write, nor divides.
    #[inline]
    pub fn is_exceeded_by(&self, bytes: u64) -> bool {
        bytes > EACH_MIN && bytes > self.each()
    }

    /// The share of each publisher, in bytes.
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
