//! RabbitMQ's own load generator completes the published workload "classic, 0-9-1" on one queue, and the queue's
//! counters match the messages it sent.

use std::fs;
use std::process::Command;

use leveret_tests::broker::Broker;
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
    let class_path = cell::clients().join(".installed/perf-test.classpath");
    let class_path = fs::read_to_string(class_path).expect("run `make -C tests/clients install`");
    let output = Command::new("java")
        .args(["-cp", class_path.trim(), "com.rabbitmq.perf.PerfTest"])
        .args(["--uri", &format!("amqp://guest:guest@{}/%2F", broker.amqp())])
        .args(["--predeclared", "--exchange", "amq.default", "--routing-key", QUEUE, "--queue", QUEUE])
        .args(["--flag", "persistent", "--flag", "mandatory", "--size", "12"])
        .args(["--pmessages", &messages.to_string(), "--cmessages", &messages.to_string()])
        .args(["--confirm", "192", "--qos", "200", "--multi-ack-every", "200"])
        .output()
        .expect("java");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "PerfTest: {}\n{out}\n{err}", output.status);
    // PerfTest's summary, such as "id: ..., sending rate avg: ... msg/s".
    for line in out.lines().filter(|line| line.contains("avg")) {
        println!("{line}");
    }
    if let Broker::Own(node) = &broker {
        let queue = node.http().get(&format!("/api/queues/%2F/{QUEUE}")).expect("the queue").json();
        assert_eq!(conservation::of_queue(&queue), Ok(messages), "{queue}");
    }
    broker.finish("cell.perf-test.");
}
