//! The queues that messages of one connection reach, published in direct succession, when keys and headers differ.

use leveret_amqp091::{FieldTable, Properties, ShortStr};
use leveret_model::ExchangeId;
use leveret_strict_client::amqp091::{Consume, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

const CHANNEL: u16 = 1;

impl Stage {
    fn declare_and_bind(&mut self, link: usize, bindings: &[(&str, &str, &str, FieldTable)]) {
        let client = &mut self.links[link].client;
        for (queue, exchange, key, arguments) in bindings {
            let (queue, exchange, key) = (queue.as_bytes(), exchange.as_bytes(), key.as_bytes());
            client.declare_queue(CHANNEL, queue, QueueDeclare::default(), &FieldTable::new());
            client.bind_queue(CHANNEL, queue, exchange, key, arguments);
        }
        self.settle();
    }

    /// Writes a message for the connection's next read.
    fn write(&mut self, link: usize, (exchange, key): (&str, &str), headers: Option<&FieldTable>, body: &str) {
        let headers = headers.map(FieldTable::encoded);
        let mut properties = Vec::new();
        let headers = headers.as_ref().map(|headers| headers.as_table());
        Properties { delivery_mode: Some(2), headers, ..Properties::default() }.encode(&mut properties);
        let (exchange, key) = (exchange.as_bytes(), key.as_bytes());
        self.links[link]
            .client
            .publish(CHANNEL, Publication::to(exchange, key, body.as_bytes()).with(&properties).mandatory());
    }

    /// Routing keys and bodies of all that is in a queue, as `key:body`.
    fn take_all(&mut self, link: usize, queue: &str) -> String {
        self.links[link].told();
        let flags = Consume { no_ack: true, ..Consume::default() };
        self.links[link].client.consume(CHANNEL, queue.as_bytes(), queue.as_bytes(), flags, &FieldTable::new());
        self.settle();
        let told = self.links[link].told().into_iter().filter_map(|told| match told {
            Told::Delivered { routing_key, body, .. } => Some(format!("{routing_key}:{body}")),
            Told::Event(_) => None,
        });
        told.collect::<Vec<_>>().join(" ")
    }

    /// Number of messages that came in through an exchange, and number of copies that went out.
    fn through(&self, exchange: &str) -> (u64, u64) {
        let snapshot = self.broker.registry.snapshot();
        let id: ExchangeId = snapshot.topology.exchange("/", exchange).expect("there is one").id;
        let counters = &snapshot.exchanges[&id];
        (counters.published_in.value(), counters.published_out.value())
    }
}

/// Durable queues and others, more than are looked at when their route is found.
#[test]
fn a_route_of_very_many_queues_reaches_those_that_are_there() {
    const QUEUES: u64 = 1200;
    let mut stage = Stage::new();
    let link = stage.connect();
    let names: Vec<String> = (0..QUEUES).map(|at| format!("q-{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        let client = &mut stage.links[link].client;
        let flags = QueueDeclare { durable: at % 3 > 0, ..QueueDeclare::default() };
        client.declare_queue(CHANNEL, name.as_bytes(), flags, &FieldTable::new());
        client.bind_queue(CHANNEL, name.as_bytes(), b"amq.fanout", b"", &FieldTable::new());
        stage.settle();
    }
    stage.write(link, ("amq.fanout", "k"), None, "all");
    stage.settle();
    stage.links[link].client.delete_queue(CHANNEL, b"q-1");
    stage.settle();
    stage.write(link, ("amq.fanout", "k"), None, "others");
    stage.settle();
    assert_eq!(stage.through("amq.fanout"), (2, 2 * QUEUES - 1));
    assert_eq!(stage.broker.shared.messages(), 2, "both are in the shared log");
    for name in names.iter().filter(|name| *name != "q-1") {
        assert_eq!(stage.take_all(link, name), "k:all k:others", "{name}");
    }
    assert_eq!(stage.broker.shared.messages(), 0, "no queue has them any more");
}

/// A message's own headers decide, neither the headers nor the lack of headers of messages before it.
#[test]
fn headers_are_looked_at_for_each_message() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let kind = |kind: &str| FieldTable::new().with("kind", kind);
    let (a, b, other) = (kind("a"), kind("b"), kind("other"));
    let any = FieldTable::new().with("x-match", "any").with("kind", "a").with("region", "eu");
    stage.declare_and_bind(
        link,
        &[
            ("a", "amq.headers", "", a.clone()),
            ("b", "amq.headers", "", b.clone()),
            ("any", "amq.headers", "", any),
            ("all", "amq.headers", "", FieldTable::new()),
        ],
    );
    let eu = FieldTable::new().with("region", "eu");
    let headers =
        [Some(&a), Some(&a), Some(&b), None, Some(&a), None, None, Some(&other), Some(&eu), Some(&b), Some(&eu)];
    for (number, headers) in headers.into_iter().enumerate() {
        stage.write(link, ("amq.headers", "k"), headers, &number.to_string());
    }
    stage.settle();
    // Another binding invalidates all cached routes.
    stage.declare_and_bind(link, &[("late", "amq.headers", "", kind("b"))]);
    stage.write(link, ("amq.headers", "k"), Some(&b), "11");
    stage.write(link, ("amq.headers", "other"), Some(&b), "12");
    stage.settle();
    assert_eq!(stage.take_all(link, "a"), "k:0 k:1 k:4");
    assert_eq!(stage.take_all(link, "b"), "k:2 k:9 k:11 other:12");
    assert_eq!(stage.take_all(link, "any"), "k:0 k:1 k:4 k:8 k:10");
    assert_eq!(stage.take_all(link, "all"), "k:0 k:1 k:2 k:3 k:4 k:5 k:6 k:7 k:8 k:9 k:10 k:11 other:12");
    assert_eq!(stage.take_all(link, "late"), "k:11 other:12");
    assert_eq!(stage.through("amq.headers"), (13, 13 + 3 + 4 + 5 + 2));
}

/// Behind another exchange, headers only decide for the keys that lead to a headers exchange.
#[test]
fn a_key_may_lead_to_a_headers_exchange() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let a = FieldTable::new().with("kind", "a");
    stage.declare_and_bind(
        link,
        &[("a", "amq.headers", "", a.clone()), ("q", "amq.direct", "queue", FieldTable::new())],
    );
    stage.links[link].client.bind_exchange(CHANNEL, b"amq.headers", b"amq.direct", b"headers");
    stage.settle();
    let other = FieldTable::new().with("kind", "other");
    for (number, (key, headers)) in
        [("queue", &a), ("headers", &a), ("headers", &other), ("queue", &other), ("headers", &a)]
            .into_iter()
            .enumerate()
    {
        stage.write(link, ("amq.direct", key), Some(headers), &number.to_string());
    }
    stage.settle();
    assert_eq!(stage.take_all(link, "q"), "queue:0 queue:3");
    assert_eq!(stage.take_all(link, "a"), "headers:1 headers:4");
}

/// Keys that lead to the same queues are handed over together. Messages keep their order, and each exchange counts its
/// own.
#[test]
fn messages_with_many_keys_reach_their_queues_in_order() {
    let mut stage = Stage::new();
    let link = stage.connect();
    let none = FieldTable::new;
    stage.declare_and_bind(
        link,
        &[
            ("all", "amq.topic", "sensor.#", none()),
            ("third", "amq.topic", "sensor.3", none()),
            ("all", "amq.fanout", "", none()),
        ],
    );
    let mut expected = Vec::new();
    // More keys than the route cache of a connection holds.
    for number in 0..3000 {
        let exchange = if number % 7 == 0 { "amq.fanout" } else { "amq.topic" };
        let key = format!("sensor.{}", number % 1500);
        stage.write(link, (exchange, &key), None, &number.to_string());
        expected.push(format!("{key}:{number}"));
    }
    stage.settle();
    assert_eq!(stage.take_all(link, "all"), expected.join(" "));
    assert_eq!(stage.take_all(link, "third"), "sensor.3:3 sensor.3:1503");
    assert_eq!(stage.through("amq.fanout"), (429, 429));
    assert_eq!(stage.through("amq.topic"), (2571, 2573));
}

/// Messages with the same key and without headers: a cached route would send them all to one queue.
#[test]
fn a_hashed_property_and_chance_decide_for_each_message() {
    const QUEUES: usize = 4;
    const IDS: usize = 40;
    let mut stage = Stage::new();
    let link = stage.connect();
    for (exchange, kind, arguments) in [
        ("hashed", "x-consistent-hash", FieldTable::new().with("hash-property", "message_id")),
        ("random", "x-random", FieldTable::new()),
    ] {
        let names: Vec<String> = (0..QUEUES).map(|at| format!("{exchange}-{at}")).collect();
        stage.links[link].client.declare_exchange(CHANNEL, exchange.as_bytes(), kind, true, &arguments);
        let bindings: Vec<_> = names.iter().map(|name| (name.as_str(), exchange, "1", FieldTable::new())).collect();
        stage.declare_and_bind(link, &bindings);
        for number in 0..2 * IDS {
            let id = format!("id-{}", number % IDS);
            let mut properties = Vec::new();
            let message_id = Some(ShortStr::new(id.as_bytes()).expect("it is short"));
            Properties { message_id, ..Properties::default() }.encode(&mut properties);
            let client = &mut stage.links[link].client;
            client.publish(
                CHANNEL,
                Publication::to(exchange.as_bytes(), b"k", id.as_bytes()).with(&properties).mandatory(),
            );
        }
        stage.settle();
        let taken: Vec<String> = names.iter().map(|name| stage.take_all(link, name)).collect();
        let bodies = |taken: &String| taken.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let taken: Vec<Vec<String>> = taken.iter().map(bodies).collect();
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 2 * IDS, "{exchange}");
        assert!(taken.iter().all(|bodies| !bodies.is_empty()), "{exchange}: {taken:?}");
        if exchange == "hashed" {
            let is_twice = |body: &String, all: &[String]| all.iter().filter(|other| *other == body).count() == 2;
            assert!(taken.iter().all(|all| all.iter().all(|body| is_twice(body, all))), "{taken:?}");
        }
    }
}
