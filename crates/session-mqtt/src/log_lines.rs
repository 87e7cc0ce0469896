//! The texts of log lines about a session.

use leveret_broker::log_lines::{Told, category};

use super::session::{MqttPhase, Session};

impl Session {
    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told(&self.client_id)
    }

    /// The state by its name in log lines.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            MqttPhase::Begin => "starting",
            MqttPhase::Opening => "opening",
            MqttPhase::Open => "running",
            MqttPhase::Refused(_) => "closing",
            MqttPhase::Finished => "closed",
        }
    }

    /// Logs why something is refused: the client is told a code at most.
    pub(crate) fn tell_refused(&self, why: &str) {
        let (name, id, user, vhost) = (&self.client.name, &self.client_id, &self.client.user, &self.client.vhost);
        tracing::warn!(
            target: category::CONNECTION,
            pid = self.client.id.0,
            "MQTT connection {name} of client '{id}', user '{user}', vhost '{vhost}': refused: {why}"
        );
    }
}
