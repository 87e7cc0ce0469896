//! Moves and copies of messages by an operator go on with the node that leads their queue.

use std::collections::BTreeSet;

use leveret_tests::wire::Wire;
use serde_json::{Value, json};

use crate::Cluster;
use crate::elsewhere::is_reached;
use crate::replicated::{NumberPublisher, known_leader, number, shown, wait_until_whole, with_queue};

fn begin(cluster: &Cluster, at: usize, queue: &str, request: &Value) -> u64 {
    let begun = cluster.nodes[at].http().post(&format!("/api/queues/%2F/{queue}/transfers"), request);
    let begun = begun.expect("an answer");
    assert_eq!(begun.status, 201, "{}", begun.body);
    begun.json()["id"].as_u64().expect("an id")
}

/// A transfer as a node shows it.
fn transfer(cluster: &Cluster, at: usize, id: u64) -> Option<Value> {
    let listed = cluster.nodes[at].http().get("/api/transfers").expect("an answer").json();
    listed.as_array().expect("a list").iter().find(|one| one["id"] == id).cloned()
}

fn wait_for(cluster: &Cluster, at: usize, id: u64, state: &str) -> Value {
    cluster.wait_until(state, |cluster| transfer(cluster, at, id).is_some_and(|one| one["state"] == state));
    transfer(cluster, at, id).expect("it is remembered")
}

fn declare(cluster: &Cluster, at: usize, name: &str) {
    Wire::open(cluster.nodes[at].amqp()).declare(1, name, true);
    for at in 0..3 {
        cluster.wait_until("it is known", |cluster| cluster.queues(at).iter().any(|queue| queue == name));
    }
}

/// The numbers of all messages of a queue, and how many there were.
fn take_all(cluster: &Cluster, at: usize, queue: &str) -> (BTreeSet<u32>, usize) {
    let mut wire = Wire::open(cluster.nodes[at].amqp());
    let count = wire.message_count(1, queue);
    wire.consume(1, queue, false);
    let numbers: Vec<u32> = (0..count).map(|_| number(&wire.delivery().2)).collect();
    (numbers.iter().copied().collect(), numbers.len())
}

#[test]
fn messages_move_to_a_queue_of_another_node() {
    let cluster = Cluster::start(3);
    declare(&cluster, 0, "source");
    declare(&cluster, 1, "target");
    cluster.wait_until("the target's node is reached", |cluster| is_reached(cluster, 0, "target"));
    cluster.wait_until("the queue's node is reached", |cluster| is_reached(cluster, 2, "source"));
    NumberPublisher::to(&cluster, 2, "source").publish(0..2500);
    let id = begin(&cluster, 2, "source", &json!({"to": "target"}));
    for at in 0..3 {
        assert_eq!(wait_for(&cluster, at, id, "done")["done"], 2500, "node {at}");
    }
    let (numbers, count) = take_all(&cluster, 1, "target");
    assert_eq!((numbers.len(), count), (2500, 2500), "each once");
    assert_eq!(Wire::open(cluster.nodes[0].amqp()).message_count(1, "source"), 0);
    // It isn't taken for a parameter of the user.
    let parameters = cluster.nodes[0].http().get("/api/global-parameters").expect("an answer").body;
    assert!(!parameters.contains("transfer"), "{parameters}");
    let forget = format!("/api/queues/%2F/source/transfers/{id}");
    assert_eq!(cluster.nodes[1].http().delete(&forget).expect("an answer").status, 204);
    cluster.wait_until("it is forgotten", |cluster| transfer(cluster, 1, id).is_none());
}

#[test]
fn a_move_waits_for_the_target_node_and_goes_on() {
    let mut cluster = Cluster::start(3);
    declare(&cluster, 0, "source");
    declare(&cluster, 1, "target");
    NumberPublisher::to(&cluster, 0, "source").publish(0..200);
    cluster.nodes[1].kill();
    let id = begin(&cluster, 0, "source", &json!({"to": "target"}));
    let waiting = wait_for(&cluster, 2, id, "waiting");
    assert!(waiting["reason"].is_string(), "{waiting}");
    // The node that carries it out dies as well, and comes back.
    cluster.nodes[0].kill();
    cluster.nodes[1].restart();
    cluster.nodes[0].restart();
    wait_for(&cluster, 2, id, "done");
    assert_eq!(take_all(&cluster, 1, "target").0, (0..200).collect());
}

#[test]
fn a_move_goes_on_with_the_next_leader() {
    const MESSAGES: u32 = 2000;
    const ROOM: u64 = 100;
    let mut cluster = with_queue("q");
    let leader = known_leader(&cluster, 0, "q");
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let limited = json!({"durable": true, "arguments": {"x-max-length": ROOM, "x-overflow": "reject-publish"}});
    let put = cluster.nodes[one].http().put("/api/queues/%2F/target", &limited).expect("an answer");
    assert_eq!(put.status, 201, "{}", put.body);
    cluster.wait_until("it is known", |cluster| (0..3).all(|at| cluster.queues(at).len() == 2));
    NumberPublisher::open(&cluster, leader).publish(0..MESSAGES);
    for at in [one, other] {
        wait_until_whole(&cluster, at, "q");
    }
    let id = begin(&cluster, other, "q", &json!({"to": "target"}));
    let waiting = wait_for(&cluster, one, id, "waiting");
    assert!(waiting["reason"].as_str().is_some_and(|reason| reason.contains("'target'")), "{waiting}");
    cluster
        .wait_until("what fits is moved", |cluster| transfer(cluster, one, id).is_some_and(|one| one["done"] == ROOM));
    cluster.nodes[leader].kill();
    // Each message that is taken makes room for another one.
    let mut consumer = Wire::open(cluster.nodes[one].amqp());
    consumer.consume(1, "target", true);
    let (mut numbers, mut count) = (BTreeSet::new(), 0);
    while numbers.len() < MESSAGES as usize {
        numbers.insert(number(&consumer.delivery().2));
        count += 1;
    }
    wait_for(&cluster, other, id, "done");
    println!("{count} deliveries of {MESSAGES} messages");
    assert_eq!(shown(&cluster, one, "q").expect("it is shown")["messages"], 0);
}

#[test]
fn a_transfer_is_cancelled_from_any_node() {
    let cluster = Cluster::start(3);
    declare(&cluster, 0, "source");
    let limited = json!({"durable": true, "arguments": {"x-max-length": 10, "x-overflow": "reject-publish"}});
    let put = cluster.nodes[1].http().put("/api/queues/%2F/target", &limited).expect("an answer");
    assert_eq!(put.status, 201, "{}", put.body);
    cluster.wait_until("it is known", |cluster| cluster.queues(0).len() == 2);
    cluster.wait_until("the queue's node is reached", |cluster| is_reached(cluster, 2, "source"));
    NumberPublisher::to(&cluster, 2, "source").publish(0..50);
    let id = begin(&cluster, 2, "source", &json!({"to": "target"}));
    wait_for(&cluster, 1, id, "waiting");
    let path = format!("/api/queues/%2F/source/transfers/{id}");
    assert_eq!(cluster.nodes[1].http().delete(&path).expect("an answer").status, 204);
    let cancelled = wait_for(&cluster, 2, id, "cancelled");
    assert_eq!(cancelled["done"], 10);
    assert_eq!(Wire::open(cluster.nodes[2].amqp()).message_count(1, "source"), 40);
}
