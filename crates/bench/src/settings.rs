//! A load in numbers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::message_properties::MessageProperties;

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp091,
    Amqp10,
}

/// What comes when, and what of it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// All at once.
    AtOnce,
    /// First all is published, then all is consumed; each half is measured.
    InThenOut,
    /// The same, measured while it is published.
    PublishOnly,
    /// The same, measured while it is consumed.
    ConsumeOnly,
}

/// What takes messages from publishers to queues.
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
    /// As it is declared.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }

    /// What it is called.
    pub(crate) fn name(self) -> String {
        if self == Self::Default { String::new() } else { format!("my-{}-exchange", self.kind()) }
    }
}

/// What a confirm of a durable message shall mean: `x-durability` of a queue, which only Leveret has.
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

/// How many messages per second are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Of all publishers together.
    Fixed(f64),
    /// Half of what the broker can take, which is measured first.
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

/// A load in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Of the row or scenario.
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) course: Course,
    /// The queue's name, or its beginning.
    pub(crate) queue: &'static str,
    /// Each has as many publishers and consumers as any other, and at least one of both; behind a fanout exchange
    /// publishers are free.
    pub(crate) queues: u32,
    /// Each with a connection of its own, as consumers.
    pub(crate) publishers: u32,
    pub(crate) consumers: u32,
    pub(crate) exchange: Exchange,
    /// Durable queues beside those, which nobody uses.
    pub(crate) other_queues: u32,
    /// Of the exchange in all. One matches for each queue (each queue's for its own messages).
    pub(crate) bindings: u32,
    /// How many a queue's messages take in turn; of a topic exchange, where one binding matches all of them.
    pub(crate) routing_keys: u32,
    /// Durable queues and persistent messages, else transient ones.
    pub(crate) durable: bool,
    /// What durable queues are declared with in Leveret; `None`: what the node says.
    pub(crate) durability: Option<Durability>,
    /// `x-max-length`: what is above it is dropped.
    pub(crate) max_length: Option<u64>,
    /// Messages per second of all publishers together; `None`: as many as they can.
    pub(crate) rate: Option<f64>,
    /// Most unconfirmed publishes (unsettled messages), 0 for no confirms (settled ones).
    pub(crate) confirm_window: u32,
    /// Or link credit.
    pub(crate) prefetch: u16,
    /// Deliveries per acknowledgement (disposition), 0 for automatic ones (settled messages).
    pub(crate) ack_every: u64,
    /// Of each publisher: how many they send, or the most that they can where they stop by the clock.
    pub(crate) messages_each: u64,
    /// When publishers stop, by the clock.
    pub(crate) stop_after: Option<Duration>,
    pub(crate) size: usize,
    /// Beside the body.
    pub(crate) properties: MessageProperties,
}

impl Settings {
    /// Of all publishers together.
    pub(crate) fn messages(&self) -> u64 {
        self.messages_each * u64::from(self.publishers)
    }

    /// How many queues get each message.
    pub(crate) fn copies(&self) -> u32 {
        if self.exchange == Exchange::Fanout { self.queues } else { 1 }
    }

    /// The name of one of the queues.
    pub(crate) fn queue(&self, number: u32) -> String {
        if self.queues == 1 { self.queue.to_owned() } else { format!("{}-{number}", self.queue) }
    }

    /// RabbitMQ 4.3 refuses transient queues that aren't exclusive, which one connection alone may consume from.
    pub(crate) fn is_exclusive(&self) -> bool {
        !self.durable && self.consumers == self.queues && self.course == Course::AtOnce
    }

    /// What each connection has a share of must come out even.
    ///
    /// # Errors
    /// What can't be shared out.
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
