//! Publishing, getting and browsing without a connection, for the HTTP API.

use std::sync::Arc;

use bytes::Bytes;
use leveret_log::Wait;
use leveret_message::deliver::Delivery;
use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, Envelope, Overlay, StoredMessage};
use leveret_metrics::{Sizes, Totals};
use leveret_model::{Arguments, Identity, Refused, RefusedKind};
use leveret_queue::{Deliveries, GetOutcome, Link, Run, Signal, Taken};

use crate::asked::{Later, NowOrLater};
use crate::broker::Broker;
use crate::firehose::TracedClient;
use crate::headers::MessageHeaders;
use crate::own_messages::Offered;
use crate::protocol::{Encoded, Spoken};
use crate::queue_handle::{LedgerQueueRef, QueueRef};
use crate::route::{self, Publisher};
use crate::settlement::Settlement;
use crate::taps::Tapped;
use crate::ticket::Ticket;
use crate::time::{Nanos, Now};
use crate::wait_for::WaitFor;

/// The names that traces have for what has no connection and no channel.
const DIRECT_CONNECTION: &str = "HTTP";
const DIRECT_CHANNEL: u16 = 1;

/// A message that is published without a connection.
#[derive(Debug)]
pub struct PlainPublish<'a> {
    /// The identity that publishes it.
    pub who: &'a Identity,
    /// The vhost of the exchange.
    pub vhost: &'a str,
    /// The exchange that it is published to.
    pub exchange: &'a str,
    /// Its routing key.
    pub routing_key: &'a str,
    /// Its properties by name; headers are a table.
    pub properties: &'a Arguments,
    /// Its body.
    pub body: Bytes,
}

/// A message in its plain form, to be shown.
#[derive(Debug, Clone)]
pub struct PlainMessage {
    /// The exchange that it was published to.
    pub exchange: String,
    /// Its routing key.
    pub routing_key: String,
    /// Its properties by name; headers are a table.
    pub properties: Arguments,
    /// Its body.
    pub body: Bytes,
    /// Whether its body is in a file and not included: [`Broker::read_directly`] reads it.
    pub in_file: bool,
    /// Whether it was delivered before.
    pub redelivered: bool,
}

/// The result of a get.
pub enum Got {
    /// A message, its handle for settling, and the number of messages left.
    Message(PlainMessage, HeldGet, u64),
    /// Nothing is ready.
    Empty,
    /// It is being read from disk: ask again when called back.
    Wait,
    /// The queue was converted meanwhile: ask again.
    Converted,
    /// This queue answers later, see [`Broker::got`]. An asker that doesn't wait any more calls [`LedgerQueueRef::give_back`].
    Later(LedgerQueueRef, Later<GetOutcome>),
}

/// A message that was got and has to be settled or requeued.
#[derive(Clone)]
pub struct HeldGet(QueueRef, Run);

impl HeldGet {
    /// Its number in the queue.
    pub fn number(&self) -> u64 {
        self.1.first
    }
}

/// The result of a publish.
#[derive(Debug, Clone, Default)]
pub struct PublishedDirectly {
    /// Whether it was routed to at least one queue.
    pub routed: bool,
    /// The condition under which it is safe.
    pub wait: WaitFor,
}

/// A link that calls a function when the message that a get waits for is in memory, or its answer is there.
struct Loaded(Box<dyn Fn() + Send + Sync>);

impl Link for Loaded {
    fn signal(&self, signal: Signal) {
        if let Signal::Loaded(_) | Signal::Answered(_) = signal {
            (self.0)();
        }
    }
}

/// The part of a message that belongs to its delivery.
fn delivery_of(taken: &Taken) -> Delivery {
    Delivery {
        redelivered: taken.redelivered,
        delivery_count: taken.attempts.failed,
        acquired_count: taken.attempts.acquired,
        ..Delivery::default()
    }
}

impl Broker {
    /// Publishes a message at `now`.
    ///
    /// # Errors
    /// There is no such exchange, the user may not publish to it, or a property is wrong.
    pub fn publish_directly(&self, message: PlainPublish<'_>, now: Now) -> Result<PublishedDirectly, Refused> {
        let PlainPublish { who, vhost, exchange, routing_key, properties, body } = message;
        let wrong = |text: String| Refused::new(RefusedKind::PreconditionFailed, text);
        if body.len() as u64 > self.settings.max_message_size {
            let (size, limit) = (body.len(), self.settings.max_message_size);
            return Err(wrong(format!("message size {size} is larger than configured max size {limit}")));
        }
        if routing_key.len() > 255 {
            return Err(wrong(format!("routing key of {} bytes: at most 255 are allowed", routing_key.len())));
        }
        if self.alarms.publishing_blocked() {
            return Err(wrong("publishing is blocked by an alarm".to_owned()));
        }
        let Some((spoken, form)) = self.protocols.plain_form() else {
            let text = "no protocol of this node defines how messages are published without a connection";
            return Err(Refused::new(RefusedKind::NotImplemented, text.to_owned()));
        };
        let Encoded { encoding, properties, overlay, persistent, priority, expiry_ms } =
            form.encode(self, who, properties, now)?;
        let envelope = Envelope {
            durable: persistent,
            priority,
            exchange: exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            received_ms: now.wall_ms,
            expiry_ms,
        };
        let overlay = Overlay::new(&overlay);
        let message = StoredMessage { encoding, envelope, overlay, properties: &properties, body: b"" };
        let snapshot = self.registry.snapshot_full();
        let headers = MessageHeaders(Headers::stored(&message));
        let client = TracedClient { connection: DIRECT_CONNECTION, channel: DIRECT_CHANNEL, user: who.name(), vhost };
        let publisher = Publisher { who, vhost, client_id: None };
        let keys = [routing_key.as_bytes()];
        let route = route::extended(&snapshot, &publisher, exchange.as_bytes(), &keys, &headers)?;
        route.check(|| MessageHeaders(Headers::stored(&message)))?;
        self.count_published(spoken, vhost, body.len() as u64, route.queues.len() as u64);
        if route.is_traced() {
            self.trace_single(&client, &route, &StoredMessage { body: &body, ..message }, now);
        }
        if self.taps.watch_exchanges() {
            self.tap_single(&route, &StoredMessage { body: &body, ..message }, now);
        }
        if route.queues.is_empty() {
            route.count_unroutable(true, now.monotonic);
            return Ok(PublishedDirectly::default());
        }
        let mut builder = BatchBuilder::default();
        match body.len() >= leveret_message::batch::INLINE_BELOW {
            true => builder.push_large(&message, body),
            false => builder.push_message(&StoredMessage { body: &body, ..message }),
        }
        let batch = Arc::new(builder.finish());
        route.count(1, now.monotonic);
        let Offered { wait, gone } = self.hand_over(&route.queues, &batch, persistent, now);
        Ok(PublishedDirectly { routed: gone < route.queues.len() || !route.replies.is_empty(), wait })
    }

    /// Counts like RabbitMQ, which publishes HTTP messages over an AMQP 0-9-1 connection of its own: mandatory, and with
    /// confirms.
    fn count_published(&self, spoken: Spoken, vhost: &str, bytes: u64, queues: u64) {
        let routed = u64::from(queues > 0);
        let news = Totals {
            published: 1,
            published_with_confirm: 1,
            confirmed: 1,
            routed,
            enqueued: queues,
            unroutable_returned: 1 - routed,
            ..Totals::default()
        };
        let mut sizes = Sizes::default();
        sizes.count(bytes);
        self.count(spoken, &vhost.into(), &news, &mut sizes);
    }

    /// Takes one message out of a queue, to be passed to [`Broker::dispose`]. If it has to be read from disk first, or the queue
    /// answers later, `loaded` is called once it is read or there.
    pub fn get_directly(
        &self,
        queue: &LedgerQueueRef,
        user: &str,
        loaded: impl Fn() + Send + Sync + 'static,
        now: Now,
    ) -> Got {
        let link: Arc<dyn Link> = Arc::new(Loaded(Box::new(loaded)));
        let mut queue = queue.newest();
        loop {
            match queue.get(false, &link, 0, now.monotonic) {
                NowOrLater::Now(GetOutcome::Converted) => queue = queue.newest(),
                NowOrLater::Now(outcome) => return self.got(&queue, user, outcome, now),
                NowOrLater::Later(later) => {
                    later.notify(link, 0);
                    return Got::Later(queue, later);
                }
            }
        }
    }

    /// The result of a get whose answer came later.
    pub fn got(&self, queue: &QueueRef, user: &str, outcome: GetOutcome, now: Now) -> Got {
        match outcome {
            GetOutcome::Empty | GetOutcome::Failed(_) => Got::Empty,
            GetOutcome::Wait => Got::Wait,
            GetOutcome::Converted => Got::Converted,
            GetOutcome::Message(taken, left) => {
                let (message, vhost) = (self.delivered(&taken), &queue.info().vhost);
                if self.registry.has_traced() && self.registry.snapshot().traces(vhost) {
                    let client = TracedClient { connection: DIRECT_CONNECTION, channel: DIRECT_CHANNEL, user, vhost };
                    let messages = taken.part();
                    self.trace_delivered(&client, &queue.info().name, &delivery_of(&taken), messages, now);
                }
                Got::Message(message, HeldGet(queue.clone(), taken.run()), left)
            }
        }
    }

    /// Settles or requeues messages that were got from one queue. Returns the ticket to wait for.
    pub fn dispose(&self, held: &[HeldGet], settlement: Settlement, now: Nanos) -> Ticket {
        let mut last = None;
        // The queue may have been converted between two gets.
        for part in held.chunk_by(|one, other| one.0.is_same(&other.0)) {
            let queue = &part[0].0;
            let runs: Vec<Run> = part.iter().map(|held| held.1).collect();
            last = queue.settle(Deliveries::of(None, &runs), settlement, Wait::Confirm, now).or(last);
        }
        self.streams.announce();
        last.unwrap_or_default()
    }

    /// Reads stored messages of a queue from number `from` on, without changing anything. `read` is called once, on a disk
    /// thread, with runs of messages by the number of their first, or with the reason why they can't be read; it isn't called
    /// if the node stops.
    pub fn read_directly(
        &self,
        queue: &QueueRef,
        from: u64,
        read: impl Fn(Result<Vec<(u64, Arc<Batch>)>, String>) + Send + Sync + 'static,
    ) {
        queue.peek(from, Arc::new(read));
    }

    /// The properties of a copy, as lists of messages show them.
    pub fn tapped_properties(&self, copy: &Tapped) -> Arguments {
        let properties = &*copy.beginning.properties;
        let message = StoredMessage { properties, ..StoredMessage::default() };
        self.protocols
            .plain_form()
            .map_or_else(Arguments::default, |(_, form)| form.show(&message, &Delivery::default()).0)
    }

    /// The message at this index of a batch.
    pub fn plain(&self, batch: &Batch, index: u32, redelivered: bool) -> PlainMessage {
        self.shown(batch, index, &Delivery { redelivered, ..Delivery::default() })
    }

    /// A message that was taken, with the counts of its earlier deliveries.
    fn delivered(&self, taken: &Taken) -> PlainMessage {
        self.shown(&taken.batch, taken.index, &delivery_of(taken))
    }

    fn shown(&self, batch: &Batch, index: u32, delivery: &Delivery) -> PlainMessage {
        let message = batch.message(index as usize).view();
        let (properties, body) = match self.protocols.plain_form() {
            Some((_, form)) => form.show(&message, delivery),
            None => (Arguments::default(), message.body.into()),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        PlainMessage {
            exchange: text(message.envelope.exchange),
            routing_key: text(message.envelope.routing_key),
            properties,
            body: Bytes::copy_from_slice(&body),
            in_file: batch.is_in_file(index as usize),
            redelivered: delivery.redelivered,
        }
    }
}
