//! Bodies and properties that only depend on a message's id.

use leveret_amqp091::{FieldTable, Properties};

use crate::content::Content;
use crate::ledger::{Message, MessageId};
use crate::random::Random;
use crate::{streams, topology};

/// Header or annotation with the time of delivery.
pub const X_OPT_DELIVERY_TIME: &str = "x-opt-delivery-time";
/// The annotation and header with the token of a deferred message.
pub const X_OPT_DEFERRAL_TOKEN: &str = "x-opt-deferral-token";
/// The annotation and header with the offset of a message in its stream.
pub const X_STREAM_OFFSET: &str = "x-stream-offset";
/// Bytes that every body has: its id.
pub const LENGTH_MIN: usize = 8;

/// The body of a message.
#[must_use]
pub fn body(id: MessageId, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + LENGTH_MIN);
    bytes.extend_from_slice(&id.to_le_bytes());
    let mut random = Random::new(id);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length.max(LENGTH_MIN));
    bytes
}

/// Whether the bytes are [`body`].
fn is_body(id: MessageId, length: usize, bytes: &[u8]) -> bool {
    let mut random = Random::new(id);
    let Some((start, rest)) = bytes.split_first_chunk() else { return false };
    let (words, last) = rest.as_chunks::<LENGTH_MIN>();
    bytes.len() == length.max(LENGTH_MIN)
        && MessageId::from_le_bytes(*start) == id
        && words.iter().all(|word| u64::from_le_bytes(*word) == random.next())
        && *last == random.next().to_le_bytes()[..last.len()]
}

/// The properties of a message of AMQP 0-9-1: delivery mode and, for every second one, its id as message-id.
#[must_use]
pub fn properties(id: MessageId, persistent: bool) -> Vec<u8> {
    const DELIVERY_MODE: u16 = 1 << 12;
    const MESSAGE_ID: u16 = 1 << 7;
    let mode = if persistent { 2 } else { 1 };
    let Some(text) = message_id(id) else {
        let [high, low] = DELIVERY_MODE.to_be_bytes();
        return vec![high, low, mode];
    };
    let [high, low] = (DELIVERY_MODE | MESSAGE_ID).to_be_bytes();
    let mut bytes = vec![high, low, mode, text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// As [`properties`], with a time of delivery in milliseconds since the Unix epoch.
#[must_use]
pub fn timed_properties(id: MessageId, persistent: bool, delivery_ms: u64) -> Vec<u8> {
    let headers = FieldTable::new().with(X_OPT_DELIVERY_TIME, delivery_ms as i64).encoded();
    let plain = properties(id, persistent);
    let plain = Properties::decode(&plain).expect("they are well-formed");
    let mut bytes = Vec::new();
    Properties { headers: Some(headers.as_table()), ..plain }.encode(&mut bytes);
    bytes
}

/// The id that a body claims.
#[must_use]
pub fn id(body: &[u8]) -> Option<MessageId> {
    body.first_chunk().map(|bytes| MessageId::from_le_bytes(*bytes))
}

/// The message-id of every second message.
#[must_use]
pub fn message_id(id: MessageId) -> Option<String> {
    (!id.is_multiple_of(2)).then(|| id.to_string())
}

/// The difference, if any, between a message in a queue and the message that was published.
#[must_use]
pub fn difference(message: &Message, queue: &str, received: &Content) -> Option<&'static str> {
    if !is_body(message.id, message.length, &received.body) {
        return Some("body");
    }
    let has_died = message.targets.get(queue).is_some_and(|target| target.origin.is_some());
    if received.persistent != message.persistent {
        return Some("durability");
    }
    if received.message_id != message_id(message.id) {
        return Some("message-id");
    }
    if received.has_died != has_died {
        return Some("history of deaths");
    }
    if received.delivery_ms != message.delivery_ms && !message.is_annotated {
        return Some("time of delivery");
    }
    let counts = topology::is_quorum(queue);
    if received.acquired > 0 && !(counts && received.redelivered) {
        return Some("count of deliveries");
    }
    if received.offset.is_some() != streams::is_stream(queue) {
        return Some("offset");
    }
    if received.has_more {
        return Some("properties, which are more than were given");
    }
    let (exchange, key) = if has_died { ("", queue) } else { (message.exchange.as_str(), message.key.as_str()) };
    if received.exchange != exchange.as_bytes() {
        return Some("exchange");
    }
    (received.key != key.as_bytes()).then_some("routing key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_distinguished_from_any_other() {
        for length in [0, 8, 9, 15, 16, 100, 4_099] {
            let mut bytes = body(7, length);
            assert!(is_body(7, length, &bytes));
            assert!(!is_body(8, length, &bytes) && !is_body(7, length + 9, &bytes));
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert!(!is_body(7, length, &bytes), "byte {at} of {length}");
                bytes[at] ^= 1;
            }
            assert!(!is_body(7, length, &bytes[1..]));
        }
    }
}
