//! Moves and copies of messages.

use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

use crate::effects::{exit, well};

/// Lists the transfers again until the last one has ended.
fn ended(node: &Node, columns: &str) -> String {
    loop {
        let listed = well(node, &format!("rabbitmqctl -s list_transfers state {columns}"));
        if listed.lines().all(|line| line.starts_with("done")) {
            return listed;
        }
    }
}

#[test]
fn messages_are_moved_copied_and_transfers_ended() {
    let node = Node::start(Options::new());
    let put = |queue: &str, arguments: Value| {
        let body = json!({"durable": true, "arguments": arguments});
        assert_eq!(node.http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer").status, 201);
    };
    put("from", json!({}));
    put("to", json!({"x-queue-type": "quorum"}));
    put("short", json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
    for payload in ["one", "two", "three"] {
        let message =
            json!({"properties": {}, "routing_key": "from", "payload": payload, "payload_encoding": "string"});
        let answer = node.http().post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
        assert_eq!(answer.json(), json!({"routed": true}));
    }
    let begun = well(&node, "rabbitmqctl -s copy_messages from --to to --first 1");
    assert_eq!(begun, "Transfer 1 of 2 messages has begun; list_transfers shows it\n");
    assert_eq!(ended(&node, "id queue to copy done total"), "done\t1\tfrom\tto\ttrue\t2\t2\n");
    let begun = well(&node, "rabbitmqctl -s move_messages from -p / --exchange amq.default --routing-key to --last 0");
    assert_eq!(begun, "Transfer 2 of 1 messages has begun; list_transfers shows it\n");
    assert_eq!(ended(&node, "id done"), "done\t1\t2\ndone\t2\t1\n");
    let count =
        |queue: &str| node.http().get(&format!("/api/queues/%2F/{queue}")).expect("it").json()["messages"].clone();
    assert_eq!((count("from"), count("to")), (json!(2), json!(3)));
    // One that waits for room is cancelled; a second time forgets it.
    well(&node, "rabbitmqctl -s move_messages from --to short");
    while count("short") != json!(1) {}
    for _ in 0..2 {
        assert_eq!(well(&node, "rabbitmqctl -s cancel_transfer 3"), "");
    }
    for (command, code, text) in [
        ("rabbitmqctl cancel_transfer 3", 65, "there is no transfer '3'"),
        ("rabbitmqctl move_messages none --to short", 65, "was not found"),
        ("rabbitmqctl move_messages from", 65, "neither to nor exchange"),
        ("rabbitmqctl copy_messages from --to none", 65, "was not found"),
    ] {
        let said = exit(&node, command);
        assert!(said.exit == code && said.stderr.contains(text), "{command}: {said:?}");
    }
    conservation::check(&node.http());
}
