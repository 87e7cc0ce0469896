//! Log lines about deliveries that a client leaves unsettled for too long.

use std::fmt;

use leveret_model::Queue;

use super::Told;
use super::category::QUEUE;
use crate::consumer_timeout::ConsumerTimeout;
use crate::time::Nanos;

/// A consumer with a delivery that it left unsettled for at least half of its timeout.
pub struct Overdue<'a> {
    /// Its tag, or its link's name; `None` for `basic.get` and consumers that ended.
    pub consumer: Option<&'a str>,
    /// Its queue.
    pub queue: &'a Queue,
    /// Its channel or session.
    pub channel: u16,
    /// Time since the delivery was sent.
    pub age: Nanos,
    /// Its timeout.
    pub timeout: ConsumerTimeout,
    /// The node's timeout in milliseconds.
    pub node_ms: u64,
}

impl Overdue<'_> {
    /// The warning at half of the timeout.
    pub fn warn(&self, connection: Told<'_>) {
        let (ms, setting) = (self.timeout.ms(self.node_ms), self.timeout.setting.named());
        tracing::warn!(
            target: QUEUE,
            pid = connection.id.0,
            "{self} hasn't acknowledged a delivery for {} ms: after {ms} ms the message is taken back ({setting}; connection \
             {connection})",
            self.age / 1_000_000
        );
    }

    /// Its messages were taken back. It begins in RabbitMQ's words.
    pub fn timed_out(&self, count: u64, connection: Told<'_>) {
        let (ms, setting) = (self.timeout.ms(self.node_ms), self.timeout.setting.named());
        tracing::warn!(
            target: QUEUE,
            pid = connection.id.0,
            "{self} has timed out waiting for a consumer acknowledgement of a delivery. Timeout used: {ms} ms ({setting}; \
             connection {connection}). Messages that were taken back: {count}"
        );
    }
}

impl fmt::Display for Overdue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.consumer {
            Some(consumer) => write!(f, "Consumer '{consumer}'")?,
            None => f.write_str("A client without a consumer")?,
        }
        let (name, vhost) = (&self.queue.name, &self.queue.vhost);
        write!(f, " on channel {} and queue '{name}' in vhost '{vhost}'", self.channel)
    }
}
