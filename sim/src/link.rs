//! The client's end of a connection: a strict client, and what it learned, in words that outlive its buffers.

use leveret_strict_client::amqp091::{Client, CloseReason, Delivery, Event, Options};

use crate::event_hash::EventHash;
use crate::failure::{Check, Failure};
use crate::random::Random;
use crate::task::Task;

/// A message as a client got it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Channel.
    pub channel: u16,
    /// Consumer; empty for a get.
    pub consumer: Vec<u8>,
    /// Tag.
    pub tag: u64,
    /// The broker's flag.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: Vec<u8>,
    /// Routing key.
    pub key: Vec<u8>,
    /// Property flags and list.
    pub properties: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

/// What a client learned.
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
    /// A message came back as unroutable.
    Returned,
    /// Tags from the first to the last were confirmed, or refused.
    Confirmed {
        /// Channel.
        channel: u16,
        /// First tag.
        first: u64,
        /// Last tag.
        last: u64,
        /// Ack or nack.
        positive: bool,
    },
    /// The broker closed a channel.
    ChannelClosed(u16, CloseReason),
    /// The broker closed the connection.
    ConnectionClosed(CloseReason),
}

/// See the module.
pub struct Link {
    /// The client.
    pub client: Client,
    /// The broker's side.
    pub task: Task,
    inbox: Vec<u8>,
    heard: Vec<Heard>,
    alive: bool,
}

impl Link {
    /// A fresh client over a task.
    #[must_use]
    pub fn new(task: Task) -> Self {
        let client = Client::new(Options::default());
        Self { client, task, inbox: Vec::new(), heard: Vec::new(), alive: true }
    }

    /// False after [`Link::close`].
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// The socket is gone.
    pub fn close(&mut self, now: leveret_broker::Now) {
        self.alive = false;
        self.task.drop_connection(now);
    }

    /// The client has bytes for the broker, and there is room.
    pub fn can_send(&mut self) -> bool {
        self.alive && !self.task.has_ended() && !self.client.output().is_empty() && !self.task.input.is_full()
    }

    /// The broker sent something.
    #[must_use]
    pub fn can_receive(&self) -> bool {
        self.alive && !self.task.output.is_empty()
    }

    /// Nothing is under way in either direction.
    pub fn is_quiet(&mut self) -> bool {
        self.client.output().is_empty() && self.task.input.is_empty() && self.task.output.is_empty()
    }

    /// Moves some bytes to the broker.
    pub fn send(&mut self, random: &mut Random) {
        let output = self.client.output();
        let count = self.task.input.write(output, random);
        output.drain(..count);
    }

    /// Takes some bytes from the broker.
    ///
    /// # Errors
    /// The broker broke a rule of the protocol.
    pub fn receive(&mut self, random: &mut Random, hash: &mut EventHash) -> Result<(), Failure> {
        self.task.output.read(&mut self.inbox, random);
        let mut events = Vec::new();
        let used = self
            .client
            .receive(&self.inbox, &mut events)
            .map_err(|violation| Failure::new(Check::Protocol, violation.to_string()))?;
        self.inbox.drain(..used);
        hash.note(used as u64);
        for event in events {
            self.hear(event);
        }
        Ok(())
    }

    /// What was heard since the last time.
    pub fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Whether something was heard since.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.heard.is_empty()
    }

    fn hear(&mut self, event: Event) {
        let heard = match event {
            Event::Connected => Heard::Connected,
            Event::Reply { channel, method } => Heard::Reply(channel, method),
            Event::QueueDeclared { channel, message_count, .. } => Heard::Declared(channel, message_count),
            Event::Removed { channel, method, .. } => Heard::Removed(channel, method),
            Event::ConsumeOk { channel, .. } | Event::CancelOk { channel, .. } => Heard::Consumer(channel),
            Event::ConsumerCancelled { channel, consumer_tag } => Heard::Cancelled(channel, consumer_tag),
            Event::Delivered(delivery) => Heard::Delivered(self.received(delivery)),
            Event::Got { delivery, .. } => Heard::Got(self.received(delivery)),
            Event::GetEmpty { channel } => Heard::Empty(channel),
            Event::Returned { .. } => Heard::Returned,
            Event::Confirmed { channel, first, last, positive } => Heard::Confirmed { channel, first, last, positive },
            Event::ChannelClosed { channel, reason } => Heard::ChannelClosed(channel, reason),
            Event::ConnectionClosed(reason) => Heard::ConnectionClosed(reason),
            _ => return,
        };
        self.heard.push(heard);
    }

    fn received(&self, delivery: Delivery) -> Received {
        let bytes = |span| self.client.bytes(span).to_vec();
        Received {
            channel: delivery.channel,
            consumer: bytes(delivery.consumer_tag),
            tag: delivery.delivery_tag,
            redelivered: delivery.redelivered,
            exchange: bytes(delivery.exchange),
            key: bytes(delivery.routing_key),
            properties: bytes(delivery.properties),
            body: bytes(delivery.body),
        }
    }
}
