//! Messages between the stream protocol and the others, as RabbitMQ 4.3.6 converts them.

use leveret_amqp10::message::{MapSection, MessageId, Properties, Sections, write_data, write_map_section};
use leveret_amqp10::{OwnedValue, Value};
use leveret_amqp091::{Properties as Properties091, Value as Value091};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::filters::{attach, filter};
use leveret_tests::stream::{OffsetSpec, StreamClient};
use leveret_tests::wire::{Wire, method};

use super::{finish, node};

const HEADERS: [(&str, &str); 2] = [("region", "eu"), ("kind", "order")];

/// A message with properties, application properties and data.
fn message() -> Vec<u8> {
    let mut out = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::String("id-1")),
        correlation_id: Some(MessageId::String("to-2")),
        content_type: Some(leveret_amqp10::Symbol::new("text/plain")),
        reply_to: Some("somewhere"),
        ..Properties::default()
    };
    properties.encode(&mut out);
    let pairs = HEADERS.map(|(name, value)| (name, OwnedValue::String(value.into())));
    let map = leveret_amqp10::value::OwnedMap(
        pairs.into_iter().map(|(name, value)| (OwnedValue::String(name.into()), value)).collect(),
    );
    let encoded = OwnedValue::Map(map).encoded();
    let Value::Map(map) = encoded.as_value() else { unreachable!("it is a map") };
    write_map_section(&mut out, MapSection::ApplicationProperties, map);
    write_data(&mut out, b"body");
    out
}

#[test]
fn other_protocols_read_what_a_stream_client_publishes() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    client.publisher(1, "", "s");
    client.publish_encoded(1, &[(1, &message())]);
    client.confirms();
    client.subscribe(1, "s", OffsetSpec::First, 1);
    client.read_to(1, 1);
    assert_eq!(client.subscriptions[&1].chunks[0].messages, [message()], "byte for byte");

    let mut amqp091 = Wire::open(node.amqp());
    amqp091.prefetch(1, 10);
    amqp091.consume_with(1, "s", false, &[("x-stream-offset", 0)]);
    let deliver = amqp091.next_method(method::BASIC_DELIVER).expect("a delivery");
    // RabbitMQ's defaults, as if it had come by the default exchange.
    assert!(deliver.payload.ends_with(b"\0\x01s"), "exchange and routing key: {:?}", deliver.payload);
    let (raw, body) = amqp091.content_with_properties().expect("content");
    let properties = Properties091::decode(&raw).expect("properties");
    assert_eq!(body, b"body");
    assert_eq!(properties.message_id.map(|id| id.to_string()).as_deref(), Some("id-1"));
    assert_eq!(properties.correlation_id.map(|id| id.to_string()).as_deref(), Some("to-2"));
    assert_eq!(properties.content_type.map(|text| text.to_string()).as_deref(), Some("text/plain"));
    assert_eq!(properties.reply_to.map(|text| text.to_string()).as_deref(), Some("somewhere"));
    let headers = properties.headers.expect("headers");
    for (name, value) in HEADERS {
        let found = headers.lookup(name).expect("the header");
        assert_eq!(found, Value091::LongString(value.as_bytes()), "{name}");
    }
    assert_eq!(headers.lookup("x-stream-offset").and_then(|offset| offset.as_i64()), Some(0));
    amqp091.close();

    let mut amqp10 = Amqp10::open(node.amqp());
    let first = OwnedValue::String("first".into());
    attach(&mut amqp10, 0, "s", &[("offset", filter("rabbitmq:stream-offset-spec", first))]);
    amqp10.grant(0, 1);
    let received = amqp10.receive(0);
    let (sections, whole) = (received.sections(), message());
    let sent = Sections::parse(&whole).expect("a message");
    assert_eq!(sections.properties, sent.properties);
    assert_eq!(sections.application_properties, sent.application_properties);
    assert_eq!(received.data(), b"body");
    amqp10.close();
    client.close();
    finish(&node);
}

#[test]
fn a_stream_client_reads_what_the_others_publish() {
    let Some(node) = node() else { return };
    let mut client = StreamClient::open(node.streams());
    client.create("s");
    let mut amqp10 = Amqp10::open(node.amqp());
    amqp10.sender(0, "/queues/s");
    amqp10.wait_credit(CHANNEL, 0);
    let id = amqp10.send(0, &message(), &leveret_strict_client::amqp10::Send::default());
    let outcome = amqp10.outcome(id);
    assert!(matches!(outcome, leveret_strict_client::amqp10::State::Accepted), "{outcome:?}");
    amqp10.close();
    let mut amqp091 = Wire::open(node.amqp());
    amqp091.confirm_select(1);
    amqp091.send(&leveret_tests::wire::publish(1, "", "s", b"from 0-9-1", true, true));
    amqp091.confirms(1);
    amqp091.close();

    client.subscribe(1, "s", OffsetSpec::First, 2);
    client.read_to(1, 2);
    let messages: Vec<&Vec<u8>> = client.subscriptions[&1].chunks.iter().flat_map(|chunk| &chunk.messages).collect();
    let whole = message();
    let (native, converted) =
        (Sections::parse(messages[0]).expect("sections"), Sections::parse(messages[1]).expect("sections"));
    let sent = Sections::parse(&whole).expect("a message");
    assert_eq!((native.properties, native.application_properties), (sent.properties, sent.application_properties));
    assert!(messages[0].ends_with(b"body"));
    // RabbitMQ notes where a message of AMQP 0-9-1 came from.
    let annotations = converted.message_annotations.expect("annotations");
    for (key, value) in [("x-exchange", ""), ("x-routing-key", "s")] {
        let found = annotations.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value);
        assert_eq!(found.and_then(|found| found.as_text().map(str::to_owned)).as_deref(), Some(value), "{key}");
    }
    assert_eq!(converted.header.and_then(|header| header.durable), Some(true));
    assert!(messages[1].ends_with(b"from 0-9-1"));
    client.close();
    finish(&node);
}
