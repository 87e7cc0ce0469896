//! Figures and alarms of other nodes, as operators see them on any node.

use std::thread;
use std::time::Duration;

use leveret_tests::node::Node;
use leveret_tests::wire::{Tuning, Wire};
use serde_json::{Value, json};

use crate::Cluster;

/// Status and body of a GET.
fn get(node: &Node, path: &str) -> (u16, Value) {
    let answer = node.http().get(path).expect("an answer");
    (answer.status, answer.json())
}

/// Whether a message can be published over HTTP.
fn publishes(node: &Node) -> bool {
    let message = json!({"properties": {}, "routing_key": "nowhere", "payload": "x", "payload_encoding": "string"});
    let answer = node.http().post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
    assert!(answer.status == 200 || answer.body.contains("blocked by an alarm"), "{}", answer.body);
    answer.status == 200
}

#[test]
fn alarms_of_a_member_are_shown_by_all_and_stop_its_own_publishers() {
    let mut cluster = Cluster::start_with(3, |options| options.with_alarms());
    cluster.nodes[1].raise_alarms("memory");
    let raised = |node: &Node| get(node, "/api/health/checks/alarms").0 == 503;
    cluster.wait_until("all know it", |cluster| cluster.nodes.iter().all(raised));
    let name = cluster.name(1);
    let (_, body) = get(&cluster.nodes[0], "/api/health/checks/alarms");
    assert_eq!(body["reason"], "There are alarms in effect in the cluster");
    assert_eq!(body["alarms"], json!([{"resource": "memory", "node": name}]));
    assert_eq!(get(&cluster.nodes[0], "/api/health/checks/local-alarms").0, 200);
    assert_eq!(get(&cluster.nodes[1], "/api/health/checks/local-alarms").0, 503);
    let (_, nodes) = get(&cluster.nodes[2], "/api/nodes");
    let of = |key: &str| -> Vec<bool> {
        nodes.as_array().expect("a list").iter().map(|node| node[key].as_bool().expect("is told")).collect()
    };
    assert_eq!((of("mem_alarm"), of("disk_free_alarm")), (vec![false, true, false], vec![false; 3]));
    let status = cluster.well(0, &["cluster_status"]);
    assert!(status.contains(&format!("Alarms\n\nMemory alarm on node {name}\n")), "{status}");
    for at in 0..3 {
        let listener = format!("Node: {}, interface: 127.", cluster.name(at));
        assert!(status.contains(&listener), "{listener}: {status}");
        assert!(status.contains(&format!("Node: {}, available CPU cores: ", cluster.name(at))), "{status}");
    }
    assert_eq!([0, 1, 2].map(|at| publishes(&cluster.nodes[at])), [true, false, true]);
    assert!(cluster.nodes[0].wait_for_line(&format!("memory resource limit alarm set on node {name}")));
    cluster.nodes[1].raise_alarms("");
    cluster.wait_until("all know that it is over", |cluster| !cluster.nodes.iter().any(raised));
    cluster.nodes[1].raise_alarms("disk");
    cluster.wait_until("all know the other one", |cluster| cluster.nodes.iter().all(raised));
    cluster.nodes[1].kill();
    cluster.wait_until("alarms of a node end with it", |cluster| !raised(&cluster.nodes[0]));
}

#[test]
fn with_the_scope_cluster_an_alarm_of_any_node_stops_all_publishers() {
    let cluster = Cluster::start_with(2, |options| options.with_alarms().set("cluster.alarm_scope", "cluster"));
    cluster.nodes[1].raise_alarms("memory");
    cluster.wait_until("no node takes messages", |cluster| !cluster.nodes.iter().any(publishes));
    let (_, nodes) = get(&cluster.nodes[0], "/api/nodes");
    assert_eq!((&nodes[0]["mem_alarm"], &nodes[1]["mem_alarm"]), (&json!(false), &json!(true)));
    cluster.nodes[1].raise_alarms("");
    cluster.wait_until("all take messages", |cluster| cluster.nodes.iter().all(publishes));
}

/// A connection, unless it is refused.
fn connect(node: &Node) -> Option<Wire> {
    Wire::handshake(node.amqp(), Tuning { frame_max: 0, heartbeat: 0 }).ok()
}

#[test]
fn limits_of_connections_hold_for_all_nodes_together() {
    let cluster = Cluster::start(2);
    let http = cluster.nodes[0].http();
    for path in ["/api/vhost-limits/%2F/max-connections", "/api/user-limits/guest/max-connections"] {
        let answer = http.put(path, &json!({"value": 2})).expect("an answer");
        assert!(answer.status < 300, "{}", answer.body);
        // The other node knows the limit when it counts the connections of its users.
        thread::sleep(Duration::from_millis(500));
        let wires = [0, 1].map(|at| Wire::open(cluster.nodes[at].amqp()));
        for at in [0, 1] {
            cluster.wait_until("a third connection is refused", |cluster| connect(&cluster.nodes[at]).is_none());
        }
        drop(wires);
        cluster.wait_until("there is room again", |cluster| connect(&cluster.nodes[1]).is_some());
        assert!(http.delete(path).expect("an answer").status < 300);
    }
}

#[test]
fn a_node_is_critical_while_another_one_is_down() {
    let mut cluster = Cluster::start(3);
    let path = "/api/health/checks/node-is-quorum-critical";
    cluster.wait_until("none is critical", |cluster| cluster.nodes.iter().all(|node| get(node, path).0 == 200));
    for check in ["metadata-store/initialized", "metadata-store/initialized/with-data", "reached-target-cluster-size"] {
        let (status, body) = get(&cluster.nodes[1], &format!("/api/health/checks/{check}"));
        assert_eq!((status, body), (200, json!({"status": "ok"})), "{check}");
    }
    cluster.wait_until("all replicas are known", |cluster| {
        let table = cluster.well(2, &["metadata_store_status", "-q", "--formatter", "csv"]);
        table.matches("voter").count() == 3
            && table.matches("leader").count() == 1
            && table.matches("follower").count() == 2
    });
    cluster.nodes[0].kill();
    cluster.wait_until("the others are critical", |cluster| get(&cluster.nodes[1], path).0 == 503);
    let (_, body) = get(&cluster.nodes[1], path);
    assert_eq!(
        body["queues"],
        json!([{"readable_name": "rabbitmq_metadata", "name": "rabbitmq_metadata", "virtual_host": "-", "type": "process"}])
    );
    let table = cluster.well(1, &["metadata_store_status", "-q", "--formatter", "csv"]);
    assert!(table.contains(&format!("\"{}\",\"nodedown\"", cluster.name(0))), "{table}");
}

#[test]
fn settings_that_differ_between_nodes_are_named() {
    let cluster = Cluster::start_each(2, |at, options| options.set("heartbeat", 30 + at));
    cluster.wait_until("the key is named", |cluster| {
        let status = cluster.well(0, &["cluster_status"]);
        status.ends_with("Settings that differ between nodes\n\nheartbeat\n")
    });
}
