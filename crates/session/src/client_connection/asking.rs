//! Answers from outside of the node: of the backend of a client's identity, and of the leader of a cluster's metadata. A frame that needs
//! one is taken again when it is there; until then input is blocked, and everything else goes on.

use std::sync::Arc;

use leveret_broker::asked::{Later, NowOrLater};
use leveret_broker::authenticate::{LoginOutcome, NotRenewed, RenewalOutcome, later_grant};
use leveret_broker::time::{Nanos, Now, SECOND};
use leveret_model::{Action, AskedGrants, GrantAnswer, GrantQuestion, Refused, RefusedKind};

use super::ClientConnection;

/// The key of signals that an answer of a backend is there. No protocol has it.
pub(crate) const BACKEND_KEY: u64 = u64::MAX;

/// Longest time for an answer. Later it counts as a refusal.
pub const ANSWER_WITHIN: Nanos = 30 * SECOND;

/// An answer of a backend that a frame needs.
pub(super) struct Asking {
    /// Monotonic time at which it counts as refused, in nanoseconds.
    due: Nanos,
    answer: Expected,
}

enum Expected {
    Login(Later<LoginOutcome>),
    /// The outcome is there, and the frame that logs in hasn't been taken again.
    LoggedIn(LoginOutcome),
    Renewal(Later<RenewalOutcome>),
    /// The outcome is there, and the frame that renews the secret hasn't been taken again.
    Renewed(RenewalOutcome),
    Grant(GrantQuestion, Later<GrantAnswer>),
    /// Decisions that other nodes know of come here.
    CatchUp(Later<bool>),
    /// They are here, as far as that could be found out, and the frame that looked something up hasn't been taken again.
    CaughtUp,
}

impl ClientConnection {
    /// Whether input is blocked until a backend answers.
    #[inline]
    pub fn is_asking(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| {
            !matches!(asking.answer, Expected::LoggedIn(_) | Expected::Renewed(_) | Expected::CaughtUp)
        })
    }

    /// Whether something was refused only because a backend has to answer first.
    pub fn awaits_answer(&self) -> bool {
        self.identity.asked().is_some_and(AskedGrants::wants)
    }

    /// Whether the frame that was just refused waits for a backend's answer instead: then it is taken again later. Asked for each frame
    /// that is refused, before anything is written or changed for it.
    #[must_use]
    pub fn parks(&mut self, now: Now) -> bool {
        if self.is_asking() {
            return true;
        }
        let Some(question) = self.identity.asked().and_then(AskedGrants::take_wanted) else { return false };
        let snapshot = self.broker.registry.snapshot();
        let answer = match self.broker.authenticator.ask(&snapshot.topology, &self.identity, &question) {
            NowOrLater::Later(later) => later,
            NowOrLater::Now(answer) => {
                let (place, later) = later_grant();
                place.answer(answer);
                later
            }
        };
        answer.notify(self.outbox.clone(), BACKEND_KEY);
        self.ask(Expected::Grant(question, answer), now);
        true
    }

    /// Whether a frame that looked up something that isn't there waits until this node has caught up with the other ones of its cluster,
    /// and is taken again then: an earlier answer of another node may have said that the object exists. Asked for each frame that is
    /// refused for that reason, before anything is written or changed for it.
    #[must_use]
    pub fn catches_up(&mut self, now: Now) -> bool {
        if self.is_asking() {
            return true;
        }
        if self.asking.take_if(|asking| matches!(asking.answer, Expected::CaughtUp)).is_some() {
            return false;
        }
        let NowOrLater::Later(later) = self.broker.registry.catch_up() else { return false };
        later.notify(self.outbox.clone(), BACKEND_KEY);
        self.ask(Expected::CatchUp(later), now);
        true
    }

    /// Whether a lookup that found nothing should be repeated once this node has [caught up](Self::catches_up).
    pub fn may_be_behind(&self) -> bool {
        let has_caught_up = self.asking.as_ref().is_some_and(|asking| matches!(asking.answer, Expected::CaughtUp));
        self.broker.registry.is_placed() && !has_caught_up
    }

    /// Whether this node, which may be behind the others of its cluster, doesn't know this exchange of the connection's vhost.
    pub fn lacks_exchange(&self, exchange: &[u8]) -> bool {
        let is_known = || {
            let snapshot = self.broker.registry.snapshot();
            snapshot.topology.exchange(&self.vhost, &String::from_utf8_lossy(exchange)).is_some()
        };
        self.broker.registry.is_placed() && !is_known()
    }

    /// A frame was taken: the next one that finds nothing asks anew.
    #[inline]
    pub fn has_found(&mut self) {
        if self.asking.is_some() {
            self.asking.take_if(|asking| matches!(asking.answer, Expected::CaughtUp));
        }
    }

    /// Whether a frame that was handled is used: it isn't if it has to be taken again once a backend has answered.
    #[inline]
    pub fn takes_frame(&mut self) -> bool {
        self.asking.is_none() || {
            self.has_found();
            !self.is_asking()
        }
    }

    /// Whether a backend has to answer before this is granted or refused. Then the question is noted.
    pub fn lacks_answer(&self, action: Action<'_>) -> bool {
        self.identity.asked().is_some()
            && self.authorize(action).is_err_and(|refused| refused.kind == RefusedKind::Unanswered)
    }

    /// Whether something that was granted isn't any more. An answer that isn't there refuses nothing that goes on already, and isn't
    /// asked for.
    pub fn no_longer_grants(&self, action: Action<'_>) -> Option<Refused> {
        let refused = self.authorize(action).err()?;
        if refused.kind == RefusedKind::Unanswered {
            self.identity.asked().and_then(AskedGrants::take_wanted);
            return None;
        }
        Some(refused)
    }

    /// A name for an object that no other object has. A frame that is taken again gets the same one, until
    /// [`ClientConnection::name_is_used`].
    pub fn new_name(&self, prefix: &str) -> Arc<str> {
        let next = || self.broker.names.next(prefix);
        match self.identity.asked() {
            Some(asked) => asked.choose(prefix, next).into(),
            None => next().into(),
        }
    }

    /// The object of the new name may be made.
    pub fn name_is_used(&self) {
        if let Some(asked) = self.identity.asked() {
            asked.use_chosen();
        }
    }

    /// Waits for the outcome of a login.
    pub(super) fn ask_login(&mut self, outcome: Later<LoginOutcome>, now: Now) {
        outcome.notify(self.outbox.clone(), BACKEND_KEY);
        self.ask(Expected::Login(outcome), now);
    }

    /// The outcome of the login that was waited for. It is there once only.
    pub(super) fn take_login(&mut self) -> Option<LoginOutcome> {
        let asking = self.asking.take_if(|asking| matches!(asking.answer, Expected::LoggedIn(_)))?;
        match asking.answer {
            Expected::LoggedIn(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The identity that a new secret gives, or why it isn't taken. `None` if a backend has to answer first: then the frame is taken again
    /// later, and nothing of it may have been written or changed.
    pub fn check_renewal(&mut self, secret: &[u8], now: Now) -> Option<RenewalOutcome> {
        let is_there = |asking: &mut Box<Asking>| matches!(asking.answer, Expected::Renewed(_));
        if let Some(asking) = self.asking.take_if(is_there)
            && let Expected::Renewed(outcome) = asking.answer
        {
            return Some(outcome);
        }
        let snapshot = self.broker.registry.snapshot();
        match self.broker.authenticator.renew(&snapshot.topology, &self.identity, secret) {
            NowOrLater::Now(outcome) => Some(outcome),
            NowOrLater::Later(later) => {
                later.notify(self.outbox.clone(), BACKEND_KEY);
                self.ask(Expected::Renewal(later), now);
                None
            }
        }
    }

    fn ask(&mut self, answer: Expected, now: Now) {
        self.asking = Some(Box::new(Asking { due: now.monotonic + ANSWER_WITHIN, answer }));
    }

    /// A backend has answered.
    pub(crate) fn backend_answered(&mut self, now: Now) {
        let Some(asking) = &self.asking else { return };
        match &asking.answer {
            Expected::Login(later) => {
                if let Some(outcome) = later.take() {
                    self.logged_in_later(outcome, now);
                }
            }
            Expected::Grant(_, later) => {
                if let Some(answer) = later.take() {
                    self.granted_later(answer, now);
                }
            }
            Expected::CatchUp(later) => {
                if later.take().is_some() {
                    self.caught_up(now);
                }
            }
            Expected::Renewal(later) => {
                if let Some(outcome) = later.take() {
                    self.renewed_later(outcome, now);
                }
            }
            Expected::LoggedIn(_) | Expected::Renewed(_) | Expected::CaughtUp => {}
        }
    }

    /// Monotonic time at which a backend has to have answered.
    pub(crate) fn answer_due(&self) -> Option<Nanos> {
        self.asking.as_ref().filter(|_| self.is_asking()).map(|asking| asking.due)
    }

    /// No answer came in time.
    pub(crate) fn end_asking(&mut self, now: Now) {
        let reason = || format!("the backend hasn't answered within {} s", ANSWER_WITHIN / SECOND);
        match self.asking.as_ref().map(|asking| &asking.answer) {
            Some(Expected::Login(_)) => self.logged_in_later(Err(reason()), now),
            Some(Expected::Renewal(_)) => self.renewed_later(Err(NotRenewed::Refused(reason())), now),
            Some(Expected::Grant(..)) => self.granted_later(GrantAnswer::Failed, now),
            Some(Expected::CatchUp(_)) => self.caught_up(now),
            Some(Expected::LoggedIn(_) | Expected::Renewed(_) | Expected::CaughtUp) | None => {}
        }
    }

    /// Forgets what was asked, since the connection is being closed: input goes on, up to the client's answer.
    pub(crate) fn stop_asking(&mut self) {
        self.asking = None;
    }

    fn logged_in_later(&mut self, outcome: LoginOutcome, now: Now) {
        self.ask(Expected::LoggedIn(outcome), now);
        // The client isn't to blame for the silence.
        self.silence.heard(now);
    }

    fn renewed_later(&mut self, outcome: RenewalOutcome, now: Now) {
        self.ask(Expected::Renewed(outcome), now);
        self.silence.heard(now);
    }

    fn caught_up(&mut self, now: Now) {
        self.ask(Expected::CaughtUp, now);
        self.silence.heard(now);
    }

    fn granted_later(&mut self, answer: GrantAnswer, now: Now) {
        let asking = self.asking.take().map(|asking| asking.answer);
        if let (Some(Expected::Grant(question, _)), Some(asked)) = (asking, self.identity.asked()) {
            asked.note(question, answer);
        }
        self.silence.heard(now);
    }
}
