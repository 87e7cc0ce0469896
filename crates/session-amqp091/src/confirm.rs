//! Confirms that are due.

use leveret_amqp091::method::basic;
use leveret_amqp091::{Method, encode_method};
use leveret_queue::Watermarks;

use super::session::{Phase, Session};
use leveret_broker::planted::{Bug, is_planted};
use leveret_broker::time::Now;

impl Session {
    /// Sends the confirms that are due.
    pub(crate) fn confirm_durable(&mut self, now: Now) {
        if self.phase != Phase::Running {
            // Nothing may follow the broker's `connection.close`.
            return;
        }
        if !self.late_returns.is_empty() {
            // Before their confirms.
            self.return_late();
        }
        if self.confirming.is_empty() {
            return;
        }
        let streams = &self.client.broker.streams;
        let applied = self.client.applied();
        let reached = |stream| match is_planted(Bug::ConfirmWhenWritten) {
            true => streams.reached(stream).map(|reached| Watermarks::synced(reached.written)),
            false => applied(stream),
        };
        let (channels, output, counters) = (&mut self.channels, &mut self.client.output, &self.client.counters);
        let (contents, pace) = (&mut self.contents, &mut self.client.pace);
        self.confirming.retain(channels, |number, channel| {
            let Some(confirms) = channel.confirming() else { return false };
            let before = confirms.unanswered();
            while let Some(confirm) = confirms.next(&reached, now.monotonic) {
                let (delivery_tag, multiple) = (confirm.sequence, confirm.multiple);
                let method = if confirm.accepted {
                    Method::BasicAck(basic::Ack { delivery_tag, multiple })
                } else {
                    Method::BasicNack(basic::Nack { delivery_tag, multiple, requeue: false })
                };
                encode_method(contents.out(output, number), number, &method);
            }
            if let Some(at) = confirms.next_paced(now.monotonic) {
                pace.wake_at(at);
            }
            let unanswered = confirms.unanswered();
            counters.confirmed.add(before - unanswered);
            channel.confirmed(before - unanswered, unanswered > 0, now.monotonic)
        });
    }
}
