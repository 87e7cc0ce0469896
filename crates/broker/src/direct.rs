//! Publishing, getting and browsing without a connection, for the HTTP API.

use std::sync::Arc;

use bytes::Bytes;
use leveret_amqp091::{FieldTable, FieldValue, HEADER_OVERHEAD, Properties, ShortStr};
use leveret_log::Wait;
use leveret_message::deliver::to_amqp091;
use leveret_message::headers::Headers;
use leveret_message::{Batch, BatchBuilder, Encoding, Envelope, Overlay, StoredMessage};
use leveret_metrics::{Sizes, Totals};
use leveret_model::{Arguments, Refused, RefusedKind, Value};
use leveret_queue::{GetOutcome, Link, Outcome, Peeked, Run, Signal};

use crate::broker::Broker;
use crate::expiration::time_to_live_ms;
use crate::field_tables;
use crate::headers::MessageHeaders;
use crate::queue_handle::{Later, QueueAnswer, QueueRef};
use crate::route::{self, Publisher};
use crate::settlement::Settlement;
use crate::ticket::Ticket;
use crate::time::{Nanos, Now};
use crate::wait_for::WaitFor;

const DELIVERY_MODE_PERSISTENT: u8 = 2;

/// A message in the form of AMQP 0-9-1, to be shown.
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
    Message(PlainMessage, Held, u64),
    /// Nothing is ready.
    Empty,
    /// It is being read from disk: ask again when called back.
    Wait,
    /// The queue answers later, see [`Broker::got`]. An asker that doesn't wait any more calls [`QueueRef::give_back`].
    Later(Later<GetOutcome>),
}

/// A message that was got and has to be settled or requeued.
#[derive(Debug, Clone, Copy)]
pub struct Held(Run);

impl Held {
    /// Its number in the queue.
    pub fn number(&self) -> u64 {
        self.0.first
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

impl Broker {
    /// Publishes a message of `user` in `vhost`.
    ///
    /// # Errors
    /// There is no such exchange, the user may not publish to it, or a property is wrong.
    #[allow(clippy::too_many_arguments)]
    pub fn publish_directly(
        &self,
        user: &str,
        vhost: &str,
        exchange: &str,
        routing_key: &str,
        properties: &Arguments,
        body: Bytes,
        now: Now,
    ) -> Result<PublishedDirectly, Refused> {
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
        let checked = Checked::of(properties, user, self)?;
        // An AMQP 0-9-1 client would have this frame_max itself.
        let (size, limit) = (checked.encoded.len() + HEADER_OVERHEAD, self.settings.frame_max);
        if limit != 0 && size > limit as usize {
            return Err(wrong(format!(
                "properties make a content header of {size} bytes, larger than frame_max ({limit})"
            )));
        }
        let mut expiry_ms = 0;
        if let Some(ms) = checked.time_to_live_ms {
            expiry_ms = Envelope::expiry(now.wall_ms, ms);
        }
        let snapshot = self.registry.snapshot_full();
        let table = Properties::decode(&checked.encoded).ok().and_then(|properties| properties.headers);
        let headers = table.map(|table| MessageHeaders(Headers::amqp091(Some(table))));
        let headers = headers.as_ref().map(|headers| headers as &dyn leveret_routing::Headers);
        let publisher = Publisher { user, vhost };
        let keys = [routing_key.as_bytes()];
        let route = route::extended(&snapshot, &publisher, exchange.as_bytes(), &keys, headers)?;
        self.count_published(vhost, body.len() as u64, route.queues.len() as u64);
        if route.queues.is_empty() {
            route.count_unroutable(true, now.monotonic);
            return Ok(PublishedDirectly::default());
        }
        let persistent = checked.persistent;
        let envelope = Envelope {
            durable: persistent,
            priority: checked.priority,
            exchange: exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            received_ms: now.wall_ms,
            expiry_ms,
        };
        let mut overlay = Vec::new();
        if let Some(stamps) = &self.settings.stamps {
            stamps.encode_amqp091(&checked.encoded, now.wall_ms, &mut overlay);
        }
        let message = StoredMessage {
            encoding: Encoding::Amqp091,
            envelope,
            overlay: Overlay::new(&overlay),
            properties: &checked.encoded,
            body: b"",
        };
        let mut builder = BatchBuilder::default();
        match body.len() >= leveret_message::batch::INLINE_BELOW {
            true => builder.push_large(&message, body),
            false => builder.push_message(&StoredMessage { body: &body, ..message }),
        }
        let batch = Arc::new(builder.finish());
        route.count(1, now.monotonic);
        let shared = self.shared.share(&batch, &route.queues, persistent, None);
        let mut published = PublishedDirectly { routed: true, wait: WaitFor::default() };
        let mut gone = 0;
        for queue in &route.queues {
            let came = queue.publish(&batch, 0, 1, persistent, shared, now.monotonic);
            published.wait.and(came.awaited.synced());
            gone += usize::from(came.is_gone);
            if !came.awaited.is_nothing() {
                self.streams.notify(came.awaited.synced(), queue.waiter());
            }
        }
        published.routed = gone < route.queues.len() || !route.replies.is_empty();
        self.streams.announce();
        Ok(published)
    }

    /// Counts like RabbitMQ, which publishes HTTP messages over an AMQP 0-9-1 connection of its own: mandatory, and with
    /// confirms.
    fn count_published(&self, vhost: &str, bytes: u64, queues: u64) {
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
        if let Some(spoken) = self.protocols.spoken().next() {
            self.count(spoken, &vhost.into(), &news, &mut sizes);
        }
    }

    /// Takes one message out of a queue, to be passed to [`Broker::dispose`]. If it has to be read from disk first, or the queue
    /// answers later, `loaded` is called once it is read or there.
    pub fn get_directly(&self, queue: &QueueRef, loaded: impl Fn() + Send + Sync + 'static, now: Nanos) -> Got {
        let link: Arc<dyn Link> = Arc::new(Loaded(Box::new(loaded)));
        match queue.get(false, &link, 0, now) {
            QueueAnswer::Now(outcome) => self.got(outcome),
            QueueAnswer::Later(later) => {
                later.notify(link, 0);
                Got::Later(later)
            }
        }
    }

    /// The result of a get whose answer came later.
    pub fn got(&self, outcome: GetOutcome) -> Got {
        match outcome {
            GetOutcome::Empty => Got::Empty,
            GetOutcome::Wait => Got::Wait,
            GetOutcome::Message(taken, left) => {
                let message = plain(&taken.batch, taken.index, taken.redelivered);
                Got::Message(message, Held(taken.run()), left)
            }
        }
    }

    /// Settles or requeues messages that were got from a queue. Returns the ticket to wait for.
    pub fn dispose(&self, queue: &QueueRef, held: &[Held], settlement: Settlement, now: Nanos) -> Ticket {
        let runs: Vec<Run> = held.iter().map(|held| held.0).collect();
        let ticket = match settlement {
            Settlement::Acknowledge => queue.settle(None, &runs, Outcome::Settled, Wait::Confirm, now),
            Settlement::Reject => queue.settle(None, &runs, Outcome::Dropped, Wait::Confirm, now),
            Settlement::Requeue { failed } => {
                queue.requeue(None, &runs, failed, now);
                None
            }
        };
        self.streams.announce();
        ticket.unwrap_or_default()
    }

    /// Returns ready messages of a queue, after the first `offset`, without changing anything.
    pub fn peek(&self, queue: &QueueRef, offset: u64, count: usize) -> Vec<Peeked> {
        queue.peek(offset, count)
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
        queue.read(from, Arc::new(read));
    }
}

/// The message at this index of a batch.
pub fn plain(batch: &Batch, index: u32, redelivered: bool) -> PlainMessage {
    let message = batch.message(index as usize).view();
    let content = to_amqp091(&message, None);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    PlainMessage {
        exchange: text(message.envelope.exchange),
        routing_key: text(message.envelope.routing_key),
        properties: shown(&content.properties),
        body: Bytes::copy_from_slice(&content.body),
        in_file: batch.is_in_file(index as usize),
        redelivered,
    }
}

/// Properties under the names that the HTTP API uses.
fn shown(encoded: &[u8]) -> Arguments {
    let Ok(properties) = Properties::decode(encoded) else { return Arguments::default() };
    let mut pairs: Vec<(Arc<str>, Value)> = Vec::new();
    let mut text = |name: &str, value: Option<ShortStr<'_>>| {
        pairs.extend(value.map(|value| (Arc::from(name), Value::string(value.as_bytes()))));
    };
    text("content_type", properties.content_type);
    text("content_encoding", properties.content_encoding);
    text("correlation_id", properties.correlation_id);
    text("reply_to", properties.reply_to);
    text("expiration", properties.expiration);
    text("message_id", properties.message_id);
    text("type", properties.kind);
    text("user_id", properties.user_id);
    text("app_id", properties.app_id);
    text("cluster_id", properties.cluster_id);
    let mut number = |name: &str, value: Option<u64>| {
        let value = value.map(|value| i64::try_from(value).map_or(Value::UInt(value), Value::Int));
        pairs.extend(value.map(|value| (Arc::from(name), value)));
    };
    number("delivery_mode", properties.delivery_mode.map(u64::from));
    number("priority", properties.priority.map(u64::from));
    number("timestamp", properties.timestamp);
    if let Some(headers) = properties.headers
        && let Ok(table) = field_tables::arguments(headers)
    {
        pairs.push(("headers".into(), Value::Table(table)));
    }
    Arguments::new(pairs)
}

/// A publisher's properties, checked.
struct Checked {
    encoded: Vec<u8>,
    persistent: bool,
    priority: Option<u8>,
    time_to_live_ms: Option<u64>,
}

impl Checked {
    fn of(given: &Arguments, user: &str, broker: &Broker) -> Result<Self, Refused> {
        let wrong = |text: String| Refused::new(RefusedKind::PreconditionFailed, text);
        let text = |name: &str| match given.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= 255 => Ok(Some(text.clone())),
            Some(other) => Err(wrong(format!("property {name} is no text of at most 255 bytes: {other}"))),
        };
        let byte = |name: &str| match given.get(name) {
            None => Ok(None),
            Some(Value::Int(number)) if u8::try_from(*number).is_ok() => Ok(u8::try_from(*number).ok()),
            Some(other) => Err(wrong(format!("property {name} is no number from 0 to 255: {other}"))),
        };
        let timestamp = match given.get("timestamp") {
            None => None,
            Some(Value::Int(seconds)) if *seconds >= 0 => Some(seconds.unsigned_abs()),
            Some(Value::UInt(seconds)) => Some(*seconds),
            Some(other) => return Err(wrong(format!("property timestamp is no number of seconds: {other}"))),
        };
        let table = match given.get("headers") {
            None => None,
            Some(Value::Table(table)) => Some(field_table(table).encoded()),
            Some(other) => return Err(wrong(format!("property headers is no table: {other}"))),
        };
        let user_id = text("user_id")?;
        if let Some(claimed) = &user_id {
            broker.check_user_id(user, claimed).map_err(wrong)?;
        }
        let expiration = text("expiration")?;
        let time_to_live_ms = match &expiration {
            None => None,
            Some(text) => match time_to_live_ms(text) {
                Ok(ms) => Some(ms),
                Err(reason) => return Err(wrong(reason)),
            },
        };
        let texts = [
            text("content_type")?,
            text("content_encoding")?,
            text("correlation_id")?,
            text("reply_to")?,
            text("message_id")?,
            text("type")?,
            text("app_id")?,
            text("cluster_id")?,
        ];
        let [content_type, content_encoding, correlation_id, reply_to, message_id, kind, app_id, cluster_id] = &texts;
        fn short(text: &Option<Arc<[u8]>>) -> Option<ShortStr<'_>> {
            text.as_ref().and_then(|text| ShortStr::new(text).ok())
        }
        let (delivery_mode, priority) = (byte("delivery_mode")?, byte("priority")?);
        let properties = Properties {
            content_type: short(content_type),
            content_encoding: short(content_encoding),
            headers: table.as_ref().map(|table| table.as_table()),
            delivery_mode,
            priority,
            correlation_id: short(correlation_id),
            reply_to: short(reply_to),
            expiration: short(&expiration),
            message_id: short(message_id),
            timestamp,
            kind: short(kind),
            user_id: short(&user_id),
            app_id: short(app_id),
            cluster_id: short(cluster_id),
        };
        let mut encoded = Vec::new();
        properties.encode(&mut encoded);
        let persistent = delivery_mode == Some(DELIVERY_MODE_PERSISTENT);
        Ok(Checked { encoded, persistent, priority, time_to_live_ms })
    }
}

fn field_table(arguments: &Arguments) -> FieldTable {
    arguments.iter().map(|(key, value)| (key.as_bytes().to_vec(), field_value(value))).collect()
}

fn field_value(value: &Value) -> FieldValue {
    match value {
        Value::Void => FieldValue::Void,
        Value::Bool(flag) => FieldValue::Bool(*flag),
        Value::Int(number) => FieldValue::I64(*number),
        Value::UInt(number) => i64::try_from(*number).map_or(FieldValue::F64(*number as f64), FieldValue::I64),
        Value::Double(number) => FieldValue::F64(*number),
        Value::Timestamp(seconds) => FieldValue::Timestamp(*seconds),
        Value::String(bytes) => FieldValue::LongString(bytes.to_vec()),
        Value::Bytes(bytes) => FieldValue::Bytes(bytes.to_vec()),
        // JSON has no decimals.
        Value::Decimal { .. } => FieldValue::Void,
        Value::Array(values) => FieldValue::Array(values.iter().map(field_value).collect()),
        Value::Table(table) => FieldValue::Table(field_table(table)),
    }
}
