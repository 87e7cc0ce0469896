//! How far a connection of HTTP has come, and until when it has to come further.

use std::time::Duration;

use leveret_config::HttpLimits;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long connections may stay in each state.
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

/// The state of a connection, noted by whatever reads, writes and answers for it.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// When the client came, or its handshake was done.
    came: Instant,
    /// Since when the client has been let in.
    is_known: bool,
    /// Since when bytes have waited for the client to take them.
    blocked: Option<Instant>,
    /// Since when a request's body has been missing.
    starved: Option<Instant>,
    requests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing of a next request is there.
    Idle(Instant),
    /// A request began then, and its head isn't complete.
    Head(Instant),
    /// A request that began then is being answered.
    Answering(Instant),
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The client hasn't logged in.
    Unknown,
    /// The head of a request isn't complete, or the body of a client that hasn't logged in.
    Request,
    /// The body of a request doesn't go on.
    Body,
    /// There is no next request.
    Idle,
    /// The client doesn't take its answer.
    Blocked,
}

impl Overdue {
    /// Whether the client has to be told, which has sent something and waits.
    pub(crate) fn is_told(self) -> bool {
        matches!(self, Overdue::Request | Overdue::Body)
    }

    /// The state and the key that limits it.
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

/// How much a connection may be missed, the least first: whom to close for somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// It hasn't logged in, or sends half a request, since then.
    None(Instant),
    /// It has logged in and has been idle since then.
    Idle(Instant),
    /// It came a moment ago, or is being answered.
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

    /// The handshake is done: from here on the client can send requests.
    pub(crate) fn is_ready(&self, now: Instant) {
        let mut state = self.0.lock();
        state.came = now;
        state.phase = Phase::Idle(state.came);
    }

    /// The client may do what it asks for: its name and password are right, or nobody asks for them.
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
        // The rest of an answer has only now gone out, so the client is idle from here on.
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

    /// A request's head is complete; how many there have been.
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

    /// The answer is complete.
    pub(super) fn is_answered(&self, now: Instant) {
        let mut state = self.0.lock();
        state.starved = None;
        state.phase = Phase::Idle(now);
    }

    /// Until when the connection may stay as it is; none while it waits for us alone.
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

    /// How much it is missed if it is closed; whoever came within `grace` is spared.
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

    /// So many seconds after the client came.
    struct At(Instant);

    impl At {
        fn at(&self, seconds: u64) -> Instant {
            self.0 + Duration::from_secs(seconds)
        }

        /// Until which second the connection may stay as it is, and why.
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
    fn strangers_go_before_idle_clients_and_busy_ones_stay() {
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
