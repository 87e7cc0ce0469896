//! The settings of a load.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::message_properties::MessageProperties;

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp091,
    Amqp10,
    /// The stream protocol.
    Stream,
}

/// The order of publishing and consuming, and the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Both at the same time.
    AtOnce,
    /// First everything is published, then everything is consumed; each half is measured.
    InThenOut,
    /// As `InThenOut`, measured while publishing.
    PublishOnly,
    /// As `InThenOut`, measured while consuming.
    ConsumeOnly,
}

/// The exchange between publishers and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The default exchange, or no exchange in AMQP 1.0.
    Default,
    Direct,
    /// Every queue gets a copy of every message.
    Fanout,
    Topic,
    Headers,
}

impl Exchange {
    /// Its type.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> String {
        if self == Self::Default { String::new() } else { format!("my-{}-exchange", self.kind()) }
    }
}

/// The meaning of a confirm of a durable message: `x-durability` of a queue, which only Leveret has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Flushed to disk
    Synced,
    /// Written to the operating system
    Os,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Synced => "synced",
            Self::Os => "os",
        })
    }
}

/// The requested messages per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// For all publishers together.
    Fixed(f64),
    /// Half of the broker's full rate, which is measured first.
    Half,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.parse().ok().filter(|rate| (0.001..=1e9).contains(rate)).map(Self::Fixed);
        rate.or((text == "half").then_some(Self::Half))
            .ok_or_else(|| format!("expected messages per second from 0.001 to 1000000000, or 'half', got '{text}'"))
    }
}

/// The settings of a load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Name of the row or scenario.
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) course: Course,
    /// The queue's name, or the prefix of the queues' names.
    pub(crate) queue: &'static str,
    /// Number of queues. Each has as many publishers and consumers as any other, and at least one of both; with a
    /// fanout exchange the number of publishers is free.
    pub(crate) queues: u32,
    /// Number of publishers, each with a connection of its own, like consumers.
    pub(crate) publishers: u32,
    pub(crate) consumers: u32,
    pub(crate) exchange: Exchange,
    /// Number of additional idle durable queues.
    pub(crate) other_queues: u32,
    /// Number of bindings of the exchange. One per queue matches the messages for it.
    pub(crate) bindings: u32,
    /// Number of routing keys that a queue's messages use in turn; for a topic exchange, whose binding matches all of
    /// them.
    pub(crate) routing_keys: u32,
    /// Whether queues are durable and messages persistent.
    pub(crate) durable: bool,
    /// Durability that durable queues are declared with in Leveret; `None` for the node's setting.
    pub(crate) durability: Option<Durability>,
    /// Whether queues are quorum queues.
    pub(crate) is_quorum: bool,
    /// Members of each; `None` for as many as the broker gives them.
    pub(crate) quorum_members: Option<u32>,
    /// Whether queues are streams.
    pub(crate) is_stream: bool,
    /// Messages of each chunk of a stream; `None` for as many as come together.
    pub(crate) chunk: Option<u32>,
    /// `x-max-length`: excess messages are dropped.
    pub(crate) max_length: Option<u64>,
    /// Messages per second of all publishers together; `None` for as many as possible.
    pub(crate) rate: Option<f64>,
    /// Most unconfirmed publishes (unsettled messages), 0 for no confirms (settled ones).
    pub(crate) confirm_window: u32,
    /// Prefetch or link credit.
    pub(crate) prefetch: u16,
    /// Deliveries per acknowledgement (disposition), 0 for automatic ones (settled messages).
    pub(crate) ack_every: u64,
    /// Messages of each publisher, or the maximum if it stops by the clock.
    pub(crate) messages_each: u64,
    /// Time after which publishers stop by the clock.
    pub(crate) stop_after: Option<Duration>,
    pub(crate) size: usize,
    /// Properties of messages.
    pub(crate) properties: MessageProperties,
}

impl Settings {
    /// Messages of all publishers together.
    pub(crate) fn messages(&self) -> u64 {
        self.messages_each * u64::from(self.publishers)
    }

    /// Number of queues that get each message.
    pub(crate) fn copies(&self) -> u32 {
        if self.exchange == Exchange::Fanout { self.queues } else { 1 }
    }

    /// The name of one of the queues.
    pub(crate) fn queue(&self, number: u32) -> String {
        if self.queues == 1 { self.queue.to_owned() } else { format!("{}-{number}", self.queue) }
    }

    /// Whether queues are exclusive. RabbitMQ 4.3 refuses other transient queues, and only one connection may consume
    /// from an exclusive one.
    pub(crate) fn is_exclusive(&self) -> bool {
        !self.durable && self.consumers == self.queues && self.course == Course::AtOnce
    }

    /// Checks that everything shared between connections is divisible by their number.
    ///
    /// # Errors
    /// The numbers that aren't divisible.
    pub(crate) fn check(&self) -> Result<(), String> {
        let free = self.exchange == Exchange::Fanout;
        let (publishers, consumers, queues) = (self.publishers, self.consumers, self.queues);
        if !consumers.is_multiple_of(queues) || !(free || publishers.is_multiple_of(queues)) {
            return Err(format!(
                "{publishers} publishers and {consumers} consumers can't be shared out evenly among {queues} queues"
            ));
        }
        if self.bindings < queues && self.exchange != Exchange::Default {
            return Err(format!("{queues} queues take as many bindings, not {}", self.bindings));
        }
        if self.routing_keys > 1 && self.exchange != Exchange::Topic {
            return Err(format!("{} routing keys take a topic exchange", self.routing_keys));
        }
        if self.is_quorum && !self.durable {
            return Err(format!("quorum queues are durable, but {} is a load of transient messages", self.name));
        }
        if self.is_stream && (!self.durable || self.ack_every == 0 || self.prefetch == 0 || self.max_length.is_some()) {
            return Err(format!(
                "streams are durable, and their readers have a prefetch and acknowledge, which {} doesn't do",
                self.name
            ));
        }
        if self.chunk.is_some() && self.protocol != Protocol::Stream {
            return Err(format!("only publishers of the stream protocol make chunks, which {} has none of", self.name));
        }
        if u32::try_from(self.messages_each).is_err() {
            return Err(format!(
                "{} messages of each publisher are more than their numbers can tell apart, {}; take fewer or a shorter time",
                self.messages_each,
                u32::MAX
            ));
        }
        Ok(())
    }
}
