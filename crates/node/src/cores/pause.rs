//! A core that is woken very often for little pauses before it waits again, so that more comes at a time.
//!
//! A client that writes each message by itself and waits for nobody wakes its core for each, and to wake up and to read costs
//! more than a few messages do. Clients that wait for answers send no more if they come later: so it is tried, and stays only
//! where more comes at a time and no less in all.

use std::time::Duration;

use leveret_broker::Nanos;

/// Waits over which is measured: some 60 ms of a core that is woken too often, and 90 while it pauses. Whether it is worth it
/// at all must show in 8 ms: who waits for answers falls behind meanwhile.
const WAITS: u32 = 2048;
const WAITS_PAUSING: u32 = 256;
const WAITS_TRYING: u32 = 24;
/// A core that waits more often than once in this time, on average, is woken too often.
const OFTEN_NS: Nanos = 50_000;
/// How long it pauses; the kernel adds 50 µs. What arrives meanwhile is read, and made durable, together.
const PAUSE: Duration = Duration::from_micros(300);
/// How much must come of what came before: at first, as far as that can be told in so short a time, and later. A client that
/// sends at a pace of its own falls behind for good if a little less than that comes.
const KEPT_AT_FIRST: f64 = 0.85;
const KEPT: f64 = 0.95;
/// What was worth it isn't any more if it isn't so often in a row: how much a client sends varies.
const DOUBTS: u32 = 2;
/// For how long at most what came without pauses is compared with. What was worth it for a thousand clients that log in would
/// be so for ever for the few that send much more afterwards, however much they wait.
const KNOWN_NS_MAX: Nanos = 2_000_000_000;
/// For how long it isn't tried again where it brought nothing: twice as long each time in a row.
const REST_NS_MIN: Nanos = 2_000_000_000;
const REST_NS_MAX: Nanos = 16_000_000_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Pauses {
    state: State,
    waits: u32,
    /// When the first of these waits was, and how many bytes the core had moved.
    since: Nanos,
    moved: u64,
    rest_ns: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Watching,
    Trying { without: Window },
    Pausing { without: Window, doubts: u32 },
    Resting { until: Nanos },
}

/// What came in as many waits as are measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    waits: u32,
    took: Nanos,
    ended: Nanos,
    moved: u64,
}

impl Pauses {
    pub(super) fn new(now: Nanos) -> Self {
        Self { state: State::Watching, waits: 0, since: now, moved: 0, rest_ns: REST_NS_MIN }
    }

    /// For how long to pause before this wait. `look` reads the time and how many bytes the core has moved so far.
    pub(super) fn before_wait(&mut self, look: impl FnOnce() -> (Nanos, u64)) -> Option<Duration> {
        self.waits += 1;
        if self.waits == self.state.waits() {
            let (now, moved) = look();
            let (took, moved_since) = (now.saturating_sub(self.since), moved.saturating_sub(self.moved));
            self.judge(Window { waits: self.waits, took, ended: now, moved: moved_since });
            (self.waits, self.since, self.moved) = (0, now, moved);
        }
        self.state.pauses().then_some(PAUSE)
    }

    fn judge(&mut self, window: Window) {
        let now = window.ended;
        self.state = match self.state {
            State::Watching if window.took < OFTEN_NS * Nanos::from(window.waits) => State::Trying { without: window },
            State::Trying { without } if window.is_worth_it(without, KEPT_AT_FIRST) => {
                State::Pausing { without, doubts: 0 }
            }
            State::Pausing { without, .. } if now >= without.ended + KNOWN_NS_MAX => State::Watching,
            State::Pausing { without, .. } if window.is_worth_it(without, KEPT) => {
                self.rest_ns = REST_NS_MIN;
                State::Pausing { without, doubts: 0 }
            }
            State::Pausing { without, doubts } if doubts + 1 < DOUBTS => State::Pausing { without, doubts: doubts + 1 },
            State::Trying { .. } | State::Pausing { .. } => {
                let until = now + self.rest_ns;
                self.rest_ns = (self.rest_ns * 2).min(REST_NS_MAX);
                State::Resting { until }
            }
            State::Resting { until } if now >= until => State::Watching,
            State::Watching | State::Resting { .. } => self.state,
        };
    }
}

impl State {
    /// After how many waits it is looked at again.
    fn waits(self) -> u32 {
        match self {
            Self::Trying { .. } => WAITS_TRYING,
            Self::Pausing { .. } => WAITS_PAUSING,
            Self::Watching | Self::Resting { .. } => WAITS,
        }
    }

    fn pauses(self) -> bool {
        matches!(self, Self::Trying { .. } | Self::Pausing { .. })
    }
}

impl Window {
    /// At least half as much again at a time, and so much of what came before.
    fn is_worth_it(self, without: Self, kept: f64) -> bool {
        let ratio = |of: fn(Self) -> u64| {
            let per = |window: Self| window.moved as f64 / of(window).max(1) as f64;
            per(self) / per(without).max(f64::MIN_POSITIVE)
        };
        ratio(|window| window.waits.into()) >= 1.5 && ratio(|window| window.took) >= kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Nanos = 1_000;

    /// A core that moves so many bytes in each wait, which takes so long.
    struct Load {
        now: Nanos,
        moved: u64,
        pauses: Pauses,
    }

    impl Load {
        fn new() -> Self {
            Self { now: 0, moved: 0, pauses: Pauses::new(0) }
        }

        /// Waits; `next` says, for a pause or none, how long it takes and what comes. Returns in how many it paused.
        fn run(&mut self, waits: u32, next: impl Fn(bool) -> (Nanos, u64)) -> u32 {
            let mut paused = 0;
            for _ in 0..waits {
                let pause = self.pauses.before_wait(|| (self.now, self.moved)).is_some();
                let (took, moved) = next(pause);
                self.now += took;
                self.moved += moved;
                paused += u32::from(pause);
            }
            paused
        }
    }

    #[test]
    fn who_is_seldom_woken_never_pauses() {
        assert_eq!(Load::new().run(10_000, |_| (51 * MICROSECOND, 100)), 0);
    }

    #[test]
    fn a_publisher_that_waits_for_nobody_is_read_in_larger_pieces() {
        let mut load = Load::new();
        // 10 bytes come in a microsecond.
        let steady = |pause| if pause { (360 * MICROSECOND, 3_600) } else { (20 * MICROSECOND, 200) };
        assert!(load.run(10_000, steady) >= 10_000 - 2 * WAITS);
        // It sends far less; the window in which that begins may still be good.
        assert!(load.run(10_000, |_| (400 * MICROSECOND, 1_100)) <= (1 + DOUBTS) * WAITS_PAUSING);
        assert!(load.run(10_000, steady) >= 10_000 - 3 * WAITS, "and more again");
    }

    #[test]
    fn what_held_for_some_clients_is_asked_anew_for_others() {
        let mut load = Load::new();
        // Many log in: little comes, and the more at a time the longer it is waited for.
        let logins = |pause| if pause { (360 * MICROSECOND, 360) } else { (20 * MICROSECOND, 20) };
        load.run(WAITS + WAITS_TRYING + 2 * WAITS_PAUSING, logins);
        assert_eq!(load.run(1, logins), 1);
        // One that waits for answers follows: never woken too often, and however long it has to wait it sends more.
        let windows = |pause| if pause { (440 * MICROSECOND, 20_000) } else { (80 * MICROSECOND, 20_000) };
        let begin = load.now;
        load.run((KNOWN_NS_MAX / (440 * MICROSECOND)) as u32 + WAITS_PAUSING, windows);
        assert!(load.now - begin < KNOWN_NS_MAX + 200_000 * MICROSECOND, "{}", load.now - begin);
        assert_eq!(load.run(100_000, windows), 0);
    }

    #[test]
    fn a_client_that_falls_behind_a_little_is_left_alone_soon() {
        let mut load = Load::new();
        // A tenth less comes: as much as a client may send less in some milliseconds without a reason.
        let behind = |pause| if pause { (360 * MICROSECOND, 3_240) } else { (20 * MICROSECOND, 200) };
        // Two seconds, in which it is tried once.
        let paused = load.run(100_000, behind);
        assert!((1..=WAITS_TRYING + DOUBTS * WAITS_PAUSING).contains(&paused), "{paused}");
    }

    #[test]
    fn clients_that_wait_for_answers_are_tried_less_and_less() {
        // One, of which nothing more comes for a pause, and two, which come together but half as often.
        for together in [1, 2] {
            let mut load = Load::new();
            let waiting = |pause| if pause { (360 * MICROSECOND, together * 100) } else { (30 * MICROSECOND, 100) };
            let paused = load.run(1_000_000, waiting);
            assert!(paused >= WAITS_TRYING && u64::from(paused) * 360 * MICROSECOND < load.now / 250, "{paused}");
        }
    }
}
