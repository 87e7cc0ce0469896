//! Publishes to queues that say later what became of them, as those of another node do: the answers are those that a queue on this node
//! gives at once, in the same order.

use leveret_amqp10::message::write_data;
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{Event as Event10, Send};
use leveret_strict_client::amqp091::{Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::Size;

fn stage(answers_late: bool) -> (Stage, usize) {
    let mut stage = Stage::with(Settings { answers_late, ..Settings::default() });
    let link = stage.connect();
    let mut limits = FieldTable::new();
    limits.insert(b"x-max-length", FieldValue::I32(2));
    limits.insert(b"x-overflow", FieldValue::LongString(b"reject-publish".to_vec()));
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"two", QueueDeclare::default(), &limits);
    let durable = QueueDeclare { durable: true, ..QueueDeclare::default() };
    client.declare_queue(1, b"any", durable, &FieldTable::new());
    for queue in [&b"two"[..], b"any"] {
        client.bind_queue(1, queue, b"amq.fanout", b"", &FieldTable::new());
    }
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn ready(stage: &Stage, queue: &str) -> u64 {
    stage.broker.registry.snapshot().queue("/", queue).map_or(0, |queue| queue.look(Size { used: None }).0)
}

/// The answers to publishes that a client got, as text.
fn told(stage: &mut Stage, link: usize) -> Vec<String> {
    let text = |told| match told {
        Told::Event(Event::Confirmed { first, last, positive, .. }) => {
            let what = if positive { "ack" } else { "nack" };
            Some((first..=last).map(|tag| format!("{what} {tag}")).collect())
        }
        Told::Event(Event::Returned { .. }) => Some(vec!["returned".to_owned()]),
        Told::Event(Event::Reply { method, .. }) => Some(vec![method.to_owned()]),
        Told::Event(Event::ChannelClosed { reason, .. }) => Some(vec![reason.text]),
        _ => None,
    };
    stage.links[link].told().into_iter().filter_map(text).flat_map(|texts: Vec<String>| texts).collect()
}

#[test]
fn refusals_that_come_later_are_those_of_a_queue_here() {
    let runs = [false, true].map(|answers_late| {
        let (mut stage, link) = stage(answers_late);
        let client = &mut stage.links[link].client;
        client.confirm_select(1);
        // One run that is accepted in part, one that reaches several queues, and one that nobody refuses.
        for _ in 0..3 {
            client.publish(1, Publication::to_queue(b"two", b"x"));
        }
        client.publish(1, Publication::to(b"amq.fanout", b"", b"x"));
        client.publish(1, Publication::to_queue(b"any", b"x"));
        stage.settle();
        let told = told(&mut stage, link);
        (told, ready(&stage, "two"), ready(&stage, "any"))
    });
    let confirms = ["confirm.select-ok", "ack 1", "ack 2", "nack 3", "nack 4", "ack 5"].map(str::to_owned);
    assert_eq!(runs[0], (confirms.to_vec(), 2, 2));
    assert_eq!(runs[1], runs[0]);
}

#[test]
fn nothing_is_confirmed_before_its_queue_has_answered() {
    let (mut stage, link) = stage(true);
    stage.links[link].client.confirm_select(1);
    stage.settle();
    stage.holds_answers = true;
    for _ in 0..3 {
        stage.links[link].client.publish(1, Publication::to_queue(b"two", b"x"));
    }
    stage.settle();
    assert_eq!(told(&mut stage, link), ["confirm.select-ok"]);
    stage.holds_answers = false;
    stage.settle();
    assert_eq!(told(&mut stage, link), ["ack 1", "ack 2", "nack 3"]);
}

#[test]
fn a_commit_that_a_queue_refuses_later_is_partial() {
    let runs = [false, true].map(|answers_late| {
        let (mut stage, link) = stage(answers_late);
        let client = &mut stage.links[link].client;
        client.tx_select(1);
        for _ in 0..3 {
            client.publish(1, Publication::to_queue(b"two", b"x"));
        }
        client.publish(1, Publication::to_queue(b"any", b"x"));
        client.tx_commit(1);
        stage.settle();
        let told = told(&mut stage, link);
        (told, ready(&stage, "two"), ready(&stage, "any"))
    });
    assert_eq!((runs[0].1, runs[0].2), (2, 1));
    assert!(runs[0].0.last().is_some_and(|text| text.contains("reject-publish")), "{:?}", runs[0].0);
    assert_eq!(runs[1], runs[0]);
}

#[test]
fn outcomes_that_come_later_are_those_of_a_queue_here() {
    let runs = [false, true].map(|answers_late| {
        let (mut stage, _) = stage(answers_late);
        let mut client = Client10::connect(&mut stage, "guest");
        client.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/two"));
        client.run(&mut stage);
        client.events.clear();
        let mut message = Vec::new();
        write_data(&mut message, b"x");
        for tag in 0..4u8 {
            // One that the client settles itself has no outcome.
            client.client.send(CHANNEL, 0, &[tag], &message, &Send { settled: tag == 1, ..Send::default() });
        }
        for _ in 0..4 {
            client.run(&mut stage);
            stage.settle();
        }
        let outcome = |event: &Event10| match event {
            Event10::Disposition { first, last, state, .. } => Some(format!("{} to {}: {state:?}", first.0, last.0)),
            _ => None,
        };
        client.events.iter().filter_map(outcome).collect::<Vec<_>>()
    });
    assert_eq!(runs[0].len(), 2, "{:?}", runs[0]);
    assert!(runs[0][1].contains("maxlen"), "{:?}", runs[0]);
    assert_eq!(runs[1], runs[0]);
}

#[test]
fn a_publish_that_came_after_its_queue_s_deletion_is_returned() {
    for has_confirms in [false, true] {
        let (mut stage, link) = stage(true);
        let other = stage.connect();
        if has_confirms {
            stage.links[link].client.confirm_select(1);
        }
        stage.settle();
        told(&mut stage, link);
        // The deletion isn't durable, so that the queue is still found. It was said to be empty.
        stage.links[other].client.delete_empty_queue(1, b"any");
        let now = stage.now;
        for _ in 0..5 {
            while stage.links[other].step(now) {}
            while stage.other_work() {}
        }
        stage.links[link].client.publish(1, Publication::to_queue(b"any", b"x").mandatory());
        while stage.links[link].step(now) {}
        assert_eq!(told(&mut stage, link), [""; 0], "nobody knows");
        stage.settle();
        let expected: &[&str] = if has_confirms { &["returned", "ack 1"] } else { &["returned"] };
        assert_eq!(told(&mut stage, link), expected);
    }
}
