//! The firehose: copies of a vhost's messages on amq.rabbitmq.trace.

use leveret_amqp10::message::write_data;
use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr, headers};
use leveret_strict_client::amqp10::Send;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// A traced message: its routing key, headers and body.
struct Trace {
    key: String,
    headers: FieldTable,
    body: String,
}

impl Trace {
    fn text(&self, name: &str) -> &str {
        self.headers.lookup(name).and_then(FieldValue::as_str).expect("it is a text")
    }

    fn list(&self, name: &str) -> Vec<&str> {
        match self.headers.lookup(name) {
            Some(FieldValue::Array(values)) => values.iter().filter_map(FieldValue::as_str).collect(),
            other => panic!("{name} is {other:?}"),
        }
    }

    fn property(&self, name: &str) -> Option<&FieldValue> {
        match self.headers.lookup("properties") {
            Some(FieldValue::Table(table)) => table.lookup(name),
            other => panic!("properties are {other:?}"),
        }
    }
}

/// A client with the queue `q`, and the queue `traces`, which gets all traces of the vhost.
fn stage() -> (Stage, usize) {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    for queue in [&b"q"[..], b"traces"] {
        client.declare_queue(1, queue, QueueDeclare::default(), &FieldTable::new());
    }
    client.bind_queue(1, b"traces", b"amq.rabbitmq.trace", b"#", &FieldTable::new());
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn trace(stage: &mut Stage, traced: bool) {
    stage.broker.registry.set_tracing("/", traced);
    stage.settle();
}

fn publish(stage: &mut Stage, link: usize, (exchange, key): (&str, &str), body: &str) {
    let (text, mut properties) = (|text| ShortStr::new(text).ok(), Vec::new());
    let headers = FieldTable::new().with("h", 5i16).encoded();
    let headers = Some(headers.as_table());
    Properties { headers, content_type: text(b"a/b"), priority: Some(3), ..Properties::default() }
        .encode(&mut properties);
    stage.links[link]
        .client
        .publish(1, Publication::to(exchange.as_bytes(), key.as_bytes(), body.as_bytes()).with(&properties));
    stage.settle();
}

/// The traces so far.
fn traces(stage: &mut Stage, link: usize) -> Vec<Trace> {
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(1, b"traces", b"t", flags, &FieldTable::new());
    stage.settle();
    stage.links[link].client.cancel(1, b"t");
    stage.settle();
    let one = |told| match told {
        Told::Delivered { routing_key, properties, body } => {
            let table = headers(&properties).map(FieldTable::from)?;
            table.lookup("exchange_name")?;
            Some(Trace { key: routing_key, headers: table, body })
        }
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(one).collect()
}

#[test]
fn published_and_delivered_messages_are_traced_while_it_is_on() {
    let (mut stage, link) = stage();
    publish(&mut stage, link, ("", "q"), "before");
    trace(&mut stage, true);
    publish(&mut stage, link, ("", "q"), "during");
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(1, b"q", b"c", flags, &FieldTable::new());
    stage.settle();
    trace(&mut stage, false);
    publish(&mut stage, link, ("", "q"), "after");
    let found = traces(&mut stage, link);
    let seen: Vec<_> = found.iter().map(|trace| (trace.key.as_str(), trace.body.as_str())).collect();
    assert_eq!(seen, [("publish.", "during"), ("deliver.q", "before"), ("deliver.q", "during")]);
    let published = &found[0];
    assert_eq!((published.text("exchange_name"), published.list("routing_keys")), ("", vec!["q"]));
    assert_eq!((published.text("vhost"), published.text("user")), ("/", "guest"));
    assert_eq!(published.text("connection"), "127.0.0.1:40001 -> 127.0.0.1:5672");
    assert_eq!(published.text("node"), stage.broker.settings.node_name);
    assert_eq!(published.headers.lookup("channel"), Some(&FieldValue::I32(1)));
    assert_eq!(published.list("routed_queues"), ["q"]);
    assert_eq!(published.property("content_type").and_then(FieldValue::as_str), Some("a/b"));
    assert_eq!(published.property("priority"), Some(&FieldValue::I32(3)));
    assert_eq!(published.property("headers"), Some(&FieldValue::Table(FieldTable::new().with("h", 5i16))));
    let delivered = &found[1];
    assert_eq!(delivered.headers.lookup("redelivered"), Some(&FieldValue::I32(0)));
    assert!(delivered.headers.lookup("routed_queues").is_none());
}

#[test]
fn messages_that_reach_no_queue_and_gets_are_traced() {
    let (mut stage, link) = stage();
    trace(&mut stage, true);
    publish(&mut stage, link, ("amq.topic", "nowhere"), "lost");
    publish(&mut stage, link, ("", "q"), "got");
    stage.links[link].client.get(1, b"q", false);
    stage.settle();
    stage.links[link].client.reject(1, 1, true);
    stage.links[link].client.get(1, b"q", true);
    stage.settle();
    let found = traces(&mut stage, link);
    let seen: Vec<_> = found.iter().map(|trace| (trace.key.as_str(), trace.body.as_str())).collect();
    let expected = [("publish.amq.topic", "lost"), ("publish.", "got"), ("deliver.q", "got"), ("deliver.q", "got")];
    assert_eq!(seen, expected);
    assert_eq!(found[0].list("routed_queues"), [""; 0]);
    assert_eq!(found[3].headers.lookup("redelivered"), Some(&FieldValue::I32(1)));
}

#[test]
fn deliveries_of_traces_are_not_traced_themselves() {
    let (mut stage, link) = stage();
    trace(&mut stage, true);
    publish(&mut stage, link, ("", "q"), "one");
    assert_eq!(traces(&mut stage, link).len(), 1);
    assert_eq!(traces(&mut stage, link).len(), 0, "no trace of the trace");
}

#[test]
fn messages_over_amqp10_are_traced_in_the_form_of_amqp091() {
    let (mut stage, link) = stage();
    trace(&mut stage, true);
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/amq.direct/k"));
    client.run(&mut stage);
    let bound = &mut stage.links[link].client;
    bound.bind_queue(1, b"q", b"amq.direct", b"k", &FieldTable::new());
    stage.settle();
    let mut message = Vec::new();
    write_data(&mut message, b"body");
    client.client.send(CHANNEL, 0, b"1", &message, &Send::default());
    client.run(&mut stage);
    client.client.attach_receiver(CHANNEL, 1, "receiver", "/queues/q", true);
    client.run(&mut stage);
    client.client.grant(CHANNEL, 1, 10, false);
    client.run(&mut stage);
    stage.settle();
    let found = traces(&mut stage, link);
    let seen: Vec<_> = found.iter().map(|trace| (trace.key.as_str(), trace.body.as_str())).collect();
    assert_eq!(seen, [("publish.amq.direct", "body"), ("deliver.q", "body")]);
    assert_eq!((found[0].list("routing_keys"), found[0].list("routed_queues")), (vec!["k"], vec!["q"]));
}

#[test]
fn a_traced_vhost_without_bindings_costs_no_message() {
    let mut stage = Stage::new();
    let link = stage.connect();
    trace(&mut stage, true);
    let snapshot = stage.broker.registry.snapshot_full();
    assert!(stage.broker.registry.has_traced() && !snapshot.traces("/"));
    stage.links[link].client.declare_queue(1, b"t", QueueDeclare::default(), &FieldTable::new());
    stage.links[link].client.bind_queue(1, b"t", b"amq.rabbitmq.trace", b"#", &FieldTable::new());
    stage.settle();
    assert!(stage.broker.registry.snapshot_full().traces("/"));
}

#[test]
fn traces_are_dropped_and_counted_while_publishing_is_blocked() {
    let (mut stage, link) = stage();
    trace(&mut stage, true);
    publish(&mut stage, link, ("", "q"), "one");
    stage.broker.set_alarm(leveret_broker::AlarmSource::Memory, true);
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(1, b"q", b"c", flags, &FieldTable::new());
    stage.settle();
    assert_eq!(stage.broker.own_dropped(), 1);
    let keys: Vec<_> = traces(&mut stage, link).into_iter().map(|trace| trace.key).collect();
    assert_eq!(keys, ["publish."]);
}
