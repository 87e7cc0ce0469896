//! The client's end of a connection: a strict client, and the events it received, in a form that outlives its buffers.

use leveret_amqp091::Properties;
use leveret_strict_client::Violation;
use leveret_strict_client::amqp091::{Client, CloseReason, Delivery, Event, Options};

use crate::body::{X_OPT_DEFERRAL_TOKEN, X_OPT_DELIVERY_TIME, X_STREAM_OFFSET};
use crate::content::Content;

/// A message as a client received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The channel.
    pub channel: u16,
    /// The consumer's tag; empty for a get.
    pub consumer: Vec<u8>,
    /// The delivery tag.
    pub tag: u64,
    /// The message.
    pub content: Content,
}

/// An event that a client received.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The connection is open.
    Connected,
    /// A reply without values.
    Reply(u16, &'static str),
    /// `queue.declare-ok`, with the number of ready messages.
    Declared(u16, u32),
    /// `queue.purge-ok` or `queue.delete-ok`.
    Removed(u16, &'static str),
    /// `basic.consume-ok` or `basic.cancel-ok`.
    Consumer(u16),
    /// The broker ended a consumer.
    Cancelled(u16, Vec<u8>),
    /// A delivery.
    Delivered(Received),
    /// `basic.get-ok`.
    Got(Received),
    /// `basic.get-empty`.
    Empty(u16),
    /// A message was returned as unroutable.
    Returned,
    /// Publishes from the first to the last tag were confirmed, or refused.
    Confirmed {
        /// The channel.
        channel: u16,
        /// The first tag.
        first: u64,
        /// The last tag.
        last: u64,
        /// Whether it is an ack.
        positive: bool,
    },
    /// The broker closed a channel.
    ChannelClosed(u16, CloseReason),
    /// The broker closed the connection.
    ConnectionClosed(CloseReason),
}

/// The client's end of a connection.
pub struct End {
    /// The client.
    pub client: Client,
    heard: Vec<Heard>,
}

impl Default for End {
    fn default() -> Self {
        Self { client: Client::new(Options::default()), heard: Vec::new() }
    }
}

impl End {
    /// Receives bytes from the broker; returns how many of them were whole frames.
    ///
    /// # Errors
    /// The broker broke a rule of the protocol.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, Violation> {
        let mut events = Vec::new();
        let used = self.client.receive(input, &mut events)?;
        for event in events {
            self.hear(event)?;
        }
        Ok(used)
    }

    /// The events since the last call.
    pub fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Puts events back that nothing has looked at yet.
    pub(crate) fn put_back(&mut self, rest: impl Iterator<Item = Heard>) {
        self.heard.splice(0..0, rest);
    }

    fn hear(&mut self, event: Event) -> Result<(), Violation> {
        let heard = match event {
            Event::Connected => Heard::Connected,
            Event::Reply { channel, method } => Heard::Reply(channel, method),
            Event::QueueDeclared { channel, message_count, .. } => Heard::Declared(channel, message_count),
            Event::Removed { channel, method, .. } => Heard::Removed(channel, method),
            Event::ConsumeOk { channel, .. } | Event::CancelOk { channel, .. } => Heard::Consumer(channel),
            Event::ConsumerCancelled { channel, consumer_tag } => Heard::Cancelled(channel, consumer_tag),
            Event::Delivered(delivery) => Heard::Delivered(self.received(delivery)?),
            Event::Got { delivery, .. } => Heard::Got(self.received(delivery)?),
            Event::GetEmpty { channel } => Heard::Empty(channel),
            Event::Returned { .. } => Heard::Returned,
            Event::Confirmed { channel, first, last, positive } => Heard::Confirmed { channel, first, last, positive },
            Event::ChannelClosed { channel, reason } => Heard::ChannelClosed(channel, reason),
            Event::ConnectionClosed(reason) => Heard::ConnectionClosed(reason),
            _ => return Ok(()),
        };
        self.heard.push(heard);
        Ok(())
    }

    fn received(&self, delivery: Delivery) -> Result<Received, Violation> {
        let bytes = |span| self.client.bytes(span).to_vec();
        let mut properties = Properties::decode(self.client.bytes(delivery.properties))?;
        let persistent = properties.delivery_mode.take() == Some(2);
        let message_id = properties.message_id.take().map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let headers = properties.headers.take();
        let has_died = headers.is_some_and(|headers| headers.lookup("x-death").is_some());
        let count =
            |name| headers.and_then(|headers| headers.lookup(name)).and_then(|count| count.as_i64()).unwrap_or(0);
        let (acquired, failed) = (count("x-acquired-count"), count("x-delivery-count"));
        let delivery_ms = headers.and_then(|headers| headers.lookup(X_OPT_DELIVERY_TIME)?.as_i64());
        let delivery_ms = delivery_ms.and_then(|ms| u64::try_from(ms).ok());
        let counts = usize::from(acquired > 0) + usize::from(failed > 0) + usize::from(delivery_ms.is_some());
        let has_token = headers.is_some_and(|headers| headers.lookup(X_OPT_DEFERRAL_TOKEN).is_some());
        let offset = headers.and_then(|headers| headers.lookup(X_STREAM_OFFSET)?.as_i64());
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        let counts = counts + usize::from(has_token) + usize::from(offset.is_some());
        let has_more_headers = headers.is_some_and(|headers| !has_died && headers.iter().count() > counts);
        let content = Content {
            redelivered: delivery.redelivered,
            exchange: bytes(delivery.exchange),
            key: bytes(delivery.routing_key),
            persistent,
            message_id,
            has_died,
            acquired,
            delivery_ms,
            offset,
            has_more: properties != Properties::default() || has_more_headers || failed > acquired && !has_died,
            body: bytes(delivery.body),
        };
        Ok(Received {
            channel: delivery.channel,
            consumer: bytes(delivery.consumer_tag),
            tag: delivery.delivery_tag,
            content,
        })
    }
}
