//! Traces of a client's messages for the firehose, and what live taps of exchanges see of them.

use leveret_broker::firehose::TracedClient;
use leveret_broker::route::Route;
use leveret_broker::time::Now;
use leveret_broker::turn_budget::{ENQUEUE, QUEUE_RUN};
use leveret_message::deliver::Delivery;
use leveret_message::{Batch, BatchPart, StoredMessage};

use super::ClientConnection;

impl ClientConnection {
    /// Traces messages that this client published on a channel or in a session, if their route is traced.
    #[inline]
    pub fn trace_published(&mut self, channel: u16, route: &Route, batch: &Batch, now: Now) {
        if route.is_traced() {
            self.broker.trace_published(&self.traced(channel), route, batch, now);
            self.budget.spend(QUEUE_RUN + ENQUEUE * batch.len() as u32);
        }
        if self.broker.taps.watch_exchanges() {
            self.broker.tap_published(route, batch, now);
        }
    }

    /// Whether a message on this route that no queue gets is shown to somebody.
    #[inline]
    pub fn shows_unroutable(&self, route: &Route) -> bool {
        route.is_traced() || self.broker.taps.watch_exchanges()
    }

    /// Traces a message that is published alone, or that no queue gets, if its route is traced.
    #[inline]
    pub fn trace_single(&mut self, channel: u16, route: &Route, message: &StoredMessage<'_>, now: Now) {
        if route.is_traced() {
            self.broker.trace_single(&self.traced(channel), route, message, now);
            self.budget.spend(QUEUE_RUN + ENQUEUE);
        }
        if self.broker.taps.watch_exchanges() {
            self.broker.tap_single(route, message, now);
        }
    }

    /// Traces messages that this client gets from a queue, if its vhost is traced.
    #[inline]
    pub fn trace_delivered(&mut self, channel: u16, queue: &str, part: BatchPart<'_>, delivery: &Delivery, now: Now) {
        if part.count > 0 && self.broker.registry.has_traced() && self.broker.registry.snapshot().traces(&self.vhost) {
            self.broker.trace_delivered(&self.traced(channel), queue, delivery, part, now);
            self.budget.spend(QUEUE_RUN + ENQUEUE * part.count);
        }
    }

    fn traced(&self, channel: u16) -> TracedClient<'_> {
        TracedClient { connection: &self.name, channel, user: self.identity.name(), vhost: &self.vhost }
    }
}
