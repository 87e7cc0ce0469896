//! Delayed exchanges: messages that wait in them until they are due, and are routed then.

use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_broker::SetAside;
use leveret_broker::queue_handle::{QueueRef, SetAsideOf, Status};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

const CHANNEL: u16 = 1;

/// A client that gets confirms, an exchange `x` that routes by topics, and the queue `q` bound to it by `a.#`.
fn stage(durable: bool) -> (Stage, usize) {
    let mut stage = Stage::new();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let arguments = FieldTable::new().with("x-delayed-type", "topic");
    client.declare_exchange(CHANNEL, b"x", "x-delayed-message", durable, &arguments);
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    client.declare_queue(CHANNEL, b"q", flags, &FieldTable::new());
    client.bind_queue(CHANNEL, b"q", b"x", b"a.#", &FieldTable::new());
    client.confirm_select(CHANNEL);
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn publish(stage: &mut Stage, link: usize, key: &str, delay: impl Into<FieldValue>, body: &str) {
    let headers = FieldTable::new().with("h", "kept").with("x-delay", delay).encoded();
    let mut properties = Vec::new();
    let headers = Some(headers.as_table());
    Properties { delivery_mode: Some(2), headers, ..Properties::default() }.encode(&mut properties);
    stage.links[link]
        .client
        .publish(CHANNEL, Publication::to(b"x", key.as_bytes(), body.as_bytes()).with(&properties).mandatory());
    stage.settle();
}

fn queue(stage: &Stage, name: &str) -> QueueRef {
    stage.broker.registry.snapshot_full().queue("/", name).expect("it is declared").clone()
}

fn waiting(stage: &Stage) -> u64 {
    queue(stage, "amq.delayed.x").look(SetAsideOf(SetAside::Delayed)).0
}

fn confirms(stage: &mut Stage, link: usize) -> usize {
    let told = stage.links[link].told().into_iter();
    told.filter(|told| matches!(told, Told::Event(Event::Confirmed { positive: true, .. }))).count()
}

/// Consumes from `q`; what comes is routing key, value of `x-delay`, and body.
fn consume(stage: &mut Stage, link: usize) {
    let flags = Consume { no_ack: true, ..Consume::default() };
    stage.links[link].client.consume(CHANNEL, b"q", b"c", flags, &FieldTable::new());
    stage.settle();
    stage.links[link].told();
}

fn delivered(stage: &mut Stage, link: usize) -> Vec<(String, Option<i64>, String)> {
    let one = |told| match told {
        Told::Delivered { routing_key, properties, body } => {
            let headers = leveret_amqp091::headers(&properties).expect("it has headers");
            let found: Vec<_> = headers.iter().filter(|(name, _)| *name == "x-delay").collect();
            assert!(found.len() <= 1, "once: {found:?}");
            assert!(headers.lookup("h").is_some() && headers.lookup("x-opt-delivery-time").is_none());
            let delay = headers.lookup("x-delay").and_then(|value| match leveret_message::field::Field::from(value) {
                leveret_message::field::Field::Integer(ms) => Some(ms),
                _ => None,
            });
            Some((routing_key, delay, body))
        }
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(one).collect()
}

fn one(key: &str, delay: i64, body: &str) -> (String, Option<i64>, String) {
    (key.into(), Some(delay), body.into())
}

#[test]
fn messages_wait_for_their_delay_and_are_routed_then() {
    for durable in [true, false] {
        let (mut stage, link) = stage(durable);
        publish(&mut stage, link, "a.3", 3000, "third");
        publish(&mut stage, link, "a.1", "1000", "first");
        publish(&mut stage, link, "b", 2000, "nowhere");
        publish(&mut stage, link, "a.2", 2000i64, "second");
        assert_eq!(
            (confirms(&mut stage, link), waiting(&stage)),
            (4, 4),
            "confirmed when it is stored, also by mandatory"
        );
        publish(&mut stage, link, "a.0", -7, "at once");
        publish(&mut stage, link, "a.0", "soon", "too");
        consume(&mut stage, link);
        // They were ready already.
        assert_eq!(waiting(&stage), 4);
        stage.pass(1);
        let mut came = delivered(&mut stage, link);
        assert_eq!(came.pop(), Some(one("a.1", -1000, "first")));
        assert_eq!(waiting(&stage), 3);
        stage.pass(1);
        assert_eq!(delivered(&mut stage, link), [one("a.2", -2000, "second")]);
        stage.pass(1);
        assert_eq!(delivered(&mut stage, link), [one("a.3", -3000, "third")]);
        let gone = queue(&stage, "amq.delayed.x").look(Status).expect("it is there").conservation;
        assert_eq!((waiting(&stage), gone.accepted, gone.dead_lettered, gone.dropped), (0, 4, 3, 1));
    }
}

#[test]
fn bindings_count_when_a_message_is_due() {
    let (mut stage, link) = stage(true);
    publish(&mut stage, link, "c", 1000, "bound later");
    publish(&mut stage, link, "a", 1000, "unbound later");
    let client = &mut stage.links[link].client;
    client.bind_queue(CHANNEL, b"q", b"x", b"c", &FieldTable::new());
    client.unbind_queue(CHANNEL, b"q", b"x", b"a.#", &FieldTable::new());
    stage.settle();
    consume(&mut stage, link);
    stage.pass(1);
    assert_eq!(delivered(&mut stage, link), [one("c", -1000, "bound later")]);
}

#[test]
fn a_delayed_message_comes_through_other_exchanges_once() {
    let (mut stage, link) = stage(true);
    let client = &mut stage.links[link].client;
    // A second delayed exchange behind the first finds the negated header.
    let arguments = FieldTable::new().with("x-delayed-type", "fanout");
    client.declare_exchange(CHANNEL, b"second", "x-delayed-message", true, &arguments);
    client.bind_exchange(CHANNEL, b"second", b"x", b"through");
    client.bind_queue(CHANNEL, b"q", b"second", b"", &FieldTable::new());
    stage.settle();
    publish(&mut stage, link, "through", 1000, "once");
    consume(&mut stage, link);
    stage.pass(1);
    assert_eq!(delivered(&mut stage, link), [one("through", -1000, "once")]);
}

#[test]
fn waiting_messages_go_with_the_exchange() {
    let (mut stage, link) = stage(true);
    publish(&mut stage, link, "a", 1000, "gone");
    stage.links[link].client.delete_exchange(CHANNEL, b"x");
    stage.settle();
    assert!(stage.broker.registry.snapshot_full().queue("/", "amq.delayed.x").is_none());
    consume(&mut stage, link);
    stage.pass(2);
    assert_eq!(delivered(&mut stage, link), []);
}

#[test]
fn clients_leave_the_queue_of_an_exchange_alone() {
    let none = FieldTable::new();
    let acts: [&dyn Fn(&mut leveret_strict_client::amqp091::Client); 4] = [
        &|client| client.consume(CHANNEL, b"amq.delayed.x", b"", Consume::default(), &none),
        &|client| client.bind_queue(CHANNEL, b"amq.delayed.x", b"amq.direct", b"k", &none),
        &|client| client.declare_queue(CHANNEL, b"amq.delayed.x", QueueDeclare::default(), &none),
        &|client| client.delete_queue(CHANNEL, b"amq.delayed.x"),
    ];
    for act in acts {
        let (mut stage, link) = stage(true);
        act(&mut stage.links[link].client);
        stage.settle();
        let (code, text) = stage.links[link].refusal().expect("it is refused");
        assert!(code == 403 && text.contains("amq.delayed.x"), "{code} {text}");
    }
}
