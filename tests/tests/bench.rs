//! `leveret bench` against a node: loads of several publishers, consumers and queues are verified and told of.

use std::process::Command;

use leveret_tests::node::{Node, Options, binary};
use serde_json::Value;

/// The rounds that a load made.
fn rounds(node: &Node, words: &str) -> Vec<Value> {
    let uri = format!("amqp://{}", node.amqp());
    let mut command = Command::new(binary());
    command.args(["bench", "--json", "--uri", &uri, "--metrics-port", &node.ports().prometheus.to_string()]);
    command.args(["--pid", &node.ports().pid.to_string()]).args(words.split(' '));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["rounds"].as_array().expect("a list").clone()
}

#[test]
fn loads_of_many_connections_are_verified() {
    let node = Node::start(Options::new());
    for words in [
        "two-pairs two-pairs-amqp10 --messages 20000",
        "classic-amqp091 --messages 4000 --producers 4 --consumers 4 --queues 4 --size 10",
        "slow-queues --queues 20 --messages 400 --rate 2000",
        "many-queues --queues 20 --messages 400 --rate 2000",
        "memory-amqp10 --messages 2000 --queues 10 --rate 10000",
    ] {
        for round in rounds(&node, words) {
            assert_eq!(round["dropped"], 0, "{words}: {round}");
            for figure in ["sent_per_second", "received_per_second"] {
                assert!(round[figure].as_f64().is_some_and(|rate| rate > 0.0), "{words}: {round}");
            }
            assert!(round["latency_us"]["p99"].is_number(), "{words}: {round}");
        }
    }
    assert!(node.http().get("/api/queues").expect("an answer").body.contains("[]"), "the queues are gone");
}

#[test]
fn what_goes_in_first_comes_out_as_a_round_of_its_own() {
    let node = Node::start(Options::new());
    for scenario in ["in-then-out", "in-then-out-amqp10"] {
        let rounds = rounds(&node, &format!("{scenario} --messages 10000"));
        assert_eq!(rounds.len(), 2);
        assert!(rounds[0]["sent_per_second"].is_number() && rounds[0]["received_per_second"].is_null());
        assert!(rounds[1]["sent_per_second"].is_null() && rounds[1]["received_per_second"].is_number());
        assert_eq!(rounds[1]["scenario"], format!("{scenario} (out)"));
        assert!(rounds[1]["latency_us"].is_null(), "they waited on purpose");
    }
}

#[test]
fn what_a_full_queue_drops_is_what_the_node_counted() {
    let node = Node::start(Options::new());
    let rounds = rounds(&node, "transient --messages 300000 --size 10");
    let dropped = rounds[0]["dropped"].as_u64().expect("a number");
    assert_eq!(rounds[0]["messages"], 300_000);
    let metrics = node.prometheus().get("/metrics").expect("an answer").body;
    let counted: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("rabbitmq_global_messages_dead_lettered_maxlen_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(dropped, counted, "{metrics}");
}

#[test]
fn connections_that_do_nothing_are_weighed() {
    let node = Node::start(Options::new());
    let rounds = rounds(&node, "idle-amqp091 idle-amqp10 --connections 200 --sessions 3 --idle-s 0");
    assert_eq!(rounds.len(), 2);
    for round in rounds {
        assert_eq!((&round["connections"], &round["sessions"]), (&200.into(), &3.into()));
        assert!(round["opened_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{round}");
        assert!(round["bytes_per_connection"].is_number() && round["given_back"].is_number(), "{round}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let node = Node::start(Options::new());
    let uri = format!("amqp://{}", node.amqp());
    let output =
        Command::new(binary()).args(["bench", "memory", "--uri", &uri, "--queues", "3", "--producers", "4"]).output();
    let error = String::from_utf8(output.expect("it runs").stderr).expect("text");
    assert!(error.contains("4 publishers and 3 consumers can't be shared out evenly among 3 queues"), "{error}");
}
