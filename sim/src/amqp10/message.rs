//! Encoding and decoding of messages in sections.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{
    BodyRef, Header, MapSection, MessageId as Id, Properties, Sections, write_data, write_map_section,
};
use leveret_amqp10::value::{EncodedMap, OwnedArray, OwnedDescribed, OwnedDescriptor, Value};

use crate::body;
use crate::content::Content;
use crate::ledger::MessageId;

/// The annotations with the exchange and the routing key that a message was published with.
const EXCHANGE: &str = "x-exchange";
const KEY: &str = "x-routing-key";

/// A message with these properties and this length, as a client sends it.
#[must_use]
pub fn encode(id: MessageId, length: usize, persistent: bool, delivery_ms: Option<u64>) -> Vec<u8> {
    let mut payload = Vec::new();
    Header { durable: Some(persistent), ..Header::default() }.encode(&mut payload);
    if let Some(ms) = delivery_ms {
        write_map_section(&mut payload, MapSection::MessageAnnotations, delivery_time(ms).as_map());
    }
    if let Some(text) = body::message_id(id) {
        Properties { message_id: Some(Id::String(&text)), ..Properties::default() }.encode(&mut payload);
    }
    write_data(&mut payload, &body::body(id, length));
    payload
}

/// The annotation with a time of delivery, in milliseconds since the Unix epoch. As a timestamp, receivers of AMQP 0-9-1 would see seconds.
#[must_use]
pub fn delivery_time(ms: u64) -> EncodedMap {
    EncodedMap::new().with(body::X_OPT_DELIVERY_TIME, Value::Long(ms as i64))
}

/// The annotations by which a message is deferred until a time.
#[must_use]
pub fn deferral(ms: u64, token: &str) -> EncodedMap {
    delivery_time(ms).with(body::X_OPT_DEFERRAL_TOKEN, token)
}

/// The filters of a receiver that begins at this place of a stream.
#[must_use]
pub fn stream_offset(value: OwnedValue) -> EncodedMap {
    described("offset", "rabbitmq:stream-offset-spec", value)
}

/// Filters of a source: one with this name and descriptor.
#[must_use]
pub fn described(name: &str, descriptor: &str, value: OwnedValue) -> EncodedMap {
    let descriptor = OwnedDescriptor::Symbol(descriptor.into());
    let mut bytes = Vec::new();
    OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value })).encode(&mut bytes);
    let value = Value::decode_all(&bytes).expect("it was just encoded");
    EncodedMap::new().with(name, value)
}

/// Properties of a flow that fetches deferred messages.
#[must_use]
pub fn fetching(tokens: impl IntoIterator<Item = String>) -> EncodedMap {
    let items = OwnedArray::new(tokens.into_iter().map(OwnedValue::String).collect()).expect("they are alike");
    let mut bytes = Vec::new();
    OwnedValue::Array(items).encode(&mut bytes);
    let value = Value::decode_all(&bytes).expect("it was just encoded");
    EncodedMap::new().with("rabbitmq:deferral-tokens", value)
}

/// Bytes of the bare message in [`encode`]: everything except its header.
#[must_use]
pub fn bare_bytes(id: MessageId, length: usize) -> u64 {
    let mut header = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut header);
    (encode(id, length, true, None).len() - header.len()) as u64
}

/// Decodes a received message; `None` if it isn't one that any client sends.
#[must_use]
pub fn decode(payload: &[u8]) -> Option<Content> {
    let sections = Sections::parse(payload).ok()?;
    let redelivered = !sections.header?.first_acquirer;
    Some(Content { redelivered, ..content(sections)? })
}

/// Decodes a message of a chunk as it is stored: without the parts that only a delivery has. `None` if no client sends such a message.
#[must_use]
pub fn decode_stored(payload: &[u8], stream: &str, offset: u64) -> Option<Content> {
    let mut sections = Sections::parse(payload).ok()?;
    let was_routed = sections.message_annotations.is_some_and(|annotations| annotations.lookup(EXCHANGE).is_some());
    let published = EncodedMap::new().with(EXCHANGE, "").with(KEY, stream);
    if !was_routed {
        // It was published over the stream protocol.
        sections.message_annotations.get_or_insert(published.as_map());
    }
    Some(Content { offset: Some(offset), ..content(sections)? })
}

/// The content of a message, as if it weren't redelivered.
fn content(sections: Sections<'_>) -> Option<Content> {
    let header = sections.header.unwrap_or_default();
    let annotations = sections.message_annotations?;
    let text = |name: &str| match annotations.lookup(name) {
        Some(Value::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    };
    let BodyRef::Data(data) = sections.body else { return None };
    let mut properties = sections.properties.unwrap_or_default();
    let message_id = match properties.message_id.take() {
        None => None,
        Some(Id::String(text)) => Some(text.to_owned()),
        Some(_) => return None,
    };
    let has_died = annotations.lookup("x-opt-deaths").is_some();
    let count = |name: &str| match annotations.lookup(name) {
        Some(Value::Long(count)) => count,
        _ => 0,
    };
    let (acquired, failed) = (count("x-acquired-count"), count("x-delivery-count"));
    let delivery_ms = annotations.lookup(body::X_OPT_DELIVERY_TIME).and_then(|time| time.as_u64());
    let counts = usize::from(acquired > 0) + usize::from(failed > 0) + usize::from(delivery_ms.is_some());
    let counts = counts + usize::from(annotations.lookup(body::X_OPT_DEFERRAL_TOKEN).is_some());
    let offset = annotations.lookup(body::X_STREAM_OFFSET).and_then(|offset| match offset {
        Value::Long(offset) => u64::try_from(offset).ok(),
        _ => None,
    });
    let counts = counts + usize::from(offset.is_some());
    // Exchange and routing key are the only other annotations of a message that hasn't died.
    let is_plain = has_died || annotations.len() == 2 + counts;
    Some(Content {
        redelivered: false,
        exchange: text(EXCHANGE),
        key: text(KEY),
        persistent: header.durable == Some(true),
        message_id,
        has_died,
        acquired,
        delivery_ms,
        offset,
        has_more: !is_plain
            || failed > acquired && !has_died
            || properties != Properties::default()
            || sections.delivery_annotations.is_some()
            || sections.application_properties.is_some()
            || sections.footer.is_some(),
        body: data.single()?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_message_is_decoded() {
        assert!(decode(b"").is_none());
        let mut payload = Vec::new();
        Header::default().encode(&mut payload);
        let annotations = leveret_amqp10::value::EncodedMap::new();
        let annotations = annotations.with("x-exchange", "x").with("x-routing-key", "key");
        let section = leveret_amqp10::message::MapSection::MessageAnnotations;
        leveret_amqp10::message::write_map_section(&mut payload, section, annotations.as_map());
        write_data(&mut payload, b"body");
        let content = decode(&payload).expect("it is a message");
        assert_eq!((&*content.exchange, &*content.key, &*content.body), (&b"x"[..], &b"key"[..], &b"body"[..]));
        assert!(!content.has_more && !content.has_died && !content.persistent);
    }
}
