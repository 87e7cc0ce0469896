//! The exchange for events.

use leveret_amqp091::{FieldTable, FieldValue, headers};
use leveret_broker::notices::EVENT_EXCHANGE;
use leveret_model::{Arguments, Command, DeclareExchange};
use leveret_strict_client::amqp091::{Consume, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// A client, and the queue `events`, which gets all events with these keys.
fn stage(key: &str) -> (Stage, usize) {
    let mut stage = Stage::new();
    stage.command(Command::DeclareExchange(DeclareExchange {
        vhost: "/".into(),
        name: EVENT_EXCHANGE.into(),
        kind: "topic".into(),
        durable: true,
        auto_delete: false,
        internal: true,
        arguments: Arguments::default(),
    }));
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"events", QueueDeclare::default(), &FieldTable::new());
    client.bind_queue(1, b"events", EVENT_EXCHANGE.as_bytes(), key.as_bytes(), &FieldTable::new());
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

/// The events so far: routing keys and headers.
fn events(stage: &mut Stage, link: usize) -> Vec<(String, FieldTable)> {
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(1, b"events", b"c", flags, &FieldTable::new());
    stage.settle();
    stage.links[link].client.cancel(1, b"c");
    stage.settle();
    let one = |told| match told {
        Told::Delivered { routing_key, properties, body } => {
            assert_eq!(body, "");
            Some((routing_key, headers(&properties).expect("it has headers").into()))
        }
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(one).collect()
}

fn text<'t>(table: &'t FieldTable, name: &str) -> &'t str {
    table.lookup(name).and_then(FieldValue::as_str).expect("it is a text")
}

#[test]
fn changes_are_events_of_the_user_who_made_them() {
    let (mut stage, link) = stage("queue.*");
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.settle();
    stage.links[link].client.delete_queue(1, b"q");
    stage.settle();
    let found = events(&mut stage, link);
    let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["queue.created", "queue.deleted"]);
    for (_, headers) in &found {
        assert_eq!((text(headers, "name"), text(headers, "vhost")), ("q", "/"));
        assert_eq!(text(headers, "user_who_performed_action"), "guest");
        assert!(matches!(headers.lookup("timestamp_in_ms"), Some(FieldValue::I64(_))));
    }
}

#[test]
fn a_connection_over_amqp10_has_events() {
    let (mut stage, link) = stage("#");
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_receiver(CHANNEL, 1, "receiver", "/queues/events", true);
    client.run(&mut stage);
    client.connection.disconnected(stage.now);
    stage.settle();
    let found = events(&mut stage, link);
    let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
    let expected = [
        "user.authentication.success",
        "connection.created",
        "channel.created",
        "consumer.created",
        "consumer.deleted",
        "channel.closed",
        "connection.closed",
        "consumer.created",
    ];
    assert_eq!(keys, expected);
    assert_eq!(text(&found[1].1, "protocol"), "{1,0}");
    assert_eq!(text(&found[3].1, "consumer_tag"), "receiver");
}

#[test]
fn nothing_is_left_to_publish_without_bindings() {
    let (mut stage, link) = stage("#");
    stage.links[link].client.unbind_queue(1, b"events", EVENT_EXCHANGE.as_bytes(), b"#", &FieldTable::new());
    stage.settle();
    assert!(!stage.broker.notices.wants_events());
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.links[link].step(stage.now);
    assert!(stage.broker.notices.is_empty());
}
