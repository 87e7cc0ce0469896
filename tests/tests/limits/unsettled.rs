//! Unsettled deliveries: consumers wait at the limit, and continue when something is settled.

use leveret_amqp10::Serial;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::conservation;
use leveret_tests::node::Node;
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};

use super::{node, until};

const QUEUE: &str = "limits.unsettled";

fn filled(node: &Node, count: u32) {
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, QUEUE, true);
    wire.confirm_select(1);
    let bytes: Vec<u8> = (0..count).flat_map(|at| publish(1, "", QUEUE, &at.to_be_bytes(), true, true)).collect();
    wire.send(&bytes);
    wire.confirms(u64::from(count));
    wire.close();
}

fn number(body: &[u8]) -> u32 {
    u32::from_be_bytes(body.try_into().expect("a numbered body"))
}

/// Reads the next deliveries of channel 1, numbered from `first`. Returns the last tag.
fn deliveries(wire: &mut Wire, first: u32, count: u32) -> u64 {
    let mut last = 0;
    for at in first..first + count {
        let (tag, _, body) = wire.delivery();
        assert_eq!(number(&body), at);
        last = tag;
    }
    last
}

#[test]
fn a_channel_without_a_prefetch_has_a_limit() {
    let node = node("unsettled_max_per_channel", 10);
    filled(&node, 30);
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, QUEUE, false);
    deliveries(&mut wire, 0, 10);
    assert_eq!(node.count("rabbitmq_queue_messages_unacked"), 10);
    // The oldest one may stay unsettled while the others are settled.
    for tag in 2..=10 {
        wire.ack(1, tag, false);
    }
    let last = deliveries(&mut wire, 10, 9);
    assert_eq!(node.count("rabbitmq_queue_messages_unacked"), 10);
    wire.ack(1, last, true);
    deliveries(&mut wire, 19, 10);
    // Another channel has a limit of its own.
    wire.open_channel(2);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(QUEUE).put_octet(0);
    wire.call(2, method::BASIC_GET, &arguments, method::BASIC_GET_OK);
    conservation::check(&node.http());
}

#[test]
fn gets_count_and_are_refused() {
    let node = node("unsettled_max_per_channel", 2);
    filled(&node, 4);
    let mut wire = Wire::open(node.amqp());
    let get = |no_ack: bool| {
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(QUEUE).put_octet(u8::from(no_ack));
        arguments
    };
    wire.call(1, method::BASIC_GET, &get(false), method::BASIC_GET_OK);
    wire.content().expect("its content");
    wire.call(1, method::BASIC_GET, &get(false), method::BASIC_GET_OK);
    wire.content().expect("its content");
    wire.call(1, method::BASIC_GET, &get(true), method::BASIC_GET_OK);
    wire.content().expect("its content");
    wire.send(&method_frame(1, method::BASIC_GET, &get(false)));
    let frame = wire.next_method(method::BASIC_GET_OK).expect_err("the limit is reached");
    let (code, text) = frame.reason().expect("a reason");
    assert_eq!(code, 406);
    assert!(text.contains("channel 1 has reached the maximum allowed limit, its own (2)"), "{text}");
    conservation::check(&node.http());
}

#[test]
fn acknowledgements_of_an_open_transaction_make_no_room() {
    let node = node("unsettled_max_per_channel", 5);
    filled(&node, 12);
    let mut wire = Wire::open(node.amqp());
    wire.call(1, method::TX_SELECT, &Writer::new(), method::TX_SELECT_OK);
    wire.consume(1, QUEUE, false);
    let last = deliveries(&mut wire, 0, 5);
    wire.ack(1, last, true);
    // The next frame is the reply and no delivery: uncommitted acknowledgements may be rolled back.
    wire.declare(1, QUEUE, true);
    wire.call(1, method::TX_ROLLBACK, &Writer::new(), method::TX_ROLLBACK_OK);
    wire.ack(1, last, true);
    wire.declare(1, QUEUE, true);
    wire.send(&method_frame(1, method::TX_COMMIT, &Writer::new()));
    let (mut committed, mut delivered) = (false, 0);
    while !committed || delivered < 5 {
        match wire.next_frame().expect("a frame").method() {
            Some(method::TX_COMMIT_OK) => committed = true,
            Some(method::BASIC_DELIVER) => delivered += 1,
            Some(other) => panic!("unexpected method {other:?}"),
            // A content frame.
            None => {}
        }
    }
    assert_eq!(node.count("rabbitmq_queue_messages_unacked"), 5);
    conservation::check(&node.http());
}

/// Deliveries that any channel or session may have, whatever others have.
const STEP: u32 = 256;

#[test]
fn all_clients_of_a_node_vhost_or_user_have_a_limit_together() {
    for scope in ["node", "vhost", "user"] {
        let node = node(&format!("unsettled_max_per_{scope}"), STEP);
        filled(&node, 4 * STEP);
        let mut wire = Wire::open(node.amqp());
        wire.consume(1, QUEUE, false);
        let last = deliveries(&mut wire, 0, STEP);
        // It has all there is; another client gets its minimum, and no more.
        let mut client = Amqp10::open(node.amqp());
        client.receiver(0, &format!("/queues/{QUEUE}"), 4 * STEP);
        for at in STEP..2 * STEP {
            assert_eq!(number(&client.receive(0).data()), at);
        }
        client.barrier(CHANNEL);
        assert_eq!(client.waiting(CHANNEL, 0), 0);
        assert_eq!(node.count("rabbitmq_queue_messages_unacked"), u64::from(2 * STEP));
        // Each continues with as many as it settles.
        wire.ack(1, last, true);
        deliveries(&mut wire, 2 * STEP, STEP);
        client.client.accept(CHANNEL, Serial(0), Serial(STEP - 1));
        client.flush();
        for at in 3 * STEP..4 * STEP {
            assert_eq!(number(&client.receive(0).data()), at);
        }
        // A client that disconnects returns everything for others.
        drop((wire, client));
        until(&node, "rabbitmq_queue_messages_unacked", 0);
        until(&node, "rabbitmq_connections", 0);
        let mut last = Wire::open(node.amqp());
        last.consume(1, QUEUE, false);
        for _ in 0..STEP {
            last.delivery();
        }
        conservation::check(&node.http());
    }
}
