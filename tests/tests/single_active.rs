//! Queues with a single active consumer, of both types and over both protocols.

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Role, Source, Target, TargetArchetype};
use leveret_strict_client::amqp10::Event;
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::{Broker, is_another, is_given};
use leveret_tests::http::Http;
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};
use serde_json::{Value, json};

const TYPES: [&str; 2] = ["classic", "quorum"];

/// Declares a queue of this type with a single active consumer, and returns its name.
fn declare(http: &Http, queue_type: &str, test: &str) -> String {
    let queue = format!("cell.single.{test}.{queue_type}");
    let arguments = json!({"x-queue-type": queue_type, "x-single-active-consumer": true});
    let answer = http.put(&format!("/api/queues/%2F/{queue}"), &json!({"durable": true, "arguments": arguments}));
    assert_eq!(answer.expect("an answer").status, 201);
    queue
}

/// A connection with a consumer on channel 1.
fn consume(broker: &Broker, queue: &str, tag: &str, priority: i32) -> Wire {
    let mut wire = Wire::open(broker.amqp());
    wire.send(&consume_frame(queue, tag, priority, false));
    wire.next_method(method::BASIC_CONSUME_OK).expect("a consumer");
    wire
}

fn consume_frame(queue: &str, tag: &str, priority: i32, exclusive: bool) -> Vec<u8> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_short_string(tag).put_octet(u8::from(exclusive) << 2);
    arguments.put_number_table(&[("x-priority", priority)]);
    method_frame(1, method::BASIC_CONSUME, &arguments)
}

fn publisher(broker: &Broker) -> Wire {
    let mut publisher = Wire::open(broker.amqp());
    publisher.confirm_select(1);
    publisher
}

/// Publishes single bytes as messages.
fn send(publisher: &mut Wire, queue: &str, bodies: &[u8]) {
    for body in bodies {
        publisher.send(&publish(1, "", queue, &[*body], false, true));
    }
    publisher.confirms(bodies.len() as u64);
}

/// The bodies of the next deliveries.
fn take(wire: &mut Wire, count: usize) -> Vec<u8> {
    (0..count).map(|_| wire.delivery().2[0]).collect()
}

/// Fails if anything was delivered: the reply to a request comes behind it.
fn gets_nothing(wire: &mut Wire) {
    wire.prefetch(1, 0);
}

fn cancel(wire: &mut Wire, tag: &str) {
    let mut arguments = Writer::new();
    arguments.put_short_string(tag).put_octet(0);
    wire.call(1, method::BASIC_CANCEL, &arguments, method::BASIC_CANCEL_OK);
}

/// Tag, `active` and `activity_status` of each consumer, and the queue's active one.
fn listed(http: &Http, queue: &str) -> (Vec<(String, bool, String)>, Value) {
    let shown = http.get(&format!("/api/queues/%2F/{queue}")).expect("an answer").json();
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let mut consumers: Vec<_> = shown["consumer_details"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (text(&one["consumer_tag"]), one["active"] == true, text(&one["activity_status"])))
        .collect();
    consumers.sort();
    (consumers, shown["single_active_consumer_tag"].clone())
}

#[test]
fn a_cancelled_consumer_is_followed_by_the_next_one() {
    let broker = Broker::start();
    for queue_type in TYPES {
        let queue = declare(&broker.http(), queue_type, "cancel");
        let mut publisher = publisher(&broker);
        let mut first = consume(&broker, &queue, "first", 0);
        let mut second = consume(&broker, &queue, "second", 0);
        let mut third = consume(&broker, &queue, "third", 0);
        send(&mut publisher, &queue, b"ab");
        assert_eq!(take(&mut first, 2), b"ab");
        gets_nothing(&mut second);
        if !is_another() {
            let one = |tag: &str, status: &str| (tag.to_owned(), status == "single_active", status.to_owned());
            let consumers = vec![one("first", "single_active"), one("second", "waiting"), one("third", "waiting")];
            assert_eq!(listed(&broker.http(), &queue), (consumers, json!("first")));
        }
        // Its deliveries stay with its channel.
        cancel(&mut first, "first");
        send(&mut publisher, &queue, b"c");
        assert_eq!(take(&mut second, 1), b"c");
        first.ack(1, 0, true);
        gets_nothing(&mut first);
        gets_nothing(&mut third);
        second.ack(1, 0, true);
        gets_nothing(&mut second);
        second.close();
        send(&mut publisher, &queue, b"d");
        assert_eq!(take(&mut third, 1), b"d");
        third.ack(1, 0, true);
        gets_nothing(&mut third);
    }
    broker.finish("cell.single.cancel");
}

#[test]
fn returned_messages_come_first_to_the_next_consumer() {
    if is_given() {
        // RabbitMQ activates the next consumer before the deliveries of the last one are back.
        return;
    }
    let broker = Broker::start();
    for queue_type in TYPES {
        let queue = declare(&broker.http(), queue_type, "order");
        let mut publisher = publisher(&broker);
        let mut first = Wire::open(broker.amqp());
        first.prefetch(1, 3);
        first.consume(1, &queue, false);
        let mut second = consume(&broker, &queue, "second", 0);
        send(&mut publisher, &queue, b"abcdef");
        assert_eq!(take(&mut first, 3), b"abc");
        drop(first);
        assert_eq!(take(&mut second, 6), b"abcdef");
        second.ack(1, 0, true);
        gets_nothing(&mut second);
    }
    broker.finish("cell.single.order");
}

#[test]
fn a_higher_priority_replaces_the_one_of_a_quorum_queue() {
    let broker = Broker::start();
    let queue = declare(&broker.http(), "quorum", "replace");
    let mut publisher = publisher(&broker);
    let mut low = consume(&broker, &queue, "low", 0);
    send(&mut publisher, &queue, b"ab");
    assert_eq!(take(&mut low, 2), b"ab");
    let mut high = consume(&broker, &queue, "high", 5);
    send(&mut publisher, &queue, b"c");
    gets_nothing(&mut low);
    gets_nothing(&mut high);
    low.ack(1, 1, false);
    gets_nothing(&mut high);
    low.ack(1, 2, false);
    assert_eq!(take(&mut high, 1), b"c");
    gets_nothing(&mut low);
    high.ack(1, 1, false);
    gets_nothing(&mut high);
    cancel(&mut high, "high");
    send(&mut publisher, &queue, b"d");
    assert_eq!(take(&mut low, 1), b"d");
    low.ack(1, 3, false);
    gets_nothing(&mut low);
    drop((low, high));
    broker.finish("cell.single.replace");
}

#[test]
fn priorities_only_order_the_successors_in_a_classic_queue() {
    let broker = Broker::start();
    let queue = declare(&broker.http(), "classic", "succession");
    let mut publisher = publisher(&broker);
    let mut low = consume(&broker, &queue, "low", 0);
    let mut equal = consume(&broker, &queue, "equal", 0);
    let mut high = consume(&broker, &queue, "high", 5);
    send(&mut publisher, &queue, b"a");
    assert_eq!(take(&mut low, 1), b"a");
    low.ack(1, 1, false);
    send(&mut publisher, &queue, b"b");
    assert_eq!(take(&mut low, 1), b"b");
    low.ack(1, 2, false);
    cancel(&mut low, "low");
    send(&mut publisher, &queue, b"c");
    assert_eq!(take(&mut high, 1), b"c");
    high.ack(1, 1, false);
    gets_nothing(&mut high);
    gets_nothing(&mut equal);
    drop((low, equal, high));
    broker.finish("cell.single.succession");
}

#[test]
fn exclusive_consumers_and_gets_are_refused_as_in_rabbitmq() {
    let broker = Broker::start();
    for queue_type in TYPES {
        let queue = declare(&broker.http(), queue_type, "refused");
        let mut wire = Wire::open(broker.amqp());
        wire.send(&consume_frame(&queue, "exclusive", 0, true));
        match queue_type {
            "classic" => {
                let refused = wire.next_method(method::BASIC_CONSUME_OK).expect_err("it is refused").reason();
                let text = format!("ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use");
                assert_eq!(refused, Some((403, text)));
            }
            _ => drop(wire.next_method(method::BASIC_CONSUME_OK).expect("quorum queues ignore the flag")),
        }
        let mut getter = Wire::open(broker.amqp());
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(&queue).put_octet(1);
        getter.send(&method_frame(1, method::BASIC_GET, &arguments));
        let path = format!("/api/queues/%2F/{queue}/get");
        let over_http = json!({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"});
        let over_http = broker.http().post(&path, &over_http).expect("an answer");
        if queue_type == "classic" {
            getter.next_method(method::BASIC_GET_EMPTY).expect("it is empty");
            assert_eq!((over_http.status, over_http.json()), (200, json!([])));
            continue;
        }
        let refused = getter.next_method(method::BASIC_GET_EMPTY).expect_err("it is refused").reason();
        let (code, text) = refused.expect("the channel is closed");
        let begin = format!(
            "RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. basic.get operations are "
        );
        assert!(code == 405 && text.starts_with(&begin), "{code} {text}");
        assert_eq!(over_http.status, 400, "{}", over_http.body);
    }
    broker.finish("cell.single.refused");
}

/// The next flow that tells a receiver whether it is active.
fn activity(client: &mut Amqp10, handle: u32) -> bool {
    let seen = client.wait(
        "the receiver's activity",
        |event| matches!(event, Event::LinkFlow { handle: of, active: Some(_), .. } if *of == handle),
    );
    matches!(seen.event, Event::LinkFlow { active: Some(true), .. })
}

/// Lets everything arrive that the broker has to send before its reply. RabbitMQ answers this of a link, not of a session.
fn echo(client: &mut Amqp10, handle: u32, credit: u32) {
    client.client.flow(CHANNEL, handle, credit, false, true);
    client.flush();
    client.wait(
        "the state of the link",
        |event| matches!(event, Event::LinkFlow { handle: of, active: None, .. } if *of == handle),
    );
}

/// The bytes that are the bodies of the next deliveries, which are accepted if so asked.
fn receive(client: &mut Amqp10, handle: u32, count: usize, accepts: bool) -> Vec<u8> {
    let mut bodies = Vec::new();
    for _ in 0..count {
        let message = client.receive(handle);
        bodies.extend(message.data());
        if accepts {
            client.accept(&message);
        }
    }
    bodies
}

fn attach(client: &mut Amqp10, handle: u32, queue: &str, priority: i32) {
    let address = format!("/queues/{queue}");
    let properties = EncodedMap::new().with("rabbitmq:priority", priority);
    client.attach(
        CHANNEL,
        &Attach {
            name: &format!("receiver {handle}"),
            handle,
            role: Role::Receiver,
            source: Some(Source { address: Some(&address), ..Source::default() }),
            target: Some(TargetArchetype::Target(Target::default())),
            properties: Some(properties.as_map()),
            ..Attach::default()
        },
    );
}

#[test]
fn receivers_of_a_quorum_queue_are_told_whether_they_are_active() {
    let broker = Broker::start();
    let queue = declare(&broker.http(), "quorum", "told");
    let mut publisher = publisher(&broker);
    let mut client = Amqp10::open(broker.amqp());
    attach(&mut client, 0, &queue, 0);
    assert!(activity(&mut client, 0), "the first one, before it has credit");
    attach(&mut client, 1, &queue, 0);
    client.grant(1, 10);
    assert!(!activity(&mut client, 1), "the second one, at its first credit");
    client.grant(0, 10);
    send(&mut publisher, &queue, b"ab");
    let first = client.receive(0);
    let second = client.receive(0);
    attach(&mut client, 2, &queue, 5);
    client.grant(2, 10);
    assert!(!activity(&mut client, 2), "the active one holds two messages");
    send(&mut publisher, &queue, b"c");
    client.accept(&first);
    echo(&mut client, 0, 8);
    assert_eq!((0..3).map(|handle| client.waiting(CHANNEL, handle)).sum::<usize>(), 0);
    client.accept(&second);
    assert!(!activity(&mut client, 0));
    assert!(activity(&mut client, 2));
    assert_eq!(receive(&mut client, 2, 1, true), b"c");
    // In RabbitMQ the one with more credit would be first.
    client.grant(0, 10);
    client.client.detach(CHANNEL, 2, true, None);
    client.flush();
    assert!(activity(&mut client, 0), "it was the first of those that are left");
    // The message may be taken before the other end is gone.
    client.client.detach(CHANNEL, 0, true, None);
    client.flush();
    assert!(activity(&mut client, 1));
    send(&mut publisher, &queue, b"d");
    assert_eq!(receive(&mut client, 1, 1, true), b"d");
    client.close();
    broker.finish("cell.single.told");
}

#[test]
fn only_quorum_queues_tell_their_receivers() {
    let broker = Broker::start();
    let mut client = Amqp10::open(broker.amqp());
    for (handle, queue_type) in (0..).zip(TYPES) {
        let queue = format!("cell.single.shared.{queue_type}");
        let body = json!({"durable": true, "arguments": {"x-queue-type": queue_type}});
        broker.http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer");
        client.receiver(handle, &format!("/queues/{queue}"), 5);
    }
    assert!(activity(&mut client, 1), "each consumer of a quorum queue is active");
    echo(&mut client, 0, 5);
    let is_told = |event: &Event| matches!(event, Event::LinkFlow { active: Some(_), .. });
    assert!(!client.backlog.iter().any(|seen| is_told(&seen.event)), "{:?}", client.backlog);
    client.close();
    broker.finish("cell.single.shared");
}

#[test]
fn consumers_of_both_protocols_follow_each_other() {
    let broker = Broker::start();
    for queue_type in TYPES {
        let queue = declare(&broker.http(), queue_type, "both");
        let mut publisher = publisher(&broker);
        let mut link = Amqp10::open(broker.amqp());
        link.receiver(0, &format!("/queues/{queue}"), 10);
        let mut wire = consume(&broker, &queue, "wire", 0);
        send(&mut publisher, &queue, b"ab");
        assert_eq!(receive(&mut link, 0, 2, true), b"ab");
        gets_nothing(&mut wire);
        // The session's end is a failover, too.
        link.client.end(CHANNEL, None);
        link.flush();
        send(&mut publisher, &queue, b"c");
        assert_eq!(take(&mut wire, 1), b"c");
        let mut next = Amqp10::open(broker.amqp());
        next.receiver(0, &format!("/queues/{queue}"), 10);
        wire.ack(1, 1, false);
        gets_nothing(&mut wire);
        wire.close();
        send(&mut publisher, &queue, b"d");
        assert_eq!(receive(&mut next, 0, 1, true), b"d");
        next.close();
    }
    broker.finish("cell.single.both");
}

#[test]
fn clients_that_vanish_are_followed_one_after_another() {
    let broker = Broker::start();
    for queue_type in TYPES {
        let queue = declare(&broker.http(), queue_type, "drop");
        let mut publisher = publisher(&broker);
        // Many clients that vanish without a word, each while it is active.
        let mut wires: Vec<Wire> = (0..10).map(|at| consume(&broker, &queue, &format!("c{at}"), 0)).collect();
        for body in b'a'..b'j' {
            send(&mut publisher, &queue, &[body]);
            let mut active = wires.remove(0);
            assert_eq!(take(&mut active, 1), [body]);
            active.ack(1, 1, false);
            gets_nothing(&mut active);
            drop(active);
        }
        gets_nothing(&mut wires[0]);
    }
    broker.finish("cell.single.drop");
}
