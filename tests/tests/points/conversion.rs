//! Messages published over one protocol and consumed over the other.

use leveret_tests::amqp10::Amqp10;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;

use super::stage::{declare, to};

/// A publish with the headers `x-a` and `b`, both strings.
fn publish_with_headers(queue: &str) -> Vec<u8> {
    use leveret_amqp091::{EncodedTable, FieldTable, Properties, encode_content_body, encode_header, encode_method};
    use leveret_amqp091::{Method, ShortStr, method::basic};
    let table: EncodedTable = FieldTable::new().with("x-a", "annotation").with("b", "property").encoded();
    let mut properties = Vec::new();
    Properties { headers: Some(table.as_table()), ..Properties::default() }.encode(&mut properties);
    let publish = basic::Publish {
        ticket: 0,
        exchange: ShortStr::EMPTY,
        routing_key: ShortStr::new(queue.as_bytes()).expect("a short name"),
        mandatory: false,
        immediate: false,
    };
    let mut out = Vec::new();
    encode_method(&mut out, 1, &Method::BasicPublish(publish));
    encode_header(&mut out, 1, 60, 4, &properties);
    encode_content_body(&mut out, 1, b"body", 4096);
    out
}

#[test]
fn point_01_headers_are_converted_by_rule() {
    // The old switches give warnings and change nothing.
    let options = Options::new()
        .set("amqp1_0.convert_amqp091_headers_to_app_props", "true")
        .set("amqp1_0.convert_app_props_to_amqp091_headers", "false");
    let mut node = Node::start(options);
    declare(node.amqp(), "point.01");
    let mut wire = Wire::open(node.amqp());
    wire.send(&publish_with_headers("point.01"));
    let mut client = Amqp10::open(node.amqp());
    client.receiver(0, &to("point.01"), 1);
    let delivery = client.receive(0);
    let sections = delivery.sections();
    let annotations = sections.message_annotations.expect("annotations");
    assert_eq!(annotations.lookup("x-a").and_then(|value| value.as_text()), Some("annotation"));
    let properties = sections.application_properties.expect("application properties");
    assert_eq!(properties.lookup("b").and_then(|value| value.as_text()), Some("property"));
    assert!(properties.lookup("x-a").is_none() && annotations.lookup("b").is_none());
    client.accept(&delivery);
    client.close();
    wire.close();
    assert!(node.wait_for_line("amqp1_0.convert_amqp091_headers_to_app_props"), "the old key is warned about");
}
