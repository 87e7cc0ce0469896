//! Wall time: it advances with the monotonic clock, and follows the system's clock when that is set.
//!
//! The system's clock is read every ten seconds. A difference under a second is followed by a millisecond a second. A greater one is taken
//! at once when three readings agree on it: a clock that is an hour off would stay wrong for 41 days otherwise, and one odd reading
//! expires no message. A member of a cluster reads each second, and takes a time that a majority of the members vouches for sooner.

use leveret_queue::Epoch;
use parking_lot::Mutex;

use crate::time::{Nanos, Now, SECOND};

/// Time between two readings of the system's clock.
const READ_EVERY: Nanos = 10 * SECOND;
/// The same for a member of a cluster.
const MEMBER_READS_EVERY: Nanos = SECOND;
/// Time between two small steps, of a millisecond each.
const STEP_EVERY: Nanos = SECOND;
/// From this difference on, wall time doesn't follow by small steps.
const GREAT_MS: u64 = 1_000;
/// Readings that have to agree on a great difference.
const AGREEING: u32 = 3;
/// Time that has to be between the first of them and the last.
const PATIENCE: Nanos = 20 * SECOND;
/// The same if a majority of a cluster vouches for them.
const VOUCHED_PATIENCE: Nanos = 2 * SECOND;

const NANOS_PER_MS: i128 = 1_000_000;

/// The source of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// The system's clock of a node that is in no cluster.
    System,
    /// That of a member, while no majority of the members agrees on a time.
    Member,
    /// The time that a majority of the members agrees on.
    Majority,
}

impl TimeSource {
    /// The time until the next reading.
    fn again_in(self) -> Nanos {
        if self == TimeSource::System { READ_EVERY } else { MEMBER_READS_EVERY }
    }

    /// The time for which readings have to agree on a great difference.
    fn patience(self) -> Nanos {
        if self == TimeSource::Majority { VOUCHED_PATIENCE } else { PATIENCE }
    }
}

/// A reading of the system's clock, or of the time of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// When it was read, by the monotonic clock.
    pub monotonic: Nanos,
    /// Its time, in nanoseconds since the Unix epoch.
    pub system_ns: u64,
    /// Its source.
    pub source: TimeSource,
}

impl Reading {
    /// Wall time of monotonic zero by this reading, in nanoseconds; 0 if that was before 1970.
    fn epoch_ns(self) -> i128 {
        i128::from(self.system_ns.saturating_sub(self.monotonic))
    }
}

/// A great difference that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallStep {
    /// Wall time before, in milliseconds since the Unix epoch.
    pub was_ms: u64,
    /// Wall time afterwards.
    pub is_ms: u64,
}

impl WallStep {
    /// By how many milliseconds wall time was set forward; negative if it was set back.
    #[must_use]
    pub fn by_ms(self) -> i64 {
        self.is_ms.wrapping_sub(self.was_ms).cast_signed()
    }
}

/// The effects of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WallTurn {
    /// The wall time of monotonic zero, if it changes.
    epoch_ms: Option<u64>,
    /// A great difference that it took.
    step: Option<WallStep>,
}

/// The rule by which wall time follows the system's clock.
#[derive(Debug, Default)]
struct Rule {
    read_at: Nanos,
    step_at: Nanos,
    /// Milliseconds that are still to be followed by small steps.
    left_ms: i64,
    /// Readings of a great difference that agree, the first of them, and when it was made.
    agreeing: u32,
    first_ns: i128,
    first_at: Nanos,
}

impl Rule {
    fn turn(&mut self, epoch_ms: u64, now: Nanos, read: impl FnOnce() -> Reading) -> WallTurn {
        let mut turn = WallTurn { epoch_ms: None, step: None };
        if now >= self.read_at {
            let reading = read();
            self.read_at = now + reading.source.again_in();
            if let Some(taken_ms) = self.judge(epoch_ms, now, reading) {
                let at = |epoch_ms: u64| Epoch::new(epoch_ms).wall_ms(now);
                turn.step = Some(WallStep { was_ms: at(epoch_ms), is_ms: at(taken_ms) });
                turn.epoch_ms = Some(taken_ms);
            }
        }
        if self.left_ms != 0 && now >= self.step_at {
            self.step_at = now + STEP_EVERY;
            turn.epoch_ms = Some(epoch_ms.saturating_add_signed(self.left_ms.signum()));
            self.left_ms -= self.left_ms.signum();
        }
        turn
    }

    /// The time of the next turn.
    fn next(&self) -> Nanos {
        if self.left_ms == 0 { self.read_at } else { self.read_at.min(self.step_at) }
    }

    /// Compares a reading with wall time. Returns what the epoch becomes at once.
    fn judge(&mut self, epoch_ms: u64, now: Nanos, reading: Reading) -> Option<u64> {
        let read_ns = reading.epoch_ns();
        let ahead_ns = read_ns - i128::from(epoch_ms) * NANOS_PER_MS;
        // Rounded up: a client that looks at the system's clock sees its message stored no earlier than it was sent.
        let target_ms = u64::try_from((read_ns + NANOS_PER_MS - 1).div_euclid(NANOS_PER_MS)).unwrap_or(0);
        if ahead_ns.unsigned_abs() < u128::from(GREAT_MS) * NANOS_PER_MS.unsigned_abs() {
            // Parts of a millisecond are noise, unless they are the rest of a difference.
            let is_noise = self.left_ms == 0 && ahead_ns.abs() < NANOS_PER_MS;
            self.left_ms = if is_noise { 0 } else { target_ms.wrapping_sub(epoch_ms).cast_signed() };
            self.agreeing = 0;
            return None;
        }
        self.left_ms = 0;
        let agrees = (read_ns - self.first_ns).unsigned_abs() < u128::from(GREAT_MS) * NANOS_PER_MS.unsigned_abs();
        if self.agreeing > 0 && agrees {
            self.agreeing += 1;
        } else {
            (self.agreeing, self.first_ns, self.first_at) = (1, read_ns, now);
        }
        let has_lasted = now.saturating_sub(self.first_at) >= reading.source.patience();
        (self.agreeing >= AGREEING && has_lasted).then(|| {
            self.agreeing = 0;
            target_ms
        })
    }
}

/// The wall time of a node.
#[derive(Debug)]
pub struct WallTime {
    epoch: Epoch,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rule: Rule,
    steps: u64,
    last: Option<WallStep>,
}

impl WallTime {
    pub(crate) fn new(now: Now) -> Self {
        // The present wall time was just read from the system's clock. Others of a cluster, which may know better, are heard of soon.
        let rule = Rule { read_at: now.monotonic + MEMBER_READS_EVERY, ..Rule::default() };
        Self { epoch: Epoch::new(now.wall_ms_at(0)), state: Mutex::new(State { rule, ..State::default() }) }
    }

    /// Wall time of monotonic zero.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// How often wall time was set because of a great difference, and the last time.
    pub fn steps(&self) -> (u64, Option<WallStep>) {
        let state = self.state.lock();
        (state.steps, state.last)
    }

    /// The time of the next turn.
    pub(crate) fn next_turn(&self) -> Nanos {
        self.state.lock().rule.next()
    }

    /// Follows the system's clock, which `read` reads. Returns whether wall time was changed, and a great difference that was taken.
    pub(crate) fn turn(&self, now: Nanos, read: impl FnOnce() -> Reading) -> (bool, Option<WallStep>) {
        let mut state = self.state.lock();
        let turn = state.rule.turn(self.epoch.ms(), now, read);
        if let Some(epoch_ms) = turn.epoch_ms {
            self.epoch.set(epoch_ms);
        }
        if turn.step.is_some() {
            state.steps += 1;
            state.last = turn.step;
        }
        (turn.epoch_ms.is_some(), turn.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wall time of the first start, in milliseconds.
    const START_MS: u64 = 1_760_000_000_000;

    /// A node's wall time, and a system's clock that tests set.
    struct Rig {
        wall: WallTime,
        now: Nanos,
        system_ns: u64,
        readings: u32,
        source: TimeSource,
    }

    impl Rig {
        fn new() -> Self {
            let wall = WallTime::new(Now { monotonic: 0, wall_ms: START_MS });
            // The first reading comes early; the others are ten seconds apart.
            wall.state.lock().rule.read_at = READ_EVERY;
            Self { wall, now: 0, system_ns: START_MS * 1_000_000, readings: 0, source: TimeSource::System }
        }

        fn set_ms(&mut self, by_ms: i64) {
            self.set_ns(by_ms * 1_000_000);
        }

        fn set_ns(&mut self, by_ns: i64) {
            self.system_ns = self.system_ns.saturating_add_signed(by_ns);
        }

        /// Lets time pass. Returns the greatest change of wall time against the monotonic clock within a second, and all steps.
        fn pass(&mut self, seconds: u64) -> (u64, Vec<i64>) {
            let (mut most, mut steps) = (0, Vec::new());
            for _ in 0..seconds {
                let before = self.wall.epoch.ms();
                // Turns come late, as on a loaded machine, or too early.
                for part in [SECOND / 2, SECOND / 2] {
                    (self.now, self.system_ns) = (self.now + part, self.system_ns + part);
                    let reading = Reading { monotonic: self.now, system_ns: self.system_ns, source: self.source };
                    let readings = &mut self.readings;
                    let turn = self.wall.turn(self.now, || {
                        *readings += 1;
                        reading
                    });
                    match turn.1 {
                        Some(step) => steps.push(step.by_ms()),
                        None => most = most.max(self.wall.epoch.ms().abs_diff(before)),
                    }
                }
            }
            (most, steps)
        }

        /// How far the system's clock is ahead of wall time, in nanoseconds.
        fn ahead_ns(&self) -> i64 {
            let wall_ns = self.wall.epoch.ms() * 1_000_000 + self.now;
            self.system_ns.wrapping_sub(wall_ns).cast_signed()
        }
    }

    #[test]
    fn a_clock_that_nobody_sets_changes_nothing() {
        let mut rig = Rig::new();
        rig.set_ns(-999_999);
        assert_eq!((rig.pass(3_600), rig.readings), ((0, Vec::new()), 360));
        rig.set_ns(1_999_998);
        assert_eq!(rig.pass(3_600), (0, Vec::new()), "parts of a millisecond are noise");
    }

    #[test]
    fn a_small_difference_is_followed_by_a_millisecond_a_second() {
        for by_ms in [999, -999, 7, -1] {
            let mut rig = Rig::new();
            rig.set_ms(by_ms);
            let needed = by_ms.unsigned_abs() + 11;
            assert_eq!(rig.pass(needed), (1, Vec::new()), "{by_ms}");
            assert_eq!(rig.ahead_ns(), 0, "{by_ms}");
            assert_eq!(rig.pass(60), (0, Vec::new()), "{by_ms}");
        }
    }

    #[test]
    fn a_part_of_a_millisecond_is_rounded_up() {
        for by_ns in [700_300_001, -700_300_001] {
            let mut rig = Rig::new();
            rig.set_ns(by_ns);
            rig.pass(800);
            assert!((-999_999..=0).contains(&rig.ahead_ns()), "{by_ns}: {}", rig.ahead_ns());
        }
    }

    #[test]
    fn a_great_difference_is_taken_when_three_readings_agree() {
        for by_ms in [1_000, -1_000, 3_600_000, -3_600_000, 900_000_000_000, -900_000_000_000] {
            let mut rig = Rig::new();
            rig.set_ms(by_ms);
            assert_eq!(rig.pass(29), (0, Vec::new()), "{by_ms}: two readings");
            assert_eq!(rig.pass(1), (0, vec![by_ms]), "{by_ms}: the third");
            assert_eq!((rig.ahead_ns(), rig.wall.steps().0), (0, 1));
            assert_eq!(rig.pass(600), (0, Vec::new()), "{by_ms}: once");
        }
    }

    #[test]
    fn a_time_that_a_majority_vouches_for_is_taken_in_seconds() {
        let mut rig = Rig::new();
        rig.source = TimeSource::Member;
        rig.pass(20);
        rig.set_ms(3_600_000);
        assert_eq!(rig.pass(20), (0, Vec::new()), "nobody vouches for it");
        assert_eq!(rig.pass(2), (0, vec![3_600_000]), "it lasts");
        rig.source = TimeSource::Majority;
        rig.set_ms(-3_600_000);
        assert_eq!(rig.pass(2), (0, Vec::new()), "an odd reading");
        assert_eq!(rig.pass(2), (0, vec![-3_600_000]));
        assert_eq!((rig.pass(60), rig.ahead_ns()), ((0, Vec::new()), 0));
    }

    #[test]
    fn readings_that_disagree_take_nothing() {
        let mut rig = Rig::new();
        for by_ms in [5_000, 4_000, -60_000, 120_000, -1_000, 5_000] {
            rig.set_ms(by_ms);
            assert_eq!(rig.pass(20), (0, Vec::new()), "{by_ms}: two readings, then another");
        }
        assert_eq!(rig.pass(10), (0, vec![73_000]), "the third that agrees");
    }

    #[test]
    fn a_clock_that_is_set_back_in_time_changes_nothing() {
        let mut rig = Rig::new();
        rig.set_ms(86_400_000);
        rig.pass(25);
        rig.set_ms(-86_400_000);
        assert_eq!((rig.pass(600), rig.ahead_ns()), ((0, Vec::new()), 0));
    }

    /// A machine that slept: the monotonic clock stood still meanwhile.
    #[test]
    fn a_small_difference_that_is_left_ends_with_a_great_one() {
        let mut rig = Rig::new();
        rig.set_ms(500);
        assert_eq!(rig.pass(60), (1, Vec::new()));
        rig.set_ms(7_200_000);
        let (most, steps) = rig.pass(40);
        assert_eq!((most, steps.len(), rig.ahead_ns()), (1, 1, 0));
        assert!((7_200_430..=7_200_450).contains(&steps[0]), "{steps:?}");
    }

    #[test]
    fn a_clock_before_1970_is_wall_time_zero() {
        let mut rig = Rig::new();
        rig.pass(100);
        rig.system_ns = 0;
        assert_eq!((rig.pass(60).1.len(), rig.wall.epoch.ms()), (1, 0));
    }
}
