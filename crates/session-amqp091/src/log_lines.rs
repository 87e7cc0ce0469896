//! The texts of log lines about a session.

use leveret_amqp091::method::name_of;

use super::error::ProtocolError;
use super::session::{Phase, Session};

impl Session {
    /// The cause of a close, such as `operation queue.declare caused a channel exception not_found: no queue 'q' in
    /// vhost '/'`.
    pub(crate) fn cause(&self, scope: &str, error: &ProtocolError) -> String {
        if self.phase != Phase::Running {
            // Until the connection is open, RabbitMQ only logs the reason.
            return error.text.clone();
        }
        let (class_id, method_id) = error.method;
        let name = error.code.text().to_ascii_lowercase();
        match name_of(class_id, method_id) {
            Some(method) => format!("operation {method} caused a {scope} exception {name}: {}", error.text),
            None => format!("a {scope} exception {name}: {}", error.text),
        }
    }
}
