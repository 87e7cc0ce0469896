//! Deliveries over MQTT, by RabbitMQ's rules.
//!
//! | AMQP 1.0 | MQTT 5 |
//! |---|---|
//! | durable | QoS 1, otherwise 0 |
//! | time to live | Message Expiry Interval, in seconds |
//! | `content-type` | Content Type |
//! | `correlation-id` | Correlation Data |
//! | `reply-to` as the address of an exchange and a key | Response Topic |
//! | header `x-reply-to-topic` of AMQP 0-9-1 | Response Topic |
//! | application properties, and annotations whose names begin with `x-` | User Property, if they are simple values |
//! | data sections | the payload |
//! | an amqp-value section with a string | the payload, with Payload Format Indicator 1 |
//! | an amqp-value section with binary data | the payload |
//! | other bodies | the payload as encoded, with the content type `message/vnd.rabbitmq.amqp` |

use std::borrow::Cow;

use leveret_amqp10::Value as Simple;
use leveret_amqp10::message::{BodyRef, MessageId};
use leveret_mqtt::{PropertyId, PropertyWriter, QoS};

use super::Delivery;
use crate::annotations::{X_EXCHANGE, X_ROUTING_KEY};
use crate::envelope::Encoding;
use crate::hub::{Body, Message, ReplyTo, Value, uuid};
use crate::mqtt::{MqttHead, topic_of};
use crate::stored::StoredMessage;

/// The content type of a body that is left as sections of AMQP 1.0.
const CONTENT_TYPE_AMQP: &str = "message/vnd.rabbitmq.amqp";
/// The header of AMQP 0-9-1 with the topic for replies, as a routing key.
const X_REPLY_TO_TOPIC: &str = "x-reply-to-topic";
/// The beginning of annotations that stand for properties of AMQP 0-9-1.
const X_BASIC: &str = "x-basic-";
/// Longest name or value of a property, in bytes.
const TEXT_MAX: usize = u16::MAX as usize;

/// The part of a message that subscriptions look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttOrigin<'a> {
    /// Its topic.
    pub topic: Cow<'a, str>,
    /// The QoS that it was published with.
    pub qos: QoS,
    /// Whether its publisher wanted it to be kept.
    pub retain: bool,
    /// Whether the server kept it, and sends it for a new subscription.
    pub kept: bool,
    /// The client id of its publisher, if it came over MQTT.
    pub client_id: Option<&'a str>,
}

/// The part of a message that subscriptions look at.
pub fn mqtt_origin<'a>(message: &StoredMessage<'a>) -> MqttOrigin<'a> {
    let head = match message.encoding {
        Encoding::Mqtt => MqttHead::read(message.properties),
        _ => None,
    };
    let topic = match head.and_then(|head| head.topic) {
        Some(topic) => Cow::Borrowed(topic),
        None => topic_of(message.envelope.routing_key),
    };
    let of_durability = if message.envelope.durable { QoS::AtLeastOnce } else { QoS::AtMostOnce };
    MqttOrigin {
        topic,
        qos: head.map_or(of_durability, |head| head.qos),
        retain: head.is_some_and(|head| head.retain),
        kept: head.is_some_and(|head| head.kept),
        client_id: head.map(|head| head.client_id),
    }
}

/// The payload of a message for a receiver over MQTT. Its properties are appended to `properties`, without their length.
pub fn to_mqtt<'a>(message: &StoredMessage<'a>, delivery: &Delivery, properties: &mut Vec<u8>) -> Cow<'a, [u8]> {
    let mut writer = PropertyWriter::begin(properties);
    if message.envelope.expiry_ms != 0 {
        let left_ms = message.envelope.expiry_ms.saturating_sub(delivery.now_ms);
        let seconds = u32::try_from(left_ms.div_ceil(1000)).unwrap_or(u32::MAX);
        writer.number(PropertyId::MessageExpiryInterval, seconds);
    }
    if message.encoding == Encoding::Mqtt {
        if let Some(head) = MqttHead::read(message.properties) {
            writer.raw(head.properties.as_bytes());
        }
        return Cow::Borrowed(message.body);
    }
    match Message::read(message) {
        Some((hub, body)) => {
            write_properties(&hub, &mut writer);
            payload_of(body, &hub, &mut writer)
        }
        // Clients of the stream protocol may publish any bytes.
        None => Cow::Borrowed(message.body),
    }
}

fn write_properties(hub: &Message<'_>, writer: &mut PropertyWriter<'_>) {
    if let Some(id) = hub.properties.correlation_id {
        let data = id_bytes(id);
        if data.len() <= TEXT_MAX {
            writer.binary(PropertyId::CorrelationData, &data);
        }
    }
    let mut topic = hub.properties.reply_to.and_then(response_topic);
    hub.annotations.each(|name, value| {
        if name == X_REPLY_TO_TOPIC {
            topic = value.as_text().map(|key| topic_of(key.as_bytes()).into_owned()).filter(|topic| is_text(topic));
        }
    });
    if let Some(topic) = topic.filter(|topic| !topic.is_empty()) {
        writer.text(PropertyId::ResponseTopic, &topic);
    }
    let mut user = |name: &str, value: Value<'_>| {
        if let Some(text) = text_of(value).filter(|text| is_text(name) && is_text(text.as_ref())) {
            writer.user(name, &text);
        }
    };
    hub.annotations.each(|name, value| {
        let is_own = name.starts_with(X_BASIC) || matches!(name, X_EXCHANGE | X_ROUTING_KEY | X_REPLY_TO_TOPIC);
        if name.starts_with("x-") && !is_own {
            user(name, value);
        }
    });
    hub.application_properties.each(&mut user);
}

/// Whether it may be a string of MQTT: an illegal one would make its receivers end their connections.
fn is_text(text: &str) -> bool {
    text.len() <= TEXT_MAX && !text.contains('\0')
}

fn id_bytes(id: MessageId<'_>) -> Cow<'_, [u8]> {
    match id {
        MessageId::Binary(bytes) => Cow::Borrowed(bytes),
        MessageId::String(text) => Cow::Borrowed(text.as_bytes()),
        MessageId::Uuid(bytes) => Cow::Owned(uuid::text(&bytes).into_bytes()),
        MessageId::Ulong(number) => Cow::Owned(number.to_string().into_bytes()),
        MessageId::Uint(number) => Cow::Owned(number.to_string().into_bytes()),
        MessageId::Int(number) => Cow::Owned(number.to_string().into_bytes()),
        MessageId::Long(number) => Cow::Owned(number.to_string().into_bytes()),
    }
}

fn response_topic(reply_to: ReplyTo<'_>) -> Option<String> {
    let topic = match reply_to {
        ReplyTo::Topic { topic, .. } => topic.to_owned(),
        other => topic_of(&other.key()?).into_owned(),
    };
    (is_text(&topic) && !topic.is_empty()).then_some(topic)
}

fn text_of(value: Value<'_>) -> Option<Cow<'_, str>> {
    let Value::Simple(value) = value else { return None };
    Some(Cow::Owned(match value {
        Simple::String(text) => return Some(Cow::Borrowed(text)),
        Simple::Symbol(text) => text.as_str().to_owned(),
        Simple::Bool(value) => value.to_string(),
        Simple::Ubyte(value) => value.to_string(),
        Simple::Ushort(value) => value.to_string(),
        Simple::Uint(value) => value.to_string(),
        Simple::Ulong(value) => value.to_string(),
        Simple::Byte(value) => value.to_string(),
        Simple::Short(value) => value.to_string(),
        Simple::Int(value) => value.to_string(),
        Simple::Long(value) => value.to_string(),
        Simple::Float(value) => value.to_string(),
        Simple::Double(value) => value.to_string(),
        Simple::Timestamp(value) => value.div_euclid(1000).to_string(),
        Simple::Uuid(bytes) => uuid::text(&bytes),
        _ => return None,
    }))
}

fn payload_of<'a>(body: Body<'a>, hub: &Message<'a>, writer: &mut PropertyWriter<'_>) -> Cow<'a, [u8]> {
    let mut content_type = hub.properties.content_type.map(|text| text.as_str());
    let payload = match body {
        Body::Bytes(bytes) => Cow::Borrowed(bytes),
        Body::Text(text) => {
            writer.number(PropertyId::PayloadFormatIndicator, 1);
            Cow::Borrowed(text.as_bytes())
        }
        Body::Sections { body, raw } => match body {
            BodyRef::None => Cow::Borrowed(&[][..]),
            BodyRef::Data(data) => match data.single() {
                Some(bytes) => Cow::Borrowed(bytes),
                None => Cow::Owned(data.iter().flatten().copied().collect()),
            },
            BodyRef::Value(value) => match value.decode().unwrap_or(Simple::Null) {
                Simple::String(text) => {
                    writer.number(PropertyId::PayloadFormatIndicator, 1);
                    Cow::Borrowed(text.as_bytes())
                }
                Simple::Binary(bytes) => Cow::Borrowed(bytes),
                _ => {
                    content_type = Some(CONTENT_TYPE_AMQP);
                    Cow::Borrowed(raw)
                }
            },
            BodyRef::Sequence(_) => {
                content_type = Some(CONTENT_TYPE_AMQP);
                Cow::Borrowed(raw)
            }
        },
    };
    if let Some(text) = content_type.filter(|text| is_text(text)) {
        writer.text(PropertyId::ContentType, text);
    }
    payload
}
