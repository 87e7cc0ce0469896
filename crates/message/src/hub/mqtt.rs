//! Reads messages of MQTT into the hub form, by RabbitMQ's rules.
//!
//! | MQTT | AMQP 1.0 |
//! |---|---|
//! | QoS above 0 | durable |
//! | content type, if it is ASCII | `content-type` |
//! | correlation data | `correlation-id`: a string if it is UTF-8, else binary |
//! | response topic | `reply-to` as the address of an exchange and a key |
//! | user properties that begin with `x-` | message annotations |
//! | other user properties | application properties |
//! | time to live | `ttl`, and `creation-time`, the time of receipt |
//! | a payload whose format is UTF-8 | an amqp-value section with a string |
//! | another payload | a data section |

use leveret_amqp10::message::MessageId;
use leveret_amqp10::{Symbol, Value as Amqp10};
use leveret_mqtt::{PropertyId, PropertyList};

use super::{BodyForm, Entries, Message, Properties, ReplyTo, Value};
use crate::mqtt::MqttHead;
use crate::stored::StoredMessage;

/// Reads the sections before the body.
pub(super) fn read<'a>(stored: &StoredMessage<'a>) -> Message<'a> {
    // They were checked when the message was received.
    let given = MqttHead::read(stored.properties).map_or(PropertyList::NONE, |head| head.properties);
    let is_text = given.number(PropertyId::PayloadFormatIndicator) == Some(1);
    let exchange = stored.envelope.exchange;
    let expires = stored.envelope.expiry_ms != 0;
    Message {
        envelope: stored.envelope,
        overlay: stored.overlay,
        annotations: Entries::mqtt(given, true),
        properties: Properties {
            correlation_id: given.binary(PropertyId::CorrelationData).map(correlation_id),
            content_type: given.text(PropertyId::ContentType).and_then(Symbol::checked),
            reply_to: given.text(PropertyId::ResponseTopic).map(|topic| ReplyTo::Topic { exchange, topic }),
            // As from RabbitMQ: its receivers count the time to live from then on.
            creation_time: expires.then(|| stored.envelope.received_ms.cast_signed()),
            ..Properties::default()
        },
        application_properties: Entries::mqtt(given, false),
        body: if is_text { BodyForm::Text } else { BodyForm::Bytes },
        says_transient: true,
    }
}

fn correlation_id(bytes: &[u8]) -> MessageId<'_> {
    std::str::from_utf8(bytes).map_or(MessageId::Binary(bytes), MessageId::String)
}

/// Passes the user properties that are annotations, or the others, to `take`.
pub(super) fn user_properties<'a>(
    properties: PropertyList<'a>,
    are_annotations: bool,
    mut take: impl FnMut(&'a str, Value<'a>),
) {
    for (name, value) in properties.user() {
        if name.starts_with("x-") == are_annotations {
            take(name, Value::Simple(Amqp10::String(value)));
        }
    }
}
