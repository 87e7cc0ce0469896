//! Events as messages of AMQP 1.0.

use leveret_amqp10::message::{MapSection, Properties, write_data, write_map_section};
use leveret_amqp10::value::{EncodedMap, OwnedMap};
use leveret_amqp10::{OwnedValue, Symbol};

use super::{HeaderTable, HeaderValue};

/// The stored form of an event in the encoding of AMQP 1.0: its properties are message annotations whose names begin with `x-opt-`,
/// and the time is the creation time. The result is the annotations and the bare message.
pub fn event_amqp10(headers: &HeaderTable, now_ms: u64) -> (Vec<u8>, Vec<u8>) {
    let mut annotations = EncodedMap::new();
    for (name, value) in headers {
        let name = format!("x-opt-{}", name.replace('_', "-"));
        // The names of a policy's or limit's values could be anything.
        if let Some(name) = Symbol::checked(&name) {
            annotations.push_owned(name, &owned(value));
        }
    }
    let (mut stored, mut bare) = (Vec::new(), Vec::new());
    write_map_section(&mut stored, MapSection::MessageAnnotations, annotations.as_map());
    Properties { creation_time: i64::try_from(now_ms).ok(), ..Properties::default() }.encode(&mut bare);
    write_data(&mut bare, b"");
    (stored, bare)
}

fn owned(value: &HeaderValue) -> OwnedValue {
    let map = |table: &HeaderTable, key: fn(String) -> OwnedValue| {
        let pairs = table.iter().map(|(name, value)| (key(name.to_string()), owned(value)));
        OwnedValue::Map(OwnedMap(pairs.collect()))
    };
    match value {
        HeaderValue::Bool(value) => OwnedValue::Bool(*value),
        HeaderValue::Int(value) => OwnedValue::Int(*value),
        HeaderValue::Long(value) => OwnedValue::Long(*value),
        HeaderValue::Double(value) => OwnedValue::Double(*value),
        HeaderValue::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => OwnedValue::String(text.to_owned()),
            Err(_) => OwnedValue::Binary(bytes.clone()),
        },
        HeaderValue::List(values) => OwnedValue::List(values.iter().map(owned).collect()),
        // As in RabbitMQ, no arguments are an empty list.
        HeaderValue::Terms(table) if table.is_empty() => OwnedValue::List(Vec::new()),
        HeaderValue::Terms(table) if table.iter().all(|(name, _)| name.is_ascii()) => map(table, OwnedValue::Symbol),
        HeaderValue::Table(table) | HeaderValue::Terms(table) => map(table, OwnedValue::String),
    }
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::Value;
    use leveret_amqp10::message::Sections;

    use super::*;

    #[test]
    fn properties_are_annotations_and_the_body_is_empty() {
        let arguments = vec![("x-max-length".into(), HeaderValue::Int(5))];
        let headers = vec![
            ("auto_delete".into(), HeaderValue::Bool(false)),
            ("arguments".into(), HeaderValue::Terms(arguments)),
            ("none".into(), HeaderValue::Terms(Vec::new())),
            ("priority".into(), HeaderValue::Long(7)),
        ];
        let (annotations, bare) = event_amqp10(&headers, 1_700_000_000_123);
        let whole = [annotations, bare].concat();
        let sections = Sections::parse(&whole).expect("a message");
        let found = sections.message_annotations.expect("annotations");
        assert_eq!(found.lookup("x-opt-auto-delete"), Some(Value::Bool(false)));
        assert_eq!(found.lookup("x-opt-priority"), Some(Value::Long(7)));
        let Some(Value::Map(arguments)) = found.lookup("x-opt-arguments") else { panic!("no map") };
        assert_eq!(arguments.lookup("x-max-length"), Some(Value::Int(5)));
        assert!(matches!(found.lookup("x-opt-none"), Some(Value::List(_))));
        assert_eq!(sections.properties.and_then(|properties| properties.creation_time), Some(1_700_000_000_123));
    }
}
