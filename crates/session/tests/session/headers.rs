//! The headers of messages of both protocols as bindings of a headers exchange match them.

use std::sync::Arc;

use leveret_amqp10::message::{MessageId, Properties as NewProperties};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Symbol, Value as New};
use leveret_amqp091::{Decimal, FieldTable, FieldValue as Old, Properties, ShortStr};
use leveret_broker::headers::MessageHeaders;
use leveret_message::headers;
use leveret_model::{HashProperty, Value};
use leveret_routing::{Header, Headers};

const UUID: [u8; 16] = *b"0123456789abcdef";
const TIME: u64 = 1_700_000_000;

/// The values of this header, by name, that a binding could match.
fn matched(name: &str, headers: headers::Headers<'_>) -> Vec<&'static str> {
    let values = [
        ("int", Value::Int(1)),
        ("double", Value::Double(1.0)),
        ("half", Value::Double(1.5)),
        ("string", Value::string("1")),
        ("bytes", Value::Bytes(Arc::from(&b"1"[..]))),
        ("empty", Value::string("")),
        ("true", Value::Bool(true)),
        ("seconds", Value::Timestamp(TIME)),
        ("milliseconds", Value::Int(1_700_000_000_000)),
        ("more milliseconds", Value::Int(1_700_000_000_123)),
        ("before 1970", Value::Int(-1500)),
        ("uuid", Value::string(UUID)),
        ("char", Value::Int(252)),
        ("ulong", Value::UInt(u64::MAX)),
        ("array", Value::Array(vec![Value::Int(1)])),
        ("decimal", Value::Decimal { scale: 0, unscaled: 1 }),
        ("any", Value::Void),
    ];
    let headers = MessageHeaders(headers);
    let found = headers.lookup(name);
    let found = values.iter().filter(|(_, wanted)| found.as_ref().is_some_and(|header| header.satisfies(wanted)));
    found.map(|(name, _)| *name).collect()
}

fn old(value: impl Into<Old>) -> Vec<&'static str> {
    let table = FieldTable::new().with("h", value).encoded();
    matched("h", headers::Headers::amqp091(Some(table.as_table())))
}

fn new(value: New<'_>) -> Vec<&'static str> {
    let map = EncodedMap::new().with("x-h", value);
    let annotation = matched("x-h", headers::Headers::amqp10(Some(map.as_map()), None));
    let property = matched("x-h", headers::Headers::amqp10(None, Some(map.as_map())));
    assert_eq!(annotation, property, "{value:?}");
    property
}

/// Like RabbitMQ 4.3.6, except that a time also equals a binding's time, and boolean annotations count.
#[test]
fn both_protocols_match_the_same_bindings() {
    for (given, same, expected) in [
        (Old::I32(1), New::Int(1), vec!["int", "any"]),
        (Old::U8(1), New::Ubyte(1), vec!["int", "any"]),
        (Old::I64(1), New::Long(1), vec!["int", "any"]),
        (Old::F64(1.0), New::Double(1.0), vec!["double", "any"]),
        (Old::F32(1.5), New::Float(1.5), vec!["half", "any"]),
        (Old::from("1"), New::String("1"), vec!["string", "bytes", "any"]),
        (Old::from("1"), New::Symbol(Symbol::new("1")), vec!["string", "bytes", "any"]),
        (Old::Bytes(b"1".to_vec()), New::Binary(b"1"), vec!["string", "bytes", "any"]),
        (Old::from(""), New::String(""), vec!["empty", "any"]),
        (Old::Bool(true), New::Bool(true), vec!["true", "any"]),
        (Old::Timestamp(TIME), New::Timestamp(1_700_000_000_000), vec!["seconds", "milliseconds", "any"]),
        (Old::Void, New::Null, vec!["any"]),
    ] {
        assert_eq!(old(given), expected, "{expected:?}");
        assert_eq!(new(same), expected, "{expected:?}");
    }
    assert_eq!(old(vec![Old::I64(1)]), ["array", "any"]);
    assert_eq!(old(Old::Decimal(Decimal { scale: 0, value: 1 })), ["decimal", "any"]);
    assert_eq!(new(New::Timestamp(1_700_000_000_123)), ["more milliseconds", "any"]);
    assert_eq!(new(New::Timestamp(-1500)), ["before 1970", "any"]);
    assert_eq!(new(New::Uuid(UUID)), ["uuid", "any"]);
    assert_eq!(new(New::Char('ü')), ["char", "any"]);
    assert_eq!(new(New::Ulong(u64::MAX)), ["ulong", "any"]);
    let empty = EncodedMap::new();
    assert_eq!(new(New::Map(empty.as_map())), [""; 0]);
    assert_eq!(new(New::Decimal32([0, 0, 0, 1])), [""; 0]);
}

#[test]
fn annotations_come_before_properties_and_only_with_x() {
    let annotations = EncodedMap::new().with("x-h", 1u32).with("h", 1u32);
    let properties = EncodedMap::new().with("x-h", "1").with("h", "1");
    let both = headers::Headers::amqp10(Some(annotations.as_map()), Some(properties.as_map()));
    assert_eq!(matched("x-h", both), ["int", "any"]);
    assert_eq!(matched("h", both), ["string", "bytes", "any"]);
    assert_eq!(matched("other", both), [""; 0]);
}

/// An exchange that hashes a property routes messages of both protocols in the same way.
#[test]
fn both_protocols_have_the_properties_that_exchanges_hash() {
    let (id, correlation) = ("id-1", "c-1");
    let mut old = Vec::new();
    let short = |text: &'static str| Some(ShortStr::literal(text));
    Properties {
        message_id: short(id),
        correlation_id: short(correlation),
        timestamp: Some(TIME),
        ..Properties::default()
    }
    .encode(&mut old);
    let mut new = Vec::new();
    NewProperties {
        message_id: Some(MessageId::String(id)),
        correlation_id: Some(MessageId::String(correlation)),
        creation_time: Some(TIME as i64 * 1000),
        ..NewProperties::default()
    }
    .encode(&mut new);
    let none = headers::Headers::default();
    for fields in [headers::PropertiesAt::Amqp091(&old), headers::PropertiesAt::Amqp10(&new)] {
        let message = MessageHeaders(none.with(fields));
        assert!(message.is_empty(), "properties aren't headers");
        assert_eq!(message.property(HashProperty::MessageId), Some(Header::String(id.as_bytes())));
        assert_eq!(message.property(HashProperty::CorrelationId), Some(Header::String(correlation.as_bytes())));
        let time_ms = i128::from(TIME) * 1000;
        assert_eq!(message.property(HashProperty::Timestamp), Some(Header::Time { time_ms }));
    }
    for fields in
        [headers::PropertiesAt::None, headers::PropertiesAt::Amqp091(&[0, 0]), headers::PropertiesAt::Amqp10(&[])]
    {
        assert_eq!(MessageHeaders(none.with(fields)).property(HashProperty::MessageId), None);
    }
}
