//! The texts of log lines about a session.

use leveret_broker::log_lines::{Told, category};

use super::session::{Session, StreamPhase};

impl Session {
    pub(crate) fn told(&self) -> Told<'_> {
        let named = self.properties.iter().find(|(name, _)| name == "connection_name");
        self.client.told(named.map_or("", |(_, value)| value))
    }

    /// The state by its name in log lines.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            StreamPhase::Begin => "starting",
            StreamPhase::Authenticated | StreamPhase::Tuned => "tuning",
            StreamPhase::Open => "running",
            StreamPhase::Refused(_) | StreamPhase::Closing => "closing",
            StreamPhase::Finished => "closed",
        }
    }

    /// Logs why a command is refused: the client is told a code only.
    pub(crate) fn tell_refused(&self, command: &str, why: &str) {
        self.refused_line(command, why)();
    }

    /// The same, to be said when it turns out that it is so.
    pub(crate) fn refused_line(&self, command: &str, why: &str) -> impl FnOnce() + Send + 'static {
        let (name, user, vhost) = (self.client.name.clone(), self.client.user.clone(), self.client.vhost.clone());
        let (pid, command, why) = (self.client.id.counter(), command.to_owned(), why.to_owned());
        move || {
            tracing::warn!(
                target: category::CONNECTION,
                pid,
                "stream connection {name}: {command} of user '{user}' in vhost '{vhost}' is refused: {why}"
            );
        }
    }
}
