//! Deliveries that the client leaves unacknowledged for too long: their queue takes them back, and the consumer ends.

use std::sync::Arc;

use leveret_queue::Run;

use super::by_queue::ByQueue;
use super::consumer::Consumer;
use super::error::precondition;
use super::session::Session;
use super::unsettled::Settled;
use leveret_broker::log_lines::overdue::Overdue;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::CONSUMER;

impl Session {
    /// Takes back deliveries of a channel that are unacknowledged for too long.
    pub(crate) fn take_back(&mut self, number: u16, now: Now) {
        let node_ms = self.client.broker.consumer_timeout_ms();
        // Its client has settled some already, which is only not done yet.
        let is_settling = self.is_settling(number);
        let (looks, budget) = (&mut self.client.looks, &mut self.client.budget);
        let Some(channel) = self.channels.get_mut(&number).filter(|channel| !channel.is_closing()) else { return };
        if is_settling {
            return channel.unsettled_mut().watch_later(number, now.monotonic, looks);
        }
        let found = channel.unsettled_mut().look(number, node_ms, now.monotonic, looks, budget);
        for (source, age) in found.late {
            self.log_overdue(number, source, age, None, now);
        }
        if !found.taken_back.is_empty() {
            self.end_overdue(number, found.taken_back, now);
        }
    }

    /// Returns messages to their queues, and ends the consumers that had them. A client that doesn't know that the broker can end
    /// a consumer loses the channel instead, as in RabbitMQ.
    fn end_overdue(&mut self, number: u16, taken_back: Vec<Settled>, now: Now) {
        let (mut by_queue, mut ended) = (ByQueue::default(), Vec::<Box<Consumer>>::new());
        let mut timeout_ms = 0;
        for Settled { source, runs } in taken_back {
            self.client.budget.spend(CONSUMER);
            self.log_overdue(number, source, 0, Some(runs.iter().map(Run::count).sum()), now);
            let Some(channel) = self.channels.get_mut(&number) else { return };
            let of = channel.unsettled().source(source).clone();
            by_queue.add(&of, runs);
            let consumer = of.consumer.and_then(|id| self.forget_consumer(id.0));
            if let Some(consumer) = consumer {
                by_queue.of(&of.queue).ended.push(consumer.id());
                timeout_ms = of.timeout.map_or(0, |timeout| timeout.ms(self.client.broker.consumer_timeout_ms()));
                ended.push(consumer);
            }
        }
        for of in by_queue.take() {
            // As in RabbitMQ, a timeout doesn't count as a failed delivery.
            of.queue.leave(&of.ended, &of.settled, false, now.monotonic);
        }
        if ended.is_empty() || self.negotiated.knows_cancel() {
            return ended.iter().for_each(|consumer| self.send_cancel(consumer));
        }
        let error = precondition(format!(
            "delivery acknowledgement on channel {number} timed out. Timeout value used: {timeout_ms} ms. This timeout value can \
             be configured, see consumers doc guide to learn more"
        ));
        self.fail(number, error, now);
    }

    /// Logs that a delivery of a source is late, or that `taken_back` ones were.
    fn log_overdue(&mut self, number: u16, index: u32, age: Nanos, taken_back: Option<u64>, now: Now) {
        let Some(mut lines) = self.channels.get_mut(&number).map(|channel| *channel.unsettled_mut().lines(index))
        else {
            return;
        };
        let Some(channel) = self.channels.get(&number) else { return };
        let source = channel.unsettled().source(index);
        let Some(timeout) = source.timeout else { return };
        let tag: Option<Arc<[u8]>> = source.consumer.and_then(|id| Some(self.consumers.get(&id.0)?.tag().clone()));
        let tag = tag.as_deref().map(String::from_utf8_lossy);
        let overdue = Overdue {
            consumer: tag.as_deref(),
            queue: source.queue.info(),
            channel: number,
            age,
            timeout,
            node_ms: self.client.broker.consumer_timeout_ms(),
        };
        match taken_back {
            None => overdue.warn(self.told(), &mut lines, now.monotonic),
            Some(count) => overdue.timed_out(count, self.told(), &mut lines, now.monotonic),
        }
        if let Some(channel) = self.channels.get_mut(&number) {
            *channel.unsettled_mut().lines(index) = lines;
        }
    }
}
