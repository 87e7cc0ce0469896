//! Filters of a source (3.5.8), told apart by their descriptors.

use crate::value::{Descriptor, MapIter, MapRef, Value};

/// Descriptors of filters, with their codes where they have one. Those of RabbitMQ's streams have none.
const DESCRIPTORS: [(Option<u64>, &str); 8] = [
    (Some(0x120), "amqp:sql-filter"),
    (Some(0x173), "amqp:properties-filter"),
    (Some(0x174), "amqp:application-properties-filter"),
    (Some(0x0000_468C_0000_0004), "apache.org:selector-filter:string"),
    (Some(0x0000_468C_0000_0003), "apache.org:no-local-filter:list"),
    (None, "rabbitmq:stream-offset-spec"),
    (None, "rabbitmq:stream-filter"),
    (None, "rabbitmq:stream-match-unfiltered"),
];

/// A filter of a source: its name, which its receiver chose, and its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedFilter<'a> {
    /// The key, which is to be a symbol.
    pub name: &'a str,
    /// The filter.
    pub filter: Filter<'a>,
    /// The described value as the receiver sent it, for the answer.
    pub value: Value<'a>,
}

/// A filter by its descriptor. Values have been checked for their types only where a type stands here.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Filter<'a> {
    /// A SQL filter expression (AMQP Filter Expressions 1.0, section 6).
    Sql(&'a str),
    /// Fields of the properties section, by symbols (section 4.2.4).
    Properties(MapRef<'a>),
    /// Application properties (section 4.2.5).
    ApplicationProperties(MapRef<'a>),
    /// A JMS selector.
    JmsSelector(&'a str),
    /// JMS: no messages that this connection sent.
    NoLocal,
    /// The offset in a stream at which deliveries begin.
    StreamOffset(Value<'a>),
    /// The value of a stream's Bloom filter, or a list of them.
    StreamFilter(Value<'a>),
    /// Whether messages without a value for the Bloom filter match, too.
    StreamMatchUnfiltered(bool),
    /// A known filter with a value of another type, which is left out of the answer.
    Malformed(&'static str),
    /// Any other filter, which is left out of the answer, or a value without a descriptor.
    Unknown,
}

/// The filters in the map of a source in their order. Keys that are neither symbols nor strings are left out.
pub fn filters(map: MapRef<'_>) -> Filters<'_> {
    Filters(map.iter())
}

/// Iterates over the filters of a source.
#[derive(Debug, Clone)]
pub struct Filters<'a>(MapIter<'a>);

impl<'a> Iterator for Filters<'a> {
    type Item = NamedFilter<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|(key, value)| Some(NamedFilter { name: key.as_text()?, filter: Filter::of(value), value }))
    }
}

impl<'a> Filter<'a> {
    /// The filter that a described value is.
    #[must_use]
    pub fn of(value: Value<'a>) -> Self {
        let Value::Described(described) = value else { return Self::Unknown };
        let known = DESCRIPTORS.iter().find(|(code, name)| match described.descriptor() {
            Descriptor::Code(received) => *code == Some(received),
            Descriptor::Symbol(received) => received.as_str() == *name,
        });
        let Some((_, name)) = known else { return Self::Unknown };
        match (*name, described.value()) {
            ("amqp:sql-filter", Value::String(text)) => Self::Sql(text),
            ("amqp:properties-filter", Value::Map(map)) => Self::Properties(map),
            ("amqp:application-properties-filter", Value::Map(map)) => Self::ApplicationProperties(map),
            ("apache.org:selector-filter:string", Value::String(text)) => Self::JmsSelector(text),
            ("apache.org:no-local-filter:list", _) => Self::NoLocal,
            ("rabbitmq:stream-offset-spec", value) => Self::StreamOffset(value),
            ("rabbitmq:stream-filter", value) => Self::StreamFilter(value),
            ("rabbitmq:stream-match-unfiltered", Value::Bool(value)) => Self::StreamMatchUnfiltered(value),
            _ => Self::Malformed(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OwnedValue;
    use crate::value::{OwnedDescribed, OwnedDescriptor, OwnedMap};

    fn described(descriptor: OwnedDescriptor, value: OwnedValue) -> OwnedValue {
        OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value }))
    }

    fn named(name: &str, value: OwnedValue) -> OwnedValue {
        described(OwnedDescriptor::Symbol(name.into()), value)
    }

    fn kinds(filters_sent: Vec<(&str, OwnedValue)>) -> Vec<(String, String)> {
        let pairs = filters_sent.into_iter().map(|(key, value)| (OwnedValue::Symbol(key.into()), value)).collect();
        let encoded = OwnedValue::Map(OwnedMap(pairs)).encoded();
        let Value::Map(map) = encoded.as_value() else { panic!("a map") };
        filters(map).map(|filter| (filter.name.to_owned(), format!("{:?}", filter.filter))).collect()
    }

    #[test]
    fn filters_are_known_by_name_and_code() {
        let text = |text: &str| OwnedValue::String(text.into());
        let code = |code, value| described(OwnedDescriptor::Code(code), value);
        let map = || OwnedValue::Map(OwnedMap(vec![(OwnedValue::Symbol("subject".into()), text("x"))]));
        let found = kinds(vec![
            ("sql-filter", named("amqp:sql-filter", text("a = 1"))),
            ("sql", code(0x120, text("a = 1"))),
            ("p", named("amqp:properties-filter", map())),
            ("p2", code(0x173, map())),
            ("a", code(0x174, map())),
            ("jms-selector", code(0x0000_468C_0000_0004, text("b = 1"))),
            ("selector", named("apache.org:selector-filter:string", text("b = 1"))),
            ("no-local", named("apache.org:no-local-filter:list", OwnedValue::Null)),
            ("o", named("rabbitmq:stream-offset-spec", OwnedValue::Ulong(5))),
            ("f", named("rabbitmq:stream-filter", text("v"))),
            ("u", named("rabbitmq:stream-match-unfiltered", OwnedValue::Bool(true))),
        ]);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, kind)| (&**name, &**kind)).collect();
        assert_eq!(found[0], ("sql-filter", "Sql(\"a = 1\")"));
        assert_eq!(found[1], ("sql", "Sql(\"a = 1\")"));
        assert!(found[2].1.starts_with("Properties(") && found[3].1.starts_with("Properties("));
        assert!(found[4].1.starts_with("ApplicationProperties("));
        assert_eq!(found[5], ("jms-selector", "JmsSelector(\"b = 1\")"));
        assert_eq!(found[6], ("selector", "JmsSelector(\"b = 1\")"));
        assert_eq!(
            found[7..],
            [
                ("no-local", "NoLocal"),
                ("o", "StreamOffset(Ulong(5))"),
                ("f", "StreamFilter(String(\"v\"))"),
                ("u", "StreamMatchUnfiltered(true)"),
            ]
        );
    }

    #[test]
    fn other_types_and_descriptors_are_told_apart() {
        let found = kinds(vec![
            ("sql-filter", named("amqp:sql-filter", OwnedValue::Symbol("a = 1".into()))),
            ("p", named("amqp:properties-filter", OwnedValue::Null)),
            ("rabbitmq:stream-filter", OwnedValue::String("v".into())),
            ("x", named("x", OwnedValue::Null)),
            ("y", described(OwnedDescriptor::Code(0x121), OwnedValue::Null)),
        ]);
        let found: Vec<&str> = found.iter().map(|(_, kind)| &**kind).collect();
        let malformed = ["Malformed(\"amqp:sql-filter\")", "Malformed(\"amqp:properties-filter\")"];
        assert_eq!(found, [malformed[0], malformed[1], "Unknown", "Unknown", "Unknown"]);
    }
}
