//! Filters see messages of both protocols in their form of AMQP 1.0.

use leveret_amqp10::message::{MapSection, MessageId, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Symbol, Value};
use leveret_amqp091::{FieldTable, FieldValue, Properties as Amqp091Properties, ShortStr};
use leveret_message::{Encoding, Envelope, StoredMessage};
use leveret_queue::FilterFields;
use leveret_selector::{Budget, Dialect, PropertyFilter, Reference, Selector, Verdict};
use serde_json::Value as Json;

const UUID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41];

fn matches(stored: &StoredMessage<'_>, expression: &str, dialect: Dialect) -> bool {
    let selector = Selector::parse(expression, dialect).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let fields = FilterFields::new(stored);
    selector.evaluate(&fields, 1_800_000_000_000, &mut Budget::new(1)) == Verdict::Match
}

/// The bare message of AMQP 1.0 with every property.
fn bare() -> Vec<u8> {
    let mut bytes = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::Uuid(UUID)),
        user_id: Some(b"guest"),
        to: Some("to"),
        subject: Some("order.created"),
        reply_to: Some("/queues/q"),
        correlation_id: Some(MessageId::Ulong(789)),
        content_type: Symbol::checked("text/plain"),
        content_encoding: Symbol::checked("gzip"),
        absolute_expiry_time: Some(1_900_000_000_000),
        creation_time: Some(1_700_000_000_000),
        group_id: Some("group"),
        group_sequence: Some(9),
        reply_to_group_id: Some("replies"),
    };
    properties.encode(&mut bytes);
    let mut map = EncodedMap::new();
    map.push("string", "AMER")
        .push("symbol", Symbol::checked("sym").unwrap())
        .push("binary", &b"\xff"[..])
        .push("uuid", Value::Uuid(UUID))
        .push("ubyte", 200u8)
        .push("ushort", 60_000u16)
        .push("uint", 4_000_000_000u32)
        .push("ulong", u64::MAX)
        .push("byte", -1i8)
        .push("short", -2i16)
        .push("int", -3i32)
        .push("long", i64::MIN)
        .push("float", 0.5f32)
        .push("double", 0.25f64)
        .push("nan", f64::NAN)
        .push("char", 'A')
        .push("timestamp", Value::Timestamp(5))
        .push("true", true)
        .push("null", Value::Null)
        .push("decimal", Value::Decimal32([0; 4]))
        .push("twice", 1u8)
        .push("twice", 2u8);
    write_map_section(&mut bytes, MapSection::ApplicationProperties, map.as_map());
    write_data(&mut bytes, b"body");
    bytes
}

fn amqp10<'a>(bare: &'a [u8], priority: Option<u8>) -> StoredMessage<'a> {
    let envelope = Envelope { priority, durable: true, ..Envelope::default() };
    StoredMessage { encoding: Encoding::Amqp10, envelope, body: bare, ..StoredMessage::default() }
}

#[test]
fn every_field_of_a_message_of_amqp10_is_seen() {
    let bare = bare();
    let message = amqp10(&bare, Some(7));
    for expression in [
        "h.priority = 7",
        "p.message_id = 0x00000000000000000000000000000041 AND p.message_id LIKE '%A'",
        "p.user_id = 'guest' AND p.to = 'to' AND p.subject = 'order.created' AND p.reply_to = '/queues/q'",
        "p.correlation_id = 789 AND p.content_type = 'text/plain' AND p.content_encoding = 'gzip'",
        "p.absolute_expiry_time > UTC() AND p.creation_time < UTC()",
        "p.group_id = 'group' AND p.group_sequence = 9 AND p.reply_to_group_id = 'replies'",
        "string = 'AMER' AND symbol = 'sym' AND binary = 0xFF AND uuid = p.message_id AND uuid IN (p.message_id)",
        "ubyte = 200 AND ushort = 60000 AND uint = 4000000000 AND ulong = 18446744073709551615",
        "byte = -1 AND short = -2 AND int = -3 AND long = -9223372036854775808",
        "float = 0.5 AND double = 0.25 AND [nan] IS NULL AND char = 65 AND timestamp = 5 AND [true]",
        "[null] IS NULL AND decimal IS NULL AND missing IS NULL AND twice = 1",
    ] {
        assert!(matches(&message, expression, Dialect::Amqp), "{expression}");
    }
    assert!(matches(&message, "JMSDeliveryMode = 'PERSISTENT' AND JMSType LIKE 'order.%'", Dialect::Jms));
    assert!(matches(&amqp10(&bare, None), "h.priority = 4", Dialect::Amqp));
    assert!(matches(&amqp10(&bare[..0], None), "p.subject IS NULL AND string IS NULL", Dialect::Amqp));
}

#[test]
fn a_null_reference_matches_what_the_message_has() {
    let bare = bare();
    let message = amqp10(&bare, None);
    for (name, expected) in
        [("string", true), ("null", true), ("missing", false), ("decimal", false), ("nan", false), ("double", true)]
    {
        let filter = PropertyFilter::application_properties([(name, Reference::Null)]).unwrap();
        let verdict = filter.evaluate(&FilterFields::new(&message), &mut Budget::new(1));
        assert_eq!(verdict == Verdict::Match, expected, "{name}");
    }
}

/// The message that `tests/golden/filters.py` sends over AMQP 0-9-1.
fn amqp091_properties() -> Vec<u8> {
    let short = |text: &'static str| ShortStr::new(text.as_bytes()).ok();
    let headers = FieldTable::new()
        .with("region", "AMER")
        .with("flag", true)
        .with("number", 5)
        .with("wide", FieldValue::I64(1 << 40))
        .with("bytes", FieldValue::LongString(b"\xff".to_vec()))
        .with("time", FieldValue::Timestamp(1_700_000_000))
        .with("void", FieldValue::Void)
        .with("list", FieldValue::Array(vec![FieldValue::I32(1)]))
        .with("table", FieldValue::Table(FieldTable::new().with("a", 1)))
        .with("x-key", 7)
        .encoded();
    let properties = Amqp091Properties {
        content_type: short("text/plain"),
        content_encoding: short("gzip"),
        headers: Some(headers.as_table()),
        delivery_mode: Some(2),
        priority: Some(9),
        correlation_id: short("corr"),
        reply_to: short("a b"),
        message_id: short("urn:uuid:00000000-0000-0000-0000-000000000041"),
        timestamp: Some(1_700_000_000),
        kind: short("kind"),
        user_id: short("guest"),
        app_id: short("app"),
        ..Amqp091Properties::default()
    };
    let mut bytes = Vec::new();
    properties.encode(&mut bytes);
    bytes
}

#[test]
fn a_message_of_amqp091_is_seen_as_in_rabbitmq() {
    let properties = amqp091_properties();
    let envelope = Envelope { priority: Some(9), durable: true, ..Envelope::default() };
    let message = StoredMessage { envelope, properties: &properties, ..StoredMessage::default() };
    let recorded: Json = serde_json::from_str(include_str!("../../selector/tests/selector/rabbitmq.json")).unwrap();
    for case in recorded["amqp091"].as_array().unwrap() {
        let expression = case["sql"].as_str().unwrap();
        let expected = !case["matches"].as_array().unwrap().is_empty();
        assert_eq!(matches(&message, expression, Dialect::Amqp), expected, "{expression}");
    }
}
