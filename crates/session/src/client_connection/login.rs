//! A client's login, its entry into a vhost, and the end of its credential.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_model::{Identity, Topology};

use super::ClientConnection;
use leveret_broker::asked::NowOrLater;
use leveret_broker::authenticate::{LoginOrigin, LoginOutcome, claimed};
use leveret_broker::quota::{LimitReached, OwnLimits};
use leveret_broker::route::RouteCache;
use leveret_broker::time::{Nanos, Now};

/// A time that doesn't come.
pub(super) const NEVER: Nanos = Nanos::MAX;

/// The reason for closing a connection whose credential has ended.
pub const CREDENTIAL_EXPIRED: &str = "credential expired";

const NANOS_PER_MS: u64 = 1_000_000;

impl ClientConnection {
    /// Whether a user has proved its identity.
    pub fn is_logged_in(&self) -> bool {
        !self.identity.is_nobody()
    }

    /// Checks the response of a mechanism that was offered, and returns the identity that it proves the client to have, or the reason
    /// of a refusal, for the log only: the client must not learn it. `None` if a backend has to answer first: then the frame is taken
    /// again later, and nothing of it may have been written or changed. Attempts are counted; refused ones are logged.
    pub fn check_login(&mut self, mechanism: &str, response: Cow<'_, [u8]>, now: Now) -> Option<LoginOutcome> {
        self.check_login_from(LoginOrigin::default(), mechanism, response, now)
    }

    /// As [`ClientConnection::check_login`], in a protocol whose logins say more. The addresses are those of the connection.
    pub fn check_login_from(
        &mut self,
        origin: LoginOrigin<'_>,
        mechanism: &str,
        response: Cow<'_, [u8]>,
        now: Now,
    ) -> Option<LoginOutcome> {
        let claimed = claimed(&response).map(str::to_owned);
        let outcome = match self.take_login() {
            Some(outcome) => outcome,
            None => {
                self.counters.auth_attempts.increment();
                match self.broker.log_in(&self.peer, mechanism, response, origin) {
                    NowOrLater::Now(outcome) => outcome,
                    NowOrLater::Later(later) => {
                        self.ask_login(later, now);
                        return None;
                    }
                }
            }
        };
        self.login_checked(&outcome, claimed.as_deref(), mechanism);
        Some(outcome)
    }

    /// The response of a mechanism, converted to PLAIN's form.
    ///
    /// # Errors
    /// The reason why it isn't a valid response of that mechanism.
    pub fn plain_response<'a>(&self, mechanism: &str, response: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        match self.broker.protocols.plain_response(mechanism, response) {
            Some(plain) => plain.map(Cow::from),
            None => Ok(response.into()),
        }
    }

    /// Gives the connection this identity, also in place of an earlier one.
    pub fn log_in(&mut self, identity: Identity, mechanism: &str, now: Now) {
        self.identity = identity;
        self.mechanism = mechanism.into();
        // Routes hold what the earlier identity might do.
        self.routes = RouteCache::default();
        self.set_credential_due(now);
    }

    fn set_credential_due(&mut self, now: Now) {
        self.credential_due = self.identity.ends_ms().map_or(NEVER, |ends_ms| {
            let left = ends_ms.saturating_sub(now.wall_ms).saturating_mul(NANOS_PER_MS);
            now.monotonic.saturating_add(left)
        });
    }

    /// Monotonic time at which the credential may have ended.
    pub(crate) fn credential_due(&self) -> Option<Nanos> {
        (self.credential_due != NEVER).then_some(self.credential_due)
    }

    /// Whether the credential has ended. It has once only.
    pub(crate) fn credential_ends(&mut self, now: Now) -> bool {
        if now.monotonic < self.credential_due {
            return false;
        }
        // Wall time may have been set back since the login.
        self.set_credential_due(now);
        let has_ended = now.monotonic >= self.credential_due;
        if has_ended {
            self.credential_due = NEVER;
        }
        has_ended
    }

    /// Delays the answer to a refused login, so that passwords can't be tried in quick succession.
    pub fn delay_refusal(&mut self, now: Now) {
        let delay = self.broker.settings.auth_failure_delay_ms * NANOS_PER_MS;
        self.silence.expect_by(Some(now.monotonic + delay));
    }

    /// Enters a vhost of this topology. From now on the connection is listed and counted as open.
    ///
    /// # Errors
    /// A limit on the connections of the vhost, the user or the node is reached.
    pub fn enter(&mut self, topology: &Topology, vhost: Arc<str>) -> Result<(), LimitReached> {
        let own = OwnLimits::of_connections(topology, &vhost, self.identity.name());
        self.account = self.broker.quota.open(&vhost, self.identity.name(), own)?;
        self.vhost = vhost;
        self.counters.enter(self.broker.vhost_counters(&self.vhost));
        self.broker.opened(self.shown());
        Ok(())
    }
}
