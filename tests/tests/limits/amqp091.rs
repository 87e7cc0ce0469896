//! Connections, channels and consumers over AMQP 0-9-1.

use std::net::SocketAddr;

use leveret_tests::conservation;
use leveret_tests::node::Options;
use leveret_tests::wire::{Tuning, Wire, Writer, method, method_frame};

use super::{node, until};

const TUNING: Tuning = Tuning { frame_max: 0, heartbeat: 0 };

fn refused_open(address: SocketAddr) -> (u16, String) {
    let frame = Wire::handshake(address, TUNING).expect_err("the limit is reached");
    frame.reason().expect("a reason")
}

#[test]
fn connections_of_a_vhost_or_user_have_a_limit() {
    for (key, whose) in [("connection_max_per_vhost", "in vhost '/'"), ("connection_max_per_user", "for user 'guest'")]
    {
        let node = node(key, 2);
        let first = Wire::open(node.amqp());
        let _second = Wire::open(node.amqp());
        let (code, text) = refused_open(node.amqp());
        let word = key.rsplit('_').next().expect("a scope");
        let expected =
            format!("NOT_ALLOWED - connection refused {whose}: {word} connection limit (2) is reached; raise {key}");
        assert_eq!((code, text), (530, expected));
        // A connection that is closed in order makes room once the reply arrives, one that is cut once the node
        // notices.
        first.close();
        let third = Wire::open(node.amqp());
        drop(third);
        until(&node, "rabbitmq_connections", 1);
        Wire::open(node.amqp()).close();
        conservation::check(&node.http());
    }
}

#[test]
fn channels_and_sessions_have_one_limit() {
    let node = node("channel_max_per_node", 3);
    let mut first = Wire::open(node.amqp());
    first.open_channel(2);
    let other = leveret_tests::amqp10::Amqp10::open(node.amqp());
    let mut refused = Wire::open_connection(node.amqp(), TUNING);
    let mut arguments = Writer::new();
    arguments.put_short_string("");
    refused.send(&method_frame(1, method::CHANNEL_OPEN, &arguments));
    let (code, text) = refused.until_closed().expect("a reason");
    assert_eq!(code, 530);
    assert!(text.starts_with("NOT_ALLOWED - number of channels opened on node 'leveret@"), "{text}");
    assert!(text.ends_with("' has reached the maximum allowed limit of (3); raise channel_max_per_node"), "{text}");
    // Existing ones aren't affected.
    first.declare(2, "limits.channels", true);
    first.call(2, method::CHANNEL_CLOSE, &closing(), method::CHANNEL_CLOSE_OK);
    first.open_channel(5);
    other.close();
    first.open_channel(6);
    drop(first);
    until(&node, "rabbitmq_channels", 0);
    let mut again = Wire::open(node.amqp());
    again.open_channel(2);
    again.open_channel(3);
    conservation::check(&node.http());
}

/// Arguments of a close.
fn closing() -> Writer {
    let mut arguments = Writer::new();
    arguments.put_short(200).put_short_string("").put_short(0).put_short(0);
    arguments
}

/// Starts another consumer on channel 1, which is refused.
fn refused_consumer(wire: &mut Wire, queue: &str) -> (u16, String) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_short_string("").put_octet(0).put_empty_table();
    wire.send(&method_frame(1, method::BASIC_CONSUME, &arguments));
    let frame = wire.next_method(method::BASIC_CONSUME_OK).expect_err("the limit is reached");
    frame.reason().expect("a reason")
}

#[test]
fn consumers_of_a_channel_have_a_limit() {
    let node = node("consumer_max_per_channel", 2);
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "limits.consumers", true);
    wire.open_channel(2);
    wire.consume(2, "limits.consumers", false);
    wire.consume(1, "limits.consumers", false);
    wire.consume(1, "limits.consumers", false);
    let (code, text) = refused_consumer(&mut wire, "limits.consumers");
    assert_eq!(
        (code, &*text),
        (530, "NOT_ALLOWED - reached maximum (2) of consumers per channel; raise consumer_max_per_channel")
    );
    conservation::check(&node.http());
}

#[test]
fn consumers_have_a_limit_and_make_room_when_they_go() {
    for scope in ["node", "vhost", "user"] {
        let key = format!("consumer_max_per_{scope}");
        let node = node(&key, 2);
        let mut wire = Wire::open(node.amqp());
        wire.declare(1, "limits.consumers", true);
        wire.declare(1, "limits.more", true);
        wire.open_channel(2);
        wire.consume(2, "limits.consumers", false);
        let mut other = Wire::open(node.amqp());
        other.consume(1, "limits.more", false);
        let (code, text) = refused_consumer(&mut wire, "limits.consumers");
        assert_eq!(code, 406);
        assert!(text.starts_with("PRECONDITION_FAILED - number of consumers "), "{text}");
        let end = format!("has reached the maximum allowed limit of (2); raise {key}");
        assert!(text.ends_with(&end), "{text}");
        wire.send(&method_frame(1, method::CHANNEL_CLOSE_OK, &Writer::new()));
        wire.open_channel(1);
        // Deleting a queue removes its consumers.
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string("limits.more").put_octet(0);
        wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
        until(&node, "rabbitmq_consumers", 1);
        // The other connection returns the slot; it has done so once it answers a request.
        other.declare(1, "limits.answer", true);
        wire.consume(1, "limits.consumers", false);
        refused_consumer(&mut other, "limits.consumers");
        drop(wire);
        until(&node, "rabbitmq_consumers", 0);
        let mut last = Wire::open(node.amqp());
        last.consume(1, "limits.consumers", false);
        last.consume(1, "limits.consumers", false);
        conservation::check(&node.http());
    }
}

#[test]
fn a_limit_of_infinity_means_no_limit() {
    let options = Options::new().set("consumer_max_per_channel", "infinity").set("max_connections", "infinity");
    let node = leveret_tests::node::Node::start(options);
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "limits.consumers", true);
    wire.consume(1, "limits.consumers", false);
    conservation::check(&node.http());
}
