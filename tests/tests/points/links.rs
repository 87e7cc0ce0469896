//! The end of links.

use leveret_amqp10::DeliveryState;
use leveret_tests::amqp10::{Amqp10, CHANNEL};

use leveret_strict_client::amqp10::Event;

use super::stage::{broker_with, to};

#[test]
fn point_27_detach_requeues() {
    let broker = broker_with("point.27");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.27"));
    for at in 0..10u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    // A delivery that was never settled counts as failed, as in RabbitMQ 4.3.6 on classic queues; each round adds
    // two: one receiver detaches, and the next one checks.
    for (closed, failures) in [(false, 1), (true, 3)] {
        client.receiver(1, &to("point.27"), 10);
        for at in 0..10u32 {
            assert_eq!(client.receive(1).data(), at.to_be_bytes());
        }
        client.client.detach(CHANNEL, 1, closed, None);
        client.wait("detach", |event| matches!(event, Event::Detached { handle: 1, .. }));
        let mut other = Amqp10::open(broker.amqp());
        other.receiver(0, &to("point.27"), 10);
        for at in 0..10u32 {
            let delivery = other.receive(0);
            assert_eq!(delivery.data(), at.to_be_bytes(), "at once, and in order");
            let header = delivery.sections().header.expect("a header");
            assert!(!header.first_acquirer);
            assert_eq!(header.delivery_count, failures, "attempts that ended without an outcome");
        }
        other.client.detach(CHANNEL, 0, true, None);
        other.wait("detach", |event| matches!(event, Event::Detached { .. }));
        other.close();
    }
    client.receiver(2, &to("point.27"), 10);
    for _ in 0..10 {
        let delivery = client.receive(2);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("point.27");
}

/// `received` isn't an outcome (3.4.1): after settling with it the delivery would otherwise belong to no one, so it
/// is requeued.
#[test]
fn a_delivery_settled_without_an_outcome_is_requeued() {
    let broker = broker_with("settled.in.part");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("settled.in.part"));
    client.publish_accepted(0, b"part");
    client.receiver(1, &to("settled.in.part"), 10);
    for state in [None, Some(DeliveryState::Received { section_number: 0, section_offset: 1 })] {
        let id = client.receive(1).delivery_id();
        client.client.dispose(CHANNEL, id, id, true, state);
        client.flush();
    }
    let again = client.receive(1);
    assert_eq!(again.data(), b"part");
    client.accept(&again);
    client.close();
    broker.finish("settled.in.part");
}
