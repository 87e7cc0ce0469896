//! The ends of publishers, subscriptions and the streams that they use.

use std::sync::Arc;

use leveret_stream_protocol::{ResponseCode, answers};

use super::session::{Session, StreamPhase};
use super::subscriptions::Subscription;
use leveret_broker::queue_handle::{QueueRef, StreamQueueRef};
use leveret_broker::quota::Kind;

impl Session {
    /// Registers to be told when a stream that this connection publishes to is gone, or its node can't be reached.
    pub(crate) fn watch(&mut self, stream: &Arc<str>, queue: &StreamQueueRef) {
        if self.watched.add(stream) {
            return;
        }
        let key = self.client.broker.fresh_id();
        self.watched.begin(stream.clone(), key);
        queue.watch_reached(key, self.client.outbox.clone());
    }

    /// The registration isn't needed by one publisher any more.
    fn unwatch(&mut self, stream: &Arc<str>, queue: &QueueRef) {
        if let Some(key) = self.watched.remove(stream) {
            queue.unwatch(key);
        }
    }

    /// A stream with this key of a subscription or a registration is gone.
    pub(crate) fn stream_gone(&mut self, key: u64) {
        let of_subscription = self.subscriptions.by_key(key).map(|known| known.stream().clone());
        if let Some(stream) = of_subscription.or_else(|| self.watched.stream(key)) {
            self.end_of_stream(&stream, ResponseCode::StreamNotAvailable);
        }
    }

    /// Ends the client's publishers and subscriptions of a stream, and tells the client if it had any.
    pub(crate) fn end_of_stream(&mut self, stream: &str, code: ResponseCode) {
        let publishers: Vec<u8> =
            self.publishers.iter().filter(|(_, known)| **known.stream() == *stream).map(|(id, _)| *id).collect();
        let subscriptions: Vec<u8> =
            self.subscriptions.iter().filter(|(_, known)| **known.stream() == *stream).map(|(id, _)| *id).collect();
        if publishers.is_empty() && subscriptions.is_empty() {
            return;
        }
        for id in publishers {
            self.forget_publisher(id);
        }
        subscriptions.into_iter().for_each(|id| drop(self.forget_subscription(id)));
        self.refused.count(code);
        answers::metadata_update(self.client.output.buffer(), code, stream);
    }

    /// Removes a publisher. False if there is none with this id.
    pub(crate) fn forget_publisher(&mut self, id: u8) -> bool {
        let Some(publisher) = self.publishers.remove(id) else { return false };
        self.client.counters.publishers_closed.increment();
        self.unwatch(publisher.stream(), publisher.queue());
        true
    }

    /// Removes a subscription, but not from its stream.
    pub(crate) fn forget_subscription(&mut self, id: u8) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(id)?;
        if self.phase == StreamPhase::Open {
            self.note_updates();
        }
        self.client.account.give(Kind::Consumers, 1);
        self.client.counters.consumers_closed.increment();
        Some(subscription)
    }

    /// A subscription isn't made.
    pub(crate) fn not_subscribed(&mut self) {
        self.client.account.give(Kind::Consumers, 1);
    }

    /// Notes when the client is late with its next answer. The group of a consumer that became active rests until it comes.
    pub(super) fn note_updates(&mut self) {
        self.client.silence.expect_by(self.subscriptions.next_deadline());
    }
}
