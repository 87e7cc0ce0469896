//! The meaning of a confirm: it waits for the disk's sync, a backlog has bounded memory, and confirmed messages are
//! delivered in order and byte for byte, also after kill -9.

use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, publish};

const DELAY: Duration = Duration::from_millis(200);
const MIB: u64 = 1024 * 1024;

/// A lower bound is no race: a reply that arrives sooner can't have waited for the sync.
fn takes_a_sync(what: &str, act: impl FnOnce()) {
    let begin = Instant::now();
    act();
    let elapsed = begin.elapsed();
    assert!(elapsed >= DELAY, "{what} arrived after {elapsed:?}, before the sync");
}

#[test]
fn no_reply_to_a_durable_operation_precedes_its_sync() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("debug.sync_delay_ms", DELAY.as_millis()));
    let mut wire = Wire::open(node.amqp());
    takes_a_sync("queue.declare-ok", || drop(wire.declare(1, "durable", true)));
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("durable-x").put_short_string("direct").put_octet(0b10).put_empty_table();
    takes_a_sync("exchange.declare-ok", || {
        wire.call(1, method::EXCHANGE_DECLARE, &arguments, method::EXCHANGE_DECLARE_OK);
    });
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("durable").put_short_string("durable-x").put_short_string("key");
    arguments.put_octet(0).put_empty_table();
    takes_a_sync("queue.bind-ok", || drop(wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK)));
    wire.confirm_select(1);
    takes_a_sync("a confirm", || {
        wire.send(&publish(1, "", "durable", b"one", true, true));
        wire.confirms(1);
    });
    takes_a_sync("a confirm through an exchange", || {
        wire.send(&publish(1, "durable-x", "key", b"two", true, true));
        assert!(wire.next_method(method::BASIC_ACK).is_ok());
    });
    takes_a_sync("the confirm of ten thousand bytes", || {
        wire.send(&publish(1, "", "durable", &[b'x'; 10_000], true, true));
        assert!(wire.next_method(method::BASIC_ACK).is_ok());
    });
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_transient_message_waits_for_no_sync() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("debug.sync_delay_ms", 1_000));
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    wire.declare(1, "both", true);
    wire.declare(1, "alone", true);
    wire.confirm_select(1);
    wire.confirm_select(2);
    wire.send(&publish(1, "", "both", b"durable", true, true));
    // After a durable message in the same queue it would have to wait for that one's sync.
    wire.send(&publish(2, "", "alone", b"transient", true, false));
    let first = wire.next_method(method::BASIC_ACK).expect("a confirm");
    assert_eq!(first.channel, 2, "the transient message's confirm waited for the durable one's sync");
    let second = wire.next_method(method::BASIC_ACK).expect("a confirm");
    assert_eq!(second.channel, 1);
    drop(wire);
    conservation::check(&node.http());
}

/// A backlog, and a limit of its memory.
#[derive(Clone, Copy)]
struct Backlog {
    messages: u32,
    resident_bytes_max: u64,
}

/// The limit for a million messages.
const MILLION: Backlog = Backlog { messages: 1_000_000, resident_bytes_max: 150 * MIB };

/// For ordinary runs: two WAL files, so that one is retired while the other is written.
const SMALL: Backlog = Backlog { messages: 100_000, resident_bytes_max: 90 * MIB };

#[test]
fn a_backlog_comes_out_in_order() {
    backlog(SMALL, false);
}

#[test]
fn a_backlog_comes_out_in_order_after_kill() {
    backlog(SMALL, true);
}

#[test]
#[ignore = "a million messages: make soak"]
fn a_million_come_out_in_order() {
    backlog(MILLION, false);
}

#[test]
#[ignore = "a million messages: make soak"]
fn a_million_come_out_in_order_after_kill() {
    backlog(MILLION, true);
}

/// A body of 1 KB unique to this number.
fn body(number: u32) -> Vec<u8> {
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut body = number.to_be_bytes().to_vec();
    while body.len() < 1024 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        body.extend(state.to_be_bytes());
    }
    body.truncate(1024);
    body
}

fn backlog(size: Backlog, kill: bool) {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "backlog", true);
    let before = node.resident_bytes();
    wire.publish_all(u64::from(size.messages), 2_000, |n| publish(1, "", "backlog", &body(n as u32), true, true));
    let grown = node.resident_bytes().saturating_sub(before);
    println!(
        "{} messages: RSS grew by {} MiB (peak {} MiB)",
        size.messages,
        grown / MIB,
        node.resident_bytes_max() / MIB
    );
    assert!(grown <= size.resident_bytes_max, "{} messages that nobody reads hold {grown} bytes", size.messages);
    if kill {
        node.kill();
        node.restart();
        wire = Wire::open(node.amqp());
    }
    let mut reader = Wire::open(node.amqp());
    reader.prefetch(1, 1000);
    reader.consume(1, "backlog", false);
    for number in 0..size.messages {
        let (tag, redelivered, received) = reader.delivery();
        // After a crash the node can't know which messages were delivered shortly before, and flags all that it
        // recovers.
        assert!(kill || !redelivered, "message {number} is flagged redelivered");
        assert!(received == body(number), "message {number} differs: it says {:?}", received.get(..4));
        if number % 200 == 199 || number + 1 == size.messages {
            reader.ack(1, tag, true);
        }
    }
    let declare_ok = reader.declare(1, "backlog", true);
    let mut arguments = declare_ok.arguments();
    let (_name, ready) = (arguments.short_string(), arguments.long());
    assert_eq!(ready, 0, "more messages than were sent");
    drop((reader, wire));
    conservation::check(&node.http());
}

/// Small, odd, empty and large bodies, durable and transient, across kill -9: exactly the durable ones survive.
#[test]
fn exactly_the_durable_messages_survive() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "mixed", true);
    wire.confirm_select(1);
    let sizes = [0, 1, 11, 4095, 4096, 4097, 65_536, 262_144, 300_000, 1_500_000];
    for (number, size) in sizes.iter().enumerate() {
        let body = vec![b'a' + u8::try_from(number).expect("few"); *size];
        wire.send(&publish(1, "", "mixed", &body, true, true));
        wire.send(&publish(1, "", "mixed", &body, true, false));
    }
    wire.confirms(2 * sizes.len() as u64);
    // The first one is settled, and settles are durable within 50 ms: a synced publish after it makes it durable too.
    wire.consume(1, "mixed", false);
    let (tag, _, first) = wire.delivery();
    assert!(first.is_empty());
    wire.ack(1, tag, false);
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "mixed", false);
    let (mut tag, mut redelivered, mut received) = wire.delivery();
    if received.is_empty() {
        // Its settle happened in the last 50 ms.
        assert!(redelivered, "a message that was delivered before the crash isn't flagged");
        (tag, redelivered, received) = wire.delivery();
    }
    for (number, size) in sizes.iter().enumerate().skip(1) {
        assert_eq!((received.len(), received.first()), (*size, Some(&(b'a' + u8::try_from(number).expect("few")))));
        let _ = redelivered;
        wire.ack(1, tag, false);
        if number + 1 < sizes.len() {
            (tag, redelivered, received) = wire.delivery();
        }
    }
    drop(wire);
    conservation::check(&node.http());
}
