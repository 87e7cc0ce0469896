//! The texts of log lines about a session.

use super::session::Session;
use leveret_broker::log_lines::category;

impl Session {
    /// Logs why a command is refused: the client is told a code only.
    pub(crate) fn tell_refused(&self, command: &str, why: &str) {
        if self.client.awaits_answer() {
            // Nothing is refused yet.
            return;
        }
        self.refused_line(command, why)();
    }

    /// The same, to be said when it turns out that it is so.
    pub(crate) fn refused_line(&self, command: &str, why: &str) -> impl FnOnce() + Send + 'static {
        let (name, user, vhost) =
            (self.client.name.clone(), self.client.identity.name().clone(), self.client.vhost.clone());
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
