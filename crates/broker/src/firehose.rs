//! The firehose: while a vhost is traced, copies of all messages that come in and are delivered there go to its exchange
//! `amq.rabbitmq.trace`.
//!
//! Nothing is done unless something is bound to that exchange, so routes and snapshots say whether messages are traced. Messages of
//! the exchange itself aren't traced.

use leveret_message::deliver::Delivery;
use leveret_message::own::{HeaderTable, HeaderValue, traced};
use leveret_message::{Batch, BatchPart, StoredMessage};

use crate::broker::Broker;
use crate::own_messages::OwnRun;
use crate::registry::TRACE_EXCHANGE;
use crate::route::Route;
use crate::time::Now;

/// Most queues that the trace of a message names: a message may go to very many.
const ROUTED_QUEUES_MAX: usize = 1000;

/// Bytes of a content header besides its properties.
const HEADER_BYTES: usize = 64;

/// The client that published a message or gets it.
#[derive(Debug, Clone, Copy)]
pub struct TracedClient<'a> {
    /// The name of its connection.
    pub connection: &'a str,
    /// Its channel or session.
    pub channel: u16,
    /// Its user.
    pub user: &'a str,
    /// Its vhost.
    pub vhost: &'a str,
}

impl TracedClient<'_> {
    fn headers(&self) -> HeaderTable {
        vec![
            ("vhost".into(), HeaderValue::text(self.vhost)),
            ("connection".into(), HeaderValue::text(self.connection)),
            ("channel".into(), HeaderValue::Int(self.channel.into())),
            ("user".into(), HeaderValue::text(self.user)),
        ]
    }
}

/// The common part of the traces of a call.
struct Tap<'a> {
    vhost: &'a str,
    /// The first word of their routing keys.
    kind: &'static str,
    /// The queue that the messages are delivered from.
    queue: Option<&'a str>,
    headers: HeaderTable,
    delivery: &'a Delivery,
}

impl Broker {
    /// Traces messages that a client published on this route.
    pub fn trace_published(&self, client: &TracedClient<'_>, route: &Route, batch: &Batch, now: Now) {
        let messages = (0..batch.len()).map(|index| batch.message(index).view());
        self.trace_all_published(client, route, messages, now);
    }

    /// Traces a message that a client publishes alone, or that no queue gets.
    pub fn trace_single(&self, client: &TracedClient<'_>, route: &Route, message: &StoredMessage<'_>, now: Now) {
        self.trace_all_published(client, route, std::iter::once(*message), now);
    }

    fn trace_all_published<'m>(
        &self,
        client: &TracedClient<'_>,
        route: &Route,
        messages: impl Iterator<Item = StoredMessage<'m>>,
        now: Now,
    ) {
        let queues = route.queues.iter().map(|queue| &queue.info().name);
        let replies = route.replies.iter().map(|reply| reply.name());
        let queues = queues.chain(replies).take(ROUTED_QUEUES_MAX).map(|name| HeaderValue::text(&**name)).collect();
        let mut headers = client.headers();
        headers.push(("routed_queues".into(), HeaderValue::List(queues)));
        let delivery = &Delivery::default();
        self.trace(Tap { vhost: client.vhost, kind: "publish", queue: None, headers, delivery }, messages, now);
    }

    /// Traces `count` messages of `batch` from `index` on that a client gets from the queue of this name.
    pub fn trace_delivered(
        &self,
        client: &TracedClient<'_>,
        queue: &str,
        delivery: &Delivery,
        part: BatchPart<'_>,
        now: Now,
    ) {
        let mut headers = vec![("redelivered".into(), HeaderValue::Int(delivery.redelivered.into()))];
        headers.extend(client.headers());
        let messages = part.indexes().map(|index| part.batch.message(index as usize).view());
        self.trace(Tap { vhost: client.vhost, kind: "deliver", queue: Some(queue), headers, delivery }, messages, now);
    }

    /// Shows messages that a client published on this route to taps of its exchange.
    pub fn tap_published(&self, route: &Route, batch: &Batch, now: Now) {
        if let Some(exchange) = route.exchange_counters() {
            self.taps.published(exchange, route.targets(), batch, now.monotonic);
        }
    }

    /// The same of a message that a client publishes alone, or that no queue gets.
    pub fn tap_single(&self, route: &Route, message: &StoredMessage<'_>, now: Now) {
        if let Some(exchange) = route.exchange_counters() {
            self.taps.published_single(exchange, route.targets(), message, now.monotonic);
        }
    }

    fn trace<'m>(&self, tap: Tap<'_>, messages: impl Iterator<Item = StoredMessage<'m>>, now: Now) {
        let Tap { vhost, kind, queue, headers, delivery } = tap;
        let snapshot = self.registry.snapshot_full();
        let properties_max = match self.settings.frame_max as usize {
            0 => usize::MAX,
            frame_max => frame_max.saturating_sub(HEADER_BYTES),
        };
        let mut run = OwnRun::new(self, &snapshot, (vhost, TRACE_EXCHANGE), false, now);
        let mut key = Vec::new();
        for (at, message) in (0..).zip(messages) {
            if message.envelope.exchange == TRACE_EXCHANGE.as_bytes() {
                continue;
            }
            // Offsets in a stream follow each other.
            let stream_offset = delivery.stream_offset.map(|first: u64| first + at);
            let delivery = Delivery { stream_offset, ..*delivery };
            key.clear();
            key.extend_from_slice(kind.as_bytes());
            key.push(b'.');
            key.extend_from_slice(queue.map_or(message.envelope.exchange, str::as_bytes));
            let shown = traced(&message, &delivery, &self.settings.node_name, headers.clone(), properties_max);
            run.push(
                &key,
                &StoredMessage { properties: &shown.properties, body: &shown.body, ..StoredMessage::default() },
            );
        }
    }
}
