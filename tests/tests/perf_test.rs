//! RabbitMQ's own load generator completes the published workload "classic, 0-9-1" on one queue, and the queue's
//! counters match the messages it sent. Its options for quorum queues and streams do what they say.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use leveret_tests::broker::Broker;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;
use leveret_tests::{cell, conservation};

/// A unique name, so that queues of a given broker don't interfere.
const QUEUE: &str = "cell.perf-test.my-classic-queue";

/// As many messages as are worth their time in CI.
#[test]
fn completes_fifty_thousand_messages() {
    completes(50_000);
}

/// The published number of messages; run by `make bench` and `make soak`.
#[test]
#[ignore = "a million messages: make bench"]
fn completes_a_million_messages() {
    completes(1_000_000);
}

fn completes(messages: u64) {
    let broker = Broker::start();
    Wire::open(broker.amqp()).declare(1, QUEUE, true);
    perf_test(
        broker.amqp(),
        &format!(
            "--predeclared --exchange amq.default --routing-key {QUEUE} --queue {QUEUE} --flag persistent --flag mandatory \
         --size 12 --pmessages {messages} --cmessages {messages} --confirm 192 --qos 200 --multi-ack-every 200"
        ),
    );
    if let Broker::Own(node) = &broker {
        let queue = node.http().get(&format!("/api/queues/%2F/{QUEUE}")).expect("the queue").json();
        assert_eq!(conservation::of_queue(&queue), Ok(messages), "{queue}");
    }
    broker.finish("cell.perf-test.");
}

#[test]
fn declares_and_uses_a_quorum_queue() {
    let node = Node::start(Options::new());
    perf_test(
        node.amqp(),
        "--quorum-queue --queue quorum --auto-delete false --pmessages 5000 --cmessages 5000 --confirm 100 --qos 200",
    );
    let queue = node.http().get("/api/queues/%2F/quorum").expect("the queue").json();
    assert_eq!(queue["type"], "quorum", "{queue}");
    assert_eq!(conservation::of_queue(&queue), Ok(5000), "{queue}");
}

/// Each run ends when it has as many messages as there are from its offset on; one that begins behind it would wait, and one
/// that begins before it would get more, since its prefetch holds all of them.
#[test]
fn reads_a_stream_from_each_kind_of_offset() {
    let node = Node::start(Options::new());
    let stream = "--stream-queue --queue stream --auto-delete false";
    perf_test(node.amqp(), &format!("{stream} --pmessages 3000 --cmessages 3000 --confirm 100 --qos 200"));
    perf_test(node.amqp(), &format!("{stream} --pmessages 1000 --consumers 0 --confirm 100"));
    let delivered = || {
        let queue = node.http().get("/api/queues/%2F/stream").expect("the stream").json();
        assert_eq!((&queue["type"], &queue["messages"]), (&"stream".into(), &4000.into()), "{queue}");
        queue["message_stats"]["deliver"].as_u64().expect("deliveries")
    };
    for (offset, expected) in [("first", 4000), ("2999", 1001), ("2020-01-01T00:00:00Z", 4000)] {
        let before = delivered();
        let readers = format!("--producers 0 --cmessages {expected} --qos 10000 --stream-consumer-offset {offset}");
        perf_test(node.amqp(), &format!("{stream} {readers}"));
        assert_eq!(delivered() - before, expected, "from {offset}");
    }
}

/// Runs PerfTest, which ends by itself.
fn perf_test(amqp: SocketAddr, words: &str) {
    let class_path = cell::clients().join(".installed/perf-test.classpath");
    let class_path = fs::read_to_string(class_path).expect("run `make -C tests/clients install`");
    let output = Command::new("java")
        .args(["-cp", class_path.trim(), "com.rabbitmq.perf.PerfTest"])
        .args(["--uri", &format!("amqp://guest:guest@{amqp}/%2F")])
        .args(words.split_whitespace())
        .output()
        .expect("java");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "PerfTest {words}: {}\n{out}\n{err}", output.status);
    // PerfTest's summary, such as "id: ..., sending rate avg: ... msg/s".
    for line in out.lines().filter(|line| line.contains("avg")) {
        println!("{line}");
    }
}
