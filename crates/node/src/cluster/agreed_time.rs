//! The time that the members of a cluster agree on, which a node whose clock is wrong goes by.
//!
//! Messages have times of one node and are judged by another one's: by that of their queue's leader, and by the next leader's. So one wrong
//! clock would expire messages early, or keep delayed ones for too long. A node whose clock differs by more than a second from a majority
//! of the members, which agree with each other, goes by their time. What members tell each other is what their systems' clocks say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_broker::{Epoch, Reading, TimeSource};

use super::view::ClusterView;

/// The difference up to which clocks agree; a greater one is shown.
pub(super) const ALIKE_MS: u64 = 1000;
/// The age up to which a member's time counts: it is told each second.
const FRESH: Duration = Duration::from_secs(5);

const NANOS_PER_MS: u64 = 1_000_000;

/// A member's clock as it was last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeardClock {
    /// Milliseconds by which it is ahead of this node's.
    pub ahead_ms: i64,
    /// When it was heard of.
    pub at: Instant,
}

/// The milliseconds by which the time of a majority of the members is ahead of this node's clock: 0 if that is one of them; `None` if no
/// majority agrees. `others` are ahead by these.
fn agreed(others: impl Iterator<Item = i64>, members: usize) -> Option<i64> {
    let mut ahead: Vec<i64> = others.chain([0]).collect();
    ahead.sort_unstable();
    let alike_from = |from: &usize| {
        let alike = ahead[*from..].iter().take_while(|at| at.abs_diff(ahead[*from]) <= ALIKE_MS);
        alike.count()
    };
    let from = (0..ahead.len()).max_by_key(|from| (alike_from(from), ahead[*from] <= 0))?;
    let alike = &ahead[from..][..alike_from(&from)];
    (alike.len() > members / 2).then(|| if alike.contains(&0) { 0 } else { alike[alike.len() / 2] })
}

/// Readings of a node's clock, corrected by the time of a majority.
#[derive(Debug)]
pub(crate) struct AgreedTime {
    view: Arc<ClusterView>,
    /// Whether the node goes by a time that isn't its clock's.
    is_corrected: bool,
}

impl AgreedTime {
    pub(crate) fn new(view: Arc<ClusterView>) -> Self {
        AgreedTime { view, is_corrected: false }
    }

    /// The reading that the node goes by, of this one of its clock. `wall` is its present wall time, and `members` their number.
    pub(crate) fn correct(&mut self, reading: Reading, wall: &Epoch, members: usize, now: Instant) -> Reading {
        let seen = self.view.seen.lock();
        if seen.member.is_none() {
            return reading;
        }
        let heard = seen.told.values().filter_map(|told| told.clock);
        let fresh = heard.filter(|clock| now.saturating_duration_since(clock.at) <= FRESH);
        let agreed = agreed(fresh.map(|clock| clock.ahead_ms), members);
        drop(seen);
        self.correct_by(agreed, reading, wall)
    }

    fn correct_by(&mut self, agreed: Option<i64>, reading: Reading, wall: &Epoch) -> Reading {
        let wall_ns = wall.ms().saturating_mul(NANOS_PER_MS).saturating_add(reading.monotonic);
        let Some(ahead_ms) = agreed else {
            // Without the others it goes on by their time, until its own clock has it, too.
            self.is_corrected &= wall_ns.abs_diff(reading.system_ns) > ALIKE_MS * NANOS_PER_MS;
            let system_ns = if self.is_corrected { wall_ns } else { reading.system_ns };
            return Reading { system_ns, source: TimeSource::Member, ..reading };
        };
        self.is_corrected = ahead_ms != 0;
        let system_ns = reading.system_ns.saturating_add_signed(ahead_ms.saturating_mul(NANOS_PER_MS.cast_signed()));
        Reading { system_ns, source: TimeSource::Majority, ..reading }
    }

    /// Whether the node goes by a time that isn't its clock's.
    pub(crate) fn is_corrected(&self) -> bool {
        self.is_corrected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    #[test]
    fn a_majority_decides_and_nobody_else() {
        let agreed = |others: &[i64], members| agreed(others.iter().copied(), members);
        assert_eq!(agreed(&[HOUR_MS, HOUR_MS + 300], 3), Some(HOUR_MS + 300), "it is behind both");
        assert_eq!(agreed(&[-HOUR_MS, 20], 3), Some(0), "the other one is wrong");
        assert_eq!(agreed(&[-900, 900], 3), Some(0), "all are alike, as it sees them");
        assert_eq!(agreed(&[-HOUR_MS, HOUR_MS], 3), None, "all differ");
        assert_eq!(agreed(&[HOUR_MS], 3), None, "one of two that are reached, of three");
        assert_eq!(agreed(&[3], 3), Some(0));
        assert_eq!(agreed(&[HOUR_MS], 2), None, "either may be right");
        assert_eq!(agreed(&[], 3), None);
        assert_eq!(agreed(&[], 1), Some(0));
        assert_eq!(agreed(&[HOUR_MS, HOUR_MS, 0, 5], 5), Some(0));
        assert_eq!(agreed(&[HOUR_MS, HOUR_MS, HOUR_MS, 5], 5), Some(HOUR_MS));
    }

    #[test]
    fn it_goes_on_by_their_time_until_its_clock_has_it() {
        const NOW_MS: u64 = 1_760_000_000_000;
        let (mut time, wall) = (AgreedTime::new(Arc::default()), Epoch::new(NOW_MS));
        let reading = |ms: u64| Reading { monotonic: 7, system_ns: ms * 1_000_000 + 7, source: TimeSource::System };
        let is = |corrected: Reading, ms: u64, source| {
            assert_eq!((corrected.system_ns, corrected.source), (ms * 1_000_000 + 7, source));
        };
        let hour = HOUR_MS.unsigned_abs();
        // Alone among strangers it goes by its own clock, whatever that says.
        is(time.correct_by(None, reading(NOW_MS + hour), &wall), NOW_MS + hour, TimeSource::Member);
        is(time.correct_by(Some(-HOUR_MS), reading(NOW_MS + hour), &wall), NOW_MS, TimeSource::Majority);
        is(time.correct_by(None, reading(NOW_MS + hour), &wall), NOW_MS, TimeSource::Member);
        assert!(time.is_corrected());
        // It was set right, and later it is set again.
        is(time.correct_by(None, reading(NOW_MS + 500), &wall), NOW_MS + 500, TimeSource::Member);
        is(time.correct_by(None, reading(NOW_MS + hour), &wall), NOW_MS + hour, TimeSource::Member);
        is(time.correct_by(Some(0), reading(NOW_MS + hour), &wall), NOW_MS + hour, TimeSource::Majority);
        assert!(!time.is_corrected());
    }
}
