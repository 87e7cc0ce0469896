//! Data directories from before there were clusters: each starts alone as before, and its node becomes the first one of a cluster, with its
//! data.

use std::collections::BTreeMap;
use std::fs;

use leveret_tests::data_directory::{fixture, pack, unpack};
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

use crate::Cluster;
use crate::elsewhere::is_reached;

/// The folder of a directory that the last release before clusters wrote.
const LAST_ALONE: &str = "data-1/before-clusters";
/// A user of it.
const CLERK: &str = "clerk";
const CLERKS_WORD: &str = "w0rd-of-the-clerk";
/// Bytes of a file of the log, so that a directory is small.
const SMALL_FILES: u32 = 16 << 10;

/// The number of messages of each queue as a node lists them.
fn messages(cluster: &Cluster, at: usize) -> BTreeMap<String, u64> {
    let queues = cluster.nodes[at].http().get("/api/queues").map(|answer| answer.json()).unwrap_or_default();
    let rows = queues.as_array().into_iter().flatten();
    rows.filter_map(|row| Some((row["name"].as_str()?.to_owned(), row["messages"].as_u64()?))).collect()
}

/// The lists of the definitions that a node has kept from the start, in the order of their text.
fn definitions(http: &Http) -> Value {
    let all = http.get("/api/definitions").expect("an answer").json();
    let sorted = |name: &str| {
        let mut list = all[name].as_array().cloned().unwrap_or_default();
        list.sort_by_key(Value::to_string);
        Value::from(list)
    };
    let names = ["users", "vhosts", "permissions", "policies", "exchanges", "queues", "bindings"];
    names.into_iter().map(|name| (name.to_owned(), sorted(name))).collect::<serde_json::Map<_, _>>().into()
}

/// Two nodes, the first with this directory. It is alone, and so is the other one.
fn started(directory: tempfile::TempDir) -> Cluster {
    let (net, options) = Cluster::options(2);
    let key = |other: usize| format!("cluster_formation.classic_config.nodes.{}", other + 1);
    let mut options = options.into_iter().map(|options| {
        (0..2).fold(options, |options, other| options.without(&key(other))).set("debug.wal_file_bytes", SMALL_FILES)
    });
    let first = Node::start_in(directory, options.next().expect("two"));
    let second = Node::start(options.next().expect("two"));
    Cluster { net, nodes: vec![first, second] }
}

/// The second node joins the first, which becomes the first member of a cluster for that. Waits until both have all queues.
fn join(cluster: &Cluster, recorded: &BTreeMap<String, u64>) {
    cluster.well(1, &["join_cluster", &cluster.name(0)]);
    cluster.wait_until("both are members", |cluster| (0..2).all(|at| cluster.members(&cluster.nodes[at]).len() == 2));
    for at in 0..2 {
        cluster.wait_until("both have all queues", |cluster| messages(cluster, at) == *recorded);
    }
}

#[test]
fn a_directory_of_an_old_release_becomes_the_first_of_a_cluster() {
    for kind in ["clean", "crash"] {
        let fixture = fixture(&format!("data-1/{kind}"));
        let recorded = fs::read_to_string(fixture.join("queues.json")).expect("a recorded result");
        let recorded: BTreeMap<String, u64> = serde_json::from_str(&recorded).expect("JSON");
        let mut cluster = started(unpack(&fixture));
        assert_eq!(messages(&cluster, 0), recorded, "{kind}: it starts alone as before");
        join(&cluster, &recorded);
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

#[test]
fn users_queues_and_bindings_from_before_clusters_are_kept() {
    let fixture = fixture(LAST_ALONE);
    let recorded: Value =
        serde_json::from_str(&fs::read_to_string(fixture.join("recorded.json")).expect("a recorded result"))
            .expect("JSON");
    let counts: BTreeMap<String, u64> = serde_json::from_value(recorded["messages"].clone()).expect("counts");
    let mut cluster = started(unpack(&fixture));
    assert_eq!(messages(&cluster, 0), counts, "it starts alone as before");
    assert_eq!(definitions(&cluster.nodes[0].http()), recorded["definitions"]);
    join(&cluster, &counts);
    for at in 0..2 {
        assert_eq!(definitions(&cluster.nodes[at].http()), recorded["definitions"], "node {at}");
    }
    let clerk = cluster.nodes[1].http().as_user(CLERK, CLERKS_WORD);
    assert_eq!(clerk.get("/api/whoami").expect("an answer").status, 200, "the user is let in by the other node");
    cluster.wait_until("the queues' node is reached", |cluster| is_reached(cluster, 1, "orders"));
    let mut wire = Wire::open(cluster.nodes[1].amqp());
    wire.confirm_select(1);
    wire.send(&publish(1, "shop", "order.new", b"one more", true, true));
    wire.confirms(1);
    for (channel, queue) in (2..).zip(["kept", "orders"]) {
        wire.open_channel(channel);
        wire.consume(channel, queue, true);
        (0..counts[queue]).for_each(|number| assert_eq!(wire.delivery().2, format!("{queue} {number}").as_bytes()));
    }
    assert_eq!(wire.delivery().2, b"one more", "the binding is kept");
    wire.close();
    // Once more as a member, by itself.
    cluster.nodes[1].kill();
    cluster.nodes[0].restart();
    cluster.wait_until("it has its queues", |cluster| messages(cluster, 0).len() == counts.len());
    assert_eq!(definitions(&cluster.nodes[0].http()), recorded["definitions"]);
}

/// Has the release before clusters, whose binary LEVERET_BIN names, write the fixture.
#[test]
#[ignore = "writes a fixture, with the binary of commit dde95db0"]
fn write_the_directory_from_before_clusters() {
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", SMALL_FILES));
    let http = node.http();
    let put = |path: &str, body: Value| {
        let answer = http.put(path, &body).expect("an answer");
        assert!(answer.status < 300, "{path}: {}", answer.body);
    };
    put("/api/vhosts/branch", json!({}));
    put(&format!("/api/users/{CLERK}"), json!({"password": CLERKS_WORD, "tags": "monitoring"}));
    put(&format!("/api/permissions/branch/{CLERK}"), json!({"configure": "^own-", "write": ".*", "read": ".*"}));
    put("/api/policies/%2F/long", json!({"pattern": "^orders", "definition": {"max-length": 1000}}));
    put("/api/exchanges/%2F/shop", json!({"type": "topic", "durable": true}));
    put("/api/queues/%2F/orders", json!({"durable": true}));
    put("/api/queues/%2F/kept", json!({"durable": true, "arguments": {"x-queue-type": "quorum"}}));
    put("/api/queues/%2F/events", json!({"durable": true, "arguments": {"x-queue-type": "stream"}}));
    put("/api/queues/branch/orders-there", json!({"durable": true}));
    for (queue, key) in [("orders", "order.#"), ("kept", "kept"), ("events", "event.*")] {
        let bound = http.post(&format!("/api/bindings/%2F/e/shop/q/{queue}"), &json!({"routing_key": key}));
        assert!(bound.expect("an answer").status < 300, "{queue}");
    }
    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    for (queue, count) in [("orders", 40), ("kept", 30), ("events", 20)] {
        for number in 0..count {
            wire.send(&publish(1, "", queue, format!("{queue} {number}").as_bytes(), true, true));
        }
        wire.confirms(count);
    }
    wire.close();
    let definitions = definitions(&http);
    assert!(node.terminate().success());
    let fixture = fixture(LAST_ALONE);
    pack(node.directory(), &fixture);
    node.restart();
    let cluster = Cluster { net: String::new(), nodes: vec![node] };
    let recorded = json!({"definitions": definitions, "messages": messages(&cluster, 0)});
    fs::write(fixture.join("recorded.json"), format!("{recorded:#}\n")).expect("write");
}
