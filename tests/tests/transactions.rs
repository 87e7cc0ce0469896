//! AMQP 0-9-1 transactions: nothing is visible before the commit, everything after it, also after kill -9.

use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Frame, Wire, Writer, method, publish};

fn call(wire: &mut Wire, channel: u16, id: method::Id) {
    wire.call(channel, id, &Writer::new(), (id.0, id.1 + 1));
}

/// The body of the next message, if there is one.
fn get(wire: &mut Wire, channel: u16, queue: &str, no_ack: bool) -> Option<(u64, Vec<u8>)> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(u8::from(no_ack));
    wire.send(&leveret_tests::wire::method_frame(channel, method::BASIC_GET, &arguments));
    let answer = wire.next_frame().expect("an answer");
    if answer.method() == Some(method::BASIC_GET_EMPTY) {
        return None;
    }
    assert_eq!(answer.method(), Some(method::BASIC_GET_OK), "{answer:?}");
    let tag = answer.arguments().long_long();
    Some((tag, wire.content().expect("content")))
}

fn ready(wire: &mut Wire, queue: &str) -> u32 {
    let declared = wire.declare(2, queue, true);
    let mut arguments = declared.arguments();
    let _name = arguments.short_string();
    arguments.long()
}

fn reason(frame: &Frame) -> (u16, String) {
    frame.reason().unwrap_or_else(|| panic!("a close expected: {frame:?}"))
}

#[test]
fn publishes_and_acks_wait_for_the_commit_and_survive_kill() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("debug.sync_delay_ms", 100));
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    for queue in ["a", "b"] {
        wire.declare(2, queue, true);
    }
    wire.confirm_select(2);
    wire.send(&publish(2, "", "a", b"old", false, true));
    wire.confirms(1);
    call(&mut wire, 1, method::TX_SELECT);
    call(&mut wire, 1, method::TX_SELECT);
    let (tag, old) = get(&mut wire, 1, "a", false).expect("a message");
    assert_eq!(old, b"old");
    wire.ack(1, tag, false);
    for queue in ["a", "b", "b"] {
        wire.send(&publish(1, "", queue, b"new", false, true));
    }
    // The channel responds, so it has processed all of them.
    assert_eq!(get(&mut wire, 1, "b", true), None);
    assert_eq!((ready(&mut wire, "a"), ready(&mut wire, "b")), (0, 0));
    let begin = Instant::now();
    call(&mut wire, 1, method::TX_COMMIT);
    assert!(begin.elapsed() >= Duration::from_millis(100), "tx.commit-ok came before the sync");
    assert_eq!((ready(&mut wire, "a"), ready(&mut wire, "b")), (1, 2));
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    assert_eq!((ready(&mut wire, "a"), ready(&mut wire, "b")), (1, 2));
    assert_eq!(get(&mut wire, 1, "a", true).map(|(_, body)| body), Some(b"new".to_vec()));
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_rollback_forgets_publishes_and_leaves_deliveries_unsettled() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    wire.declare(2, "q", true);
    wire.confirm_select(2);
    for body in [b"one", b"two"] {
        wire.send(&publish(2, "", "q", body, false, true));
    }
    wire.confirms(2);
    call(&mut wire, 1, method::TX_SELECT);
    let (first, _) = get(&mut wire, 1, "q", false).expect("a message");
    let (second, _) = get(&mut wire, 1, "q", false).expect("a message");
    wire.send(&publish(1, "", "q", b"never", false, true));
    wire.ack(1, second, true);
    call(&mut wire, 1, method::TX_ROLLBACK);
    assert_eq!(ready(&mut wire, "q"), 0);
    // Unsettled as before: one is acknowledged now, the other is requeued with its channel.
    wire.ack(1, first, false);
    call(&mut wire, 1, method::TX_COMMIT);
    wire.send(&publish(1, "", "q", b"never", false, true));
    wire.ack(1, second, false);
    let mut close = Writer::new();
    close.put_short(200).put_short_string("done").put_short(0).put_short(0);
    wire.call(1, method::CHANNEL_CLOSE, &close, (20, 41));
    assert_eq!(get(&mut wire, 2, "q", true).map(|(_, body)| body), Some(b"two".to_vec()));
    assert_eq!(get(&mut wire, 2, "q", true), None);
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn unroutable_messages_come_back_at_the_commit() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    call(&mut wire, 1, method::TX_SELECT);
    wire.send(&publish(1, "", "nowhere", b"back", true, true));
    assert_eq!(wire.declare(1, "q", true).method(), Some(method::QUEUE_DECLARE_OK), "nothing came back yet");
    wire.send(&leveret_tests::wire::method_frame(1, method::TX_COMMIT, &Writer::new()));
    assert!(wire.next_method(method::BASIC_RETURN).is_ok());
    assert_eq!(wire.content().expect("content"), b"back");
    assert!(wire.next_method(method::TX_COMMIT_OK).is_ok());
}

#[test]
fn a_refused_message_fails_the_commit() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let mut table = Writer::new();
    table.put_short_string("x-overflow").put_octet(b'S').put_long_string(b"reject-publish");
    table.put_short_string("x-max-length").put_octet(b'I').put_long(1);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("full").put_octet(2).put_long_string(table.bytes());
    wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    call(&mut wire, 1, method::TX_SELECT);
    for _ in 0..2 {
        wire.send(&publish(1, "", "full", b"m", false, true));
    }
    wire.send(&leveret_tests::wire::method_frame(1, method::TX_COMMIT, &Writer::new()));
    let (code, text) = reason(&wire.next_frame().expect("an answer"));
    assert_eq!(code, 406);
    assert!(text.starts_with("PRECONDITION_FAILED - partial tx completion"), "{text}");
}

#[test]
fn a_transaction_beyond_the_limit_is_refused_whole() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.open_channel(2);
    wire.declare(2, "q", true);
    call(&mut wire, 1, method::TX_SELECT);
    let body = vec![b'x'; 8 << 20];
    // Eight is the limit; their heads are counted too.
    for _ in 0..8 {
        wire.send(&publish(1, "", "q", &body, false, true));
    }
    let (code, text) = reason(&wire.next_frame().expect("an answer"));
    assert_eq!(code, 406);
    assert!(text.starts_with("PRECONDITION_FAILED - transaction too large"), "{text}");
    assert_eq!(ready(&mut wire, "q"), 0);
    wire.send(&leveret_tests::wire::method_frame(1, (20, 41), &Writer::new()));
    wire.open_channel(1);
    call(&mut wire, 1, method::TX_SELECT);
    wire.send(&publish(1, "", "q", b"small", false, true));
    call(&mut wire, 1, method::TX_COMMIT);
    assert_eq!(ready(&mut wire, "q"), 1, "what the refused one held is given back");
}
