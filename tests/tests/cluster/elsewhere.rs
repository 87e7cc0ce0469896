//! A queue serves the clients of every node.

use std::collections::BTreeSet;

use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::{Frame, Wire, Writer, method, publish};

use crate::Cluster;

/// Three nodes, and durable queues of the first one that all know.
fn with_queues(names: &[&str]) -> Cluster {
    let cluster = Cluster::start(3);
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    for name in names {
        let _ = wire.declare(1, name, true);
    }
    wire.close();
    for at in 0..3 {
        cluster.wait_until("all are known", |cluster| cluster.queues(at).len() == names.len());
        // The links for clients' traffic come last.
        cluster.wait_until("the queue's node is reached", |cluster| {
            let mut wire = Wire::open(cluster.nodes[at].amqp());
            get(&mut wire, names[0]).is_ok()
        });
    }
    cluster
}

fn get(wire: &mut Wire, queue: &str) -> Result<Option<(u64, Vec<u8>)>, Frame> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(0);
    wire.send(&leveret_tests::wire::method_frame(1, method::BASIC_GET, &arguments));
    loop {
        let frame = wire.next_frame().expect("a frame");
        match frame.method() {
            Some(method::BASIC_GET_EMPTY) => return Ok(None),
            Some(method::BASIC_GET_OK) => {
                let tag = frame.arguments().long_long();
                return Ok(Some((tag, wire.content().expect("content"))));
            }
            Some(method::CHANNEL_CLOSE) => return Err(frame),
            _ => {}
        }
    }
}

#[test]
fn declared_on_one_published_on_two_consumed_on_three() {
    let cluster = with_queues(&["q"]);
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    for number in 0..500u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(500);
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    assert_eq!(consumer.message_count(1, "q"), 500);
    consumer.prefetch(1, 20);
    consumer.consume(1, "q", false);
    for number in 0..500u32 {
        let (tag, redelivered, body) = consumer.delivery();
        assert_eq!((redelivered, &body[..]), (false, &number.to_be_bytes()[..]));
        consumer.ack(1, tag, false);
    }
    cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
    // A message returns that a client holds when it goes.
    publisher.send(&publish(1, "", "q", b"held", false, true));
    publisher.confirms(1);
    assert_eq!(consumer.delivery().2, b"held");
    drop(consumer);
    let mut other = Wire::open(cluster.nodes[1].amqp());
    other.consume(1, "q", false);
    let (_, redelivered, body) = other.delivery();
    assert_eq!((redelivered, &body[..]), (true, &b"held"[..]));
}

#[test]
fn a_node_that_dies_and_returns_loses_no_confirmed_message() {
    let mut cluster = with_queues(&["q"]);
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    let mut consumer = Amqp10::open(cluster.nodes[2].amqp());
    consumer.receiver(1, "/queues/q", 10);
    for number in 0..100u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(100);
    assert_eq!(consumer.receive(1).data(), 0u32.to_be_bytes());
    cluster.nodes[0].kill();
    // The consumer is told, and a publish isn't confirmed.
    let detached = consumer.error();
    assert_eq!(detached.condition, "amqp:resource-deleted", "{detached:?}");
    publisher.send(&publish(1, "", "q", b"lost", false, true));
    publisher.next_method(method::BASIC_NACK).expect("it isn't taken");
    let refused = get(&mut Wire::open(cluster.nodes[2].amqp()), "q").expect_err("its node is gone");
    let (code, text) = refused.reason().expect("the channel is closed");
    let expected = format!("home node '{}' of durable queue 'q' in vhost '/' is down or inaccessible", cluster.name(0));
    assert!(code == 404 && text.contains(&expected), "{code} {text}");
    cluster.nodes[0].restart();
    cluster
        .wait_until("its node is reached again", |cluster| get(&mut Wire::open(cluster.nodes[2].amqp()), "q").is_ok());
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    consumer.consume(1, "q", false);
    let bodies: BTreeSet<Vec<u8>> = (0..100).map(|_| consumer.delivery().2).collect();
    assert_eq!(bodies.len(), 100, "each confirmed message is there");
    publisher.send(&publish(1, "", "q", b"again", false, true));
    publisher.confirms(1);
}

#[test]
fn amqp_1_0_credit_is_exact_over_nodes() {
    let cluster = with_queues(&["q"]);
    let mut sender = Amqp10::open(cluster.nodes[1].amqp());
    sender.sender(0, "/queues/q");
    for number in 0..40u32 {
        sender.publish_accepted(0, &number.to_be_bytes());
    }
    let mut receiver = Amqp10::open(cluster.nodes[2].amqp());
    receiver.receiver(1, "/queues/q", 0);
    let mut next = 0u32;
    for credit in [1, 7, 20] {
        receiver.grant(1, credit);
        for _ in 0..credit {
            let message = receiver.receive(1);
            assert_eq!(message.data(), next.to_be_bytes());
            receiver.accept(&message);
            next += 1;
        }
        receiver.barrier(0);
        assert_eq!(receiver.waiting(0, 1), 0, "no more than was granted");
    }
    // The rest of a drain's credit is used up behind the last message.
    let drained = receiver.drained(1);
    assert_eq!(drained.len(), 12);
    drained.iter().for_each(|message| receiver.accept(message));
    receiver.close();
    cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
}

#[test]
fn a_transaction_takes_effect_as_a_whole_on_another_node() {
    let cluster = with_queues(&["from", "to"]);
    let mut wire = Wire::open(cluster.nodes[1].amqp());
    wire.send(&publish(1, "", "from", b"moved", false, true));
    cluster.wait_until("it is there", |cluster| Wire::open(cluster.nodes[2].amqp()).message_count(1, "from") == 1);
    let none = Writer::new();
    wire.call(1, method::TX_SELECT, &none, method::TX_SELECT_OK);
    let (tag, body) = get(&mut wire, "from").expect("an answer").expect("a message");
    assert_eq!(body, b"moved");
    wire.send(&publish(1, "", "to", b"moved", false, true));
    wire.ack(1, tag, false);
    let counts = |cluster: &Cluster| {
        let mut wire = Wire::open(cluster.nodes[0].amqp());
        (wire.message_count(1, "from"), wire.message_count(1, "to"))
    };
    assert_eq!(counts(&cluster), (0, 0));
    wire.call(1, method::TX_COMMIT, &none, method::TX_COMMIT_OK);
    assert_eq!(counts(&cluster), (0, 1));
    drop(wire);
    let mut other = Wire::open(cluster.nodes[2].amqp());
    assert_eq!(get(&mut other, "to").expect("an answer").expect("a message").1, b"moved");
}

#[test]
fn large_bodies_cross_nodes_whole() {
    let cluster = with_queues(&["q"]);
    let body: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    for _ in 0..2 {
        for part in [&body[..], b"small"] {
            let frames = large(part);
            publisher.send(&frames);
        }
    }
    publisher.confirms(4);
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    let (tag, got) = get(&mut consumer, "q").expect("an answer").expect("a message");
    assert!(got == body);
    consumer.ack(1, tag, false);
    consumer.consume(1, "q", true);
    assert_eq!(consumer.delivery().2, b"small");
    assert!(consumer.delivery().2 == body);
    assert_eq!(consumer.delivery().2, b"small");
}

/// A publish to `q` whose body is in several frames.
fn large(body: &[u8]) -> Vec<u8> {
    let whole = publish(1, "", "q", b"x", false, true);
    // Method and header as they are, but for the length of the body.
    let mut frames = whole[..whole.len() - 9].to_vec();
    let header_end = frames.len();
    let mut at = 0;
    while at < header_end {
        let length = u32::from_be_bytes(frames[at + 3..at + 7].try_into().expect("four bytes")) as usize;
        if frames[at] == 2 {
            frames[at + 11..at + 19].copy_from_slice(&(body.len() as u64).to_be_bytes());
        }
        at += 8 + length;
    }
    for part in body.chunks(100_000) {
        frames.extend(leveret_tests::wire::frame(3, 1, part));
    }
    frames
}
