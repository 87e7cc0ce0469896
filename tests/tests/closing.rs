//! Closing a connection whose client is slow to read: all frames are sent completely.

use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};

#[test]
fn a_slow_client_reads_everything_up_to_the_close() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let http = node.http();
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "behind", true);
    wire.confirm_select(1);
    // More than fits into any socket buffer.
    for _ in 0..64 {
        wire.send(&publish(1, "", "behind", &vec![b'x'; 1 << 20], false, false));
    }
    wire.confirms(64);
    let mut client = Amqp10::open(node.amqp());
    client.receiver(0, "/queues/behind", 64);
    let deadline = Instant::now() + PATIENCE;
    while !http.get("/api/queues/%2F/behind").expect("the queue").body.contains("\"room\"") {
        assert!(Instant::now() < deadline, "the socket is never full");
        // The state results from events inside the node; over HTTP it can only be polled.
        thread::sleep(Duration::from_millis(5));
    }
    // A message in several frames is cut off, but no frame is: the strict client checks each, and the last is the
    // close.
    client.close();
    wire.close();
}
