//! Delivered messages as text, with a line for each field, header, annotation, property and section of the body.
//!
//! Times in a history of deaths that stem from the recording, not from a publisher, are shown as `now`.

use std::fmt::Write;

use leveret_amqp10::MapRef;
use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp091::Properties;

/// The time of receipt of the messages, in milliseconds since the Unix epoch: before any recording.
pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

pub(crate) fn amqp091(raw: &[u8], body: &[u8]) -> String {
    let properties = Properties::decode(raw).unwrap();
    let mut out = String::new();
    for (key, value) in properties.headers.iter().flat_map(leveret_amqp091::Table::iter) {
        let key = key.as_bytes();
        let value = shown_091(value);
        let value = if key == b"x-death" { deaths(&value, NOW_MS / 1000) } else { value };
        writeln!(out, "header {}: {value}", text(key)).unwrap();
    }
    let texts = [
        ("content-type", properties.content_type),
        ("content-encoding", properties.content_encoding),
        ("correlation-id", properties.correlation_id),
        ("reply-to", properties.reply_to),
        ("expiration", properties.expiration),
        ("message-id", properties.message_id),
        ("type", properties.kind),
        ("user-id", properties.user_id),
        ("app-id", properties.app_id),
        ("cluster-id", properties.cluster_id),
    ];
    for (name, value) in texts {
        field(&mut out, name, value.map(|value| text(value.as_bytes())));
    }
    field(&mut out, "delivery-mode", properties.delivery_mode);
    field(&mut out, "priority", properties.priority);
    field(&mut out, "timestamp", properties.timestamp);
    field(&mut out, "body", Some(text(body)));
    out
}

pub(crate) fn amqp10(payload: &[u8]) -> String {
    let sections = match Sections::parse(payload) {
        Ok(sections) => sections,
        Err(error) => return format!("malformed: {error}\n"),
    };
    let mut out = String::new();
    if let Some(header) = sections.header {
        field(&mut out, "durable", header.durable);
        field(&mut out, "priority", header.priority);
        field(&mut out, "ttl", header.ttl);
        field(&mut out, "first-acquirer", Some(header.first_acquirer));
        field(&mut out, "delivery-count", Some(header.delivery_count));
    }
    map(&mut out, "delivery-annotation", sections.delivery_annotations);
    map(&mut out, "annotation", sections.message_annotations);
    if let Some(given) = sections.properties {
        field(&mut out, "message-id", given.message_id.map(|id| shown(id.into())));
        field(&mut out, "user-id", given.user_id.map(text));
        field(&mut out, "to", given.to.map(|to| text(to.as_bytes())));
        field(&mut out, "subject", given.subject.map(|subject| text(subject.as_bytes())));
        field(&mut out, "reply-to", given.reply_to.map(|address| text(address.as_bytes())));
        field(&mut out, "correlation-id", given.correlation_id.map(|id| shown(id.into())));
        field(&mut out, "content-type", given.content_type.map(|kind| text(kind.as_str().as_bytes())));
        field(&mut out, "content-encoding", given.content_encoding.map(|kind| text(kind.as_str().as_bytes())));
        field(&mut out, "absolute-expiry-time", given.absolute_expiry_time);
        field(&mut out, "creation-time", given.creation_time);
        field(&mut out, "group-id", given.group_id.map(|group| text(group.as_bytes())));
        field(&mut out, "group-sequence", given.group_sequence);
        field(&mut out, "reply-to-group-id", given.reply_to_group_id.map(|group| text(group.as_bytes())));
    }
    map(&mut out, "property", sections.application_properties);
    match sections.body {
        BodyRef::Data(data) => data.iter().for_each(|bytes| field(&mut out, "data", Some(text(bytes)))),
        BodyRef::Sequence(lists) => {
            lists.into_iter().for_each(|list| field(&mut out, "sequence", Some(shown_body(list.decode()))));
        }
        BodyRef::Value(value) => field(&mut out, "value", Some(shown_body(value.decode()))),
        BodyRef::None => out.push_str("body: none\n"),
    }
    map(&mut out, "footer", sections.footer);
    out
}

fn field(out: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        writeln!(out, "{name}: {value}").unwrap();
    }
}

fn map(out: &mut String, what: &str, map: Option<MapRef<'_>>) {
    for (key, value) in map.into_iter().flatten() {
        let value = shown(value);
        let value = if key.as_text() == Some("x-opt-deaths") { deaths(&value, NOW_MS) } else { value };
        writeln!(out, "{what} {}: {value}", shown(key)).unwrap();
    }
}

/// Text in quotes if it is UTF-8, otherwise bytes in hexadecimal.
fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| format!("0x{}", hex(bytes)), |text| format!("{text:?}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RabbitMQ's name of the type, and the value.
fn shown_091(value: leveret_amqp091::Value<'_>) -> String {
    use leveret_amqp091::Value;
    let content = match value {
        Value::Bool(value) => value.to_string(),
        Value::I8(value) => value.to_string(),
        Value::U8(value) => value.to_string(),
        Value::I16(value) => value.to_string(),
        Value::U16(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Decimal(decimal) => format!("{}e-{}", decimal.value, decimal.scale),
        Value::LongString(bytes) => text(bytes),
        Value::Bytes(bytes) => hex(bytes),
        Value::Timestamp(seconds) => seconds.to_string(),
        Value::Array(array) => format!("[{}]", array.iter().map(shown_091).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{}: {}", text(key.as_bytes()), shown_091(value)));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Void => return "void".to_owned(),
    };
    format!("{} {content}", value.type_name())
}

/// The specification's name of the type, and the value.
fn shown(value: leveret_amqp10::Value<'_>) -> String {
    use leveret_amqp10::Value;
    let list = |items: &mut dyn Iterator<Item = Value<'_>>| {
        let items: Vec<_> = items.map(shown).collect();
        format!("[{}]", items.join(", "))
    };
    let content = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Ubyte(value) => value.to_string(),
        Value::Ushort(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Ulong(value) => value.to_string(),
        Value::Byte(value) => value.to_string(),
        Value::Short(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long(value) | Value::Timestamp(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Decimal32(bytes) => hex(&bytes),
        Value::Decimal64(bytes) => hex(&bytes),
        Value::Decimal128(bytes) | Value::Uuid(bytes) => hex(&bytes),
        Value::Char(value) => format!("{value:?}"),
        Value::Binary(bytes) => hex(bytes),
        Value::String(value) => format!("{value:?}"),
        Value::Symbol(value) => format!("{:?}", value.as_str()),
        Value::List(items) => list(&mut items.iter()),
        Value::Array(items) => list(&mut items.iter()),
        Value::Map(map) => {
            let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{}: {}", shown(key), shown(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Described(described) => format!("{:?} {}", described.descriptor(), shown(described.value())),
    };
    format!("{} {content}", value.type_name())
}

fn shown_body(value: Result<leveret_amqp10::Value<'_>, leveret_amqp10::DecodeError>) -> String {
    value.map_or_else(|error| error.to_string(), shown)
}

/// A history without the times of the recording.
fn deaths(history: &str, now: u64) -> String {
    let mut parts = history.split("timestamp ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (time, rest) = part.split_at(end);
        let is_now = time.parse::<u64>().is_ok_and(|time| time >= now);
        out.extend(["timestamp ", if is_now { "now" } else { time }, rest]);
    }
    out
}

/// Replaces times after 2023-11-14 22:13:20, in seconds or milliseconds, by `now`: they are times of receipt or
/// sending.
pub(crate) fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, after) = rest.split_at(at);
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        let is_now = matches!(digits.len(), 10 | 13) && digits >= "17";
        out.extend([before, if is_now { "now" } else { digits }]);
        rest = after;
    }
    out + rest
}
