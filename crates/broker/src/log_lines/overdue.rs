//! Log lines about deliveries that a client leaves unsettled for too long.

use std::fmt;

use leveret_model::Queue;

use super::Told;
use super::category::QUEUE;
use crate::consumer_timeout::ConsumerTimeout;
use crate::time::{Nanos, SECOND};

/// The log lines of one kind about one consumer: at most one a second, since clients may ask for any timeout.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lines {
    /// No line is written before this time.
    next: Nanos,
    /// Number of lines that were left out since the last one.
    left_out: u64,
}

impl Lines {
    /// Whether a line is written now.
    pub(super) fn admit(&mut self, now: Nanos) -> Option<LeftOut> {
        if now < self.next {
            self.left_out += 1;
            return None;
        }
        self.next = now + SECOND;
        Some(LeftOut(std::mem::take(&mut self.left_out)))
    }
}

/// Number of lines that were left out before this one, as its last words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut(u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, ". Lines like this one that were left out since the last: {count}"),
        }
    }
}

/// The log lines about one consumer.
#[derive(Debug, Clone, Copy, Default)]
pub struct OverdueLines {
    late: Lines,
    timed_out: Lines,
}

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
    pub fn warn(&self, connection: Told<'_>, lines: &mut OverdueLines, now: Nanos) {
        let Some(left_out) = lines.late.admit(now) else { return };
        let (ms, setting) = (self.timeout.ms(self.node_ms), self.timeout.setting.named());
        tracing::warn!(
            target: QUEUE,
            pid = connection.id.counter(),
            "{self} hasn't acknowledged a delivery for {} ms: after {ms} ms the message is taken back ({setting}; connection \
             {connection}){left_out}",
            self.age / 1_000_000
        );
    }

    /// Its messages were taken back. It begins in RabbitMQ's words.
    pub fn timed_out(&self, count: u64, connection: Told<'_>, lines: &mut OverdueLines, now: Nanos) {
        let Some(left_out) = lines.timed_out.admit(now) else { return };
        let (ms, setting) = (self.timeout.ms(self.node_ms), self.timeout.setting.named());
        tracing::warn!(
            target: QUEUE,
            pid = connection.id.counter(),
            "{self} has timed out waiting for a consumer acknowledgement of a delivery. Timeout used: {ms} ms ({setting}; \
             connection {connection}). Messages that were taken back: {count}{left_out}"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_has_one_line_a_second() {
        let mut lines = Lines::default();
        assert_eq!(lines.admit(7), Some(LeftOut(0)));
        assert_eq!(lines.admit(8), None);
        assert_eq!(lines.admit(6 + SECOND), None);
        assert_eq!(lines.admit(7 + SECOND), Some(LeftOut(2)));
        assert_eq!(lines.admit(7 + 3 * SECOND), Some(LeftOut(0)));
    }
}
