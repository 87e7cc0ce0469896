//! Message annotations (AMQP 1.0, 3.2.3) and the headers that begin with `x-`.

use leveret_amqp10::{MapRef, Value, descriptor};
use leveret_amqp091::{FieldValue, Table};

use super::deaths;
use super::headers::Pairs;
use super::map_writer::MapWriter;
use super::stamps::Stamps;
use super::types::{is_convertible, text, to_amqp091, write_amqp10};
use crate::annotations::{
    RawAnnotations, TIMESTAMP_IN_MS, X_BASIC_TYPE, X_CC, X_DEATH, X_EXCHANGE, X_OPT_DEATHS, X_OPT_RECEIVED_TIME,
    X_ROUTING_KEY,
};
use crate::stored::StoredMessage;

const CC: &[u8] = b"CC";

/// The property `type` of AMQP 0-9-1 among annotations.
pub(super) fn basic_type(map: MapRef<'_>) -> Option<&str> {
    map.lookup(X_BASIC_TYPE).and_then(|value| value.as_text())
}

/// Adds the annotations as headers.
pub(super) fn add_headers(map: MapRef<'_>, pairs: &mut Pairs) {
    for (key, value) in map {
        let Some(key) = key.as_text() else { continue };
        match (key, value) {
            (X_CC, _) => to_amqp091(value).into_iter().for_each(|value| pairs.push(CC, value)),
            (X_OPT_RECEIVED_TIME, Value::Timestamp(time)) => {
                pairs.push(TIMESTAMP_IN_MS.as_bytes(), FieldValue::I64(time));
            }
            (X_OPT_DEATHS, _) => {
                let deaths = deaths::from_annotation(value);
                deaths.into_iter().for_each(|value| pairs.push(X_DEATH.as_bytes(), value));
            }
            _ if is_internal(key) => {}
            _ => to_amqp091(value).into_iter().for_each(|value| pairs.push(key.as_bytes(), value)),
        }
    }
}

/// Annotations that stand for something else in AMQP 0-9-1.
fn is_internal(key: &str) -> bool {
    key.starts_with("x-basic-") || matches!(key, X_EXCHANGE | X_ROUTING_KEY | X_DEATH)
}

/// Appends the section for a message that came over AMQP 1.0: what the publisher gave is taken over undecoded.
#[inline]
pub(super) fn write_stored(message: &StoredMessage<'_>, stamps: &Stamps<'_>, out: &mut Vec<u8>) {
    let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
    write_route(message, out, &mut map);
    let kept = RawAnnotations::of(message.properties).unwrap_or_default();
    match message.overlay.deaths() {
        None if stamps.is_empty() => map.raw(out, kept.count, kept.items),
        history => {
            let takes = |name: &str| stamps.takes(name) || history.is_some() && deaths::is_name(name);
            let pairs = leveret_amqp10::message::Sections::parse(message.properties);
            let pairs = pairs.ok().and_then(|sections| sections.message_annotations).unwrap_or(MapRef::EMPTY);
            let mut pairs = pairs.iter();
            while let Some((key, raw)) = pairs.next_raw() {
                if !key.as_text().is_some_and(takes) {
                    map.raw(out, 2, raw);
                }
            }
            stamps.add_annotations(out, &mut map);
            if let Some(history) = history {
                deaths::add_annotations(&history, out, &mut map);
            }
        }
    }
    map.finish(out);
}

/// Appends the section for a message that came over AMQP 0-9-1, from its headers that begin with `x-`, from `CC` and
/// from its type.
pub(super) fn write_converted(
    message: &StoredMessage<'_>,
    stamps: &Stamps<'_>,
    headers: Table<'_>,
    kind: Option<Value<'_>>,
    out: &mut Vec<u8>,
) {
    let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
    write_route(message, out, &mut map);
    let history = message.overlay.deaths();
    for (name, value) in headers.iter().filter(|(_, value)| is_convertible(value)) {
        let Some(name) = name.as_str() else { continue };
        let key = match (name, value) {
            ("CC", leveret_amqp091::Value::Array(_)) => X_CC,
            (X_EXCHANGE | X_ROUTING_KEY, _) => continue,
            (X_BASIC_TYPE, _) if kind.is_some() => continue,
            _ if stamps.takes(name) => continue,
            _ if name.starts_with("x-") && !(history.is_some() && deaths::is_name(name)) => name,
            _ => continue,
        };
        map.key(out, key);
        write_amqp10(value, out);
    }
    if let Some(kind) = kind {
        map.symbol(out, X_BASIC_TYPE, kind);
    }
    stamps.add_annotations(out, &mut map);
    if let Some(history) = history {
        deaths::add_annotations(&history, out, &mut map);
    }
    map.finish(out);
}

/// Exchange and routing key, whose names are always the same bytes.
#[inline]
fn write_route(message: &StoredMessage<'_>, out: &mut Vec<u8>, map: &mut MapWriter) {
    map.raw(out, 2, b"\xa3\x0ax-exchange");
    text(message.envelope.exchange).encode(out);
    map.raw(out, 2, b"\xa3\x0dx-routing-key");
    text(message.envelope.routing_key).encode(out);
}
