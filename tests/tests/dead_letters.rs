//! Dead-lettering at the wire, of rejected, dropped and refused messages, through an exchange or to a queue, also
//! after kill -9; and cycles.

use std::time::{Duration, Instant};

use leveret_amqp10::DeliveryState;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{HEADER, Wire, Writer, method, method_frame, publish};
use serde_json::Value;

/// Declares a durable queue with arguments of texts and numbers.
fn declare(wire: &mut Wire, name: &str, texts: &[(&str, &str)], numbers: &[(&str, u32)]) {
    let mut table = Writer::new();
    for (key, text) in texts {
        table.put_short_string(key).put_octet(b'S').put_long_string(text.as_bytes());
    }
    for (key, number) in numbers {
        table.put_short_string(key).put_octet(b'I').put_long(*number);
    }
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(name).put_octet(2).put_long_string(table.bytes());
    wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
}

/// A message fetched by basic.get.
struct Got {
    tag: u64,
    redelivered: bool,
    exchange: String,
    key: String,
    /// Its content header.
    header: Vec<u8>,
    body: Vec<u8>,
}

impl Got {
    fn has(&self, text: &str) -> bool {
        self.header.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

fn get(wire: &mut Wire, queue: &str, no_ack: bool) -> Option<Got> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(u8::from(no_ack));
    wire.send(&method_frame(1, method::BASIC_GET, &arguments));
    let answer = wire.next_frame().expect("an answer");
    if answer.method() == Some(method::BASIC_GET_EMPTY) {
        return None;
    }
    assert_eq!(answer.method(), Some(method::BASIC_GET_OK), "{answer:?}");
    let mut arguments = answer.arguments();
    let tag = arguments.long_long();
    let redelivered = arguments.octet() & 1 == 1;
    let (exchange, key) = (arguments.short_string(), arguments.short_string());
    let header = wire.next_frame().expect("a header");
    assert_eq!(header.kind, HEADER);
    let size = u64::from_be_bytes(header.payload[4..12].try_into().expect("eight bytes"));
    let mut body = Vec::new();
    while (body.len() as u64) < size {
        body.extend(wire.next_frame().expect("a body").payload);
    }
    Some(Got { tag, redelivered, exchange, key, header: header.payload, body })
}

/// Polls with basic.get: a dead letter arrives with a short delay.
fn await_get(wire: &mut Wire, queue: &str) -> Got {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(got) = get(wire, queue, true) {
            return got;
        }
        assert!(Instant::now() < deadline, "nothing comes to {queue}");
    }
}

fn reject(wire: &mut Wire, tag: u64) {
    let mut arguments = Writer::new();
    arguments.put_long_long(tag).put_octet(0);
    wire.send(&method_frame(1, method::BASIC_REJECT, &arguments));
}

/// Waits until a queue's JSON is as wanted.
fn until(node: &Node, queue: &str, wanted: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = node.http().get(&format!("/api/queues/%2F/{queue}")).expect("an answer").json();
        if wanted(&answer) {
            return;
        }
        assert!(Instant::now() < deadline, "{queue}: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn fan_out(wire: &mut Wire, exchange: &str, queues: &[&str]) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(exchange).put_short_string("fanout").put_octet(0b10).put_empty_table();
    wire.call(1, method::EXCHANGE_DECLARE, &arguments, method::EXCHANGE_DECLARE_OK);
    for queue in queues {
        declare(wire, queue, &[], &[]);
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_short_string(exchange).put_short_string("");
        arguments.put_octet(0).put_empty_table();
        wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK);
    }
}

#[test]
fn rejected_messages_are_dead_lettered_and_survive_a_kill() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    fan_out(&mut wire, "dlx", &["one", "two"]);
    declare(&mut wire, "work", &[("x-dead-letter-exchange", "dlx"), ("x-dead-letter-routing-key", "dead")], &[]);
    wire.confirm_select(1);
    // Small and large, persistent and transient.
    let bodies = [vec![1; 10], vec![2; 10_000], vec![3; 10], vec![4; 100_000]];
    for (at, body) in bodies.iter().enumerate() {
        wire.send(&publish(1, "", "work", body, false, at != 2));
    }
    wire.confirms(4);
    for _ in 0..4 {
        let got = get(&mut wire, "work", false).expect("a message");
        reject(&mut wire, got.tag);
    }
    for body in &bodies {
        let got = await_get(&mut wire, "one");
        assert_eq!((got.exchange.as_str(), got.key.as_str()), ("dlx", "dead"));
        assert_eq!(&got.body, body);
        assert!(got.has("x-death") && got.has("rejected") && got.has("work"), "{:?}", got.header);
    }
    until(&node, "work", |queue| queue["conservation"]["dead_lettered"] == 4 && queue["moving"] == 0);
    until(&node, "two", |queue| queue["messages_ready"] == 4);
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    assert!(get(&mut wire, "work", true).is_none(), "what moved is back");
    for body in [&bodies[0], &bodies[1], &bodies[3]] {
        assert_eq!(&await_get(&mut wire, "two").body, body);
    }
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn messages_beyond_the_limit_go_to_the_exchange() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "dead", &[], &[]);
    let to_dead = [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "dead")];
    declare(&mut wire, "short", &to_dead, &[("x-max-length", 2)]);
    let refusing = [to_dead[0], to_dead[1], ("x-overflow", "reject-publish-dlx")];
    declare(&mut wire, "refusing", &refusing, &[("x-max-length", 2)]);
    wire.confirm_select(1);
    for body in [b"a", b"b", b"c"] {
        wire.send(&publish(1, "", "short", body, false, true));
    }
    wire.confirms(3);
    let dropped = await_get(&mut wire, "dead");
    assert_eq!(dropped.body, b"a", "the oldest goes");
    assert!(dropped.has("maxlen"));
    for body in [b"d", b"e", b"f"] {
        wire.send(&publish(1, "", "refusing", body, false, true));
    }
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let answer = wire.next_frame().expect("a confirm");
        let (tag, multiple) = (answer.arguments().long_long(), answer.payload[12] & 1 == 1);
        let first = if multiple { 4 + answers.len() as u64 } else { tag };
        answers.extend((first..=tag).map(|tag| (tag, answer.method())));
    }
    assert_eq!(answers[2], (6, Some(method::BASIC_NACK)), "{answers:?}");
    let refused = await_get(&mut wire, "dead");
    assert_eq!(refused.body, b"f", "the newest is refused");
    assert!(refused.has("maxlen") && refused.has("refusing"));
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn dead_letters_without_an_exchange_or_queue_are_dropped() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    fan_out(&mut wire, "lonely", &[]);
    for (queue, exchange) in [("no-exchange", "nowhere"), ("no-queue", "lonely")] {
        declare(&mut wire, queue, &[("x-dead-letter-exchange", exchange)], &[]);
        wire.send(&publish(1, "", queue, b"m", false, true));
        let got = loop {
            if let Some(got) = get(&mut wire, queue, false) {
                break got;
            }
        };
        reject(&mut wire, got.tag);
        until(&node, queue, |queue| queue["conservation"]["dropped"] == 1 && queue["moving"] == 0);
    }
    drop(wire);
    conservation::check(&node.http());
}

/// Automatic dead-lettering never cycles; a client that rejects may let a message cycle forever.
#[test]
fn cycles_are_cut_unless_a_client_rejects() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    for (queue, next) in [("a", "b"), ("b", "a")] {
        let to_next = [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", next)];
        declare(&mut wire, queue, &to_next, &[("x-max-length", 0)]);
    }
    wire.confirm_select(1);
    for _ in 0..1_000 {
        wire.send(&publish(1, "", "a", b"round", false, true));
    }
    wire.confirms(1_000);
    let counts = |dead: u64, dropped: u64| {
        move |queue: &Value| {
            let counters = &queue["conservation"];
            counters["dead_lettered"] == dead && counters["dropped"] == dropped && queue["moving"] == 0
        }
    };
    until(&node, "a", counts(1_000, 0));
    until(&node, "b", counts(0, 1_000));

    declare(&mut wire, "self", &[("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "self")], &[]);
    wire.send(&publish(1, "", "self", b"again", false, true));
    wire.next_method(method::BASIC_ACK).expect("a confirm");
    for _ in 0..3 {
        let deadline = Instant::now() + Duration::from_secs(10);
        let got = loop {
            if let Some(got) = get(&mut wire, "self", false) {
                break got;
            }
            assert!(Instant::now() < deadline, "it doesn't come round");
        };
        reject(&mut wire, got.tag);
    }
    let got = await_get(&mut wire, "self");
    assert!(got.has("x-death"));
    drop(wire);
    conservation::check(&node.http());
}

/// How a message dies, and how often its delivery failed by then.
const DEATHS: [(&str, u32); 6] =
    [("reject", 1), ("nack", 0), ("requeue and reject", 2), ("rejected", 1), ("undeliverable", 0), ("expired", 0)];

fn settle(wire: &mut Wire, tag: u64, is_reject: bool, requeue: bool) {
    let mut arguments = Writer::new();
    arguments.put_long_long(tag).put_octet(if is_reject { u8::from(requeue) } else { u8::from(requeue) << 1 });
    let id = if is_reject { method::BASIC_REJECT } else { method::BASIC_NACK };
    wire.send(&method_frame(1, id, &arguments));
}

fn wait_for(wire: &mut Wire, queue: &str) -> Got {
    let deadline = Instant::now() + leveret_tests::PATIENCE;
    loop {
        if let Some(got) = get(wire, queue, false) {
            return got;
        }
        assert!(Instant::now() < deadline, "nothing comes to {queue}");
    }
}

fn die(node: &Node, wire: &mut Wire, how: &str) {
    let receive = |state: DeliveryState<'_>| {
        let mut client = Amqp10::open(node.amqp());
        client.receiver(0, "/queues/from", 1);
        let id = client.receive(0).delivery_id();
        client.client.dispose(CHANNEL, id, id, true, Some(state));
        client.barrier(CHANNEL);
        client.close();
    };
    match how {
        "reject" | "nack" => {
            let tag = wait_for(wire, "from").tag;
            settle(wire, tag, how == "reject", false);
        }
        "requeue and reject" => {
            for requeue in [true, false] {
                let tag = wait_for(wire, "from").tag;
                settle(wire, tag, true, requeue);
            }
        }
        "rejected" => receive(DeliveryState::Rejected { error: None }),
        "undeliverable" => receive(DeliveryState::Modified {
            delivery_failed: false,
            undeliverable_here: true,
            message_annotations: None,
        }),
        _ => {}
    }
}

#[test]
fn dead_letters_keep_their_failures_in_queues_of_all_types() {
    if is_given() {
        return;
    }
    for from in ["classic", "quorum"] {
        for to in ["classic", "quorum"] {
            let mut node = Node::start(Options::new());
            for (how, failures) in DEATHS {
                let mut wire = Wire::open(node.amqp());
                declare(&mut wire, "to", &[("x-queue-type", to)], &[]);
                let dead =
                    [("x-queue-type", from), ("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "to")];
                declare(&mut wire, "from", &dead, if how == "expired" { &[("x-message-ttl", 1)] } else { &[] });
                wire.publish_all(1, 1, |_| publish(1, "", "from", b"x", true, true));
                die(&node, &mut wire, how);
                let got = wait_for(&mut wire, "to");
                assert_eq!(got.redelivered, failures > 0, "{how}, {from} to {to}");
                assert_eq!(got.has("x-delivery-count"), failures > 0 && to == "quorum", "{how}, {from} to {to}");
                settle(&mut wire, got.tag, false, true);
                assert_eq!(wire.message_count(1, "from"), 0);
                if how == "requeue and reject" {
                    // They are part of the message on the disk.
                    node.kill();
                    node.restart();
                    wire = Wire::open(node.amqp());
                }
                let mut client = Amqp10::open(node.amqp());
                client.receiver(0, "/queues/to", 1);
                let message = client.receive(0);
                let header = message.sections().header.unwrap_or_default();
                let found = (header.delivery_count, header.first_acquirer);
                assert_eq!(found, (failures, false), "{how}, {from} to {to}");
                client.accept(&message);
                client.barrier(CHANNEL);
                client.close();
                for queue in ["from", "to"] {
                    assert_eq!(node.http().delete(&format!("/api/queues/%2F/{queue}")).expect("an answer").status, 204);
                }
                wire.close();
            }
        }
    }
}
