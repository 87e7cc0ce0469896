//! A client's login, and its entry into a vhost.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_model::Topology;

use super::ClientConnection;
use leveret_broker::authenticate::claimed;
use leveret_broker::quota::{LimitReached, OwnLimits};
use leveret_broker::time::Now;

impl ClientConnection {
    /// Whether a user has proved its identity.
    pub fn is_logged_in(&self) -> bool {
        !self.user.is_empty()
    }

    /// Checks the response of a mechanism that was offered, and returns the user that it proves the client to be.
    /// Attempts are counted; refused ones are logged.
    ///
    /// # Errors
    /// The reason, for the log only: the client must not learn it.
    pub fn check_login(&mut self, mechanism: &str, response: Cow<'_, [u8]>) -> Result<String, String> {
        let claimed = claimed(&response).map(str::to_owned);
        self.counters.auth_attempts.increment();
        let result = self.broker.log_in(&self.peer, mechanism, response);
        self.login_checked(&result, claimed.as_deref(), mechanism);
        result
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

    /// Makes this user the connection's user.
    pub fn log_in(&mut self, user: &str, mechanism: &str) {
        self.user = user.into();
        self.mechanism = mechanism.into();
    }

    /// Delays the answer to a refused login, so that passwords can't be tried in quick succession.
    pub fn delay_refusal(&mut self, now: Now) {
        self.deadline = Some(now.monotonic + self.broker.settings.auth_failure_delay_ms * 1_000_000);
    }

    /// Enters a vhost of this topology. From now on the connection is listed and counted as open.
    ///
    /// # Errors
    /// A limit on the connections of the vhost, the user or the node is reached.
    pub fn enter(&mut self, topology: &Topology, vhost: Arc<str>) -> Result<(), LimitReached> {
        let own = OwnLimits::of_connections(topology, &vhost, &self.user);
        self.account = self.broker.quota.open(&vhost, &self.user, own)?;
        self.vhost = vhost;
        self.counters.enter(self.broker.vhost_counters(&self.vhost));
        self.broker.opened(self.shown());
        Ok(())
    }
}
