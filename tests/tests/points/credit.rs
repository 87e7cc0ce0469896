//! Receiving clients: only they grant link credit, and nothing is ever sent beyond it.

use leveret_amqp10::Serial;
use leveret_strict_client::amqp10::{Event, Send, SessionOptions, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::wire::{Wire, publish};

use super::stage::{broker_with, declare, message, to};

/// The state of a link in the broker's flow.
fn link_flow(client: &mut Amqp10, handle: u32) -> (u32, Serial, Option<u32>, bool) {
    let seen =
        client.wait("the link's state", |event| matches!(event, Event::LinkFlow { handle: of, .. } if *of == handle));
    match seen.event {
        Event::LinkFlow { credit, delivery_count, available, drained, .. } => {
            (credit, delivery_count, available, drained)
        }
        other => unreachable!("it was matched: {other:?}"),
    }
}

fn fill(client: &mut Amqp10, handle: u32, count: u32) {
    let mut last = Serial(0);
    for at in 0..count {
        last = client.send(handle, &message(&at.to_be_bytes()), &Send::default());
    }
    assert_eq!(client.outcome(last), State::Accepted);
    client.backlog.clear();
}

#[test]
fn point_08_credit_answers() {
    let broker = broker_with("point.08");
    let mut client = Amqp10::open(broker.amqp());
    client.receiver(0, &to("point.08"), 0);
    // A flow with credit and without echo gets no reply.
    client.grant(0, 5);
    client.barrier(CHANNEL);
    assert!(!client.backlog.iter().any(|seen| matches!(seen.event, Event::LinkFlow { .. })));
    // With echo it gets one.
    client.client.flow(CHANNEL, 0, 5, false, true);
    client.flush();
    assert_eq!(link_flow(&mut client, 0), (5, Serial(0), Some(0), false));
    // A drain of an empty queue uses the credit up.
    client.client.grant(CHANNEL, 0, 5, true);
    client.flush();
    assert_eq!(link_flow(&mut client, 0), (0, Serial(5), Some(0), true));
    // A drain first delivers the available messages.
    client.sender(1, &to("point.08"));
    fill(&mut client, 1, 3);
    client.client.grant(CHANNEL, 0, 10, true);
    client.flush();
    assert_eq!(link_flow(&mut client, 0), (0, Serial(15), Some(0), true));
    assert_eq!(client.waiting(CHANNEL, 0), 3, "the answer came after the messages");
    for _ in 0..3 {
        let delivery = client.receive(0);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("point.08");
}

#[test]
fn point_09_serial_arithmetic() {
    let broker = broker_with("point.09");
    // Transfer-ids, delivery-ids and the sender's delivery-count wrap.
    let session = SessionOptions { next_outgoing_id: u32::MAX - 20, ..SessionOptions::default() };
    let mut client = Amqp10::open_with(broker.amqp(), Default::default(), session);
    let source = leveret_amqp10::Source::default();
    let address = to("point.09");
    let target = leveret_amqp10::Target { address: Some(&address), ..Default::default() };
    let attach = leveret_amqp10::performative::Attach {
        name: "near the end",
        handle: 0,
        role: leveret_amqp10::Role::Sender,
        source: Some(source),
        target: Some(leveret_amqp10::TargetArchetype::Target(target)),
        initial_delivery_count: Some(u32::MAX - 10),
        ..Default::default()
    };
    client.attach(CHANNEL, &attach);
    for at in 0..500u32 {
        client.publish_accepted(0, &at.to_be_bytes());
    }
    // On the receiver's side: credit is granted in steps that move the delivery-count far from its start.
    client.receiver(1, &to("point.09"), 0);
    let mut received = 0u32;
    while received < 500 {
        client.grant(1, 7);
        for _ in 0..7.min(500 - received) {
            let delivery = client.receive(1);
            assert_eq!(delivery.data(), received.to_be_bytes());
            client.accept(&delivery);
            received += 1;
        }
    }
    client.close();
    broker.finish("point.09");
}

#[test]
fn point_10_no_prefetch_of_the_other_protocol() {
    let broker = broker_with("point.10");
    let mut wire = Wire::open(broker.amqp());
    wire.prefetch(1, 1);
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.10"));
    fill(&mut client, 0, 50);
    client.receiver(1, &to("point.10"), 50);
    let deliveries: Vec<_> = (0..50).map(|_| client.receive(1)).collect();
    assert_eq!(client.client.unsettled_received(CHANNEL), 50, "nothing but link credit limits it");
    deliveries.iter().for_each(|delivery| client.accept(delivery));
    client.close();
    wire.close();
    broker.finish("point.10");
}

#[test]
fn point_13_clients_that_renew_by_themselves() {
    let broker = broker_with("point.13");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.13"));
    client.client.attach_receiver(CHANNEL, 1, "renews", &to("point.13"), true);
    client.attached(CHANNEL, 1);
    client.grant(1, 100);
    let (mut sent, mut received) = (0u32, 0u32);
    while received < 5000 {
        while sent < 5000 && sent - received < 80 {
            client.send(0, &message(&sent.to_be_bytes()), &Send { settled: true, ..Send::default() });
            sent += 1;
        }
        let delivery = client.receive(1);
        assert_eq!(delivery.data(), received.to_be_bytes());
        received += 1;
        if client.client.credit(CHANNEL, 1) <= 50 {
            client.grant(1, 100);
        }
    }
    client.close();
    broker.finish("point.13");
}

#[test]
fn point_14_credit_stays_with_its_link() {
    let broker = broker_with("point.14.a");
    declare(broker.amqp(), "point.14.b");
    let mut client = Amqp10::open(broker.amqp());
    client.sender(0, &to("point.14.a"));
    fill(&mut client, 0, 20);
    client.receiver(1, &to("point.14.a"), 4);
    client.receiver(2, &to("point.14.b"), 9);
    for _ in 0..4 {
        let delivery = client.receive(1);
        client.accept(&delivery);
    }
    client.barrier(CHANNEL);
    assert_eq!(client.waiting(CHANNEL, 1), 0, "the fifth waits for credit of its own link");
    assert_eq!((client.client.credit(CHANNEL, 1), client.client.credit(CHANNEL, 2)), (0, 9));
    client.grant(1, 16);
    for _ in 0..16 {
        let delivery = client.receive(1);
        client.accept(&delivery);
    }
    client.close();
    broker.finish("point.14");
}

#[test]
fn point_32_credit_of_two_never_halts_and_is_never_exceeded() {
    point_32("point.32", 50_000);
}

#[test]
#[ignore = "a million messages: make soak"]
fn point_32_with_a_million() {
    point_32("point.32.million", 1_000_000);
}

/// The bug that started it all: RabbitMQ's issue 2597.
fn point_32(queue: &str, messages: u32) {
    const BATCH: u32 = 50_000;
    let broker = broker_with(queue);
    for first in (0..messages).step_by(BATCH as usize) {
        let mut wire = Wire::open(broker.amqp());
        wire.confirm_select(1);
        let last = messages.min(first + BATCH);
        let frames: Vec<u8> =
            (first..last).flat_map(|at| publish(1, "", queue, &at.to_be_bytes(), false, true)).collect();
        wire.send(&frames);
        wire.confirms(u64::from(last - first));
        wire.close();
    }
    let mut client = Amqp10::open(broker.amqp());
    client.receiver(0, &to(queue), 2);
    for at in 0..messages {
        let delivery = client.receive(0);
        assert_eq!(delivery.data(), at.to_be_bytes());
        assert!(client.client.unsettled_received(CHANNEL) <= 2);
        client.accept(&delivery);
        client.grant(0, 2 - client.waiting(CHANNEL, 0) as u32);
    }
    client.barrier(CHANNEL);
    assert_eq!(client.waiting(CHANNEL, 0), 0);
    client.close();
    broker.finish(queue);
}
