//! Properties of both protocols.

use std::borrow::Cow;

use leveret_amqp10::message::Sections;
use leveret_amqp10::{Symbol, message};
use leveret_amqp091::{Properties, ShortStr};

use super::headers::Pairs;
use super::{application_properties, body, message_id, reply_to, types};
use crate::stored::StoredMessage;

const DELIVERY_MODE_PERSISTENT: u8 = 2;
const X_MESSAGE_ID: &str = "x-message-id";
const X_CORRELATION_ID: &str = "x-correlation-id";

/// Property flags and list of a message that came over AMQP 1.0. `kind` is its annotation `x-basic-type`, `pairs` the
/// headers from deaths and annotations, `encoded` says that the body is sections; `stamp` is a timestamp in seconds instead
/// of the publisher's.
pub(super) fn to_amqp091(
    message: &StoredMessage<'_>,
    bare: &Sections<'_>,
    kind: Option<&str>,
    encoded: bool,
    mut pairs: Pairs,
    stamp: Option<u64>,
) -> Vec<u8> {
    let given = bare.properties.unwrap_or_default();
    let correlation_id = given.correlation_id.and_then(|id| message_id::to_amqp091(id, X_CORRELATION_ID, &mut pairs));
    let id = given.message_id.and_then(|id| message_id::to_amqp091(id, X_MESSAGE_ID, &mut pairs));
    bare.application_properties.into_iter().for_each(|map| application_properties::add_headers(map, &mut pairs));
    let headers = (!pairs.is_empty()).then(|| pairs.into_table().encoded());
    let expiration = message.envelope.ttl_ms().map(|ttl| ttl.to_string());
    let reply_to = given.reply_to.map(reply_to::to_amqp091);
    let properties = Properties {
        content_type: given.content_type.and_then(|text| short(text.as_str().as_bytes())),
        content_encoding: given.content_encoding.and_then(|text| short(text.as_str().as_bytes())),
        headers: headers.as_ref().map(leveret_amqp091::EncodedTable::as_table),
        delivery_mode: message.envelope.durable.then_some(DELIVERY_MODE_PERSISTENT),
        priority: message.envelope.priority,
        correlation_id: correlation_id.as_ref().and_then(message_id::Id::as_short_str),
        reply_to: reply_to.as_ref().and_then(|queue: &Cow<'_, [u8]>| short(queue)),
        expiration: expiration.as_ref().and_then(|text| short(text.as_bytes())),
        message_id: id.as_ref().and_then(message_id::Id::as_short_str),
        timestamp: stamp.or_else(|| given.creation_time.and_then(types::seconds)),
        kind: if encoded { short(body::TYPE_AMQP10.as_bytes()) } else { kind.and_then(|kind| short(kind.as_bytes())) },
        user_id: given.user_id.and_then(short),
        app_id: given.group_id.and_then(|group| short(group.as_bytes())),
        cluster_id: None,
    };
    let mut out = Vec::new();
    properties.encode(&mut out);
    out
}

fn short(bytes: &[u8]) -> Option<ShortStr<'_>> {
    ShortStr::new(bytes).ok()
}

/// Appends the section for a message that came over AMQP 0-9-1, unless it has none of these properties.
pub(super) fn write_amqp10(given: &Properties<'_>, out: &mut Vec<u8>) {
    let reply_to = given.reply_to.map(|queue| reply_to::to_amqp10(queue.as_bytes()));
    let properties = message::Properties {
        message_id: given.message_id.map(message_id::to_amqp10),
        user_id: given.user_id.map(|user| user.as_bytes()),
        reply_to: reply_to.as_deref(),
        correlation_id: given.correlation_id.map(message_id::to_amqp10),
        content_type: given.content_type.and_then(ascii),
        content_encoding: given.content_encoding.and_then(ascii),
        creation_time: given.timestamp.map(types::milliseconds),
        group_id: given.app_id.and_then(|app| app.as_str()),
        ..message::Properties::default()
    };
    if properties != message::Properties::default() {
        properties.encode(out);
    }
}

/// Symbols are ASCII.
fn ascii(text: ShortStr<'_>) -> Option<Symbol<'_>> {
    text.as_str().and_then(Symbol::checked)
}
