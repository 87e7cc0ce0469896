//! Limit on the bodies of requests that are in memory at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all bodies being received or handled.
#[derive(Default)]
pub(crate) struct Bodies {
    bytes: AtomicU64,
}

/// The share of one body, returned when it is dropped.
pub(crate) struct Share<'a> {
    bodies: &'a Bodies,
    own: u64,
    max: u64,
}

impl Bodies {
    /// The share of a body without any bytes yet. All bodies together may have `max` bytes.
    pub(crate) fn share(&self, max: u64) -> Share<'_> {
        Share { bodies: self, own: 0, max }
    }
}

impl Share<'_> {
    /// Adds bytes to the share. Returns false if all bodies together would exceed the limit; a single body may have
    /// any length.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let before = self.bodies.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.own += bytes;
        before + bytes <= self.max || before + bytes == self.own
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.bodies.bytes.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_limit_that_one_alone_may_exceed() {
        let bodies = Bodies::default();
        let mut alone = bodies.share(100);
        assert!(alone.grow(150));
        let mut other = bodies.share(100);
        assert!(!other.grow(1));
        drop(other);
        drop(alone);
        let (mut one, mut other) = (bodies.share(100), bodies.share(100));
        assert!(one.grow(60) && other.grow(40));
        assert!(!one.grow(1));
    }
}
