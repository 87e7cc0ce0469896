//! Reply addresses: a queue's name in AMQP 0-9-1, `/queues/` and its percent-encoded name in AMQP 1.0.

use std::borrow::Cow;

use crate::mqtt::routing_key;

const QUEUES: &str = "/queues/";
const EXCHANGES: &str = "/exchanges/";

/// The address for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyTo<'a> {
    /// An address of AMQP 1.0 (RabbitMQ's version 2), or any other text.
    Address(&'a str),
    /// A queue's name.
    Queue(&'a [u8]),
    /// A topic of MQTT.
    Topic {
        /// The exchange that messages to topics go to.
        exchange: &'a [u8],
        /// The topic.
        topic: &'a str,
    },
}

impl<'a> ReplyTo<'a> {
    /// The name of the queue; other addresses are returned unchanged.
    pub fn queue(self) -> Cow<'a, [u8]> {
        match self {
            Self::Address(address) => match address.strip_prefix(QUEUES).and_then(decode) {
                Some(queue) => queue,
                None => Cow::Borrowed(address.as_bytes()),
            },
            Self::Queue(queue) => Cow::Borrowed(queue),
            Self::Topic { topic, .. } => routing_key(topic),
        }
    }

    /// The routing key, if it is the address of an exchange and a key, or the queue of a name.
    pub fn key(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Address(address) => decode(address.strip_prefix(EXCHANGES)?.split_once('/')?.1),
            Self::Queue(_) => None,
            Self::Topic { topic, .. } => Some(routing_key(topic)),
        }
    }

    /// The address.
    pub fn address(self) -> Cow<'a, str> {
        match self {
            Self::Address(address) => Cow::Borrowed(address),
            Self::Queue(queue) => Cow::Owned(encode(QUEUES, queue)),
            Self::Topic { exchange, topic } => {
                let mut address = encode(EXCHANGES, exchange);
                address.push('/');
                Cow::Owned(encode(&address, &routing_key(topic)))
            }
        }
    }
}

fn encode(before: &str, name: &[u8]) -> String {
    let mut address = String::with_capacity(before.len() + name.len());
    address.push_str(before);
    for &byte in name {
        // The unreserved characters of RFC 3986, 2.3.
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            address.push(byte.into());
        } else {
            address.push('%');
            for digit in [byte >> 4, byte & 15] {
                address.push(char::from_digit(digit.into(), 16).expect("under 16").to_ascii_uppercase());
            }
        }
    }
    address
}

fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains(['%', '/']) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = text.bytes();
    let mut queue = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'/' => return None,
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                queue.push((high * 16 + low) as u8);
            }
            byte => queue.push(byte),
        }
    }
    Some(Cow::Owned(queue))
}
