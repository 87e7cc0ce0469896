//! Pauses of a core that is woken very often for little input, so that it reads more at a time.
//!
//! A client that writes each message by itself and doesn't wait for answers wakes its core for each, and a wake-up and
//! a read cost more than a few messages do. Clients that wait for answers don't send more if answers come later. Pauses
//! are therefore tried, and kept only if more input comes at a time and no less in total.

use std::time::Duration;

use leveret_broker::Nanos;

/// Number of waits in a measurement: some 60 ms of a core that is woken too often, and 90 ms while it pauses. A first
/// result has to show in 8 ms, because clients that wait for answers fall behind meanwhile.
const WAITS: u32 = 2048;
const WAITS_PAUSING: u32 = 256;
const WAITS_TRYING: u32 = 24;
/// A core that waits more often than once in this time, on average, is woken too often.
const OFTEN_NS: Nanos = 50_000;
/// Length of a pause; the kernel adds 50 µs. Messages that arrive meanwhile are read, and made durable, together.
const PAUSE: Duration = Duration::from_micros(300);
/// Share of the earlier input that must still come with pauses: a lower one at first, as a short measurement is
/// inexact, and a higher one later. A client that sends at a fixed rate falls behind for good if a little less than
/// that comes.
const KEPT_AT_FIRST: f64 = 0.85;
const KEPT: f64 = 0.95;
/// Number of bad measurements in a row that end the pauses: clients' rates vary.
const DOUBTS: u32 = 2;
/// Longest time for which a measurement without pauses is compared with. Otherwise pauses that paid off while a
/// thousand clients logged in would be kept forever for the few that send much more afterwards, however long these
/// wait.
const KNOWN_NS_MAX: Nanos = 2_000_000_000;
/// Time before pauses are tried again after they brought nothing; it doubles with each failure in a row.
const REST_NS_MIN: Nanos = 2_000_000_000;
const REST_NS_MAX: Nanos = 16_000_000_000;

/// The pauses of one core.
#[derive(Debug)]
pub(super) struct Pauses {
    state: State,
    waits: u32,
    /// The time of the first of these waits, and the bytes that the core had moved by then.
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

/// The input in the waits of one measurement.
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

    /// The length of the pause before this wait. `look` reads the time and the number of bytes that the core has moved
    /// so far.
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
    /// Number of waits after which it is evaluated.
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
    /// Whether pauses bring at least half as much again at a time, and at least the share `kept` of the earlier input.
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

    /// A simulated core that moves this many bytes in each wait of this length.
    struct Load {
        now: Nanos,
        moved: u64,
        pauses: Pauses,
    }

    impl Load {
        fn new() -> Self {
            Self { now: 0, moved: 0, pauses: Pauses::new(0) }
        }

        /// Simulates waits; `next` returns the duration and input of a wait with or without a pause. Returns the number
        /// of pauses.
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
    fn a_core_that_is_seldom_woken_never_pauses() {
        assert_eq!(Load::new().run(10_000, |_| (51 * MICROSECOND, 100)), 0);
    }

    #[test]
    fn a_publisher_that_never_waits_is_read_in_larger_pieces() {
        let mut load = Load::new();
        // 10 bytes come in a microsecond.
        let steady = |pause| if pause { (360 * MICROSECOND, 3_600) } else { (20 * MICROSECOND, 200) };
        assert!(load.run(10_000, steady) >= 10_000 - 2 * WAITS);
        // The client sends far less with pauses; only the window in which that begins may still be good.
        assert!(load.run(10_000, |_| (400 * MICROSECOND, 1_100)) <= (1 + DOUBTS) * WAITS_PAUSING);
        assert!(load.run(10_000, steady) >= 10_000 - 3 * WAITS, "and more again");
    }

    #[test]
    fn pauses_are_evaluated_again_when_clients_change() {
        let mut load = Load::new();
        // Many clients log in: little input comes, and the more at a time the longer the wait.
        let logins = |pause| if pause { (360 * MICROSECOND, 360) } else { (20 * MICROSECOND, 20) };
        load.run(WAITS + WAITS_TRYING + 2 * WAITS_PAUSING, logins);
        assert_eq!(load.run(1, logins), 1);
        // Then one client that waits for answers: it never wakes the core too often, and sends more however long it has
        // to wait.
        let windows = |pause| if pause { (440 * MICROSECOND, 20_000) } else { (80 * MICROSECOND, 20_000) };
        let begin = load.now;
        load.run((KNOWN_NS_MAX / (440 * MICROSECOND)) as u32 + WAITS_PAUSING, windows);
        assert!(load.now - begin < KNOWN_NS_MAX + 200_000 * MICROSECOND, "{}", load.now - begin);
        assert_eq!(load.run(100_000, windows), 0);
    }

    #[test]
    fn a_client_that_falls_behind_a_little_is_left_alone_soon() {
        let mut load = Load::new();
        // A tenth less comes: as much as a client's rate may vary in some milliseconds without a reason.
        let behind = |pause| if pause { (360 * MICROSECOND, 3_240) } else { (20 * MICROSECOND, 200) };
        // Two seconds, in which it is tried once.
        let paused = load.run(100_000, behind);
        assert!((1..=WAITS_TRYING + DOUBTS * WAITS_PAUSING).contains(&paused), "{paused}");
    }

    #[test]
    fn clients_that_wait_for_answers_are_tried_less_and_less() {
        // One client, which sends no more because of a pause; and two clients, whose input comes together but half as
        // often.
        for together in [1, 2] {
            let mut load = Load::new();
            let waiting = |pause| if pause { (360 * MICROSECOND, together * 100) } else { (30 * MICROSECOND, 100) };
            let paused = load.run(1_000_000, waiting);
            assert!(paused >= WAITS_TRYING && u64::from(paused) * 360 * MICROSECOND < load.now / 250, "{paused}");
        }
    }
}
