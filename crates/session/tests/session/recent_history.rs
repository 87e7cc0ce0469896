//! Recent history exchanges: a queue that is bound gets the last messages before the bind is answered.

use leveret_amqp091::{FieldTable, Properties};
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

const CHANNEL: u16 = 1;

/// A client, and an exchange `x` that keeps three messages.
fn stage() -> (Stage, usize) {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let arguments = FieldTable::new().with("x-recent-history-length", 3);
    client.declare_exchange(CHANNEL, b"x", "x-recent-history", true, &arguments);
    client.confirm_select(CHANNEL);
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn publish(stage: &mut Stage, link: usize, headers: &FieldTable, key: &str, body: &str) {
    let headers = headers.encoded();
    let mut properties = Vec::new();
    Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut properties);
    stage.links[link].client.publish(CHANNEL, Publication::to(b"x", key.as_bytes(), body.as_bytes()).with(&properties));
}

fn declare(stage: &mut Stage, link: usize, queue: &[u8]) {
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(CHANNEL, queue, flags, &FieldTable::new());
}

/// The bodies and keys of all messages of a queue.
fn taken(stage: &mut Stage, link: usize, queue: &[u8]) -> Vec<(String, String)> {
    stage.links[link].told();
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(CHANNEL, queue, queue, flags, &FieldTable::new());
    stage.settle();
    let one = |told| match told {
        Told::Delivered { routing_key, body, .. } => Some((body, routing_key)),
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(one).collect()
}

fn bodies(messages: Vec<(String, String)>) -> Vec<String> {
    messages.into_iter().map(|(body, _)| body).collect()
}

#[test]
fn a_queue_gets_the_last_messages_with_each_binding() {
    let (mut stage, link) = stage();
    let none = FieldTable::new();
    for body in ["1", "2", "3", "4"] {
        publish(&mut stage, link, &none, &format!("k{body}"), body);
    }
    publish(&mut stage, link, &FieldTable::new().with("x-recent-history-no-store", true), "k", "5");
    // The last messages needn't be on disk when the client asks for them.
    declare(&mut stage, link, b"q");
    stage.links[link].client.bind_queue(CHANNEL, b"q", b"x", b"a", &none);
    stage.settle();
    let pair = |body: &str| (body.to_owned(), format!("k{body}"));
    assert_eq!(taken(&mut stage, link, b"q"), [pair("2"), pair("3"), pair("4")]);
    for (key, expected) in [(&b"a"[..], &[][..]), (&b"b"[..], &["2", "3", "4"][..])] {
        stage.links[link].client.bind_queue(CHANNEL, b"q", b"x", key, &none);
        stage.settle();
        let came = stage.links[link].told().into_iter().filter_map(|told| match told {
            Told::Delivered { body, .. } => Some(body),
            Told::Event(_) => None,
        });
        assert_eq!(came.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn another_exchange_routes_the_newest_first() {
    let (mut stage, link) = stage();
    let none = FieldTable::new();
    for (key, body) in [("a", "1"), ("b", "2"), ("a", "3")] {
        publish(&mut stage, link, &none, key, body);
    }
    declare(&mut stage, link, b"q");
    let client = &mut stage.links[link].client;
    client.declare_exchange(CHANNEL, b"behind", "direct", true, &none);
    client.bind_queue(CHANNEL, b"q", b"behind", b"a", &none);
    client.bind_exchange(CHANNEL, b"behind", b"x", b"");
    stage.settle();
    assert_eq!(bodies(taken(&mut stage, link, b"q")), ["3", "1"]);
    // It passes on what comes later, too, once.
    publish(&mut stage, link, &none, "a", "4");
    stage.settle();
    let came = stage.links[link].told().into_iter().filter(|told| matches!(told, Told::Delivered { .. })).count();
    assert_eq!(came, 1);
}

#[test]
fn nothing_waits_for_an_exchange_that_goes() {
    let (mut stage, link) = stage();
    let none = FieldTable::new();
    publish(&mut stage, link, &none, "", "1");
    declare(&mut stage, link, b"q");
    let client = &mut stage.links[link].client;
    client.bind_queue(CHANNEL, b"q", b"x", b"", &none);
    client.delete_exchange(CHANNEL, b"x");
    stage.settle();
    assert!(stage.links[link].refusal().is_none());
    assert!(stage.broker.registry.snapshot_full().queue("/", "amq.history.x").is_none());
    declare(&mut stage, link, b"r");
    stage.settle();
    assert!(stage.broker.registry.snapshot_full().queue("/", "r").is_some(), "the connection goes on");
}
