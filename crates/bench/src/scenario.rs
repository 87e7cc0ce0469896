//! The scenarios by name, each over AMQP 0-9-1 and 1.0.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::args::LoadArgs;
use crate::message_properties::MessageProperties;
use crate::settings::{Course, Exchange, Protocol, Rate, Settings};

/// Duration of a load at a fixed rate, in seconds, if the number of messages isn't given.
const SECONDS: u64 = 10;
/// Most messages of a publisher per second if it stops by the clock: more than any broker accepts.
const MESSAGES_PER_SECOND_MAX: u64 = 5_000_000;

/// A named load over one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    base: &'static Base,
    pub(crate) protocol: Protocol,
}

/// The kind of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Classic,
    Classic3000,
    Memory,
    Transient,
    Latency,
    ManyQueues,
    TwoPairs,
    FixedRate,
    SlowQueues,
    InThenOut,
    PublishOnly,
    ConsumeOnly,
    SyncDelay,
    Exchange(Exchange),
    Idle,
}

#[derive(Debug, PartialEq, Eq)]
struct Base {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

const fn base(name: &'static str, kind: Kind, help: &'static str) -> Base {
    Base { name, kind, help }
}

/// Names with `-amqp10` use AMQP 1.0; names with `-amqp091` or neither use AMQP 0-9-1.
const BASES: [Base; 18] = [
    base(
        "classic",
        Kind::Classic,
        "durable, one pair: at most 192 unconfirmed (1.0: 200 unsettled), prefetch or credit 200",
    ),
    base(
        "classic-3000",
        Kind::Classic3000,
        "the same with at most 3000 unconfirmed or unsettled, prefetch or credit 5000",
    ),
    base(
        "publish-only",
        Kind::PublishOnly,
        "as classic-3000, measured while the queue is filled; then it is emptied and verified",
    ),
    base(
        "consume-only",
        Kind::ConsumeOnly,
        "as classic-3000, measured while a queue that was filled before is emptied",
    ),
    base("memory", Kind::Memory, "transient, no confirms (settled), automatic acks (settled)"),
    base("transient", Kind::Transient, "the same with 1000 bytes and at most 10,000 in the queue: as fast as it goes"),
    base("latency", Kind::Latency, "the same at 20,000 messages per second, unless --rate says another"),
    base("many-queues", Kind::ManyQueues, "10,000 messages per second over 100 queues with connections of their own"),
    base("two-pairs", Kind::TwoPairs, "durable, two publishers and two consumers at one queue: all windows 3000"),
    base("fixed-rate", Kind::FixedRate, "durable, one pair at 10,000 messages per second: all windows 3000"),
    base(
        "slow-queues",
        Kind::SlowQueues,
        "500 durable queues at 10 messages per second each: confirm window 10, prefetch 100",
    ),
    base(
        "in-then-out",
        Kind::InThenOut,
        "two publishers fill a durable queue, then two consumers empty it: each half is measured",
    ),
    base(
        "sync-delay",
        Kind::SyncDelay,
        "durable, one pair, 5000 unconfirmed or unsettled, for a node whose syncs are slow",
    ),
    base("direct", Kind::Exchange(Exchange::Direct), "as classic, through a direct exchange"),
    base(
        "fanout",
        Kind::Exchange(Exchange::Fanout),
        "as classic, through a fanout exchange to 10 queues; figures are per copy",
    ),
    base(
        "topic",
        Kind::Exchange(Exchange::Topic),
        "as classic, through a topic exchange with 10 bindings, one of which matches",
    ),
    base(
        "headers",
        Kind::Exchange(Exchange::Headers),
        "as classic, through a headers exchange with 10 bindings, one of which matches",
    ),
    base(
        "idle",
        Kind::Idle,
        "--connections with --sessions each that do nothing for --idle-s; then they are dropped at once",
    ),
];

/// The names of all scenarios, with descriptions.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    BASES.iter().map(|base| (base.name, base.help))
}

/// The parts of a name that give the protocol.
const PROTOCOLS: [(&str, Protocol); 3] =
    [("-amqp091", Protocol::Amqp091), ("-amqp10", Protocol::Amqp10), ("-stream-protocol", Protocol::Stream)];

/// A name without its protocol, and the protocol.
pub(crate) fn without_protocol(name: &str) -> (String, Option<Protocol>) {
    let said = PROTOCOLS.into_iter().find_map(|(part, protocol)| {
        let (before, after) = name.split_once(part)?;
        // `-amqp10` must not be the beginning of a longer number.
        (after.is_empty() || after.starts_with('-')).then(|| (format!("{before}{after}"), Some(protocol)))
    });
    said.unwrap_or_else(|| (name.to_owned(), None))
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (plain, protocol) = without_protocol(name);
        let base = BASES.iter().find(|base| base.name == plain);
        let base = base.ok_or_else(|| {
            let known: Vec<&str> = BASES.iter().map(|base| base.name).collect();
            format!("no such scenario; there are {}, each with -amqp10 behind it for AMQP 1.0", known.join(", "))
        })?;
        Ok(Self { base, protocol: protocol.unwrap_or(Protocol::Amqp091) })
    }
}

impl fmt::Display for Scenario {
    /// Includes the protocol where it would be unclear: in old names, and for AMQP 1.0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.protocol, self.base.kind) {
            (Protocol::Amqp091, Kind::Classic | Kind::Idle) => write!(f, "{}-amqp091", self.base.name),
            (Protocol::Amqp091, Kind::Classic3000) => f.write_str("classic-amqp091-3000"),
            (Protocol::Amqp091, _) => f.write_str(self.base.name),
            (Protocol::Amqp10, _) => write!(f, "{}-amqp10", self.base.name),
            (Protocol::Stream, _) => write!(f, "{}-stream-protocol", self.base.name),
        }
    }
}

impl Scenario {
    /// Whether it measures idle connections rather than a load of messages.
    pub(crate) fn is_idle(self) -> bool {
        self.base.kind == Kind::Idle
    }

    /// The scenario's settings, overridden by those of `load`.
    pub(crate) fn settings(self, load: &LoadArgs) -> Settings {
        let mut settings = self.of_its_own();
        settings.queues = load.queues.unwrap_or(settings.queues);
        if load.queues.is_some() {
            settings.consumers = settings.queues;
            if settings.exchange != Exchange::Fanout {
                settings.publishers = settings.queues;
            }
        }
        settings.publishers = load.producers.unwrap_or(settings.publishers);
        settings.consumers = load.consumers.unwrap_or(settings.consumers);
        settings.bindings = load.bindings.unwrap_or(settings.bindings);
        if load.bindings.is_none() && !matches!(settings.exchange, Exchange::Topic | Exchange::Headers) {
            settings.bindings = settings.queues;
        }
        settings.routing_keys = load.routing_key_cache_size.unwrap_or(settings.routing_keys);
        settings.size = load.size.map_or(settings.size, |size| size as usize);
        settings.properties = load.message_properties.clone().unwrap_or_default();
        settings.other_queues = load.other_queues.unwrap_or(settings.other_queues);
        if load.stream_queue || self.protocol == Protocol::Stream {
            (settings.is_stream, settings.queue) = (true, "my-stream");
        }
        if load.quorum_queue {
            (settings.is_quorum, settings.quorum_members) = (true, load.quorum_members);
            // A queue that is there keeps its members, so each number of them has queues of its own.
            settings.queue = match load.quorum_members {
                Some(1) => "my-quorum-queue-of-1",
                Some(3) => "my-quorum-queue-of-3",
                Some(_) => "my-quorum-queue-of-5",
                None => "my-quorum-queue",
            };
        }
        settings.chunk = load.chunk;
        match load.rate {
            Some(Rate::Fixed(rate)) => settings.rate = Some(rate),
            // The rate is measured first and set then.
            Some(Rate::Half) => settings.rate = None,
            None => {}
        }
        settings.confirm_window = load.confirm.unwrap_or(settings.confirm_window);
        settings.prefetch = load.qos.unwrap_or(settings.prefetch);
        settings.ack_every = load.multi_ack_every.unwrap_or(settings.ack_every);
        let publishers = u64::from(settings.publishers);
        settings.messages_each = match (load.messages, load.seconds, settings.rate) {
            (Some(messages), _, _) => messages.div_ceil(publishers).max(1),
            (None, seconds, Some(rate)) => {
                ((rate * seconds.unwrap_or(SECONDS) as f64) as u64).div_ceil(publishers).max(1)
            }
            (None, Some(seconds), None) => {
                settings.stop_after = Some(Duration::from_secs(seconds));
                seconds * MESSAGES_PER_SECOND_MAX
            }
            (None, None, None) => 1_000_000_u64.div_ceil(publishers),
        };
        settings
    }

    fn of_its_own(self) -> Settings {
        let is_10 = self.protocol == Protocol::Amqp10;
        // A disposition names a range: with AMQP 1.0 messages are settled before the credit is used up.
        let ack_every = |of_091: u64, of_10: u64| if is_10 { of_10 } else { of_091 };
        let classic = Settings {
            name: self.to_string(),
            protocol: self.protocol,
            course: Course::AtOnce,
            queue: "my-classic-queue",
            queues: 1,
            publishers: 1,
            consumers: 1,
            other_queues: 0,
            exchange: Exchange::Default,
            bindings: 0,
            routing_keys: 1,
            durable: true,
            durability: None,
            is_quorum: false,
            quorum_members: None,
            is_stream: false,
            chunk: None,
            max_length: None,
            rate: None,
            confirm_window: if is_10 { 200 } else { 192 },
            prefetch: 200,
            ack_every: ack_every(200, 100),
            messages_each: 0,
            stop_after: None,
            size: 12,
            properties: MessageProperties::default(),
        };
        let wide =
            Settings { confirm_window: 3000, prefetch: 5000, ack_every: ack_every(3000, 1000), ..classic.clone() };
        let transient = Settings {
            queue: "my-memory-queue",
            durable: false,
            confirm_window: 0,
            // Without a prefetch a consumer of AMQP 0-9-1 has no limit; a link always has one.
            prefetch: if is_10 { 5000 } else { 0 },
            ack_every: 0,
            ..classic.clone()
        };
        let limited = Settings { size: 1000, max_length: Some(10_000), ..transient.clone() };
        let pairs = Settings { publishers: 2, consumers: 2, prefetch: 3000, ..wide.clone() };
        match self.base.kind {
            // Idle connections send nothing.
            Kind::Classic | Kind::Idle => classic,
            Kind::Classic3000 => wide,
            Kind::PublishOnly => Settings { course: Course::PublishOnly, ..wide },
            Kind::ConsumeOnly => Settings { course: Course::ConsumeOnly, ..wide },
            Kind::Memory => transient,
            Kind::Transient => limited,
            Kind::Latency => Settings { rate: Some(20_000.0), ..limited },
            Kind::ManyQueues => Settings {
                queues: 100,
                publishers: 100,
                consumers: 100,
                rate: Some(10_000.0),
                max_length: None,
                ..limited
            },
            Kind::TwoPairs => pairs,
            Kind::FixedRate => Settings { publishers: 1, consumers: 1, rate: Some(10_000.0), ..pairs },
            Kind::SlowQueues => Settings {
                queues: 500,
                publishers: 500,
                consumers: 500,
                rate: Some(5_000.0),
                confirm_window: 10,
                prefetch: 100,
                ack_every: ack_every(100, 50),
                ..classic
            },
            Kind::InThenOut => Settings { course: Course::InThenOut, ..pairs },
            Kind::SyncDelay => Settings { confirm_window: 5000, ..wide },
            Kind::Exchange(exchange) => {
                let queues = if exchange == Exchange::Fanout { 10 } else { 1 };
                Settings { exchange, queues, consumers: queues, bindings: 10, ..classic }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_may_be_anywhere_in_a_name() {
        for (name, plain, protocol) in [
            ("classic", "classic", Protocol::Amqp091),
            ("classic-amqp091", "classic", Protocol::Amqp091),
            ("classic-amqp10", "classic", Protocol::Amqp10),
            ("classic-amqp091-3000", "classic-3000", Protocol::Amqp091),
            ("classic-3000-amqp10", "classic-3000", Protocol::Amqp10),
            ("classic-amqp10-3000", "classic-3000", Protocol::Amqp10),
        ] {
            let scenario: Scenario = name.parse().expect("there is one");
            assert_eq!((scenario.base.name, scenario.protocol), (plain, protocol), "{name}");
            assert_eq!(scenario.to_string().parse(), Ok(scenario), "{name}");
        }
        for name in ["classics", "classic-amqp100", "amqp10", ""] {
            assert!(Scenario::from_str(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_load_ends_by_count_or_by_the_clock() {
        let settings = |name: &str, load: LoadArgs| name.parse::<Scenario>().expect("there is one").settings(&load);
        let classic = settings("classic", LoadArgs::default());
        assert_eq!((classic.messages(), classic.stop_after), (1_000_000, None));
        let timed = settings("classic", LoadArgs { seconds: Some(3), ..LoadArgs::default() });
        assert_eq!(timed.stop_after, Some(Duration::from_secs(3)));
        let paced = settings("fixed-rate", LoadArgs { seconds: Some(3), ..LoadArgs::default() });
        assert_eq!((paced.messages(), paced.stop_after), (30_000, None));
        let both = settings("latency", LoadArgs { messages: Some(7), seconds: Some(3), ..LoadArgs::default() });
        assert_eq!((both.messages(), both.stop_after), (7, None));
    }

    #[test]
    fn only_durable_loads_have_quorum_queues() {
        let load = LoadArgs { quorum_queue: true, ..LoadArgs::default() };
        let check = |name: &str| name.parse::<Scenario>().expect("there is one").settings(&load).check();
        assert_eq!(check("classic"), Ok(()));
        let error = "quorum queues are durable, but memory is a load of transient messages";
        assert_eq!(check("memory"), Err(error.to_owned()));
    }

    #[test]
    fn every_scenario_has_valid_settings_over_both_protocols() {
        for base in &BASES {
            for protocol in [Protocol::Amqp091, Protocol::Amqp10] {
                let settings = Scenario { base, protocol }.settings(&LoadArgs::default());
                assert_eq!(settings.check(), Ok(()), "{settings:?}");
                assert!(settings.messages() > 0 && settings.protocol == protocol, "{settings:?}");
            }
        }
    }
}
