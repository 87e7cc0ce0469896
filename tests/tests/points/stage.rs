//! Helpers for the points: queues, bodies, a node with settings.

use leveret_amqp10::message::{Header, write_data};
use leveret_tests::broker::Broker;
use leveret_tests::node::{Node, Options};
pub(crate) use leveret_tests::wire::declare_durable as declare;

/// A broker with a durable queue.
pub(crate) fn broker_with(queue: &str) -> Broker {
    let broker = Broker::start();
    declare(broker.amqp(), queue);
    broker
}

/// A node of its own with settings, and a durable queue.
pub(crate) fn node_with(options: Options, queue: &str) -> Node {
    let node = Node::start(options);
    declare(node.amqp(), queue);
    node
}

/// The address of a queue.
pub(crate) fn to(queue: &str) -> String {
    format!("/queues/{queue}")
}

/// A durable message with this body.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, body);
    payload
}
