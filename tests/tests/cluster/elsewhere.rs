//! A queue serves the clients of every node.

use std::collections::BTreeSet;

use leveret_amqp10::OwnedValue;
use leveret_amqp10::message::{Properties, write_data};
use leveret_strict_client::amqp10::{Event, ManagementRequest, Send, State};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::filters::{attach, filter, map_of};
use leveret_tests::node::Options;
use leveret_tests::wire::{Frame, Wire, Writer, method, publish};

use serde_json::json;

use crate::Cluster;

/// Three nodes, and durable queues of the first one that all know.
fn with_queues(names: &[&str]) -> Cluster {
    with_queues_and(names, |options| options)
}

/// The same with further options.
fn with_queues_and(names: &[&str], with: impl Fn(Options) -> Options) -> Cluster {
    let cluster = Cluster::start_with(3, with);
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    for name in names {
        let _ = wire.declare(1, name, true);
    }
    wire.close();
    for at in 0..3 {
        cluster.wait_until("all are known", |cluster| cluster.queues(at).len() == names.len());
        // The links for clients' traffic come last.
        cluster.wait_until("the queue's node is reached", |cluster| is_reached(cluster, at, names[0]));
    }
    cluster
}

/// Whether a node reaches the node of a queue, from each core: connections are on different ones.
pub(crate) fn is_reached(cluster: &Cluster, at: usize, queue: &str) -> bool {
    let connections: Vec<_> = (0..4).map(|_| Wire::open(cluster.nodes[at].amqp())).collect();
    connections.into_iter().all(|mut wire| get(&mut wire, queue).is_ok())
}

pub(crate) fn get(wire: &mut Wire, queue: &str) -> Result<Option<(u64, Vec<u8>)>, Frame> {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(0);
    wire.send(&leveret_tests::wire::method_frame(1, method::BASIC_GET, &arguments));
    loop {
        let frame = wire.next_frame().expect("a frame");
        match frame.method() {
            Some(method::BASIC_GET_EMPTY) => return Ok(None),
            Some(method::BASIC_GET_OK) => {
                let tag = frame.arguments().long_long();
                return Ok(Some((tag, wire.content().expect("content"))));
            }
            Some(method::CHANNEL_CLOSE) => return Err(frame),
            _ => {}
        }
    }
}

#[test]
fn declared_on_one_published_on_two_consumed_on_three() {
    let cluster = with_queues(&["q"]);
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    for number in 0..500u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(500);
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    assert_eq!(consumer.message_count(1, "q"), 500);
    consumer.prefetch(1, 20);
    consumer.consume(1, "q", false);
    for number in 0..500u32 {
        let (tag, redelivered, body) = consumer.delivery();
        assert_eq!((redelivered, &body[..]), (false, &number.to_be_bytes()[..]));
        consumer.ack(1, tag, false);
    }
    cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
    // A message returns that a client holds when it goes.
    publisher.send(&publish(1, "", "q", b"held", false, true));
    publisher.confirms(1);
    assert_eq!(consumer.delivery().2, b"held");
    drop(consumer);
    let mut other = Wire::open(cluster.nodes[1].amqp());
    other.consume(1, "q", false);
    let (_, redelivered, body) = other.delivery();
    assert_eq!((redelivered, &body[..]), (true, &b"held"[..]));
}

#[test]
fn a_node_that_dies_and_returns_loses_no_confirmed_message() {
    let mut cluster = with_queues(&["q"]);
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    let mut consumer = Amqp10::open(cluster.nodes[2].amqp());
    consumer.receiver(1, "/queues/q", 10);
    for number in 0..100u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(100);
    assert_eq!(consumer.receive(1).data(), 0u32.to_be_bytes());
    cluster.nodes[0].kill();
    // The consumer is told, and a publish isn't confirmed.
    let detached = consumer.error();
    assert_eq!(detached.condition, "amqp:resource-deleted", "{detached:?}");
    publisher.send(&publish(1, "", "q", b"lost", false, true));
    publisher.next_method(method::BASIC_NACK).expect("it isn't taken");
    let refused = get(&mut Wire::open(cluster.nodes[2].amqp()), "q").expect_err("its node is gone");
    let (code, text) = refused.reason().expect("the channel is closed");
    let expected = format!("home node '{}' of durable queue 'q' in vhost '/' is down or inaccessible", cluster.name(0));
    assert!(code == 404 && text.contains(&expected), "{code} {text}");
    cluster.nodes[0].restart();
    for at in [1, 2] {
        cluster.wait_until("its node is reached again", |cluster| is_reached(cluster, at, "q"));
    }
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    consumer.consume(1, "q", false);
    let bodies: BTreeSet<Vec<u8>> = (0..100).map(|_| consumer.delivery().2).collect();
    assert_eq!(bodies.len(), 100, "each confirmed message is there");
    publisher.send(&publish(1, "", "q", b"again", false, true));
    publisher.confirms(1);
}

#[test]
fn amqp_1_0_credit_is_exact_over_nodes() {
    let cluster = with_queues(&["q"]);
    let mut sender = Amqp10::open(cluster.nodes[1].amqp());
    sender.sender(0, "/queues/q");
    for number in 0..40u32 {
        sender.publish_accepted(0, &number.to_be_bytes());
    }
    let mut receiver = Amqp10::open(cluster.nodes[2].amqp());
    receiver.receiver(1, "/queues/q", 0);
    let mut next = 0u32;
    for credit in [1, 7, 20] {
        receiver.grant(1, credit);
        for _ in 0..credit {
            let message = receiver.receive(1);
            assert_eq!(message.data(), next.to_be_bytes());
            receiver.accept(&message);
            next += 1;
        }
        receiver.barrier(0);
        assert_eq!(receiver.waiting(0, 1), 0, "no more than was granted");
    }
    // The rest of a drain's credit is used up behind the last message.
    let drained = receiver.drained(1);
    assert_eq!(drained.len(), 12);
    drained.iter().for_each(|message| receiver.accept(message));
    receiver.close();
    cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
}

#[test]
fn a_transaction_takes_effect_as_a_whole_on_another_node() {
    let cluster = with_queues(&["from", "to"]);
    let mut wire = Wire::open(cluster.nodes[1].amqp());
    wire.send(&publish(1, "", "from", b"moved", false, true));
    cluster.wait_until("it is there", |cluster| Wire::open(cluster.nodes[2].amqp()).message_count(1, "from") == 1);
    let none = Writer::new();
    wire.call(1, method::TX_SELECT, &none, method::TX_SELECT_OK);
    let (tag, body) = get(&mut wire, "from").expect("an answer").expect("a message");
    assert_eq!(body, b"moved");
    wire.send(&publish(1, "", "to", b"moved", false, true));
    wire.ack(1, tag, false);
    let counts = |cluster: &Cluster| {
        let mut wire = Wire::open(cluster.nodes[0].amqp());
        (wire.message_count(1, "from"), wire.message_count(1, "to"))
    };
    assert_eq!(counts(&cluster), (0, 0));
    wire.call(1, method::TX_COMMIT, &none, method::TX_COMMIT_OK);
    assert_eq!(counts(&cluster), (0, 1));
    drop(wire);
    let mut other = Wire::open(cluster.nodes[2].amqp());
    assert_eq!(get(&mut other, "to").expect("an answer").expect("a message").1, b"moved");
}

#[test]
fn large_bodies_cross_nodes_whole() {
    let cluster = with_queues(&["q"]);
    let body: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    for _ in 0..2 {
        for part in [&body[..], b"small"] {
            let frames = large(part);
            publisher.send(&frames);
        }
    }
    publisher.confirms(4);
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    let (tag, got) = get(&mut consumer, "q").expect("an answer").expect("a message");
    assert!(got == body);
    consumer.ack(1, tag, false);
    consumer.consume(1, "q", true);
    assert_eq!(consumer.delivery().2, b"small");
    assert!(consumer.delivery().2 == body);
    assert_eq!(consumer.delivery().2, b"small");
}

/// A publish to `q` whose body is in several frames.
fn large(body: &[u8]) -> Vec<u8> {
    let whole = publish(1, "", "q", b"x", false, true);
    // Method and header as they are, but for the length of the body.
    let mut frames = whole[..whole.len() - 9].to_vec();
    let header_end = frames.len();
    let mut at = 0;
    while at < header_end {
        let length = u32::from_be_bytes(frames[at + 3..at + 7].try_into().expect("four bytes")) as usize;
        if frames[at] == 2 {
            frames[at + 11..at + 19].copy_from_slice(&(body.len() as u64).to_be_bytes());
        }
        at += 8 + length;
    }
    for part in body.chunks(100_000) {
        frames.extend(leveret_tests::wire::frame(3, 1, part));
    }
    frames
}

#[test]
fn filters_are_evaluated_at_the_queues_node() {
    let cluster = with_queues(&["q"]);
    let body = json!({"durable": true, "arguments": {"x-queue-type": "stream"}});
    assert_eq!(cluster.nodes[0].http().put("/api/queues/%2F/s", &body).expect("an answer").status, 201);
    cluster.wait_until("all know it", |cluster| (1..3).all(|at| cluster.queues(at).len() == 2));
    let mut sender = Amqp10::open(cluster.nodes[1].amqp());
    let mut receiver = Amqp10::open(cluster.nodes[2].amqp());
    let text = |text: &str| OwnedValue::String(text.into());
    let sql = ("sql-filter", filter("amqp:sql-filter", text("p.subject LIKE 'r%' AND h.priority < 9")));
    let jms = ("jms-selector", filter("apache.org:selector-filter:string", text("JMSType IN ('blue', 'black')")));
    let fields = map_of(&[("subject", text("&p:gre"))]);
    let properties = ("properties", filter("amqp:properties-filter", fields));
    let start = ("rabbitmq:stream-offset-spec", filter("rabbitmq:stream-offset-spec", text("first")));
    for (at, queue) in [(0, "q"), (1, "s")] {
        sender.sender(at, &format!("/queues/{queue}"));
        for colour in ["red", "blue", "green", "rose", "white"] {
            let mut payload = Vec::new();
            Properties { subject: Some(colour), ..Properties::default() }.encode(&mut payload);
            write_data(&mut payload, colour.as_bytes());
            let id = sender.send(at, &payload, &Send::default());
            assert_eq!(sender.outcome(id), State::Accepted);
        }
        let filters = [(&sql, &["red", "rose"][..]), (&jms, &["blue"]), (&properties, &["green"])];
        for (handle, (filter, expected)) in (1..).zip(filters) {
            // Streams have no JMS selectors.
            if queue == "s" && filter.0 == "jms-selector" {
                continue;
            }
            let handle = handle + 10 * at;
            let mut filters = vec![(filter.0, filter.1.clone())];
            filters.extend((queue == "s").then(|| (start.0, start.1.clone())));
            attach(&mut receiver, handle, queue, &filters);
            receiver.grant(handle, 10);
            for colour in expected {
                assert_eq!(receiver.receive(handle).data(), colour.as_bytes(), "{queue}, {}", filter.0);
            }
        }
        receiver.barrier(0);
        assert!((0..20).all(|handle| receiver.waiting(0, handle) == 0), "no others");
    }
}

/// Deletes a queue: the number of its messages, or the text of the refusal.
fn delete(cluster: &Cluster, at: usize, queue: &str, conditions: u8) -> Result<u32, String> {
    let mut wire = Wire::open(cluster.nodes[at].amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_octet(conditions);
    wire.send(&leveret_tests::wire::method_frame(1, method::QUEUE_DELETE, &arguments));
    loop {
        let frame = wire.next_frame().expect("a frame");
        match frame.method() {
            Some(method::QUEUE_DELETE_OK) => return Ok(frame.arguments().long()),
            Some(method::CHANNEL_CLOSE) => return Err(frame.reason().expect("a reason").1),
            _ => {}
        }
    }
}

#[test]
fn conditions_of_a_deletion_are_judged_at_the_queues_node() {
    const IF_UNUSED: u8 = 1;
    const IF_EMPTY: u8 = 2;
    let cluster = with_queues(&["a", "b"]);
    let mut publisher = Wire::open(cluster.nodes[0].amqp());
    publisher.confirm_select(1);
    for queue in ["a", "b", "b", "b"] {
        publisher.send(&publish(1, "", queue, b"x", false, true));
    }
    publisher.confirms(4);
    let refused = delete(&cluster, 1, "a", IF_EMPTY).expect_err("it has a message");
    assert!(refused.ends_with("queue 'a' in vhost '/' not empty"), "{refused}");
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    consumer.consume(1, "a", true);
    assert_eq!(consumer.delivery().2, b"x");
    let refused = delete(&cluster, 1, "a", IF_UNUSED).expect_err("it has a consumer");
    assert!(refused.ends_with("queue 'a' in vhost '/' in use"), "{refused}");
    // It goes on as before.
    publisher.send(&publish(1, "", "a", b"y", false, true));
    publisher.confirms(1);
    assert_eq!(consumer.delivery().2, b"y");
    drop(consumer);
    cluster.wait_until("nobody uses it", |cluster| delete(cluster, 1, "a", IF_UNUSED | IF_EMPTY) == Ok(0));
    assert_eq!(delete(&cluster, 1, "b", 0), Ok(3), "their number comes from there, too");
    assert!(cluster.queues(1).is_empty(), "it is gone where that was asked");
    assert_eq!(delete(&cluster, 1, "b", IF_UNUSED), Ok(0), "one that doesn't exist counts as deleted");
}

#[test]
fn an_alarm_holds_those_who_publish_to_its_node() {
    let cluster = with_queues_and(&["q"], Options::with_alarms);
    let elsewhere = cluster.nodes[1].http().put("/api/queues/%2F/mine", &json!({"durable": true}));
    assert_eq!(elsewhere.expect("an answer").status, 201);
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    publisher.send(&publish(1, "", "q", b"before", false, true));
    publisher.confirms(1);
    // As the publisher's node has heard it: on /api/nodes each tells its own.
    let alarms =
        |cluster: &Cluster| cluster.nodes[1].http().get("/api/health/checks/alarms").expect("an answer").status;
    cluster.nodes[0].raise_alarms("memory");
    cluster.wait_until("the alarm is known", |cluster| alarms(cluster) == 503);
    publisher.send(&publish(1, "", "q", b"during", false, true));
    let shown = |cluster: &Cluster| cluster.nodes[1].http().get("/api/connections").expect("an answer").body;
    cluster.wait_until("it waits for the link", |cluster| shown(cluster).contains("\"link\""));
    // Others go on: consumers of that queue, and publishers to other nodes.
    let mut consumer = Wire::open(cluster.nodes[2].amqp());
    consumer.consume(1, "q", true);
    assert_eq!(consumer.delivery().2, b"before");
    let mut other = Wire::open(cluster.nodes[2].amqp());
    other.confirm_select(1);
    for _ in 0..2 {
        other.send(&publish(1, "", "mine", b"x", false, true));
        other.confirms(1);
    }
    cluster.nodes[0].raise_alarms("");
    publisher.confirms(1);
    assert_eq!(consumer.delivery().2, b"during");
    assert!(!shown(&cluster).contains("\"link\""));
}

/// Clients take the end of a link that comes before the response for a failure.
#[test]
fn a_sender_to_a_deleted_queue_ends_after_the_response() {
    const MANAGEMENT: u32 = 5;
    let cluster = with_queues(&["q"]);
    let mut client = Amqp10::open(cluster.nodes[1].amqp());
    client.sender(0, "/queues/q");
    client.client.attach_management(0, MANAGEMENT);
    client.flush();
    client.wait_credit(0, MANAGEMENT);
    let body = OwnedValue::Null;
    let request = ManagementRequest { id: 1, method: "DELETE", path: "/queues/q", body: &body };
    assert!(client.client.request(0, MANAGEMENT, &request).is_some(), "there is credit");
    client.flush();
    client.wait("the response", |event| matches!(event, Event::Delivered(_)));
    client.wait_any("the end of the sender", |event| matches!(event, Event::Detached { handle: 0, .. }));
}
