//! The progress of an HTTP connection, and the deadline for its next step.

use std::time::Duration;

use leveret_config::HttpLimits;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Timeouts of each state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    request: Duration,
    idle: Duration,
    inactive: Duration,
}

impl From<&HttpLimits> for Patience {
    fn from(limits: &HttpLimits) -> Self {
        Self {
            request: Duration::from_millis(limits.request_timeout_ms),
            idle: Duration::from_millis(limits.idle_timeout_ms),
            inactive: Duration::from_millis(limits.inactivity_timeout_ms),
        }
    }
}

/// The state of a connection, updated by the code that reads, writes and handles its requests.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Time of the connection, or of the end of its handshake.
    came: Instant,
    /// Whether the client is authenticated.
    is_known: bool,
    /// Time since when bytes have been waiting for the client to read them.
    blocked: Option<Instant>,
    /// Time since when a request's body has been incomplete.
    starved: Option<Instant>,
    requests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Idle since this time: no byte of a next request has arrived.
    Idle(Instant),
    /// A request began at this time, and its head isn't complete.
    Head(Instant),
    /// A request that began at this time is being handled.
    Answering(Instant),
}

/// The reason for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The client hasn't logged in in time.
    Unknown,
    /// The head of a request is incomplete, or the body if the client hasn't logged in.
    Request,
    /// The body of a request has stalled.
    Body,
    /// There is no further request.
    Idle,
    /// The client doesn't read its response.
    Blocked,
}

impl Overdue {
    /// Whether the client, which has sent something and waits, gets a response.
    pub(crate) fn is_told(self) -> bool {
        matches!(self, Overdue::Request | Overdue::Body)
    }

    /// The state and the configuration key that limits it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Overdue::Unknown => "it hasn't logged in within request_timeout",
            Overdue::Request => "its request wasn't complete within request_timeout",
            Overdue::Body => "its request's body didn't go on within idle_timeout",
            Overdue::Idle => "it was idle for idle_timeout",
            Overdue::Blocked => "it took nothing of its answer for inactivity_timeout",
        }
    }
}

/// The value of a connection, lowest first: the lowest is closed to make room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// It hasn't logged in, or its request has been incomplete, since this time.
    None(Instant),
    /// It has logged in, and has been idle since this time.
    Idle(Instant),
    /// It is new, or a request is being handled.
    Full,
}

impl Progress {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            phase: Phase::Idle(now),
            came: now,
            is_known: false,
            blocked: None,
            starved: None,
            requests: 0,
        }))
    }

    /// The handshake is done: from now on the client can send requests.
    pub(crate) fn is_ready(&self, now: Instant) {
        let mut state = self.0.lock();
        state.came = now;
        state.phase = Phase::Idle(state.came);
    }

    /// The client is authenticated, or needn't be.
    pub(crate) fn let_in(&self) {
        self.0.lock().is_known = true;
    }

    pub(super) fn received(&self, now: Instant) {
        let mut state = self.0.lock();
        if let Phase::Idle(_) = state.phase {
            state.phase = Phase::Head(now);
        }
    }

    pub(super) fn sent(&self, now: Instant) {
        let mut state = self.0.lock();
        state.blocked = None;
        // The rest of a response has only just been written, so the client is idle from now on.
        if let Phase::Idle(_) = state.phase {
            state.phase = Phase::Idle(now);
        }
    }

    pub(super) fn is_blocked(&self, now: Instant) {
        self.0.lock().blocked.get_or_insert(now);
    }

    pub(super) fn is_starved(&self, now: Instant) {
        self.0.lock().starved.get_or_insert(now);
    }

    pub(super) fn is_fed(&self) {
        self.0.lock().starved = None;
    }

    /// Notes that a request's head is complete. Returns the number of requests so far.
    pub(super) fn asks(&self, now: Instant) -> u64 {
        let mut state = self.0.lock();
        let began = match state.phase {
            Phase::Head(began) => began,
            Phase::Idle(_) | Phase::Answering(_) => now,
        };
        state.phase = Phase::Answering(began);
        state.requests += 1;
        state.requests
    }

    /// Notes that the response is complete.
    pub(super) fn is_answered(&self, now: Instant) {
        let mut state = self.0.lock();
        state.starved = None;
        state.phase = Phase::Idle(now);
    }

    /// The deadline of the current state; `None` while it only waits for us.
    pub(super) fn deadline(&self, patience: &Patience) -> Option<(Instant, Overdue)> {
        let state = self.0.lock();
        if let Some(blocked) = state.blocked {
            return Some((blocked + patience.inactive, Overdue::Blocked));
        }
        match state.phase {
            Phase::Idle(since) if state.is_known => Some((since + patience.idle, Overdue::Idle)),
            Phase::Idle(since) => Some((since.max(state.came) + patience.request, Overdue::Unknown)),
            Phase::Head(began) => Some((began + patience.request, Overdue::Request)),
            Phase::Answering(began) if state.starved.is_some() && !state.is_known => {
                Some((began + patience.request, Overdue::Request))
            }
            Phase::Answering(_) => state.starved.map(|since| (since + patience.idle, Overdue::Body)),
        }
    }

    /// The value of the connection; connections younger than `grace` are exempt.
    pub(super) fn claim(&self, now: Instant, grace: Duration) -> Claim {
        let state = self.0.lock();
        let spared = |since: Instant| now.saturating_duration_since(since) < grace;
        match state.phase {
            Phase::Idle(_) if !state.is_known && !spared(state.came) => Claim::None(state.came),
            Phase::Head(began) if !spared(began) => Claim::None(began),
            Phase::Answering(began) if state.starved.is_some() && !spared(began) => Claim::None(began),
            Phase::Idle(since) if state.is_known => Claim::Idle(since),
            _ => Claim::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time this many seconds after the connection.
    struct At(Instant);

    impl At {
        fn at(&self, seconds: u64) -> Instant {
            self.0 + Duration::from_secs(seconds)
        }

        /// The deadline in seconds after the connection, and the reason.
        fn until(&self, progress: &Progress) -> Option<(u64, Overdue)> {
            let patience = Patience::from(&HttpLimits::default());
            progress.deadline(&patience).map(|(until, why)| ((until - self.0).as_secs(), why))
        }
    }

    #[test]
    fn each_state_has_a_time_of_its_own() {
        let start = At(Instant::now());
        let progress = Progress::new(start.at(0));
        assert_eq!(start.until(&progress), Some((5, Overdue::Unknown)));
        progress.is_ready(start.at(3));
        assert_eq!(start.until(&progress), Some((8, Overdue::Unknown)), "a handshake has its own time");
        progress.received(start.at(7));
        progress.received(start.at(9));
        assert_eq!(start.until(&progress), Some((12, Overdue::Request)), "more bytes give no more time");
        assert_eq!(progress.asks(start.at(10)), 1);
        progress.is_starved(start.at(11));
        assert_eq!(start.until(&progress), Some((12, Overdue::Request)), "nor does a body before the login");
        progress.let_in();
        assert_eq!(start.until(&progress), Some((71, Overdue::Body)));
        progress.is_fed();
        assert_eq!(start.until(&progress), None, "an answer may take as long as we need");
        progress.is_blocked(start.at(20));
        progress.is_blocked(start.at(50));
        assert_eq!(start.until(&progress), Some((320, Overdue::Blocked)));
        progress.sent(start.at(60));
        assert_eq!(start.until(&progress), None);
        progress.is_answered(start.at(70));
        assert_eq!(start.until(&progress), Some((130, Overdue::Idle)));
        progress.sent(start.at(80));
        assert_eq!(start.until(&progress), Some((140, Overdue::Idle)), "idle begins when the last byte has gone out");
    }

    #[test]
    fn unauthenticated_clients_go_first_then_idle_ones() {
        let grace = Duration::from_secs(1);
        let start = At(Instant::now());
        let progress = Progress::new(start.at(0));
        assert_eq!(progress.claim(start.at(0), grace), Claim::Full, "it has just come");
        assert_eq!(progress.claim(start.at(2), grace), Claim::None(start.at(0)));
        progress.received(start.at(2));
        progress.asks(start.at(2));
        progress.let_in();
        assert_eq!(progress.claim(start.at(9), grace), Claim::Full);
        progress.is_answered(start.at(9));
        assert_eq!(progress.claim(start.at(9), grace), Claim::Idle(start.at(9)));
        assert!(Claim::None(start.at(9)) < Claim::Idle(start.at(0)) && Claim::Idle(start.at(9)) < Claim::Full);
    }
}
