//! Places in a commit stream, and its watermarks.
//!
//! Only this module knows the order of places. They are compared with the watermarks of their own stream, never with places of
//! another stream, which counts independently.

use std::sync::atomic::{AtomicU64, Ordering};

/// A place in the commit stream of a queue. [`Place::NOTHING`] is before all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// A place that is always reached: nothing has to be waited for.
    pub const NOTHING: Self = Self(0);

    /// The place of a record, by the number that its stream gave it.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number that its stream gave it.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Whether it is [`Place::NOTHING`].
    pub const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// The place after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The later of two places of the same stream.
    #[must_use]
    pub fn or_later(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Whether it comes before another place of the same stream.
    pub const fn is_before(self, other: Self) -> bool {
        self.0 < other.0
    }
}

/// The progress of a commit stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Everything up to here is written; never less than `durable`.
    pub written: Place,
    /// Everything up to here is durable.
    pub durable: Place,
}

impl Watermarks {
    /// Both watermarks at the same place, for messages that have to be durable.
    pub const fn synced(durable: Place) -> Self {
        Self { written: durable, durable }
    }

    /// Whether a place is durable, or written if `written` is enough.
    #[inline]
    pub const fn have(self, place: Place, written: bool) -> bool {
        let reached = if written { self.written } else { self.durable };
        place.0 <= reached.0
    }
}

/// A place that only advances, shared by threads.
#[derive(Debug, Default)]
pub struct LatestPlace(AtomicU64);

impl LatestPlace {
    /// Starts at a place.
    pub const fn new(place: Place) -> Self {
        Self(AtomicU64::new(place.0))
    }

    /// The current place.
    #[inline]
    pub fn get(&self) -> Place {
        Place(self.0.load(Ordering::Acquire))
    }

    /// Advances to `place`, if that is later. Returns the current place.
    pub fn advance(&self, place: Place) -> Place {
        Place(self.0.fetch_max(place.0, Ordering::AcqRel)).or_later(place)
    }

    /// Sets the place. The caller's lock orders these calls.
    #[inline]
    pub fn set(&self, place: Place) {
        self.0.store(place.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_durable_or_written_up_to_its_watermark() {
        let reached = Watermarks { written: Place::new(7), durable: Place::new(4) };
        assert!(reached.have(Place::new(7), true) && !reached.have(Place::new(8), true));
        assert!(reached.have(Place::new(4), false) && !reached.have(Place::new(5), false));
        assert!(Watermarks::default().have(Place::NOTHING, false));
    }

    #[test]
    fn a_latest_place_never_goes_back() {
        let latest = LatestPlace::new(Place::new(3));
        assert_eq!(latest.advance(Place::new(2)), Place::new(3));
        assert_eq!(latest.advance(Place::new(5)), Place::new(5));
        assert_eq!(latest.get(), Place::new(5));
    }
}
