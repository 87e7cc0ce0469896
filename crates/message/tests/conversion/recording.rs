//! The recorded messages: tables in `../conversions`, written by [`write`](crate::write).
//!
//! A line `[name]` begins a message. `bytes` are the published bytes in hexadecimal: over AMQP 1.0 the payload, over
//! AMQP 0-9-1 property flags and list, a colon and the body. Indented lines show the message, and the message that
//! each receiver got, in the form of [`view`](crate::view); receivers marked `rejected` got it from the dead-letter
//! queue. `as SECTION` repeats a section's lines, `- ` removes one of them and `+ ` adds one.

use std::collections::BTreeMap;

use leveret_amqp091::Properties;
use leveret_message::incoming::{self, FurtherKeys, without_blind_copies};
use leveret_message::overlay::{Overlay, encode_keys};
use leveret_message::{BatchBuilder, Encoding, Envelope, Stamps, StoredMessage};

/// The queue that all messages are published to.
pub(crate) const QUEUE: &str = "conversion";
/// The queue for dead letters.
pub(crate) const DEAD_LETTER_QUEUE: &str = "conversion-dead";
/// Placeholder for the lines that a rejection adds to most messages.
pub(crate) const ITS_DEATH: &str = "its death";

/// A receiver's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Amqp091,
    Amqp10,
}

/// Every receiver's protocol, each for new and for rejected messages.
pub(crate) const EVERY_WAY: [(Receiver, bool); 4] =
    [(Receiver::Amqp091, false), (Receiver::Amqp091, true), (Receiver::Amqp10, false), (Receiver::Amqp10, true)];

/// The name of a section.
pub(crate) fn way(receiver: Receiver, died: bool) -> &'static str {
    match (receiver, died) {
        (Receiver::Amqp091, false) => "amqp091",
        (Receiver::Amqp091, true) => "amqp091 rejected",
        (Receiver::Amqp10, false) => "amqp10",
        (Receiver::Amqp10, true) => "amqp10 rejected",
    }
}

/// One recorded message, and what RabbitMQ did with it.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) encoding: Encoding,
    pub(crate) published: String,
    /// The error with which RabbitMQ refused the message.
    pub(crate) outcome: Option<String>,
    /// Queue and reason of each death, if there are several.
    pub(crate) steps: Vec<(String, String)>,
    /// Whether the queues have dead-letter routing keys: each other's name.
    pub(crate) with_key: bool,
    /// The routing key with which it was delivered after these deaths.
    pub(crate) last: String,
    received: BTreeMap<String, String>,
}

/// The messages of a table.
pub(crate) fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut section = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            cases.push(Case { name: name.to_owned(), ..Case::default() });
            continue;
        }
        let (first, rest) = cases.split_first_mut().expect("a message begins with its name");
        let (case, first) = match rest.last_mut() {
            Some(case) => (case, Some(first)),
            None => (first, None),
        };
        match line.strip_prefix("    ") {
            Some(line) => case.add(&section, line, first.as_deref()),
            None => section = case.begin(line),
        }
    }
    cases.retain(|case| case.name != ITS_DEATH);
    cases
}

impl Case {
    /// Reads a line that isn't indented; returns the name of the section that it begins.
    fn begin(&mut self, line: &str) -> String {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "bytes" => {
                self.encoding = if rest.contains(':') { Encoding::Amqp091 } else { Encoding::Amqp10 };
                self.published = rest.to_owned();
            }
            "refused" => self.outcome = Some(rest.to_owned()),
            "death" => {
                let (queue, reason) = rest.split_once(' ').expect("queue and reason");
                self.steps.push((queue.to_owned(), reason.to_owned()));
            }
            "with-key" => self.with_key = true,
            "last" => self.last = rest.to_owned(),
            _ => {
                let (name, base) = line.split_once(", as ").unwrap_or((line, ""));
                if let Some(name) = name.strip_suffix(": fails") {
                    return name.to_owned();
                }
                let lines = self.received.get(base).cloned().unwrap_or_default();
                self.received.insert(name.to_owned(), lines);
                return name.to_owned();
            }
        }
        String::new()
    }

    /// Reads an indented line of a section. `first` is the block with the lines of a usual death.
    fn add(&mut self, section: &str, line: &str, first: Option<&Self>) {
        if line.strip_prefix("+ ") == Some(ITS_DEATH) {
            let usual = &first.expect("the first block has them").received[section];
            return usual.lines().for_each(|line| self.add(section, line, None));
        }
        let is_its_death = self.name == ITS_DEATH;
        let lines = self.received.get_mut(section).unwrap_or_else(|| panic!("{}: no section for {line}", self.name));
        if let Some(gone) = line.strip_prefix("- ").filter(|_| !is_its_death) {
            *lines = lines.lines().filter(|line| *line != gone).fold(String::new(), |kept, line| kept + line + "\n");
        } else {
            lines.push_str(line.strip_prefix("+ ").filter(|_| !is_its_death).unwrap_or(line));
            lines.push('\n');
        }
    }

    /// The lines that RabbitMQ's receiver got; `None` if RabbitMQ failed.
    pub(crate) fn received(&self, receiver: Receiver, died: bool) -> Option<&str> {
        self.received.get(way(receiver, died)).map(String::as_str)
    }

    /// Property flags and list, and the body, of a message of AMQP 0-9-1.
    pub(crate) fn content(&self) -> (Vec<u8>, Vec<u8>) {
        let (properties, body) = self.published.split_once(':').unwrap();
        (bytes(properties), bytes(body))
    }

    /// Stores the message as a session does.
    pub(crate) fn publish(&self, now_ms: u64, stamps: &Stamps, builder: &mut BatchBuilder) {
        match self.encoding {
            Encoding::Amqp091 => {
                let (properties, body) = self.content();
                let given = Properties::decode(&properties).unwrap();
                let ttl = given.expiration.map(|ttl| ttl.as_str().unwrap().parse::<u64>().unwrap());
                let envelope = Envelope {
                    durable: given.delivery_mode == Some(2),
                    priority: given.priority,
                    exchange: b"",
                    routing_key: QUEUE.as_bytes(),
                    received_ms: now_ms,
                    expiry_ms: ttl.map_or(0, |ttl| Envelope::expiry(now_ms, ttl)),
                };
                let further = given.headers.and_then(|table| FurtherKeys::of(table).unwrap()).unwrap_or_default();
                let mut overlay = Vec::new();
                encode_keys(&mut overlay, further.seen.iter().copied(), further.blind.iter().copied());
                stamps.encode_amqp091(&properties, now_ms, &mut overlay);
                let kept =
                    if further.has_blind { without_blind_copies(&properties).unwrap() } else { properties.clone() };
                let overlay = Overlay::new(&overlay);
                let message = StoredMessage { envelope, overlay, properties: &kept, body: &body, ..Default::default() };
                builder.push_message(&message);
            }
            Encoding::Mqtt | Encoding::Foreign(_) => unreachable!("messages of MQTT have tables of their own"),
            Encoding::Amqp10 => {
                let payload = bytes(&self.published);
                let incoming = incoming::amqp10(&payload).unwrap_or_else(|error| panic!("{}: {error}", self.name));
                let mut overlay = Vec::new();
                encode_keys(&mut overlay, incoming.further_keys(), []);
                stamps.encode_amqp10(&incoming, now_ms, &mut overlay);
                let stored = incoming.stored(b"", QUEUE.as_bytes(), now_ms, Overlay::new(&overlay));
                builder.push_message(&stored);
            }
        }
    }
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
