//! Messages that the broker itself writes: what its exchanges for traces, events and log lines get.

mod beginning;
pub mod erlang;
mod event;

use std::borrow::Cow;

use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr};

use crate::deliver::{Delivery, to_amqp091};
use crate::stored::StoredMessage;

pub use beginning::Beginning;
pub use event::event_amqp10;

/// The delivery mode of persistent messages (specification 0-9-1, 1.8.1).
const PERSISTENT: u8 = 2;

/// A header with the type that it has on the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderValue {
    /// A boolean.
    Bool(bool),
    /// An integer of 32 bits.
    Int(i32),
    /// An integer of 64 bits.
    Long(i64),
    /// A double.
    Double(f64),
    /// A string.
    Text(Vec<u8>),
    /// A list.
    List(Vec<HeaderValue>),
    /// A table.
    Table(HeaderTable),
    /// Arguments: over AMQP 0-9-1 a list of texts, as RabbitMQ's events have them; over AMQP 1.0 a table.
    Terms(HeaderTable),
}

impl HeaderValue {
    /// A string.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().to_vec())
    }
}

/// Headers by name, in order.
pub type HeaderTable = Vec<(Cow<'static, str>, HeaderValue)>;

/// The properties of a message of the broker itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnProperties {
    /// Its headers.
    pub headers: HeaderTable,
    /// Whether it is persistent.
    pub persistent: bool,
    /// The MIME type of its body.
    pub content_type: Option<&'static str>,
    /// When it was written, in seconds since the Unix epoch.
    pub timestamp: Option<u64>,
}

impl OwnProperties {
    /// The properties as a message over AMQP 0-9-1 has them.
    pub fn encode_amqp091(&self) -> Vec<u8> {
        let headers = field_table(&self.headers).encoded();
        let mut encoded = Vec::new();
        Properties {
            content_type: self.content_type.and_then(|text| ShortStr::new(text.as_bytes()).ok()),
            headers: Some(headers.as_table()),
            delivery_mode: self.persistent.then_some(PERSISTENT),
            timestamp: self.timestamp,
            ..Properties::default()
        }
        .encode(&mut encoded);
        encoded
    }
}

fn field_table(headers: &HeaderTable) -> FieldTable {
    headers.iter().map(|(name, value)| (name.as_bytes().to_vec(), field_value(value))).collect()
}

fn field_value(value: &HeaderValue) -> FieldValue {
    match value {
        HeaderValue::Bool(value) => FieldValue::Bool(*value),
        HeaderValue::Int(value) => FieldValue::I32(*value),
        HeaderValue::Long(value) => FieldValue::I64(*value),
        HeaderValue::Double(value) => FieldValue::F64(*value),
        HeaderValue::Text(bytes) => FieldValue::LongString(bytes.clone()),
        HeaderValue::List(values) => FieldValue::Array(values.iter().map(field_value).collect()),
        HeaderValue::Table(table) => FieldValue::Table(field_table(table)),
        HeaderValue::Terms(table) => FieldValue::Array(erlang::pairs(table).map(FieldValue::from).collect()),
    }
}

/// The copy of a message on the firehose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced<'a> {
    /// Property flags and list of AMQP 0-9-1: headers only.
    pub properties: Vec<u8>,
    /// The message's own body, as a receiver over AMQP 0-9-1 gets it.
    pub body: Cow<'a, [u8]>,
}

/// The copy of a message as the firehose shows it: its exchange, keys and properties are headers, followed by `node` and `further`
/// ones. A part that makes the properties larger than `properties_max` bytes is left out: first the message's own headers, then the
/// last of the further ones.
pub fn traced<'a>(
    message: &StoredMessage<'a>,
    delivery: &Delivery,
    node: &str,
    mut further: HeaderTable,
    properties_max: usize,
) -> Traced<'a> {
    let shown = to_amqp091(message, delivery);
    let mut own = Properties::decode(&shown.properties).unwrap_or_default();
    let mut properties = trace_headers(message, &own, node, &further);
    if properties.len() > properties_max && own.headers.take().is_some() {
        properties = trace_headers(message, &own, node, &further);
    }
    while properties.len() > properties_max && further.pop().is_some() {
        properties = trace_headers(message, &own, node, &further);
    }
    Traced { properties, body: shown.body }
}

fn trace_headers(message: &StoredMessage<'_>, own: &Properties<'_>, node: &str, further: &HeaderTable) -> Vec<u8> {
    let keys = message.routing_keys().map(|key| FieldValue::LongString(key.to_vec())).collect();
    let mut headers = FieldTable::new();
    headers
        .insert("exchange_name", FieldValue::LongString(message.envelope.exchange.to_vec()))
        .insert("routing_keys", FieldValue::Array(keys))
        .insert("properties", property_table(own))
        .insert("node", node);
    for (name, value) in further {
        headers.insert(name.as_bytes(), field_value(value));
    }
    let (headers, mut encoded) = (headers.encoded(), Vec::new());
    Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut encoded);
    encoded
}

/// Properties by name. As in RabbitMQ, every number is a signed one of 32 bits, also the time.
fn property_table(properties: &Properties<'_>) -> FieldTable {
    let mut table = FieldTable::new();
    let texts = [
        ("cluster_id", properties.cluster_id),
        ("app_id", properties.app_id),
        ("user_id", properties.user_id),
        ("type", properties.kind),
        ("message_id", properties.message_id),
        ("expiration", properties.expiration),
        ("reply_to", properties.reply_to),
        ("correlation_id", properties.correlation_id),
        ("content_encoding", properties.content_encoding),
        ("content_type", properties.content_type),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            table.insert(name, FieldValue::LongString(text.as_bytes().to_vec()));
        }
    }
    let numbers = [
        ("timestamp", properties.timestamp.map(|seconds| seconds as i32)),
        ("priority", properties.priority.map(i32::from)),
        ("delivery_mode", properties.delivery_mode.map(i32::from)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            table.insert(name, number);
        }
    }
    if let Some(headers) = properties.headers {
        table.insert("headers", FieldTable::from(headers));
    }
    table
}

#[cfg(test)]
mod tests {
    use leveret_amqp091::{Value, headers};

    use super::*;
    use crate::envelope::Envelope;
    use crate::overlay::{Overlay, encode_keys};

    fn properties(own: &FieldTable) -> Vec<u8> {
        let (own, mut encoded) = (own.encoded(), Vec::new());
        let headers = Some(own.as_table());
        let text = |text| ShortStr::new(text).ok();
        let properties = Properties {
            headers,
            content_type: text(b"a/b"),
            kind: text(b"k"),
            timestamp: Some(7),
            ..Properties::default()
        };
        properties.encode(&mut encoded);
        encoded
    }

    fn message<'a>(properties: &'a [u8], overlay: &'a [u8]) -> StoredMessage<'a> {
        let envelope = Envelope { exchange: b"x", routing_key: b"k", ..Envelope::default() };
        StoredMessage {
            envelope,
            overlay: Overlay::new(overlay),
            properties,
            body: b"body",
            ..StoredMessage::default()
        }
    }

    fn trace(own: &FieldTable, most: usize) -> FieldTable {
        let (properties, mut overlay) = (properties(own), Vec::new());
        encode_keys(&mut overlay, [&b"cc"[..]], [&b"bcc"[..]]);
        let further =
            vec![("channel".into(), HeaderValue::Int(3)), ("routed_queues".into(), HeaderValue::List(vec![]))];
        let traced = traced(&message(&properties, &overlay), &Delivery::default(), "n@h", further, most);
        assert_eq!(&traced.body[..], b"body");
        headers(&traced.properties).expect("it has headers").into()
    }

    #[test]
    fn a_trace_has_keys_and_properties_with_their_types() {
        let own = FieldTable::new().with("short", 5i16);
        let trace = trace(&own, usize::MAX);
        let text = |text: &str| FieldValue::from(text);
        assert_eq!(trace.lookup("exchange_name"), Some(&text("x")));
        let keys = vec![text("k"), text("cc"), text("bcc")];
        assert_eq!(trace.lookup("routing_keys"), Some(&FieldValue::Array(keys)));
        assert_eq!(trace.lookup("node"), Some(&text("n@h")));
        assert_eq!(trace.lookup("channel"), Some(&FieldValue::I32(3)));
        let Some(FieldValue::Table(shown)) = trace.lookup("properties") else { panic!("{trace:?}") };
        assert_eq!(shown.lookup("headers"), Some(&FieldValue::Table(own)));
        assert_eq!((shown.lookup("type"), shown.lookup("timestamp")), (Some(&text("k")), Some(&FieldValue::I32(7))));
        assert_eq!(shown.len(), 4);
    }

    #[test]
    fn parts_that_make_a_trace_too_large_are_left_out() {
        let own = FieldTable::new().with("long", "x".repeat(500));
        assert!(trace(&own, 700).lookup("routed_queues").is_some());
        let without = trace(&own, 300);
        let Some(FieldValue::Table(shown)) = without.lookup("properties") else { panic!("{without:?}") };
        assert!(shown.lookup("headers").is_none() && without.lookup("routed_queues").is_some());
        assert!(trace(&own, 0).lookup("routed_queues").is_none());
    }

    #[test]
    fn headers_of_the_broker_keep_their_types() {
        let inner = vec![("t".into(), HeaderValue::Bool(true))];
        let headers = vec![
            ("int".into(), HeaderValue::Int(1)),
            ("long".into(), HeaderValue::Long(2)),
            ("double".into(), HeaderValue::Double(0.5)),
            ("list".into(), HeaderValue::List(vec![HeaderValue::text("a")])),
            ("table".into(), HeaderValue::Table(inner)),
        ];
        let own = OwnProperties { headers, persistent: true, content_type: Some("text/plain"), timestamp: Some(9) };
        let encoded = own.encode_amqp091();
        let decoded = Properties::decode(&encoded).expect("it is encoded");
        assert_eq!((decoded.delivery_mode, decoded.timestamp), (Some(2), Some(9)));
        let headers = decoded.headers.expect("it has headers");
        assert_eq!(headers.lookup("int"), Some(Value::I32(1)));
        assert_eq!(headers.lookup("long"), Some(Value::I64(2)));
        assert!(matches!(headers.lookup("table"), Some(Value::Table(_))));
    }
}
