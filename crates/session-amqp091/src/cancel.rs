//! The ends of consumers: `basic.cancel`, and consumers that the broker cancels.

use leveret_amqp091::method::basic;
use leveret_amqp091::{Method, encode_method};

use super::consumer::Consumer;
use super::encode::short;
use super::error::Result;
use super::held::{Answer, InputHold};
use super::session::Session;
use leveret_broker::quota::Kind;
use leveret_broker::time::{Nanos, Now};
use leveret_broker::turn_budget::CONSUMER;
use leveret_session::gone::GoneAt;

impl Session {
    /// A consumer isn't added.
    pub(super) fn not_consumed(&mut self) {
        self.client.account.give(Kind::Consumers, 1);
    }

    /// `basic.cancel` from the client. Messages that were delivered stay to be settled.
    pub(crate) fn cancel(&mut self, channel: u16, cancel: &basic::Cancel<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let tag = cancel.consumer_tag.as_bytes();
        self.cancel_replies(channel, tag);
        let key = self.channel(channel)?.consumer(tag);
        // An auto-delete queue is deleted with its last consumer: a client that knows that the consumer has ended must
        // not find it.
        let mut gone_at = GoneAt::default();
        if let Some(consumer) = key.and_then(|key| self.forget_consumer(key)) {
            let left = consumer.queue().cancel(consumer.id(), now.monotonic);
            gone_at = self.client.delete_if_unused(consumer.queue(), left, now);
        }
        let answer = match cancel.nowait {
            true => Answer::Nothing,
            false => Answer::BasicCancelOk { channel, tag: tag.into() },
        };
        self.answer_when_gone(channel, gone_at, answer);
        Ok(())
    }

    pub(super) fn forget_consumer(&mut self, key: u64) -> Option<Box<Consumer>> {
        let consumer = self.consumers.remove(&key)?;
        self.client.account.give(Kind::Consumers, 1);
        self.client.consumer_closed(&consumer.event());
        if let Some(channel) = self.channels.get_mut(&consumer.channel()) {
            channel.remove_consumer(consumer.tag());
            channel.unsettled_mut().end_source(consumer.source());
        }
        Some(consumer)
    }

    /// Handles a consumer that the broker ended, since its queue is gone.
    pub(crate) fn cancelled(&mut self, key: u64, now: Nanos) {
        if self.follows(key, now) {
            return;
        }
        if self.consumers.get(&key).is_some_and(|consumer| self.owes_answer(consumer.channel())) {
            self.questions.keep_ended(key);
            return;
        }
        if let Some(consumer) = self.forget_consumer(key) {
            self.client.budget.spend(CONSUMER);
            self.send_cancel(&consumer);
        }
    }

    /// Whether a method of the channel hasn't been answered. Channels do one thing at a time: a client that deletes a queue hears of that
    /// before its own consumers there end, as from RabbitMQ. Clients such as kombu raise an error for what comes before an answer.
    fn owes_answer(&self, channel: u16) -> bool {
        let is_held = matches!(&self.held, InputHold::Durable { answer, .. } if answer.channel() == Some(channel));
        is_held || self.questions.wait(channel)
    }

    /// Handles the consumers that ended while their channels waited, after an answer.
    pub(super) fn end_consumers_after_answer(&mut self, now: Now) {
        for key in self.questions.take_ended() {
            self.cancelled(key, now.monotonic);
        }
    }

    /// Whether a consumer goes on at the queue that its own was made by being given other members: its client notices nothing. What it holds
    /// is ready again there.
    fn follows(&mut self, key: u64, now: Nanos) -> bool {
        let Some(consumer) = self.consumers.get_mut(&key) else { return false };
        let Some(queue) = consumer.queue().follow(consumer.id(), now) else { return false };
        let Some(channel) = self.channels.get_mut(&consumer.channel()) else { return false };
        let source = channel.unsettled_mut().consumer_source(&queue, consumer.id(), consumer.timeout());
        consumer.moved(queue, source);
        true
    }

    /// Notifies the client that the broker ended a consumer, if the client knows such a notice.
    pub(super) fn send_cancel(&mut self, consumer: &Consumer) {
        let is_open = self.channels.get(&consumer.channel()).is_some_and(|channel| !channel.is_closing());
        if is_open && self.negotiated.knows_cancel() {
            let method = Method::BasicCancel(basic::Cancel { consumer_tag: short(consumer.tag()), nowait: true });
            encode_method(self.out(consumer.channel()), consumer.channel(), &method);
        }
    }
}
