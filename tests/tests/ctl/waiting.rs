//! The list of all that waits, in the words of the page.

use leveret_tests::PATIENCE;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};
use serde_json::json;

use crate::effects::well;

#[test]
fn waiting_objects_are_listed_in_the_words_of_the_page() {
    let node = Node::start(Options::new());
    assert_eq!(well(&node, "rabbitmqctl -s list_waiting"), "");
    let body = json!({"durable": true, "arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}});
    assert_eq!(node.http().put("/api/queues/%2F/orders", &body).expect("an answer").status, 201);
    let mut wire = Wire::open(node.amqp());
    for _ in 0..5 {
        wire.send(&publish(1, "", "orders", b"message", false, true));
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while well(&node, "rabbitmqctl -s list_waiting name").is_empty() {
        assert!(std::time::Instant::now() < deadline, "nothing waits");
    }
    let listed = well(&node, "rabbitmqctl -s list_waiting severity kind name code text");
    let said = "It has reached its limit of 2 messages (argument of the queue), and refuses what is published.";
    assert_eq!(listed, format!("bad\tqueue\torders\tfull\t{said}\n"));
}
