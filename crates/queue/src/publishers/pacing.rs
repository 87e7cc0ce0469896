//! Pacing of publishers: a queue whose consumers nearly keep up stays short at full rate.
//!
//! If publishers are a little faster than consumers, the queue grows without anybody noticing, and every message waits for
//! all before it. So the queue measures how long messages stand: the least number of ready messages during a few
//! milliseconds, divided by the rate at which consumers take them. A queue that is emptied now and then has nothing
//! standing, however large its bursts are. While more than the target stands, publishers get slots at the rate of the
//! consumers: a published message is paid for when its slot comes. Sessions give credit and confirms back then.
//!
//! Once publishers are paced, messages that consumers hold unsettled count as standing, too: a client with large credit keeps
//! thousands in its own buffers. Some consumers need what they hold, since they work on many messages at once. Their rate
//! falls when they are given less; then so much is left to them.
//!
//! Publishers keep at least half of their rate. A queue whose consumers take less than half of what arrives holds nobody
//! back, since storing what consumers can't take now is what a queue is for. That is looked at again every second.

use crate::nanos::Nanos;

/// Shortest time over which rates and the least length are measured.
const WINDOW: Nanos = 2_000_000;
/// A window has at least so many messages taken, or is as long as [`WINDOW_MAX`]: a smaller count gives no rate.
const TAKEN_MIN: u64 = 64;
/// A window has at least so many turns of consumers: with hundreds of connections, each has its turn after 10 ms, and messages
/// that stand until then don't tell that consumers are slow. With 100 pairs the rate grows by an eighth.
const TAKES_MIN: u32 = 8;
/// Longest window. A queue from which fewer than [`TAKEN_MIN`] messages are taken in that time isn't paced: at less than 1,000
/// per second, a single message stands for a millisecond, and a few that wait for a worker are what a queue is for.
const WINDOW_MAX: Nanos = 64_000_000;
/// Number of windows before a rate counts.
const WINDOWS_MIN: u32 = 2;
/// The time within which what stands too long is to be gone, or what is missing to be there.
const CORRECTION: Nanos = 10_000_000;
/// Publishers may be ahead of their slots by this time without waiting, so that batches pass as a whole.
const BURST: Nanos = 2_000_000;
/// The latest slot: a client that doesn't wait for its slots isn't remembered for longer.
const AHEAD_MAX: Nanos = 50_000_000;
/// A publisher that waits for confirms may be ahead of its slots by this time, and its connection is still read.
const AHEAD_OF_CONFIRMS: Nanos = 20_000_000;
/// Credit is granted so long before its slot.
const GRANT_AHEAD: Nanos = 1_000_000;
/// Longest pause of a connection's reading. Other channels and sessions of the connection wait, too.
const READ_PAUSE_MAX: Nanos = 5_000_000;
/// Consecutive windows in which nobody waited for a slot, after which pacing ends.
const QUIET_WINDOWS: u32 = 16;
/// Consecutive windows above the target in which consumers take less than the lowest rate, or less than arrives although
/// publishers are paced, after which publishers are let go.
const HOPELESS_WINDOWS: u32 = 50;
/// So much more has to arrive than is taken, 1 in 16, for pacing to be in vain.
const IN_VAIN: u64 = 16;
/// Time after which a queue that paced in vain is looked at again.
const LET_GO: Nanos = 1_000_000_000;

/// Standing messages are a backlog from so many times the goal on.
const BACKLOG: u128 = 10;

/// Consumers that lose this share of their rate, 1 in 16, hold too few messages.
const STARVED: u64 = 16;

const SECOND: u64 = 1_000_000_000;

/// The slot of a published message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublishSlot {
    /// Monotonic nanoseconds at which the message is paid for: its publisher gets credit or confirm no earlier. 0 if the
    /// publisher isn't paced.
    pub at: Nanos,
    /// Number of messages that a publisher may send at once while it is paced.
    pub burst: u32,
    /// Messages per second of all the queue's publishers.
    pub per_second: u64,
}

impl PublishSlot {
    /// Whether the publisher has to wait for it.
    #[inline]
    pub fn is_after(self, now: Nanos) -> bool {
        self.at > now
    }

    /// The later one of the slots of a message that goes to several queues; a queue that paces nobody has none.
    pub fn or_later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }

    /// The time from which more credit is granted: a little early, because it needs time to reach its client.
    pub fn grants_at(self) -> Nanos {
        self.at.saturating_sub(GRANT_AHEAD)
    }

    /// The time at which the publisher's connection is read again; 0 if at once. A publisher that waits for confirms is
    /// slowed down by these, unless it has so many messages unconfirmed that it is far ahead of its slots.
    pub fn read_again(self, waits_for_confirms: bool, now: Nanos) -> Nanos {
        let ahead = if waits_for_confirms { AHEAD_OF_CONFIRMS } else { 0 };
        let at = self.at.saturating_sub(ahead);
        if at > now { at.min(now + READ_PAUSE_MAX) } else { 0 }
    }
}

/// Messages per second, smoothed over windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SmoothRate {
    per_second: u64,
    windows: u32,
}

impl SmoothRate {
    /// Notes a window with this many messages, of this length in nanoseconds.
    pub fn note(&mut self, count: u64, elapsed: Nanos) {
        let measured = (u128::from(count) * u128::from(SECOND) / u128::from(elapsed.max(1))) as u64;
        self.per_second = if self.windows == 0 { measured } else { u64::midpoint(self.per_second, measured) };
        self.windows = self.windows.saturating_add(1);
    }

    /// The rate; 0 if none is known.
    pub fn per_second(self) -> u64 {
        self.per_second
    }
}

/// The counts of a window.
#[derive(Debug, Clone, Copy)]
struct Window {
    began: Nanos,
    arrived: u64,
    taken: u64,
    /// The least number of ready messages.
    least: u64,
    /// The least number of ready and unsettled messages.
    least_held: u64,
    /// Number of times that a consumer took some.
    takes: u32,
}

impl Window {
    fn beginning(now: Nanos) -> Self {
        Self { began: now, arrived: 0, taken: 0, least: u64::MAX, least_held: u64::MAX, takes: 0 }
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Publishers aren't paced, and not before this time.
    Free {
        until: Nanos,
    },
    Paced(Paced),
}

#[derive(Debug, Clone, Copy)]
struct Paced {
    since: Nanos,
    /// The lowest rate, in messages per second.
    floor: u64,
    /// The present rate, in messages per second.
    rate: u64,
    /// The time of the last slot that was given.
    last_slot: Nanos,
    /// A publisher had to wait for a slot in this window.
    is_felt: bool,
    quiet: u32,
    hopeless: u32,
    /// Consecutive windows in which nothing stood.
    empty: u32,
    /// The highest rate of the consumers.
    best: u64,
    /// Number of unsettled messages that consumers need for that rate.
    needed: u64,
}

/// The pacing of one queue's publishers.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// The longest standing delay that is tolerated.
    target: Nanos,
    window: Window,
    arrivals: SmoothRate,
    /// The rate at which consumers are done with messages.
    takes: SmoothRate,
    /// Unsettled messages at the last take, and at the begin of the window.
    unsettled: u64,
    unsettled_before: u64,
    is_announced: bool,
    state: State,
}

impl Pacing {
    pub(crate) fn new(target: Nanos, now: Nanos) -> Self {
        Self {
            target,
            window: Window::beginning(now),
            arrivals: SmoothRate::default(),
            takes: SmoothRate::default(),
            unsettled: 0,
            unsettled_before: 0,
            is_announced: false,
            state: State::Free { until: 0 },
        }
    }

    /// The time since when publishers are paced.
    pub(crate) fn since(&self) -> Option<Nanos> {
        match self.state {
            State::Free { .. } => None,
            State::Paced(paced) => Some(paced.since),
        }
    }

    /// Notes that messages arrived while `ready` were ready.
    pub(crate) fn arrived(&mut self, count: u64, ready: u64, now: Nanos) {
        self.window.arrived += count;
        self.window.least = self.window.least.min(ready);
        self.look(now);
    }

    /// The slot of the last of `count` messages that have [`arrived`](Self::arrived).
    pub(crate) fn slot(&mut self, count: u64, now: Nanos) -> PublishSlot {
        let State::Paced(paced) = &mut self.state else { return PublishSlot::default() };
        let needed = (u128::from(count) * u128::from(SECOND) / u128::from(paced.rate)) as u64;
        let from = paced.last_slot.max(now.saturating_sub(BURST));
        paced.last_slot = (from + needed).min(now + AHEAD_MAX);
        paced.is_felt |= paced.last_slot > now;
        // The more publishers wait for their slots, the less each of them sends at once.
        let ahead = paced.last_slot.saturating_sub(now);
        let burst = u128::from(paced.rate) * u128::from(BURST) / u128::from(SECOND);
        let burst = burst * u128::from(BURST) / u128::from(BURST + ahead);
        let burst = u32::try_from(burst).unwrap_or(u32::MAX).max(1);
        PublishSlot { at: paced.last_slot, burst, per_second: paced.rate }
    }

    /// The time at which [`look`](Self::look) is due if nothing happens until then, once for each time; `None` unless
    /// publishers are paced.
    pub(crate) fn announce(&mut self) -> Option<Nanos> {
        let State::Paced(_) = self.state else { return None };
        let is_known = std::mem::replace(&mut self.is_announced, true);
        (!is_known).then_some(self.window.began + WINDOW_MAX)
    }

    /// The announced time has come.
    pub(crate) fn due(&mut self, now: Nanos) {
        self.is_announced = false;
        self.look(now);
    }

    /// Notes that consumers took messages, that `ready` are left, and that consumers hold `unsettled`.
    pub(crate) fn taken(&mut self, count: u64, ready: u64, unsettled: u64, now: Nanos) {
        self.window.taken += count;
        self.window.takes += 1;
        self.unsettled = unsettled;
        self.window.least = self.window.least.min(ready);
        self.window.least_held = self.window.least_held.min(ready + unsettled);
        self.look(now);
    }

    /// Ends the window if it is long enough.
    fn look(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.window.began);
        let is_enough = self.window.taken >= TAKEN_MIN && self.window.takes >= TAKES_MIN;
        if elapsed < WINDOW || !is_enough && elapsed < WINDOW_MAX {
            return;
        }
        let window = std::mem::replace(&mut self.window, Window::beginning(now));
        if window.taken < TAKEN_MIN {
            let until = match self.state {
                State::Free { until } => until,
                State::Paced(_) => 0,
            };
            self.state = State::Free { until };
            (self.arrivals, self.takes) = (SmoothRate::default(), SmoothRate::default());
            self.unsettled_before = self.unsettled;
            return;
        }
        let before = std::mem::replace(&mut self.unsettled_before, self.unsettled);
        self.takes.note((window.taken + before).saturating_sub(self.unsettled), elapsed);
        let takes = self.takes.per_second.max(1);
        let is_standing = u128::from(window.least) * u128::from(SECOND) > u128::from(self.target) * u128::from(takes);
        match &mut self.state {
            State::Free { until } => {
                let until = *until;
                self.arrivals.note(window.arrived, elapsed);
                let is_known = self.takes.windows >= WINDOWS_MIN && self.arrivals.windows >= WINDOWS_MIN;
                let arrivals = self.arrivals.per_second;
                // A queue that gets shorter fast enough by itself needs nothing.
                let is_shrinking = arrivals < takes - takes / 16;
                if is_standing && is_known && until <= now && takes >= arrivals / 2 && !is_shrinking {
                    self.state = State::Paced(Paced {
                        since: now,
                        floor: (arrivals / 2).max(1),
                        rate: takes,
                        last_slot: now,
                        is_felt: true,
                        quiet: 0,
                        hopeless: 0,
                        empty: 0,
                        best: takes,
                        needed: 0,
                    });
                }
            }
            State::Paced(paced) => {
                paced.correct(&window, takes, self.target, now);
                paced.quiet = if paced.is_felt { 0 } else { paced.quiet + 1 };
                paced.is_felt = false;
                let is_in_vain = takes <= paced.floor || window.arrived > window.taken + window.taken / IN_VAIN;
                paced.hopeless = if is_standing && is_in_vain { paced.hopeless + 1 } else { 0 };
                let is_over = paced.quiet >= QUIET_WINDOWS;
                let is_hopeless = paced.hopeless >= HOPELESS_WINDOWS;
                if is_over || is_hopeless {
                    self.arrivals = SmoothRate::default();
                    self.state = State::Free { until: if is_hopeless { now + LET_GO } else { 0 } };
                }
            }
        }
    }
}

impl Paced {
    /// Sets the rate of the next window: that of the consumers, and a little less or more, so that half of the target stands.
    /// If nothing stands, consumers may be able to take more than they are given, and the rate grows ever faster.
    fn correct(&mut self, window: &Window, takes: u64, target: Nanos, now: Nanos) {
        let (takes, standing) = self.standing(window, takes);
        self.empty = if standing == 0 { self.empty + 1 } else { 0 };
        // Slots that are given stay: a change is felt when they have passed, and a hastier one would overshoot.
        let time = CORRECTION + 2 * self.last_slot.saturating_sub(now);
        let goal = u128::from(takes) * u128::from(target / 2) / u128::from(SECOND);
        let per_second = |messages: u128| (messages * u128::from(SECOND) / u128::from(time)) as u64;
        let standing = u128::from(standing);
        let rate = if standing > goal {
            // A little too much goes slowly, so that the rate is even; a backlog goes as fast as publishers' floor lets it.
            let most = if standing > BACKLOG * goal { takes / 2 } else { takes / 5 };
            takes.saturating_sub(per_second(standing - goal).min(most))
        } else {
            let growth = (takes / 20) << self.empty.min(4);
            takes + per_second(goal - standing).min(growth).max(growth * u64::from(standing == 0))
        };
        self.rate = rate.max(self.floor);
    }

    /// The rate of the consumers, and the number of messages that stand in the queue and in their clients.
    fn standing(&mut self, window: &Window, takes: u64) -> (u64, u64) {
        self.best = self.best.max(takes);
        if window.least > 0 {
            // They have all that they want.
            self.best = takes;
        } else if takes < self.best - self.best / STARVED {
            // They hold too little to keep their rate: it comes back with what they need.
            self.needed = self.needed.max(window.least_held + window.least_held / STARVED);
            return (self.best, 0);
        }
        (takes, window.least_held.saturating_sub(self.needed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MS: Nanos = 1_000_000;
    const TARGET: Nanos = MS;
    const STEP: Nanos = 100_000;

    /// The way in which a client works.
    #[derive(Clone, Copy)]
    enum Work {
        /// It takes and settles a message when it has done the one before.
        AtOnce,
        /// One message after the other, with so many in its buffer.
        Buffer(u64),
        /// So many messages at the same time, each for a millisecond.
        Parallel(u64),
    }

    /// A queue between a publisher and a consumer of fixed rates, in steps of 0.1 ms.
    struct Bench {
        work: Work,
        /// The messages in the client's buffer: the times at which they came to the queue and to the client.
        held: VecDeque<(Nanos, Nanos)>,
        pacing: Pacing,
        now: Nanos,
        /// The times at which the ready messages came.
        ready: VecDeque<Nanos>,
        /// The slots for which the publisher waits.
        slots: VecDeque<Nanos>,
        sent: u64,
        taken: u64,
        /// Delays of the messages taken.
        delays: Vec<Nanos>,
        /// Number of messages that the publisher may have unpaid.
        window: u64,
        read_again: Nanos,
        /// The publisher doesn't keep to its slots.
        is_deaf: bool,
        /// The rest of each rate that made no whole message, in messages times nanoseconds.
        left: [u64; 2],
    }

    impl Bench {
        fn new(window: u64) -> Self {
            Self {
                work: Work::AtOnce,
                held: VecDeque::new(),
                pacing: Pacing::new(TARGET, 0),
                now: 0,
                ready: VecDeque::new(),
                slots: VecDeque::new(),
                sent: 0,
                taken: 0,
                delays: Vec::new(),
                window,
                read_again: 0,
                is_deaf: false,
                left: [0, 0],
            }
        }

        fn due(&mut self, at: usize, per_second: u64) -> u64 {
            self.left[at] += per_second * STEP;
            let due = self.left[at] / SECOND;
            self.left[at] %= SECOND;
            due
        }

        /// Runs for a time in milliseconds. Returns the rates per second of publisher and consumer.
        fn run(&mut self, ms: u64, publisher: u64, consumer: u64) -> (u64, u64) {
            let (sent, taken) = (self.sent, self.taken);
            for _ in 0..ms * MS / STEP {
                self.now += STEP;
                while self.slots.front().is_some_and(|at| *at <= self.now) {
                    self.slots.pop_front();
                }
                let count = self.due(0, publisher).min(self.window.saturating_sub(self.slots.len() as u64));
                if count > 0 && (self.read_again <= self.now || self.is_deaf) {
                    self.pacing.arrived(count, self.ready.len() as u64, self.now);
                    let slot = self.pacing.slot(count, self.now);
                    self.read_again = slot.read_again(true, self.now);
                    if slot.is_after(self.now) {
                        (0..count).for_each(|_| self.slots.push_back(slot.at));
                    }
                    (0..count).for_each(|_| self.ready.push_back(self.now));
                    self.sent += count;
                }
                let due = self.due(1, consumer);
                let done = match self.work {
                    Work::Parallel(_) => self.held.iter().take_while(|(_, taken)| taken + MS <= self.now).count(),
                    _ => self.held.len().min(due as usize),
                };
                self.delays.extend(self.held.drain(..done).map(|(at, _)| self.now - at));
                self.taken += done as u64;
                let most = match self.work {
                    Work::AtOnce => due,
                    Work::Buffer(most) | Work::Parallel(most) => most - self.held.len() as u64,
                };
                let count = most.min(self.ready.len() as u64);
                self.held.extend(self.ready.drain(..count as usize).map(|at| (at, self.now)));
                if let Work::AtOnce = self.work {
                    self.delays.extend(self.held.drain(..).map(|(at, _)| self.now - at));
                    self.taken += count;
                }
                if count > 0 {
                    self.pacing.taken(count, self.ready.len() as u64, self.held.len() as u64, self.now);
                }
            }
            ((self.sent - sent) * 1000 / ms, (self.taken - taken) * 1000 / ms)
        }

        fn p99(&mut self) -> Nanos {
            let mut delays = std::mem::take(&mut self.delays);
            delays.sort_unstable();
            delays[delays.len() * 99 / 100]
        }
    }

    #[test]
    fn a_queue_stays_short_if_consumers_are_a_little_slower() {
        for (publisher, consumer) in [(440_000, 400_000), (700_000, 400_000), (50_000, 40_000), (1_100_000, 1_000_000)]
        {
            for window in [192, 1000, 5000] {
                let mut bench = Bench::new(window);
                bench.run(500, publisher, consumer);
                bench.p99();
                let (sent, taken) = bench.run(2000, publisher, consumer);
                let p99 = bench.p99();
                assert!(taken >= consumer * 95 / 100, "{publisher}/{consumer}, {window}: {taken}");
                assert!(sent <= consumer * 101 / 100, "{publisher}/{consumer}, {window}: {sent}");
                assert!(p99 <= 2 * TARGET, "{publisher}/{consumer}, {window}: p99 {p99}");
            }
        }
    }

    #[test]
    fn messages_in_the_buffers_of_clients_stand_too() {
        for (credit, window) in [(200, 1000), (5000, 1000), (5000, 5000)] {
            let mut bench = Bench { work: Work::Buffer(credit), ..Bench::new(window) };
            bench.run(1000, 440_000, 400_000);
            bench.p99();
            let (_, taken) = bench.run(1000, 440_000, 400_000);
            let p99 = bench.p99();
            assert!(taken >= 380_000, "{credit}, {window}: {taken}");
            assert!(p99 <= 2 * TARGET, "{credit}, {window}: p99 {p99}");
        }
    }

    #[test]
    fn consumers_that_work_on_many_at_once_keep_them() {
        for (parallel, publisher) in [(100, 110_000), (1000, 1_100_000), (20, 30_000)] {
            let mut bench = Bench { work: Work::Parallel(parallel), ..Bench::new(5000) };
            let (_, most) = bench.run(500, publisher, 0);
            let (_, taken) = bench.run(1500, publisher, 0);
            assert!(taken >= most * 93 / 100, "{parallel}: {taken} of {most}");
        }
    }

    #[test]
    fn equal_or_faster_consumers_pace_nobody() {
        for (publisher, consumer) in [(400_000, 400_000), (300_000, 400_000), (1_000, 400_000)] {
            let mut bench = Bench::new(1000);
            let (sent, _) = bench.run(2000, publisher, consumer);
            assert!(sent >= publisher * 99 / 100, "{publisher}/{consumer}: {sent}");
            assert_eq!(bench.pacing.since(), None, "{publisher}/{consumer}");
        }
    }

    #[test]
    fn consumers_slower_than_half_hold_nobody_back() {
        for (publisher, consumer) in [(1_000_000, 1_000), (400_000, 150_000), (900, 700), (60, 50), (100_000, 0)] {
            let mut bench = Bench::new(1000);
            let (sent, _) = bench.run(3000, publisher, consumer);
            assert!(sent >= publisher * 99 / 100, "{publisher}/{consumer}: {sent}");
        }
    }

    #[test]
    fn publishers_that_still_send_more_than_is_taken_are_let_go() {
        let mut bench = Bench::new(usize::MAX as u64);
        bench.is_deaf = true;
        bench.run(100, 440_000, 300_000);
        assert!(bench.pacing.since().is_some());
        bench.run(200, 440_000, 300_000);
        assert_eq!(bench.pacing.since(), None);
        bench.run(500, 440_000, 300_000);
        assert_eq!(bench.pacing.since(), None, "it is looked at again after a second");
    }

    #[test]
    fn publishers_keep_half_of_their_rate_when_consumers_slow_down() {
        let mut bench = Bench::new(1000);
        bench.run(1000, 440_000, 400_000);
        assert!(bench.pacing.since().is_some());
        let (sent, _) = bench.run(200, 440_000, 100_000);
        assert!(sent >= 220_000, "{sent}");
        let (sent, _) = bench.run(900, 440_000, 100_000);
        assert!(sent >= 430_000, "let go: {sent}");
        let (sent, _) = bench.run(100, 440_000, 0);
        assert!(sent >= 430_000, "{sent}");
    }

    #[test]
    fn the_rate_follows_consumers_that_become_faster() {
        let mut bench = Bench::new(1000);
        bench.run(1000, 440_000, 250_000);
        bench.run(200, 440_000, 430_000);
        let (sent, _) = bench.run(500, 440_000, 430_000);
        assert!(sent >= 430_000 * 95 / 100, "{sent}");
        bench.run(200, 440_000, 900_000);
        let (sent, _) = bench.run(500, 440_000, 900_000);
        assert!(sent >= 435_000, "{sent}");
        assert_eq!(bench.pacing.since(), None, "let go");
    }

    #[test]
    fn a_backlog_goes_although_publishers_are_as_fast_as_consumers() {
        let mut bench = Bench::new(1000);
        bench.run(500, 400_000, 0);
        bench.run(1500, 400_000, 400_000);
        bench.p99();
        let (_, taken) = bench.run(500, 400_000, 400_000);
        let p99 = bench.p99();
        assert!(p99 <= 2 * TARGET, "{p99}");
        assert!(taken >= 380_000, "{taken}");
    }

    #[test]
    fn a_backlog_slows_no_publisher_slower_than_its_consumers() {
        let mut bench = Bench::new(1000);
        bench.run(1000, 400_000, 0);
        let (sent, taken) = bench.run(500, 100_000, 400_000);
        assert!(sent >= 99_000, "{sent}");
        assert!(taken >= 390_000, "{taken}");
    }
}
