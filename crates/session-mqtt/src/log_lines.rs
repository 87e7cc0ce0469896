//! The texts of log lines about a session.

use super::session::Session;
use leveret_broker::log_lines::category;

impl Session {
    /// Logs why something is refused: the client is told a code at most.
    pub(crate) fn tell_refused(&self, why: &str) {
        if self.client.awaits_answer() {
            // Nothing is refused yet.
            return;
        }
        let (name, id, user, vhost) =
            (&self.client.name, self.terms.client_id(), self.client.identity.name(), &self.client.vhost);
        tracing::warn!(
            target: category::CONNECTION,
            pid = self.client.id.0,
            "MQTT connection {name} of client '{id}', user '{user}', vhost '{vhost}': refused: {why}"
        );
    }
}
