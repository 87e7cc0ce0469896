//! Messages of quorum queues that were set aside.

use leveret_amqp10::DeliveryState;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

use crate::effects::{exit, well};

fn declare(node: &Node, queue: &str, arguments: &Value) {
    let body = json!({"durable": true, "arguments": arguments});
    let answer = node.http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Publishes messages to a queue, and gives each back as failed.
fn fail(node: &Node, queue: &str, bodies: &[&str]) {
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, &format!("/queues/{queue}"));
    bodies.iter().for_each(|body| client.publish_accepted(0, body.as_bytes()));
    client.receiver(1, &format!("/queues/{queue}"), bodies.len() as u32);
    for _ in bodies {
        let id = client.receive(1).delivery_id();
        let state =
            DeliveryState::Modified { delivery_failed: true, undeliverable_here: false, message_annotations: None };
        client.client.dispose(CHANNEL, id, id, true, Some(state));
        client.flush();
    }
    client.barrier(CHANNEL);
    client.close();
}

#[test]
fn parked_messages_are_listed_moved_and_deleted() {
    let mut node = Node::start(Options::new());
    declare(&node, "parks", &json!({"x-queue-type": "quorum", "x-delivery-limit": 0}));
    declare(&node, "short", &json!({"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}));
    declare(&node, "other", &json!({}));
    fail(&node, "parks", &["one", "two", "three", "four", "five"]);
    let listed = well(&node, "rabbitmqctl list_parked parks number payload --count 2");
    let header = "Listing parked messages of queue 'parks' in vhost '/', 5 in total ...\nnumber\tpayload\n";
    assert_eq!(listed, format!("{header}0\tone\n1\ttwo\n"));
    let listed = well(&node, "rabbitmq-diagnostics -s list_parked parks -p / --offset 4");
    assert_eq!(listed, "4\t4\t\tparks\n");
    // A part of them finds room.
    let said = exit(&node, "rabbitmqctl move_parked parks --to short --first 0 --last 1");
    assert_eq!(said.exit, 69, "{said:?}");
    assert!(said.stderr.contains("Moved messages: 1, still parked: 4"), "{said:?}");
    assert!(said.stderr.contains("Message 1 can't be moved: queue 'short' refuses it"), "{said:?}");
    assert_eq!(well(&node, "rabbitmqctl -s move_parked parks --last 1"), "Moved messages: 1, still parked: 3\n");
    let through = "rabbitmqctl -s move_parked parks --exchange amq.default --routing-key other --first 2 --last 2";
    assert_eq!(well(&node, through), "Moved messages: 1, still parked: 2\n");
    node.kill();
    node.restart();
    let count =
        |queue: &str| node.http().get(&format!("/api/queues/%2F/{queue}")).expect("it").json()["messages"].clone();
    assert_eq!([count("parks"), count("short"), count("other")], [1, 1, 1].map(|count| json!(count)), "after a kill");
    assert_eq!(well(&node, "rabbitmqctl -s list_parked parks number"), "3\n4\n");
    assert_eq!(well(&node, "rabbitmqctl -s delete_parked parks --first 3 --last 3"), "Deleted messages: 1\n");
    assert_eq!(well(&node, "rabbitmqctl --formatter json delete_parked parks").trim(), r#"{"deleted":1}"#);
    assert_eq!(well(&node, "rabbitmqctl -s list_parked parks"), "");
    conservation::check(&node.http());
}

#[test]
fn wrong_commands_for_parked_messages_are_refused() {
    let node = Node::start(Options::new());
    declare(&node, "parks", &json!({"x-queue-type": "quorum"}));
    for (line, code, text) in [
        ("rabbitmqctl list_parked none", 65, "was not found"),
        ("rabbitmqctl delete_parked none", 65, "was not found"),
        ("rabbitmqctl move_parked none", 65, "was not found"),
        ("rabbitmqctl list_parked parks nothing", 64, "nothing"),
        ("rabbitmqctl move_parked parks --first x", 65, "--first x is no number of 64 bits"),
        ("rabbitmqctl move_parked parks --exchange amq.topic", 65, "routing_key"),
        ("rabbitmqctl delete_parked parks --first 2 --last 1", 65, "the range is empty"),
    ] {
        let said = exit(&node, line);
        assert!(said.exit == code && said.stderr.contains(text), "{line}: {said:?}");
    }
}

#[test]
fn delayed_messages_are_listed_and_deleted() {
    let node = Node::start(Options::new());
    let arguments = json!({"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 3_600_000});
    declare(&node, "later", &arguments);
    fail(&node, "later", &["one", "two"]);
    assert_eq!(well(&node, "rabbitmqctl -s list_delayed later number payload"), "0\tone\n1\ttwo\n");
    assert_eq!(well(&node, "rabbitmqctl -s delete_delayed later --last 0"), "Deleted messages: 1\n");
    assert_eq!(well(&node, "rabbitmqctl -s list_delayed later number"), "1\n");
}
