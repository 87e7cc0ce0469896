//! A queue declared on one connection accepts a message from another at once: a declare-ok is never sent before
//! routing knows the queue.

use leveret_tests::broker::Broker;
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};

#[test]
fn never_returns_five_thousand_times() {
    never_returns(5_000);
}

#[test]
#[ignore = "a hundred thousand times: make soak"]
fn never_returns_a_hundred_thousand_times() {
    never_returns(100_000);
}

fn never_returns(times: u64) {
    let broker = Broker::start();
    let mut declarer = Wire::open(broker.amqp());
    let mut publisher = Wire::open(broker.amqp());
    publisher.confirm_select(1);
    for number in 0..times {
        let name = format!("cell.declare-then-publish.{number}");
        // Every fourth one is durable, and so published by another path, after its sync.
        let durable = number % 4 == 0;
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(&name);
        // Bit 1 durable, bit 2 exclusive: other connections may publish to an exclusive queue.
        arguments.put_octet(if durable { 0b10 } else { 0b100 }).put_empty_table();
        declarer.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
        publisher.send(&publish(1, "", &name, b"x", true, false));
        let answer = publisher.next_method(method::BASIC_ACK);
        assert!(answer.is_ok(), "publish {number} (durable: {durable}) came back: {answer:?}");
        // Deleted before the next one, without waiting for the reply, so that there are never many.
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(&name).put_octet(0b100);
        declarer.send(&method_frame(1, method::QUEUE_DELETE, &arguments));
    }
    drop((declarer, publisher));
    broker.finish("cell.declare-then-publish.");
}
