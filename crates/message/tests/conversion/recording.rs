//! The recorded messages.

use leveret_amqp091::Properties;
use leveret_message::incoming::{self, FurtherKeys, without_blind_copies};
use leveret_message::overlay::{Overlay, encode_keys};
use leveret_message::{BatchBuilder, Encoding, Envelope, Stamps, StoredMessage};
use serde_json::Value;

use crate::view;

/// Who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Amqp091,
    Amqp10,
}

/// One message and what became of it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) encoding: Encoding,
    pub(crate) published: String,
    received: Value,
}

pub(crate) struct Recording {
    pub(crate) queue: String,
    pub(crate) dead_letter_queue: String,
    pub(crate) cases: Vec<Case>,
    pub(crate) refused: Vec<Case>,
    pub(crate) histories: Vec<History>,
}

/// A message that died several times.
pub(crate) struct History {
    pub(crate) case: Case,
    /// Queue and reason of each death.
    pub(crate) steps: Vec<(String, String)>,
    /// The queues have dead-letter routing keys: each other's name.
    pub(crate) with_key: bool,
    /// The routing key with which it was delivered.
    pub(crate) last: String,
}

impl Recording {
    pub(crate) fn load() -> Self {
        Self::parse(include_str!("../conversion.json"))
    }

    pub(crate) fn parse(json: &str) -> Self {
        let json: Value = serde_json::from_str(json).unwrap();
        let cases = |section: &str, encoding| {
            let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
            let list = json[section].as_array().unwrap().iter();
            let list = list.map(move |case| Case {
                name: text(case, "name"),
                encoding,
                published: text(case, "published"),
                received: case.clone(),
            });
            list.collect::<Vec<_>>()
        };
        let mut all = cases("amqp091", Encoding::Amqp091);
        all.extend(cases("amqp10", Encoding::Amqp10));
        Self {
            queue: json["queue"].as_str().unwrap().to_owned(),
            dead_letter_queue: json["dead_letter_queue"].as_str().unwrap().to_owned(),
            cases: all,
            refused: cases("refused", Encoding::Amqp10),
            histories: json["histories"]
                .as_array()
                .unwrap()
                .iter()
                .zip(cases("histories", Encoding::Amqp091))
                .map(history)
                .collect(),
        }
    }
}

fn history((json, case): (&Value, Case)) -> History {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let steps = json["steps"].as_array().unwrap().iter().map(|step| (text(&step[0]), text(&step[1])));
    History { case, steps: steps.collect(), with_key: json["with_key"].as_bool().unwrap(), last: text(&json["last"]) }
}

impl Case {
    /// The error with which RabbitMQ refused the message.
    pub(crate) fn outcome(&self) -> Option<&str> {
        self.received["outcome"].as_str()
    }

    /// What RabbitMQ delivered, as text to compare; none if it failed.
    pub(crate) fn received(&self, receiver: Receiver, died: bool) -> Option<String> {
        let key = match receiver {
            Receiver::Amqp091 => "amqp091",
            Receiver::Amqp10 => "amqp10",
        };
        let raw = self.received[format!("{key}{}", if died { "_rejected" } else { "" })].as_str()?;
        Some(match receiver {
            Receiver::Amqp091 => {
                let (properties, body) = raw.split_once(':').unwrap();
                view::amqp091(&bytes(properties), &bytes(body))
            }
            Receiver::Amqp10 => view::amqp10(&bytes(raw)),
        })
    }

    /// Stores the message as a session does.
    pub(crate) fn publish(&self, queue: &str, now_ms: u64, stamps: &Stamps, builder: &mut BatchBuilder) {
        match self.encoding {
            Encoding::Amqp091 => {
                let (properties, body) = self.published.split_once(':').unwrap();
                let (properties, body) = (bytes(properties), bytes(body));
                let given = Properties::decode(&properties).unwrap();
                let ttl = given.expiration.map(|ttl| ttl.as_str().unwrap().parse::<u64>().unwrap());
                let envelope = Envelope {
                    durable: given.delivery_mode == Some(2),
                    priority: given.priority,
                    exchange: b"",
                    routing_key: queue.as_bytes(),
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
            Encoding::Amqp10 => {
                let payload = bytes(&self.published);
                let incoming = incoming::amqp10(&payload).unwrap_or_else(|error| panic!("{}: {error}", self.name));
                let mut overlay = Vec::new();
                encode_keys(&mut overlay, incoming.further_keys(), []);
                stamps.encode_amqp10(&incoming, now_ms, &mut overlay);
                let stored = incoming.stored(b"", queue.as_bytes(), now_ms, Overlay::new(&overlay));
                builder.push_message(&stored);
            }
        }
    }
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
