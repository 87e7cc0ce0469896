use crate::epoch::Epoch;
use crate::nanos::Nanos;

/// The times at which the timers of a queue have to run: one by the monotonic clock, for what is unused or tried again, and one in wall
/// time, for what expires or comes due. They are kept apart, so that a change of wall time leaves both right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// By the monotonic clock; `u64::MAX` means never.
    pub monotonic: Nanos,
    /// In milliseconds since the Unix epoch; `u64::MAX` means never.
    pub wall_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::NONE
    }
}

impl Deadlines {
    /// No deadline.
    pub const NONE: Self = Self { monotonic: u64::MAX, wall_ms: u64::MAX };

    /// The sooner of each; `None` is no deadline.
    pub(crate) fn of<const N: usize, const M: usize>(monotonic: [Option<Nanos>; N], wall_ms: [Option<u64>; M]) -> Self {
        let soonest = |some: &[Option<u64>]| some.iter().flatten().copied().min().unwrap_or(u64::MAX);
        Self { monotonic: soonest(&monotonic), wall_ms: soonest(&wall_ms) }
    }

    /// Whether there is neither.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The deadlines that are sooner than the known ones.
    pub fn sooner_than(self, known: Self) -> Self {
        let sooner = |new: u64, known: u64| if new < known { new } else { u64::MAX };
        Self { monotonic: sooner(self.monotonic, known.monotonic), wall_ms: sooner(self.wall_ms, known.wall_ms) }
    }

    /// The sooner of both pairs, each by itself.
    pub fn and(self, other: Self) -> Self {
        Self { monotonic: self.monotonic.min(other.monotonic), wall_ms: self.wall_ms.min(other.wall_ms) }
    }

    /// The sooner of the two by the monotonic clock, as long as wall time isn't set.
    pub fn soonest(self, epoch: &Epoch) -> Option<Nanos> {
        let wall = if self.wall_ms == u64::MAX { u64::MAX } else { epoch.nanos(self.wall_ms) };
        Some(self.monotonic.min(wall)).filter(|at| *at != u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deadline_is_compared_with_its_own_kind() {
        let known = Deadlines { monotonic: 500, wall_ms: 10_000 };
        let new = Deadlines { monotonic: 400, wall_ms: 10_000 };
        assert_eq!(new.sooner_than(known), Deadlines { monotonic: 400, wall_ms: u64::MAX });
        assert_eq!(known.sooner_than(new), Deadlines::NONE);
        assert_eq!(new.and(Deadlines { monotonic: 900, wall_ms: 7 }), Deadlines { monotonic: 400, wall_ms: 7 });
    }

    #[test]
    fn the_soonest_follows_a_clock_that_is_set() {
        let epoch = Epoch::new(10_000);
        let deadlines = Deadlines { monotonic: 3_000_000, wall_ms: 10_002 };
        assert_eq!(deadlines.soonest(&epoch), Some(2_000_000));
        epoch.set(9_000);
        assert_eq!((deadlines.soonest(&epoch), epoch.wall_ms(2_000_000)), (Some(3_000_000), 9_002));
        epoch.set(20_000);
        assert_eq!(deadlines.soonest(&epoch), Some(0), "its time has come");
        assert_eq!(Deadlines::NONE.soonest(&epoch), None);
    }
}
