//! Consumers that are missing, slow, or don't settle.

use leveret_strict_client::amqp10::{Options as ClientOptions, SessionOptions};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::{Wire, publish};
use serde_json::json;

use crate::stage::{Staged, nack};

const QUEUE: &str = "queues/%2F/q";

fn staged(messages: u64) -> Staged {
    let mut stage = Staged::new();
    stage.queue("q", json!({}));
    stage.publish("q", messages);
    stage
}

#[test]
fn messages_without_a_consumer_ask_for_one() {
    let mut stage = staged(1);
    stage.says(QUEUE, "no_consumers", "1 ready message, and no consumer to take it.");
    stage.publish("q", 1500);
    let reason = stage.says(QUEUE, "no_consumers", "1,501 ready messages, and no consumer to take them.");
    assert_eq!(reason["advice"], "Start a consumer, or look why it lost its connection.");
    stage.ends();
}

#[test]
fn a_slow_consumer_is_told_with_its_prefetch() {
    let mut stage = staged(20);
    stage.consume("q", 5, 5);
    let said =
        " of user guest holds 5 messages of the 5 that its prefetch allows and has to acknowledge before it gets more.";
    let reason = stage.says(QUEUE, "slow_consumer", said);
    assert_eq!(reason["parts"][1]["to"]["kind"], "connection", "{reason}");
    stage.says("consumers", "slow_consumer", "It holds 5 messages of the 5 that its prefetch allows");
    stage.ends();
}

#[test]
fn a_prefetch_of_one_is_told() {
    let mut stage = staged(20);
    stage.consume("q", 1, 1);
    stage.says(QUEUE, "small_prefetch", " has a prefetch of 1: after each acknowledgement it waits for the way there");
    stage.says("consumers", "small_prefetch", "Its prefetch is 1, and it holds a message.");
    stage.ends();
}

#[test]
fn a_pile_of_unacknowledged_messages_is_told_with_its_holder() {
    let mut stage = staged(1200);
    stage.consume("q", 0, 1200);
    let said = "1,200 messages are delivered and not acknowledged, 1,200 of them with consumer ";
    stage.says(QUEUE, "unacknowledged", said);
    stage.says("consumers", "unacknowledged", "It holds 1,200 messages");
    stage.ends();
}

#[test]
fn messages_that_are_returned_again_and_again_are_told() {
    let mut stage = staged(1);
    let [tag] = stage.consume("q", 1, 1)[..] else { panic!("one delivery") };
    nack(&mut stage.wire, tag, true);
    let said = "The same messages come back again and again; consumer ";
    let reason = stage.says_while(QUEUE, "redelivery_loop", said, |wire| {
        let (tag, ..) = wire.delivery();
        nack(wire, tag, true);
    });
    assert_eq!(reason["severity"], "bad");
    stage.ends();
}

#[test]
fn a_link_without_credit_is_told() {
    let stage = staged(2);
    let mut receiver = Amqp10::open(stage.node.amqp());
    receiver.receiver(0, "/queues/q", 1);
    receiver.receive(0);
    stage.says(QUEUE, "link_credit", " has granted no link credit: it asks for no further messages.");
    stage.says("consumers", "link_credit", "It has granted no link credit");
    drop(receiver);
    stage.ends();
}

#[test]
fn a_shut_window_is_told() {
    let stage = staged(2);
    let narrow = SessionOptions { incoming_window: 1, widen: false, ..SessionOptions::default() };
    let mut receiver = Amqp10::open_with(stage.node.amqp(), ClientOptions::default(), narrow);
    receiver.receiver(0, "/queues/q", 10);
    receiver.receive(0);
    stage.says(QUEUE, "window", " leaves the incoming window of its session shut.");
    drop(receiver);
    stage.ends();
}

#[test]
fn a_client_that_does_not_read_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({}));
    stage.publish("q", 0);
    for _ in 0..300 {
        stage.wire.send(&publish(1, "", "q", &[0; 100_000], false, true));
    }
    stage.wire.confirms(300);
    let mut reader = Wire::open(stage.node.amqp());
    reader.consume(1, "q", true);
    stage.says(QUEUE, "room", " reads its socket more slowly than messages come.");
    drop(reader);
    stage.ends();
}

#[test]
fn a_consumer_that_stands_by_is_told() {
    let mut stage = Staged::new();
    stage.queue("q", json!({"x-single-active-consumer": true}));
    stage.consume("q", 1, 0);
    stage.consume("q", 1, 0);
    stage.says(
        "consumers",
        "inactive",
        "Another consumer is the single active one; this one takes over when that ends.",
    );
    stage.ends();
}
