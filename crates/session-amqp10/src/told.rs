//! What the log says of a connection.

use super::connection::{Connection, Phase};
use leveret_broker::told::Told;

impl Connection {
    pub(crate) fn told(&self) -> Told<'_> {
        self.client.told("")
    }

    /// RabbitMQ's names.
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
