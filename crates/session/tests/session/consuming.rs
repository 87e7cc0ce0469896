//! Consumers over AMQP 0-9-1: effects of their end, and defaults that they get without asking.

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::Settings;
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

fn look(stage: &mut Stage, link: usize) -> Option<(u16, String)> {
    let flags = QueueDeclare { passive: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(1, b"q", flags, &FieldTable::new());
    stage.settle();
    stage.links[link].refusal()
}

#[test]
fn an_auto_delete_queue_is_deleted_with_its_last_consumer() {
    let mut stage = Stage::new();
    let (owner, other) = (stage.connect(), stage.connect());
    let flags = QueueDeclare { auto_delete: true, ..QueueDeclare::default() };
    stage.links[owner].client.declare_queue(1, b"q", flags, &FieldTable::new());
    stage.settle();
    assert_eq!(look(&mut stage, other), None, "it waits for its first consumer");
    for link in [owner, other] {
        stage.links[link].client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    }
    stage.settle();
    stage.links[owner].client.cancel(1, b"tag");
    stage.settle();
    assert_eq!(look(&mut stage, owner), None, "one is left");
    stage.links[other].client.cancel(1, b"tag");
    stage.settle();
    let missing = "NOT_FOUND - no queue 'q' in vhost '/'";
    assert_eq!(look(&mut stage, owner), Some((404, missing.to_owned())));
}

#[test]
fn consumers_that_set_no_prefetch_have_the_default() {
    let mut stage = Stage::with(Settings { default_prefetch: 2, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    for _ in 0..5 {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    client.consume(1, b"q", b"tag", Consume::default(), &FieldTable::new());
    stage.settle();
    let delivered = |told: Vec<Told>| told.iter().filter(|told| matches!(told, Told::Delivered { .. })).count();
    assert_eq!(delivered(stage.links[link].told()), 2);
    stage.links[link].client.qos(1, 3, false);
    stage.links[link].client.consume(1, b"q", b"own", Consume::default(), &FieldTable::new());
    stage.settle();
    let told = stage.links[link].told();
    assert!(told.contains(&Told::Event(Event::ConsumeOk { channel: 1, consumer_tag: b"own".to_vec() })));
    assert_eq!(delivered(told), 3, "its own counts");
}

#[test]
fn clients_are_told_the_supported_capabilities() {
    let mut stage = Stage::new();
    let link = stage.dial(Options::default());
    let told = stage.links[link].told();
    let Some(Told::Event(Event::Started { properties })) = told.first() else { panic!("{told:?}") };
    let Some(FieldValue::Table(capabilities)) = properties.lookup("capabilities") else { panic!("{properties:?}") };
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ] {
        assert_eq!(capabilities.lookup(name), Some(&FieldValue::Bool(true)), "{name}");
    }
}
