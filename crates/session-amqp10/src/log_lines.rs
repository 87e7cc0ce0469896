//! The texts of log lines about a connection.

use super::connection::{Connection, Phase};
use leveret_broker::log_lines::Told;

impl Connection {
    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told("")
    }

    /// The state by RabbitMQ's name.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase {
            Phase::SaslInit | Phase::Refused => "waiting_sasl_init",
            Phase::Header => "waiting_amqp0100",
            Phase::Open => "waiting_open",
            Phase::Running => "running",
            Phase::Closing => "closing",
            Phase::Finished => "closed",
        }
    }
}
