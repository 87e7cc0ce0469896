//! Publishes without confirms: what their connection does next sees them, whatever the protocol.

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_strict_client::amqp10::{ManagementRequest, Send};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

const MESSAGES: u32 = 5;
const PERSISTENT: [u8; 3] = [0x10, 0, 2];
const DURABLE: QueueDeclare = QueueDeclare { durable: true, passive: false, exclusive: false, auto_delete: false };

/// A stage with a durable queue `q` and a client.
fn stage() -> (Stage, usize) {
    let mut stage = Stage::new();
    let link = stage.connect();
    stage.links[link].client.declare_queue(1, b"q", DURABLE, &FieldTable::new());
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn publish(stage: &mut Stage, link: usize, exchange: &[u8], key: &[u8]) {
    for body in 0..MESSAGES {
        stage.links[link]
            .client
            .publish(1, Publication::to(exchange, key, body.to_string().as_bytes()).with(&PERSISTENT));
    }
}

/// The sizes of the queues whose declarations were answered.
fn declared(stage: &mut Stage, link: usize) -> Vec<u32> {
    let size = |told| match told {
        Told::Event(Event::QueueDeclared { message_count, .. }) => Some(message_count),
        _ => None,
    };
    stage.links[link].told().into_iter().filter_map(size).collect()
}

fn delivered(stage: &mut Stage, link: usize) -> Vec<String> {
    let body = |told| match told {
        Told::Delivered { body, .. } => Some(body),
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(body).collect()
}

#[test]
fn a_queue_declared_again_counts_earlier_publishes() {
    let (mut stage, link) = stage();
    for passive in [false, true] {
        publish(&mut stage, link, b"", b"q");
        stage.links[link].client.declare_queue(1, b"q", QueueDeclare { passive, ..DURABLE }, &FieldTable::new());
        stage.settle();
    }
    assert_eq!(declared(&mut stage, link), [MESSAGES, 2 * MESSAGES]);
}

/// The binding of an exchange that isn't durable waits for nothing itself.
#[test]
fn a_binding_brings_the_publishes_before_it() {
    for durable in [false, true] {
        let (mut stage, link) = stage();
        let none = FieldTable::new();
        let client = &mut stage.links[link].client;
        client.declare_exchange(1, b"x", "x-recent-history", durable, &none);
        client.declare_exchange(1, b"behind", "fanout", false, &none);
        client.declare_queue(1, b"r", DURABLE, &none);
        client.bind_queue(1, b"r", b"behind", b"", &none);
        stage.settle();
        publish(&mut stage, link, b"x", b"k");
        let client = &mut stage.links[link].client;
        client.bind_queue(1, b"q", b"x", b"", &none);
        client.bind_exchange(1, b"behind", b"x", b"");
        // Copies are made before the disk has the messages.
        for _ in 0..10 {
            let now = stage.now;
            stage.links[link].step(now);
            stage.other_work();
        }
        stage.settle();
        stage.links[link].told();
        for queue in [b"q", b"r"] {
            stage.links[link].client.declare_queue(1, queue, DURABLE, &none);
        }
        stage.settle();
        assert_eq!(declared(&mut stage, link), [MESSAGES; 2], "durable: {durable}");
    }
}

#[test]
fn a_reader_begins_behind_the_publishes_before_it() {
    let (mut stage, link) = stage();
    let stream = FieldTable::new().with("x-queue-type", FieldValue::LongString(b"stream".to_vec()));
    stage.links[link].client.declare_queue(1, b"s", DURABLE, &stream);
    stage.settle();
    publish(&mut stage, link, b"", b"s");
    let next = FieldTable::new().with("x-stream-offset", FieldValue::LongString(b"next".to_vec()));
    let client = &mut stage.links[link].client;
    client.qos(1, 10, false);
    client.consume(1, b"s", b"c", Consume::default(), &next);
    stage.settle();
    stage.links[link].client.publish(1, Publication::to_queue(b"s", b"later").with(&PERSISTENT));
    stage.settle();
    assert_eq!(delivered(&mut stage, link), ["later"]);
}

/// A client of AMQP 1.0 that has sent messages to `q`, settled, in the same bytes as what it does next.
fn sender() -> (Stage, Client10) {
    let (mut stage, _) = stage();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q"));
    client.client.attach_receiver(CHANNEL, 1, "receiver", "/queues/q", true);
    client.client.attach_management(CHANNEL, 2);
    client.run(&mut stage);
    let mut message = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut message);
    write_data(&mut message, b"one");
    for tag in 0..MESSAGES as u8 {
        client.client.send(CHANNEL, 0, &[tag], &message, &Send { settled: true, ..Send::default() });
    }
    (stage, client)
}

#[test]
fn a_drain_finds_the_messages_sent_before_it() {
    let (mut stage, mut client) = sender();
    client.client.grant(CHANNEL, 1, 10, true);
    client.run(&mut stage);
    assert_eq!(client.delivered(1), MESSAGES as usize);
}

#[test]
fn a_request_sees_the_messages_sent_before_it() {
    let (mut stage, mut client) = sender();
    let look = ManagementRequest { id: 1, method: "GET", path: "/queues/q", body: &OwnedValue::Null };
    client.client.request(CHANNEL, 2, &look).expect("there is credit");
    client.run(&mut stage);
    let counts: Vec<_> = client.responses.iter().map(|response| response.number("message_count")).collect();
    assert_eq!(counts, [Some(u64::from(MESSAGES))]);
}
