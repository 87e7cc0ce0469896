//! The scenarios by name.

use clap::ValueEnum;

use crate::BenchArgs;

/// What runs at a fixed rate does so for this long, if it isn't said how many messages.
const SECONDS: f64 = 10.0;

/// A named load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Persistent and mandatory to a durable classic queue: confirm window 192, prefetch 200, acks every 200
    ClassicAmqp091,
    /// The same with confirm window 3000, prefetch 5000, acks every 3000
    #[value(name = "classic-amqp091-3000")]
    ClassicAmqp0913000,
    /// Transient to a non-durable queue, no confirms, automatic acks
    Memory,
    /// AMQP 1.0, durable to a durable classic queue: 200 unsettled at most, link credit 200, accepted every 100
    ClassicAmqp10,
    /// The same as fast as link credit lets it, for a node whose syncs are slow: 5000 unsettled at most, link credit 5000
    SyncDelayAmqp10,
    /// AMQP 1.0, transient to a non-durable queue, both sides settled
    MemoryAmqp10,
    /// Two publishers and two consumers at one durable queue: confirm window, prefetch and acks of 3000
    TwoPairs,
    /// The same over AMQP 1.0: 3000 unsettled at most, link credit 3000
    TwoPairsAmqp10,
    /// Two publishers fill a durable queue, then two consumers empty it: each half is measured
    InThenOut,
    /// The same over AMQP 1.0
    InThenOutAmqp10,
    /// Transient, 1000 bytes, at most 10,000 in the queue, no confirms, automatic acks: as fast as it goes
    Transient,
    /// The same at 20,000 messages per second, unless --rate says another
    Latency,
    /// 10,000 messages per second over 100 queues, unless --rate and --queues say others, each with connections of its own
    ManyQueues,
    /// 500 durable queues at 10 messages per second each: confirm window 10, prefetch 100, acks every 100
    SlowQueues,
    /// --connections with --sessions each that do nothing for --idle-s, one session more on each, then all dropped at once
    IdleAmqp091,
    /// The same over AMQP 1.0
    IdleAmqp10,
}

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Amqp091,
    Amqp10,
}

/// What comes when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// All at once.
    AtOnce,
    /// First all is published, then all is consumed.
    InThenOut,
}

/// A load in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) course: Course,
    /// The queue's name, or its beginning.
    queue: &'static str,
    /// Each has as many publishers and consumers as any other, and at least one of both.
    pub(crate) queues: u32,
    /// Each with a connection of its own, as consumers.
    pub(crate) publishers: u32,
    pub(crate) consumers: u32,
    /// Durable queues and persistent messages, else transient ones.
    pub(crate) durable: bool,
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
    /// Of each publisher.
    pub(crate) messages_each: u64,
    pub(crate) size: usize,
}

impl Settings {
    /// Of all publishers together.
    pub(crate) fn messages(&self) -> u64 {
        self.messages_each * u64::from(self.publishers)
    }

    /// The name of one of the queues.
    pub(crate) fn queue(&self, number: u32) -> String {
        if self.queues == 1 { self.queue.to_owned() } else { format!("{}-{number}", self.queue) }
    }

    /// RabbitMQ 4.3 refuses transient queues that aren't exclusive, which one connection alone may consume from.
    pub(crate) fn is_exclusive(&self) -> bool {
        !self.durable && self.consumers == self.queues && self.course == Course::AtOnce
    }
}

impl Scenario {
    /// What is spoken by connections that do nothing; `None` for loads of messages.
    pub(crate) fn idle(self) -> Option<Protocol> {
        match self {
            Self::IdleAmqp091 => Some(Protocol::Amqp091),
            Self::IdleAmqp10 => Some(Protocol::Amqp10),
            _ => None,
        }
    }

    /// What the scenario says, and in its place what the command line says.
    pub(crate) fn settings(self, args: &BenchArgs) -> Settings {
        let mut settings = self.of_its_own();
        settings.queues = args.queues.unwrap_or(settings.queues);
        if args.queues.is_some() {
            (settings.publishers, settings.consumers) = (settings.queues, settings.queues);
        }
        settings.publishers = args.producers.unwrap_or(settings.publishers);
        settings.consumers = args.consumers.unwrap_or(settings.consumers);
        settings.size = args.size.map_or(settings.size, |size| size as usize);
        settings.rate = args.rate.or(settings.rate);
        settings.confirm_window = args.confirm.unwrap_or(settings.confirm_window);
        settings.prefetch = args.qos.unwrap_or(settings.prefetch);
        settings.ack_every = args.multi_ack_every.unwrap_or(settings.ack_every);
        let paced = settings.rate.map_or(1_000_000, |rate| (rate * SECONDS) as u64);
        let messages = args.messages.unwrap_or(paced);
        settings.messages_each = messages.div_ceil(settings.publishers.into()).max(1);
        settings
    }

    fn of_its_own(self) -> Settings {
        let classic = Settings {
            name: "classic-amqp091",
            protocol: Protocol::Amqp091,
            course: Course::AtOnce,
            queue: "my-classic-queue",
            queues: 1,
            publishers: 1,
            consumers: 1,
            durable: true,
            max_length: None,
            rate: None,
            confirm_window: 192,
            prefetch: 200,
            ack_every: 200,
            messages_each: 0,
            size: 12,
        };
        let amqp10 = Settings { protocol: Protocol::Amqp10, ..classic };
        let transient = Settings {
            name: "memory",
            queue: "my-memory-queue",
            durable: false,
            confirm_window: 0,
            prefetch: 0,
            ack_every: 0,
            ..classic
        };
        let pairs = Settings {
            name: "two-pairs",
            publishers: 2,
            consumers: 2,
            confirm_window: 3000,
            prefetch: 3000,
            ack_every: 3000,
            ..classic
        };
        let pairs10 = Settings { name: "two-pairs-amqp10", protocol: Protocol::Amqp10, ack_every: 1000, ..pairs };
        let limited = Settings { name: "transient", size: 1000, max_length: Some(10_000), ..transient };
        match self {
            // Those that do nothing send nothing.
            Self::ClassicAmqp091 | Self::IdleAmqp091 | Self::IdleAmqp10 => classic,
            Self::ClassicAmqp0913000 => Settings {
                name: "classic-amqp091-3000",
                confirm_window: 3000,
                prefetch: 5000,
                ack_every: 3000,
                ..classic
            },
            Self::Memory => transient,
            Self::ClassicAmqp10 => Settings { name: "classic-amqp10", confirm_window: 200, ack_every: 100, ..amqp10 },
            Self::SyncDelayAmqp10 => {
                Settings { name: "sync-delay-amqp10", confirm_window: 5000, prefetch: 5000, ack_every: 1000, ..amqp10 }
            }
            Self::MemoryAmqp10 => {
                Settings { name: "memory-amqp10", protocol: Protocol::Amqp10, prefetch: 5000, ..transient }
            }
            Self::TwoPairs => pairs,
            Self::TwoPairsAmqp10 => pairs10,
            Self::InThenOut => Settings { name: "in-then-out", course: Course::InThenOut, ..pairs },
            Self::InThenOutAmqp10 => Settings { name: "in-then-out-amqp10", course: Course::InThenOut, ..pairs10 },
            Self::Transient => limited,
            Self::Latency => Settings { name: "latency", rate: Some(20_000.0), ..limited },
            Self::ManyQueues => Settings {
                name: "many-queues",
                queues: 100,
                publishers: 100,
                consumers: 100,
                rate: Some(10_000.0),
                max_length: None,
                ..limited
            },
            Self::SlowQueues => Settings {
                name: "slow-queues",
                queues: 500,
                publishers: 500,
                consumers: 500,
                rate: Some(5_000.0),
                confirm_window: 10,
                prefetch: 100,
                ack_every: 100,
                ..classic
            },
        }
    }
}
