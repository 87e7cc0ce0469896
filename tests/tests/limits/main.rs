//! Limits on the numbers of objects that clients open and declare, each tested at the wire with a small value. A
//! refusal names the limit and the key, other clients continue, and deleted objects make room again.

mod amqp091;
mod amqp10;
mod declared;
mod descriptors;
mod unsettled;

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::node::{Node, Options};

/// A node with one limit of its own.
pub(crate) fn node(key: &str, limit: u32) -> Node {
    Node::start(Options::new().set(key, limit))
}

/// Polls until a metric has this value: the node notices a cut socket with a delay.
pub(crate) fn until(node: &Node, name: &str, wanted: u64) {
    let deadline = Instant::now() + PATIENCE;
    while node.count(name) != wanted {
        assert!(Instant::now() < deadline, "{name} is {}, {wanted} expected", node.count(name));
        thread::sleep(Duration::from_millis(5));
    }
}
