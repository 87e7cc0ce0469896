//! Quorum queues that were declared before others joined are given the members that they lack.

use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

use crate::Cluster;
use crate::replicated::{NumberPublisher, declare, leader, make_leader, number, read_all, shown, wait_until_whole};

fn members(cluster: &Cluster, at: usize, name: &str) -> usize {
    let shown = shown(cluster, at, name).unwrap_or_default();
    shown["members"].as_array().map_or(0, Vec::len)
}

/// Has these nodes join the first one, those before them having done so.
fn join(cluster: &Cluster, range: std::ops::RangeInclusive<usize>) {
    let count = range.end() + 1;
    for at in range {
        cluster.well(at, &["join_cluster", &cluster.name(0)]);
    }
    cluster.wait_until("all are members", |cluster| {
        cluster.nodes[..count].iter().all(|node| cluster.members(node).len() == count)
    });
}

/// Says how many nodes the cluster is to have.
const HINT: &str = "cluster_formation.target_cluster_size_hint";

#[test]
fn queues_from_before_others_joined_are_replicated() {
    let mut cluster = Cluster::alone(3);
    declare(&cluster, 0, "q");
    NumberPublisher::open(&cluster, 0).publish(0..290);
    join(&cluster, 1..=1);
    assert_eq!(members(&cluster, 1, "q"), 1, "nobody has said how large the cluster is to be");
    cluster.nodes[0].restart_with(HINT, 3);
    let mut publisher = NumberPublisher::open(&cluster, 0);
    let mut consumer = Wire::open(cluster.nodes[0].amqp());
    consumer.prefetch(1, 20);
    consumer.consume(1, "q", false);
    for expected in 0..10 {
        let (tag, _, body) = consumer.delivery();
        assert_eq!(number(&body), expected);
        consumer.ack(1, tag, false);
    }
    publisher.publish(290..300);
    join(&cluster, 2..=2);
    cluster.wait_until("it has members", |cluster| (0..3).all(|at| members(cluster, at, "q") == 3));
    // Neither a consumer nor a publisher notices. What the consumer held comes again.
    publisher.publish(300..310);
    let mut read = Vec::new();
    while read.len() < 30 {
        let (tag, _, body) = consumer.delivery();
        read.push(number(&body));
        if read.len() > 20 {
            consumer.ack(1, tag, false);
        }
    }
    assert_eq!(read, (10..30).chain(10..20).collect::<Vec<_>>());
    consumer.close();
    (1..3).for_each(|at| wait_until_whole(&cluster, at, "q"));
    assert_eq!(leader(&cluster, 1, "q"), Some(0), "its node leads");
    cluster.nodes[0].kill();
    make_leader(&cluster, 2, "q");
    assert_eq!(read_all(&cluster, 1, 90), (20..110).collect::<Vec<_>>());
    // The first node has all that happened since, and what it had before.
    cluster.nodes[0].restart();
    wait_until_whole(&cluster, 0, "q");
    cluster.nodes[2].kill();
    make_leader(&cluster, 0, "q");
    assert_eq!(read_all(&cluster, 0, 200), (110..310).collect::<Vec<_>>());
}

#[test]
fn a_restart_takes_a_queue_from_before_to_its_placement() {
    let mut cluster = Cluster::alone(2);
    declare(&cluster, 0, "q");
    NumberPublisher::open(&cluster, 0).publish(0..100);
    join(&cluster, 1..=1);
    cluster.nodes[0].restart_with(HINT, 2);
    cluster.wait_until("it has members", |cluster| members(cluster, 0, "q") == 2);
    (0..2).for_each(|at| cluster.nodes[at].kill());
    (0..2).for_each(|at| cluster.nodes[at].restart());
    wait_until_whole(&cluster, 1, "q");
    make_leader(&cluster, 1, "q");
    assert_eq!(read_all(&cluster, 0, 100), (0..100).collect::<Vec<_>>());
}

#[test]
fn messages_in_the_shared_log_keep_a_queue_on_its_node() {
    let mut cluster = Cluster::alone(3);
    for name in ["q", "other"] {
        declare(&cluster, 0, name);
        let path = format!("/api/bindings/%2F/e/amq.fanout/q/{name}");
        assert_eq!(cluster.nodes[0].http().post(&path, &json!({})).expect("an answer").status, 201);
    }
    // Bodies as large as these lie there once for both.
    let body = |number: u64| [&(number as u32).to_be_bytes()[..], &vec![7; 300_000]].concat();
    let message = |number: u64| publish(1, "amq.fanout", "", &body(number), false, true);
    Wire::open(cluster.nodes[0].amqp()).publish_all(5, 5, message);
    join(&cluster, 1..=2);
    cluster.nodes[0].restart_with(HINT, 3);
    assert!(cluster.nodes[0].wait_for_line("'q' in vhost '/' stays on this node alone for now"));
    // Later messages are stored for each queue by itself.
    Wire::open(cluster.nodes[0].amqp()).publish_all(5, 5, message);
    assert_eq!(members(&cluster, 1, "q"), 1);
    assert_eq!(read_all(&cluster, 1, 5).len(), 5);
    cluster.wait_until("it has members", |cluster| members(cluster, 1, "q") == 3);
    wait_until_whole(&cluster, 2, "q");
    make_leader(&cluster, 2, "q");
    assert_eq!(read_all(&cluster, 1, 5).len(), 5);
    assert_eq!(members(&cluster, 1, "other"), 1);
}

#[test]
fn an_operator_grows_queues_of_one_member() {
    let mut cluster = Cluster::alone(3);
    for name in ["q", "other"] {
        declare(&cluster, 0, name);
    }
    // That is the size to begin with.
    let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}});
    assert_eq!(cluster.nodes[0].http().put("/api/queues/%2F/one", &body).expect("an answer").status, 201);
    NumberPublisher::open(&cluster, 0).publish(0..50);
    join(&cluster, 1..=2);
    let path = "/api/queues/quorum/replicas/on/nobody@nowhere/grow";
    let body = json!({"strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*"});
    assert_eq!(cluster.nodes[1].http().post(path, &body).expect("an answer").status, 404);
    assert_eq!(members(&cluster, 1, "q"), 1, "nobody has asked");
    // On a node that has none of them.
    cluster.wait_until("it lists them", |cluster| cluster.queues(2).len() == 3);
    let words = ["--formatter", "json", "grow", &cluster.name(1), "all", "--queue-pattern", "^(q|one)$"];
    let (exit, text) = cluster.tool("queues", 2, &words);
    assert_eq!(exit, 0, "{text}");
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {text}"));
    assert_eq!((&row("q")["size"], &row("q")["result"]), (&json!(3), &json!("ok")), "{text}");
    assert_eq!((&row("one")["size"], &row("one")["result"]), (&json!(3), &json!("ok")), "{text}");
    assert_eq!(members(&cluster, 1, "other"), 1, "it doesn't match");
    (1..3).for_each(|at| wait_until_whole(&cluster, at, "q"));
    cluster.nodes[0].kill();
    assert_eq!(read_all(&cluster, 1, 50), (0..50).collect::<Vec<_>>());
}
