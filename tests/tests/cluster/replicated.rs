//! Quorum queues with members on several nodes.

use std::collections::BTreeSet;

use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::{Wire, method, publish};
use serde_json::{Value, json};

use crate::Cluster;
use crate::elsewhere::get;

/// Three nodes, and a quorum queue that all know, with a leader.
fn with_queue(name: &str) -> Cluster {
    let cluster = Cluster::start(3);
    declare(&cluster, 0, name);
    for at in 0..3 {
        cluster.wait_until("it has a leader", |cluster| leader(cluster, at, name).is_some());
        cluster.wait_until("it is reached", |cluster| is_reached(cluster, at, name));
    }
    cluster
}

fn declare(cluster: &Cluster, at: usize, name: &str) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    let answer = cluster.nodes[at].http().put(&format!("/api/queues/%2F/{name}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

fn shown(cluster: &Cluster, at: usize, name: &str) -> Option<Value> {
    let answer = cluster.nodes[at].http().get(&format!("/api/queues/%2F/{name}")).ok()?;
    (answer.status == 200).then(|| answer.json())
}

/// The index of the node that leads a queue, as a node says.
fn leader(cluster: &Cluster, at: usize, name: &str) -> Option<usize> {
    let leader = shown(cluster, at, name)?["leader"].as_str()?.to_owned();
    (0..cluster.nodes.len()).find(|at| cluster.name(*at) == leader)
}

/// Whether a node reaches the leader of a queue, from each core: connections are on different ones.
fn is_reached(cluster: &Cluster, at: usize, queue: &str) -> bool {
    let connections: Vec<_> = (0..4).map(|_| Wire::open(cluster.nodes[at].amqp())).collect();
    connections.into_iter().all(|mut wire| get(&mut wire, queue).is_ok())
}

/// Publishes these numbers, and again those that aren't taken while the leader changes.
fn publish_all(wire: &mut Wire, queue: &str, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        loop {
            wire.send(&publish(1, "", queue, &number.to_be_bytes(), false, true));
            if wire.next_method(method::BASIC_ACK).is_ok() {
                break;
            }
        }
    }
}

#[test]
fn a_quorum_queue_has_members_on_three_nodes_and_serves_all() {
    let cluster = with_queue("q");
    let shown = shown(&cluster, 1, "q").expect("it is shown");
    let members: BTreeSet<&str> = shown["members"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(members.len(), 3, "{shown}");
    assert_eq!(shown["online"].as_array().map(Vec::len), Some(3), "{shown}");
    for at in 0..3 {
        let mut publisher = Wire::open(cluster.nodes[at].amqp());
        publisher.confirm_select(1);
        for number in 0..300u32 {
            publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
        }
        publisher.confirms(300);
        let mut consumer = Wire::open(cluster.nodes[(at + 1) % 3].amqp());
        consumer.prefetch(1, 20);
        consumer.consume(1, "q", false);
        for number in 0..300u32 {
            let (tag, redelivered, body) = consumer.delivery();
            assert_eq!((redelivered, &body[..]), (false, &number.to_be_bytes()[..]));
            consumer.ack(1, tag, false);
        }
        cluster.wait_until("all are settled", |cluster| Wire::open(cluster.nodes[0].amqp()).message_count(1, "q") == 0);
    }
}

#[test]
fn what_was_confirmed_survives_the_loss_of_the_leader() {
    let mut cluster = with_queue("q");
    let leader_at = leader(&cluster, 0, "q").expect("it has one");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    let mut publisher = Wire::open(cluster.nodes[one].amqp());
    publisher.confirm_select(1);
    for number in 0..200u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(200);
    let mut consumer = Wire::open(cluster.nodes[other].amqp());
    consumer.prefetch(1, 10);
    consumer.consume(1, "q", false);
    let (tag, _, first) = consumer.delivery();
    assert_eq!(first, 0u32.to_be_bytes());
    consumer.ack(1, tag, false);
    cluster.nodes[leader_at].kill();
    publish_all(&mut publisher, "q", 200..250);
    // The consumer goes on, under its tag, and nothing is missing.
    let mut seen = BTreeSet::from([0u32]);
    while seen.len() < 250 {
        let (tag, _, body) = consumer.delivery();
        seen.insert(u32::from_be_bytes(body[..].try_into().expect("a number")));
        consumer.ack(1, tag, false);
    }
    assert_eq!(seen, (0..250).collect());
    // A node that was away catches up, and can lead.
    cluster.nodes[leader_at].restart();
    cluster.wait_until("it is reached", |cluster| is_reached(cluster, leader_at, "q"));
    publish_all(&mut publisher, "q", 250..260);
    let next = leader(&cluster, one, "q").expect("it has one");
    cluster.nodes[next].kill();
    let mut again = Wire::open(cluster.nodes[leader_at].amqp());
    again.consume(1, "q", false);
    let bodies: BTreeSet<Vec<u8>> = (0..10).map(|_| again.delivery().2).collect();
    assert!(bodies.iter().all(|body| body.len() == 4));
}

#[test]
fn a_quorum_queue_survives_a_restart_of_all_nodes() {
    let mut cluster = with_queue("q");
    let mut publisher = Wire::open(cluster.nodes[1].amqp());
    publisher.confirm_select(1);
    for number in 0..500u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(500);
    for round in 0..2u32 {
        (0..3).for_each(|at| cluster.nodes[at].kill());
        (0..3).for_each(|at| cluster.nodes[at].restart());
        for at in 0..3 {
            cluster.wait_until("it is reached", |cluster| {
                leader(cluster, at, "q").is_some() && is_reached(cluster, at, "q")
            });
        }
        let mut consumer = Wire::open(cluster.nodes[2].amqp());
        assert_eq!(consumer.message_count(1, "q"), 500 - 100 * round);
        consumer.prefetch(1, 100);
        consumer.consume(1, "q", false);
        for number in 100 * round..100 * (round + 1) {
            let (tag, redelivered, body) = consumer.delivery();
            assert_eq!((redelivered, &body[..]), (true, &number.to_be_bytes()[..]), "it may have been delivered before");
            consumer.ack(1, tag, false);
        }
        // The settlements are everywhere once another node says so.
        cluster.wait_until("they are settled", |cluster| {
            let mut wire = Wire::open(cluster.nodes[0].amqp());
            wire.message_count(1, "q") <= 400 - 100 * round
        });
        drop(consumer);
    }
}

#[test]
fn credit_is_exact_although_the_leader_changes() {
    let mut cluster = with_queue("q");
    let leader_at = leader(&cluster, 0, "q").expect("it has one");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    let mut publisher = Wire::open(cluster.nodes[one].amqp());
    publisher.confirm_select(1);
    for number in 0..60u32 {
        publisher.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
    }
    publisher.confirms(60);
    let mut receiver = Amqp10::open(cluster.nodes[other].amqp());
    receiver.receiver(1, "/queues/q", 0);
    receiver.grant(1, 20);
    (0..20).for_each(|_| drop(receiver.receive(1)));
    cluster.nodes[leader_at].kill();
    cluster.wait_until("another one leads", |cluster| {
        leader(cluster, one, "q").is_some_and(|at| at != leader_at) && is_reached(cluster, other, "q")
    });
    // Its credit was used up: it gets nothing before it grants more.
    receiver.barrier(0);
    assert_eq!(receiver.waiting(0, 1), 0, "a message came without credit");
    receiver.grant(1, 7);
    (0..7).for_each(|_| drop(receiver.receive(1)));
    receiver.barrier(0);
    assert_eq!(receiver.waiting(0, 1), 0, "a message came without credit");
}
