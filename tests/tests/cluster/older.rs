//! A data directory of the first format version, from before there were clusters: it starts alone as before, and its node becomes the first
//! one of a cluster, with its data.

use std::collections::BTreeMap;
use std::fs;

use leveret_tests::data_directory::{fixture, unpack};
use leveret_tests::node::Node;
use leveret_tests::wire::Wire;

use crate::Cluster;
use crate::elsewhere::is_reached;

/// The number of messages of each queue as a node lists them.
fn messages(cluster: &Cluster, at: usize) -> BTreeMap<String, u64> {
    let queues = cluster.nodes[at].http().get("/api/queues").map(|answer| answer.json()).unwrap_or_default();
    let rows = queues.as_array().into_iter().flatten();
    rows.filter_map(|row| Some((row["name"].as_str()?.to_owned(), row["messages"].as_u64()?))).collect()
}

#[test]
fn a_directory_of_an_old_release_becomes_the_first_of_a_cluster() {
    for kind in ["clean", "crash"] {
        let fixture = fixture(&format!("data-1/{kind}"));
        let recorded = fs::read_to_string(fixture.join("queues.json")).expect("a recorded result");
        let recorded: BTreeMap<String, u64> = serde_json::from_str(&recorded).expect("JSON");
        let (net, options) = Cluster::options(2);
        let key = |other: usize| format!("cluster_formation.classic_config.nodes.{}", other + 1);
        let mut options = options.into_iter().map(|options| {
            (0..2).fold(options, |options, other| options.without(&key(other))).set("debug.wal_file_bytes", 16 << 10)
        });
        let first = Node::start_in(unpack(&fixture), options.next().expect("two"));
        let second = Node::start(options.next().expect("two"));
        let mut cluster = Cluster { net, nodes: vec![first, second] };
        assert_eq!(messages(&cluster, 0), recorded, "{kind}: it starts alone as before");
        // It is joined, so it becomes the first member; the other one has no data.
        cluster.well(1, &["join_cluster", &cluster.name(0)]);
        cluster
            .wait_until("both are members", |cluster| (0..2).all(|at| cluster.members(&cluster.nodes[at]).len() == 2));
        for at in 0..2 {
            cluster.wait_until("both have all queues", |cluster| messages(cluster, at) == recorded);
        }
        // The links for clients' traffic come last.
        cluster.wait_until("the queues' node is reached", |cluster| is_reached(cluster, 1, "orders"));
        let mut wire = Wire::open(cluster.nodes[1].amqp());
        for (channel, (queue, count)) in (2..).zip(&recorded) {
            wire.open_channel(channel);
            wire.consume(channel, queue, true);
            (0..*count).for_each(|_| drop(wire.delivery()));
        }
        wire.close();
        cluster.wait_until("all are gone", |cluster| messages(cluster, 0).values().all(|count| *count == 0));
        // Once more as a member, by itself.
        cluster.nodes[1].kill();
        cluster.nodes[0].restart();
        cluster.wait_until("it has its queues", |cluster| messages(cluster, 0).len() == recorded.len());
    }
}
