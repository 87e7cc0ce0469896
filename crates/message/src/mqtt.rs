//! Messages of MQTT: the properties of their stored form, and topics as routing keys.
//!
//! The properties of a [`StoredMessage`](crate::StoredMessage) that was published over MQTT (big endian, as on the wire):
//!
//! | size | field |
//! |---|---|
//! | 1 | bits 0 and 1 the QoS, bit 2 retain, bit 3 a topic follows, bit 4 it was kept |
//! | 2 + n | the publisher's client id |
//! | 2 + n | with bit 3: the topic |
//! | | properties of MQTT 5 that its receivers get, without their length |
//!
//! The body is the payload. The topic is there if the routing key doesn't tell it, which is the case with dots and asterisks; its
//! time to live is in the envelope.

use std::borrow::Cow;

use leveret_mqtt::{PropertyId, PropertyList, PropertyWriter, QoS};

const RETAIN: u8 = 1 << 2;
const HAS_TOPIC: u8 = 1 << 3;
const KEPT: u8 = 1 << 4;

/// The part of a message of MQTT that is neither in its envelope nor its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqttHead<'a> {
    /// The QoS that it was published with.
    pub qos: QoS,
    /// Whether its publisher wanted it to be kept.
    pub retain: bool,
    /// Whether the server kept it, and sends it for a new subscription.
    pub kept: bool,
    /// The client id of its publisher.
    pub client_id: &'a str,
    /// Its topic, unless the routing key tells it.
    pub topic: Option<&'a str>,
    /// Its properties that receivers get.
    pub properties: PropertyList<'a>,
}

fn sized(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

impl<'a> MqttHead<'a> {
    /// Reads the properties of a stored message; `None` if they are damaged.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (client_id, rest) = sized(rest)?;
        let (topic, rest) = match flags & HAS_TOPIC {
            0 => (None, rest),
            _ => sized(rest).map(|(topic, rest)| (Some(topic), rest))?,
        };
        let qos = QoS::of(flags & 3)?;
        let properties = PropertyList::of_publish(rest).ok()?;
        Some(Self { qos, retain: flags & RETAIN != 0, kept: flags & KEPT != 0, client_id, topic, properties })
    }

    /// Appends the head. Of the properties, those stay out that are only between a client and the server: time to live, topic alias
    /// and subscription identifiers.
    pub fn write(&self, out: &mut Vec<u8>) {
        let retain = if self.retain { RETAIN } else { 0 };
        let kept = if self.kept { KEPT } else { 0 };
        let has_topic = if self.topic.is_some() { HAS_TOPIC } else { 0 };
        out.push(self.qos.bits() | retain | kept | has_topic);
        for text in std::iter::once(self.client_id).chain(self.topic) {
            // The codec's strings are no longer.
            out.extend_from_slice(&(text.len() as u16).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        if self.properties.is_empty() {
            return;
        }
        let mut writer = PropertyWriter::begin(out);
        for property in self.properties.iter() {
            if !matches!(
                property.id,
                PropertyId::MessageExpiryInterval | PropertyId::TopicAlias | PropertyId::SubscriptionIdentifier
            ) {
                writer.property(&property);
            }
        }
    }
}

/// The routing key of a topic name, or the binding key of a topic filter: `/` becomes `.` and `+` becomes `*`, as in RabbitMQ.
pub fn routing_key(topic: &str) -> Cow<'_, [u8]> {
    if !topic.bytes().any(|byte| matches!(byte, b'/' | b'+')) {
        return Cow::Borrowed(topic.as_bytes());
    }
    let convert = |byte| match byte {
        b'/' => b'.',
        b'+' => b'*',
        other => other,
    };
    Cow::Owned(topic.bytes().map(convert).collect())
}

/// The topic name of a routing key; bytes that aren't UTF-8 are replaced.
pub fn topic_of(routing_key: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(routing_key);
    match text.contains(['.', '*', '\0', '#', '+']) {
        false => text,
        // No topic name has a wildcard or U+0000: a receiver would end its connection.
        true => Cow::Owned(text.replace(['.', '*'], "/").replace(['\0', '#', '+'], "_")),
    }
}

/// Whether the routing key of this topic tells the topic.
pub fn is_told_by_key(topic: &str) -> bool {
    !topic.contains(['.', '*'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_without_what_is_between_client_and_server() {
        let mut encoded = Vec::new();
        let mut writer = PropertyWriter::begin(&mut encoded);
        writer.number(PropertyId::MessageExpiryInterval, 5);
        writer.user("k", "v");
        writer.number(PropertyId::TopicAlias, 3);
        let properties = PropertyList::of_publish(&encoded).expect("is right");
        let head = MqttHead {
            qos: QoS::ExactlyOnce,
            retain: true,
            kept: true,
            client_id: "c",
            topic: Some("a.b/c"),
            properties,
        };
        let mut out = Vec::new();
        head.write(&mut out);
        let read = MqttHead::read(&out).expect("is right");
        assert_eq!((read.qos, read.retain, read.client_id, read.topic), (head.qos, true, "c", Some("a.b/c")));
        assert_eq!(read.properties.iter().count(), 1);
        assert_eq!(read.properties.user().next(), Some(("k", "v")));
        assert!((0..out.len()).all(|cut| MqttHead::read(&out[..cut]).is_none_or(|cut| cut != read)));
    }

    #[test]
    fn topics_are_routing_keys() {
        for (topic, key) in [("a/b", "a.b"), ("+/b/#", "*.b.#"), ("/", "."), ("a", "a"), ("a.b", "a.b")] {
            assert_eq!(routing_key(topic), key.as_bytes());
        }
        for (key, topic) in [("a.b", "a/b"), ("a", "a"), (".", "/"), ("a#b", "a_b")] {
            assert_eq!(topic_of(key.as_bytes()), topic);
        }
        assert!(is_told_by_key("a/b") && !is_told_by_key("a.b") && !is_told_by_key("*"));
    }
}
