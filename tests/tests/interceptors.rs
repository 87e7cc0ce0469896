//! `message_interceptors.*`: a node's stamps on received and sent messages, over both protocols and on every path of
//! a message. Their form for receivers is compared with RabbitMQ in `crates/message/tests/conversion`.

use std::time::{SystemTime, UNIX_EPOCH};

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::{Properties, Value};
use leveret_strict_client::amqp10::Send;
use leveret_tests::amqp10::{Amqp10, annotation};
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Reader, Wire, method, publish};
use serde_json::json;

/// Large enough for a file of its own.
const LARGE: usize = 300 << 10;

fn node() -> Node {
    Node::start(
        Options::new()
            .set("message_interceptors.incoming.set_header_timestamp.overwrite", true)
            .set("message_interceptors.incoming.set_header_routing_node.overwrite", false)
            .set("message_interceptors.outgoing.timestamp.enabled", true),
    )
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("a time")
}

/// The stamps in AMQP 0-9-1: received, sent, node.
fn shown(wire: &mut Wire) -> (i64, i64, String) {
    let deliver = wire.next_method(method::BASIC_DELIVER);
    assert!(deliver.is_ok(), "a delivery: {deliver:?}");
    let header = wire.next_frame().expect("a header");
    let properties = Properties::decode(&header.payload[12..]).expect("properties");
    let headers = properties.headers.expect("headers");
    let Some(Value::I64(received)) = headers.lookup("timestamp_in_ms") else { panic!("received: {headers:?}") };
    let Some(Value::I64(sent)) = headers.lookup("x-opt-rabbitmq-sent-time") else { panic!("sent: {headers:?}") };
    let Some(Value::LongString(node)) = headers.lookup("x-routed-by") else { panic!("by whom: {headers:?}") };
    assert_eq!(properties.timestamp.map(i64::try_from), Some(Ok(received / 1000)));
    let node = String::from_utf8(node.to_vec()).expect("a name");
    let mut left = Reader::new(&header.payload[4..12]).long_long() as usize;
    while left > 0 {
        left -= wire.next_frame().expect("a body").payload.len();
    }
    (received, sent, node)
}

fn publish_10(peer: &mut Amqp10, length: usize) {
    let mut message = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut message);
    write_data(&mut message, &vec![7; length]);
    let id = peer.send(0, &message, &Send::default());
    peer.outcome(id);
}

#[test]
fn both_protocols_show_the_stamps_of_a_message() {
    let node = node();
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    let mut peer = Amqp10::open(node.amqp());
    peer.sender(0, "/queues/q");
    let before = now_ms();
    for length in [10, LARGE] {
        wire.send(&publish(1, "", "q", &vec![7; length], false, true));
        publish_10(&mut peer, length);
    }
    let over_http = json!({"properties": {}, "routing_key": "q", "payload": "over HTTP", "payload_encoding": "string"});
    let answer = node.http().post("/api/exchanges/%2F/amq.default/publish", &over_http).expect("an answer");
    assert_eq!(answer.json(), json!({"routed": true}));
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let name = overview["node"].as_str().expect("a name");
    let check = |received: i64, sent: i64, node: &str| {
        // The node counts milliseconds from its start, so its clock may be one behind.
        assert!(before - 1 <= received && received <= sent && sent <= now_ms(), "{before} {received} {sent}");
        assert_eq!(node, name);
    };

    peer.receiver(1, "/queues/q", 5);
    for _ in 0..5 {
        let message = peer.receive(1);
        let Some(OwnedValue::Timestamp(received)) = annotation(&message, "x-opt-rabbitmq-received-time") else {
            panic!("received: {message:?}");
        };
        let Some(OwnedValue::Long(sent)) = annotation(&message, "x-opt-rabbitmq-sent-time") else {
            panic!("sent: {message:?}");
        };
        let Some(OwnedValue::String(node)) = annotation(&message, "x-routed-by") else {
            panic!("by whom: {message:?}");
        };
        check(received, sent, &node);
    }
    // They are requeued, for the other protocol.
    peer.close();

    wire.consume(1, "q", true);
    for _ in 0..5 {
        let (received, sent, node) = shown(&mut wire);
        check(received, sent, &node);
    }
}
