//! Priorities of classic queues (`x-max-priority`), with pika and over HTTP.

use leveret_tests::broker::is_given;
use leveret_tests::cell::run_pika;
use leveret_tests::node::{Node, Options};
use serde_json::{Value, json};

/// Runs a function of `clients/pika/priorities.py`.
fn pika(name: &'static str) {
    run_pika("priorities.py", name, "priorities of classic queues");
}

#[test]
fn priorities_are_strict_and_returns_keep_their_places() {
    pika("order");
}

#[test]
fn a_consumer_gets_an_urgent_message_before_older_ones() {
    pika("consumers");
}

#[test]
fn priorities_survive_a_kill() {
    pika("restart");
}

#[test]
fn a_clean_stop_keeps_which_messages_were_delivered() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let http = node.http();
    let queue = json!({"durable": true, "arguments": {"x-max-priority": 9}});
    assert_eq!(http.put("/api/queues/%2F/q", &queue).expect("an answer").status, 201);
    for (body, priority) in [("a", 1), ("b", 1), ("c", 5)] {
        let properties = json!({"delivery_mode": 2, "priority": priority});
        let message =
            json!({"properties": properties, "routing_key": "q", "payload": body, "payload_encoding": "string"});
        let published = http.post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
        assert_eq!(published.json()["routed"], true, "{}", published.body);
    }
    let get = |node: &Node, count: u32| {
        let request = json!({"count": count, "ackmode": "ack_requeue_true", "encoding": "auto"});
        let got = node.http().post("/api/queues/%2F/q/get", &request).expect("an answer").json();
        let shown = |message: &Value| format!("{} {}", message["payload"], message["redelivered"]).replace('"', "");
        got.as_array().expect("a list").iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(get(&node, 2), ["c false", "a false"]);
    node.terminate();
    node.restart();
    assert_eq!(get(&node, 9), ["c true", "a true", "b false"]);
}

#[test]
fn limits_expiry_dead_letters_and_purges_work_with_priorities() {
    pika("limits");
}

#[test]
fn a_listing_shows_the_messages_of_each_priority() {
    pika("listing");
}
