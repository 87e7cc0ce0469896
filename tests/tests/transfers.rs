//! An operator moves and copies a queue's messages while the node is killed again and again: a moved message is in one queue, each
//! goes on by itself, and a copy is whole. `LEVERET_KILL_ROUNDS` is the number of kills (4).

use std::collections::BTreeMap;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

const MESSAGES: u64 = 20_000;
/// Most unconfirmed publishes, and messages per acknowledgement.
const RUN: u64 = 500;
/// Messages that a copy may hold twice after each kill: those of a step.
const STEP: u64 = 1000;
/// Every so many messages, one whose body is in a file of its own.
const LARGE_EVERY: u64 = 4_000;
const LARGE_BYTES: usize = 2 << 20;

fn declare(node: &Node, name: &str, queue_type: &str) {
    let queue = json!({"durable": true, "arguments": {"x-queue-type": queue_type}});
    assert_eq!(node.http().put(&format!("/api/queues/%2F/{name}"), &queue).expect("an answer").status, 201);
}

fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    if number % LARGE_EVERY == LARGE_EVERY - 1 {
        body.resize(LARGE_BYTES, number as u8);
    }
    body
}

fn publish_all(node: &Node, queue: &str) {
    let mut wire = Wire::open(node.amqp());
    wire.publish_all(MESSAGES, RUN, |number| publish(1, "", queue, &body(number), true, true));
    wire.close();
}

/// Takes all messages of a queue: how often each came, and whether all came in order.
fn take_all(node: &Node, queue: &str, count: u64) -> (BTreeMap<u64, u64>, bool) {
    let mut wire = Wire::open(node.amqp());
    wire.prefetch(1, 5_000);
    wire.consume(1, queue, false);
    let (mut came, mut last, mut in_order) = (BTreeMap::new(), None, true);
    for nth in 1..=count {
        let (tag, _, content) = wire.delivery();
        let number = u64::from_be_bytes(content[..8].try_into().expect("a number"));
        assert!(content == body(number), "message {number} came with another body");
        *came.entry(number).or_insert(0) += 1;
        in_order &= last.is_none_or(|last| last < number);
        last = Some(number);
        if nth % RUN == 0 || nth == count {
            wire.ack(1, tag, true);
        }
    }
    wire.close();
    (came, in_order)
}

fn transfer(node: &Node, queue: &str, id: &Value) -> Value {
    let path = format!("/api/queues/%2F/{queue}/transfers");
    let listed = node.http().get(&path).expect("an answer").json();
    let found = listed.as_array().and_then(|list| list.iter().find(|one| one["id"] == *id)).cloned();
    found.expect("it is remembered")
}

/// Begins a transfer and kills the node whenever a part of it is done. Returns it as it ended, and how often the node was killed.
fn carry_out(node: &mut Node, queue: &str, request: &Value) -> (Value, u64) {
    let rounds: u64 = std::env::var("LEVERET_KILL_ROUNDS").map_or(4, |rounds| rounds.parse().expect("a number"));
    let begun = node.http().post(&format!("/api/queues/%2F/{queue}/transfers"), request).expect("an answer");
    assert_eq!(begun.status, 201);
    let (id, mut kills) = (begun.json()["id"].clone(), 0);
    loop {
        let now = transfer(node, queue, &id);
        if now["state"] == "done" {
            return (now, kills);
        }
        let done = now["done"].as_u64().expect("a number");
        if kills < rounds && done >= (kills + 1) * MESSAGES / (rounds + 2) {
            node.kill();
            node.restart();
            kills += 1;
        }
    }
}

#[test]
fn moved_messages_are_in_one_queue_whenever_the_node_is_killed() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", 1 << 20));
    declare(&node, "source", "classic");
    declare(&node, "target", "quorum");
    publish_all(&node, "source");
    let (_, kills) = carry_out(&mut node, "source", &json!({"to": "target"}));
    println!("{kills} kills");
    let ready = |name: &str| node.http().get(&format!("/api/queues/%2F/{name}")).expect("an answer").json();
    assert_eq!((&ready("source")["messages"], &ready("target")["messages"]), (&json!(0), &json!(MESSAGES)));
    let (came, in_order) = take_all(&node, "target", MESSAGES);
    assert!(in_order && came.len() as u64 == MESSAGES, "{} of {MESSAGES} came", came.len());
    conservation::check(&node.http());
}

#[test]
fn a_copy_is_whole_whenever_the_node_is_killed() {
    if is_given() {
        return;
    }
    for source in ["quorum", "stream"] {
        let mut node = Node::start(Options::new().set("debug.wal_file_bytes", 1 << 20));
        declare(&node, "source", source);
        declare(&node, "target", "classic");
        publish_all(&node, "source");
        let (_, kills) = carry_out(&mut node, "source", &json!({"to": "target", "copy": true}));
        let shown = node.http().get("/api/queues/%2F/target").expect("an answer").json();
        let count = shown["messages"].as_u64().expect("a number");
        println!("{kills} kills, {} messages twice", count - MESSAGES);
        assert!((MESSAGES..=MESSAGES + kills * STEP).contains(&count), "{count} after {kills} kills");
        let (came, _) = take_all(&node, "target", count);
        assert_eq!(came.len() as u64, MESSAGES);
        let left = node.http().get("/api/queues/%2F/source").expect("an answer").json();
        assert_eq!(left["messages"], json!(MESSAGES), "a copy takes nothing away");
        conservation::check(&node.http());
    }
}
