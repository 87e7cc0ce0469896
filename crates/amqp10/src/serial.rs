//! Serial number arithmetic (RFC 1982) of delivery-ids, transfer-ids and delivery-counts (2.8.10).

use std::cmp::Ordering;
use std::fmt;

/// A sequence number of 32 bits that wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Serial(pub u32);

impl Serial {
    /// The number `count` after this one.
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns this number, and increments it.
    pub const fn advance(&mut self) -> Self {
        let now = *self;
        *self = self.next();
        now
    }

    /// The distance of this number from `earlier`, negative if it is before it: from -2^31 to 2^31 - 1.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// The steps from `earlier` to this number, which can't be before it: from 0 to 2^32 - 1.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number is in `first ..= last`; false if `last` is before `first`.
    #[must_use]
    pub const fn is_within(self, first: Self, last: Self) -> bool {
        last.distance_from(first) >= 0 && self.since(first) <= last.since(first)
    }
}

impl PartialOrd for Serial {
    /// `None` for two numbers that are exactly 2^31 apart (RFC 1982 3.2).
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.distance_from(*other) {
            i32::MIN => None,
            distance => Some(distance.cmp(&0)),
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u32> for Serial {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::Serial;

    #[test]
    fn order_survives_the_wrap() {
        let last = Serial(u32::MAX);
        let first = last.next();
        assert_eq!(first, Serial(0));
        assert!(last < first);
        assert!(first > last);
        assert_eq!((first.distance_from(last), last.distance_from(first)), (1, -1));
        assert_eq!(last.add(5).since(last), 5);
        assert_eq!(Serial(0).partial_cmp(&Serial(1 << 31)), None);
        assert!(Serial(0) < Serial((1 << 31) - 1));
    }

    #[test]
    fn ranges_wrap_too() {
        let (first, last) = (Serial(u32::MAX - 1), Serial(1));
        for inside in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert!(Serial(inside).is_within(first, last), "{inside}");
        }
        assert!(!Serial(2).is_within(first, last));
        assert!(!Serial(u32::MAX - 2).is_within(first, last));
        assert!(!Serial(0).is_within(last, first), "a range that ends before it begins is empty");
    }
}
