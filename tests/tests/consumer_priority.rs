//! `x-priority` of consumers: a lower one gets messages when the higher one has used up its prefetch.

use leveret_tests::broker::Broker;
use leveret_tests::wire::{Wire, publish};

#[test]
fn the_higher_priority_is_served_first() {
    const QUEUE: &str = "cell.priority";
    let broker = Broker::start();
    let mut publisher = Wire::open(broker.amqp());
    publisher.declare(1, QUEUE, true);
    publisher.confirm_select(1);
    // The lower one is first in the round-robin order.
    let mut low = Wire::open(broker.amqp());
    low.consume_with(1, QUEUE, false, &[("x-priority", -3)]);
    let mut high = Wire::open(broker.amqp());
    high.prefetch(1, 2);
    high.consume_with(1, QUEUE, false, &[("x-priority", 5)]);
    for body in [b"1", b"2", b"3"] {
        publisher.send(&publish(1, "", QUEUE, body, false, false));
    }
    publisher.confirms(3);
    let (_, _, first) = high.delivery();
    let (tag, _, second) = high.delivery();
    let (_, _, third) = low.delivery();
    assert_eq!([first, second, third], [b"1", b"2", b"3"]);
    // After settling it has prefetch again and is served first again.
    high.ack(1, tag, true);
    high.declare(1, QUEUE, true);
    publisher.send(&publish(1, "", QUEUE, b"4", false, false));
    publisher.confirms(1);
    let (tag, _, fourth) = high.delivery();
    assert_eq!(fourth, b"4");
    high.ack(1, tag, false);
    low.ack(1, 1, false);
    high.declare(1, QUEUE, true);
    low.declare(1, QUEUE, true);
    drop((low, high, publisher));
    broker.finish("cell.priority");
}
