//! Properties of a message from its hub form.
//!
//! | AMQP 1.0 | AMQP 0-9-1 |
//! |---|---|
//! | application properties, annotations that begin with `x-` | headers; of one name the broker's own first, then the annotation's |
//! | annotation `x-basic-type` | `type`, which is `amqp-1.0` where the body is left as sections |
//! | annotations `x-cc`, `x-opt-deaths` | headers `CC`, `x-death` |
//! | ids that aren't bytes | `message-id`, `correlation-id`; bytes and long texts are the headers `x-message-id` and so on |
//! | `group-id`, `reply-to` of a queue | `app-id`, `reply-to` with the queue's name |
//! | `to`, `subject`, `absolute-expiry-time`, `group-sequence`, `reply-to-group-id`, footer | nothing |

use std::borrow::Cow;

use leveret_amqp10::Value as Simple;
use leveret_amqp091::{FieldValue, Properties, ShortStr};

use super::headers::Pairs;
use super::{deaths, message_id, value};
use crate::annotations::{
    TIMESTAMP_IN_MS, X_BASIC_TYPE, X_CC, X_DEATH, X_EXCHANGE, X_OPT_DEATHS, X_OPT_RECEIVED_TIME, X_ROUTING_KEY,
};
use crate::deliver::Delivery;
use crate::deliver::stamps::Stamps;
use crate::hub::{Entries, Message, ReplyTo, TYPE_AMQP10, Value};

const DELIVERY_MODE_PERSISTENT: u8 = 2;
const DELIVERY_MODE_TRANSIENT: u8 = 1;
/// Size of most properties without their headers, in bytes.
const PROPERTIES_BYTES: usize = 128;
const CC: &[u8] = b"CC";
const X_BASIC: &str = "x-basic-";
const X_MESSAGE_ID: &str = "x-message-id";
const X_CORRELATION_ID: &str = "x-correlation-id";
/// The topic for replies of a message of MQTT, as a routing key.
const X_REPLY_TO_TOPIC: &str = "x-reply-to-topic";

/// Encodes property flags and list. `is_encoded` is set if the body is left as sections.
pub(in crate::deliver) fn write(message: &Message<'_>, delivery: &Delivery, is_encoded: bool) -> Vec<u8> {
    let mut pairs = Pairs::default();
    let stamps = Stamps::of(&message.overlay, delivery);
    stamps.add_headers(|name, value| pairs.push(name.as_bytes(), value));
    if let Some(deaths) = message.overlay.deaths() {
        deaths::add_headers(&deaths, &mut pairs);
    }
    if let Some(added) = stamps.added() {
        add_annotations(&Entries::amqp10(Some(added)), &mut pairs);
    }
    let kind = add_annotations(&message.annotations, &mut pairs);
    let given = &message.properties;
    let correlation_id = given.correlation_id.and_then(|id| message_id::write(id, X_CORRELATION_ID, &mut pairs));
    let id = given.message_id.and_then(|id| message_id::write(id, X_MESSAGE_ID, &mut pairs));
    message.application_properties.each(|name, value| {
        value::field(value).into_iter().for_each(|value| pairs.push(name.as_bytes(), value));
    });
    if let Some(ReplyTo::Topic { .. }) = given.reply_to {
        let key = given.reply_to.map(ReplyTo::queue).unwrap_or_default();
        pairs.push(X_REPLY_TO_TOPIC.as_bytes(), FieldValue::LongString(key.into_owned()));
    }
    let headers = (!pairs.is_empty()).then(|| pairs.into_table().encoded());
    let expiration = message.envelope.ttl_ms().map(|ttl| ttl.to_string());
    let reply_to = given.reply_to.filter(|to| !matches!(to, ReplyTo::Topic { .. })).map(ReplyTo::queue);
    let properties = Properties {
        content_type: given.content_type.and_then(|text| short(text.as_str().as_bytes())),
        content_encoding: given.content_encoding.and_then(|text| short(text.as_str().as_bytes())),
        headers: headers.as_ref().map(leveret_amqp091::EncodedTable::as_table),
        delivery_mode: delivery_mode(
            message.envelope.durable,
            delivery.stream_offset.is_some() || message.says_transient,
        ),
        priority: message.envelope.priority,
        correlation_id: correlation_id.as_ref().and_then(message_id::Id::as_short_str),
        reply_to: reply_to.as_ref().and_then(|queue: &Cow<'_, [u8]>| short(queue)),
        expiration: expiration.as_ref().and_then(|text| short(text.as_bytes())),
        message_id: id.as_ref().and_then(message_id::Id::as_short_str),
        timestamp: stamps.timestamp().or_else(|| given.creation_time.and_then(value::seconds)),
        kind: if is_encoded { short(TYPE_AMQP10.as_bytes()) } else { kind.and_then(|kind| short(kind.as_bytes())) },
        user_id: given.user_id.and_then(short),
        app_id: given.group_id.and_then(|group| short(group.as_bytes())),
        cluster_id: None,
    };
    // Reserved at once: growing step by step costs a tenth of the conversion.
    let mut out = Vec::with_capacity(PROPERTIES_BYTES + properties.headers.map_or(0, |table| table.as_bytes().len()));
    properties.encode(&mut out);
    out
}

/// As in RabbitMQ, a message that isn't durable has a delivery mode if it comes from a stream, which stores its header.
#[inline]
pub(super) fn delivery_mode(durable: bool, is_from_stream: bool) -> Option<u8> {
    match (durable, is_from_stream) {
        (true, _) => Some(DELIVERY_MODE_PERSISTENT),
        (false, true) => Some(DELIVERY_MODE_TRANSIENT),
        (false, false) => None,
    }
}

fn short(bytes: &[u8]) -> Option<ShortStr<'_>> {
    ShortStr::new(bytes).ok()
}

/// Adds the annotations as headers, and returns the property `type` that is among them.
pub(super) fn add_annotations<'a>(annotations: &Entries<'a>, pairs: &mut Pairs) -> Option<&'a str> {
    let mut kind = None;
    annotations.each(|name, value| match (name, value) {
        (X_CC, _) => value::field(value).into_iter().for_each(|value| pairs.push(CC, value)),
        (X_OPT_RECEIVED_TIME, Value::Simple(Simple::Timestamp(time))) => {
            pairs.push(TIMESTAMP_IN_MS.as_bytes(), FieldValue::I64(time));
        }
        (X_OPT_DEATHS, _) => {
            let deaths = deaths::from_annotation(value);
            deaths.into_iter().for_each(|value| pairs.push(X_DEATH.as_bytes(), value));
        }
        // Of several with the same name, the first one counts.
        (X_BASIC_TYPE, _) => kind = kind.or(Some(value)),
        _ if stands_for_something_else(name) => {}
        _ => value::field(value).into_iter().for_each(|value| pairs.push(name.as_bytes(), value)),
    });
    kind.and_then(|kind: Value<'a>| kind.as_text())
}

/// Whether RabbitMQ uses this annotation for something that has another place in AMQP 0-9-1.
fn stands_for_something_else(name: &str) -> bool {
    name.starts_with(X_BASIC) || matches!(name, X_EXCHANGE | X_ROUTING_KEY | X_DEATH)
}
