//! A message's headers as routing looks them up. Shared by all protocols.

use std::sync::Arc;

use leveret_message::field::Field;
use leveret_message::headers::Header as MessageHeader;
use leveret_message::lookup::Property;
use leveret_model::{Arguments, HashProperty, QueueId, Value};
pub use leveret_routing::NoHeaders;
use leveret_routing::{Header, Headers};

/// The headers of a message being routed.
pub struct MessageHeaders<'a>(pub leveret_message::headers::Headers<'a>);

impl Headers for MessageHeaders<'_> {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        self.0.lookup(name).and_then(routed)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn property(&self, property: HashProperty) -> Option<Header<'_>> {
        let property = match property {
            HashProperty::MessageId => Property::MessageId,
            HashProperty::CorrelationId => Property::CorrelationId,
            HashProperty::Timestamp => Property::CreationTime,
        };
        self.0.property(property).and_then(routed)
    }
}

/// The headers of a message that waited in the queue of an exchange, which routes it now.
pub(crate) struct ReleasedHeaders<'a> {
    pub headers: MessageHeaders<'a>,
    pub queue: QueueId,
}

impl Headers for ReleasedHeaders<'_> {
    fn lookup(&self, name: &str) -> Option<Header<'_>> {
        self.headers.lookup(name)
    }

    fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    fn released_from(&self) -> Option<QueueId> {
        Some(self.queue)
    }

    fn property(&self, property: HashProperty) -> Option<Header<'_>> {
        self.headers.property(property)
    }
}

/// A header or property as routing compares it.
fn routed(header: MessageHeader<'_>) -> Option<Header<'_>> {
    Some(Header::Value(match header {
        MessageHeader::Bytes(bytes) => return Some(Header::String(bytes)),
        MessageHeader::Timestamp(time_ms) => return Some(Header::Time { time_ms }),
        MessageHeader::Uuid(bytes) => Value::string(bytes),
        MessageHeader::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Value::Int(value),
            (Err(_), Ok(value)) => Value::UInt(value),
            (Err(_), Err(_)) => return None,
        },
        MessageHeader::Double(value) => Value::Double(value),
        MessageHeader::Bool(value) => Value::Bool(value),
        MessageHeader::Void => Value::Void,
        MessageHeader::Complex(field) => value(field),
    }))
}

/// A field as a value of the model. Keys of inner tables that aren't UTF-8 are converted lossily.
pub fn value(field: Field<'_>) -> Value {
    match field {
        Field::Void => Value::Void,
        Field::Bool(value) => Value::Bool(value),
        Field::Integer(value) => Value::Int(value),
        Field::Double(value) => Value::Double(value),
        Field::Decimal { scale, unscaled } => Value::Decimal { scale, unscaled },
        Field::Timestamp(seconds) => Value::Timestamp(seconds),
        Field::String(bytes) => Value::String(bytes.into()),
        Field::Bytes(bytes) => Value::Bytes(bytes.into()),
        Field::Array(array) => Value::Array(array.iter().map(value).collect()),
        Field::Table(table) => {
            let pairs = table.iter().map(|(key, field)| (Arc::from(String::from_utf8_lossy(key)), value(field)));
            Value::Table(Arguments::new(pairs.collect()))
        }
    }
}
