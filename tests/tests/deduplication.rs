//! Queues and exchanges that drop duplicates, with pika and with AMQP 1.0.

use leveret_amqp10::Value;
use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_strict_client::amqp10::{Send, State};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::cell::run_pika;
use leveret_tests::node::{Node, Options};
use serde_json::json;

/// Runs a function of `clients/pika/deduplication.py`.
fn pika(name: &'static str) {
    run_pika("deduplication.py", name, "deduplication");
}

#[test]
fn a_queue_drops_what_it_has_had() {
    pika("queues");
}

#[test]
fn an_exchange_drops_what_it_has_had() {
    pika("exchanges");
}

#[test]
fn retries_after_kills_give_one_copy() {
    pika("kills");
}

#[test]
fn wrong_arguments_are_refused() {
    pika("refusals");
}

#[test]
fn a_queue_drops_what_numbered_publishers_send_again() {
    pika("publishers");
}

#[test]
fn numbered_publishers_give_one_copy_after_kills() {
    pika("numbered_kills");
}

#[test]
fn publishers_number_their_messages_over_amqp_1_0() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    for queue_type in ["classic", "quorum"] {
        let body =
            json!({"durable": true, "arguments": {"x-queue-type": queue_type, "x-publisher-deduplication": true}});
        let answer = node.http().put(&format!("/api/queues/%2F/{queue_type}"), &body).expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.body);
        let mut client = Amqp10::open(node.amqp());
        client.sender(0, &format!("/queues/{queue_type}"));
        client.receiver(1, &format!("/queues/{queue_type}"), 10);
        let send = |client: &mut Amqp10, section, name: Option<&str>, sequence: Value<'_>, body: &str| {
            let mut map = EncodedMap::new().with("x-publisher-sequence", sequence);
            if let Some(name) = name {
                map = map.with("x-publisher-id", name);
            }
            let mut payload = Vec::new();
            write_map_section(&mut payload, section, map.as_map());
            write_data(&mut payload, body.as_bytes());
            let id = client.send(0, &payload, &Send::default());
            client.outcome(id)
        };
        let (annotations, properties) = (MapSection::MessageAnnotations, MapSection::ApplicationProperties);
        let all = [
            (annotations, Value::Ulong(1), "1"),
            (properties, Value::Int(2), "2"),
            (annotations, Value::Ulong(1), "again"),
            (annotations, Value::Ulong(u64::MAX), "3"),
            (properties, Value::Uint(3), "again"),
        ];
        for (section, sequence, body) in all {
            assert_eq!(send(&mut client, section, Some("web"), sequence, body), State::Accepted, "{body}");
        }
        let rejected = send(&mut client, annotations, None, Value::Ulong(7), "wrong");
        let State::Rejected(Some(error)) = rejected else { panic!("{rejected:?}") };
        assert_eq!(error.condition, "amqp:precondition-failed");
        assert!(error.description.contains("needs 'x-publisher-id', too"), "{error:?}");
        assert_eq!(send(&mut client, annotations, Some("till"), Value::Ubyte(0), "4"), State::Accepted);
        for body in ["1", "2", "3", "4"] {
            let message = client.receive(1);
            assert_eq!(message.data(), body.as_bytes(), "{queue_type}");
            client.accept(&message);
        }
        client.close();
    }
}
