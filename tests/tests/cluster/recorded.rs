//! `/api/nodes` and the health checks of three nodes, beside the answers of three nodes of RabbitMQ (golden/cluster.py).

use std::collections::BTreeSet;

use leveret_tests::node::{Node, Options};
use serde_json::Value;

use crate::Cluster;
use crate::replicated::{declare, shown};

const RECORDED: &str = include_str!("../../golden/cluster/http.json");
/// Answers of three nodes of RabbitMQ to commands and requests, some while they were alone.
const ANSWERS: &str = include_str!("../../golden/cluster/answers.txt");

/// Keys whose content isn't compared, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("cowboy_opts", "Erlang's HTTP server"),
    ("ip", "the listeners of this test name no address"),
    ("config_files", "the nodes of this test have no file of configuration"),
    ("metrics_gc_queue_length", "Erlang's processes that forget statistics"),
    ("ra_open_file_metrics", "Erlang's Raft library"),
];

/// Requests that aren't compared while two nodes of three are down, each with the reason.
const OTHERWISE_ALONE: &[(&str, &str)] = &[
    ("health/checks/quorum-queues-without-elected-leaders/all-vhosts/", "RabbitMQ believes in a leader that is gone"),
    ("health/checks/quorum-queues-without-elected-leaders/vhost/%2F/", "the same"),
];

/// Keys of nodes whose values have to be equal.
const EQUAL: &[&str] = &[
    "name",
    "type",
    "running",
    "being_drained",
    "partitions",
    "mem_alarm",
    "disk_free_alarm",
    "rates_mode",
    "net_ticktime",
    "mem_calculation_strategy",
];

/// Complaints about a node: as [`compare`], and some values have to be equal.
fn compare_node(path: &str, ours: &Value, recorded: &Value, wrong: &mut Vec<String>) {
    for key in EQUAL.iter().filter(|key| recorded.get(**key).is_some_and(|recorded| ours[**key] != *recorded)) {
        wrong.push(format!("{path}.{key}: {}, recorded {}", ours[*key], recorded[*key]));
    }
    compare(path, ours, recorded, wrong);
}

/// Complaints about what ours lacks, or has of another type, at a path.
fn compare(path: &str, ours: &Value, recorded: &Value, wrong: &mut Vec<String>) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            for (key, recorded) in recorded.iter().filter(|(key, _)| !DIFFERENT.iter().any(|(name, _)| key == name)) {
                let path = format!("{path}.{key}");
                match ours.get(key) {
                    Some(ours) => compare(&path, ours, recorded, wrong),
                    None => wrong.push(format!("{path}: missing, recorded {recorded}")),
                }
            }
        }
        (Value::Array(ours), Value::Array(recorded)) => {
            if let (Some(ours), Some(recorded)) = (ours.first(), recorded.first()) {
                compare(&format!("{path}[]"), ours, recorded, wrong);
            }
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        _ => wrong.push(format!("{path}: {ours}, recorded {recorded}")),
    }
}

/// Complaints about the answers of the first node in one of the recorded states.
fn differences(cluster: &Cluster, state: &str) -> Vec<String> {
    let recorded: Value = serde_json::from_str(RECORDED).expect("a recording");
    let names =
        |text: String| (0..3).fold(text, |text, at| text.replace(&cluster.name(at), &format!("node{}", at + 1)));
    let mut wrong = Vec::new();
    for (request, recorded) in recorded[state].as_object().expect("a state") {
        if state == "two down" && OTHERWISE_ALONE.iter().any(|(otherwise, _)| request == otherwise) {
            continue;
        }
        let path = (0..3).fold(request.clone(), |path, at| path.replace(&format!("node{}", at + 1), &cluster.name(at)));
        let answer = cluster.nodes[0].http().get(&format!("/api/{path}")).expect("an answer");
        if recorded["status"] != answer.status {
            wrong.push(format!("{state}, {request}: {} {}, recorded {recorded}", answer.status, answer.body));
            continue;
        }
        let ours: Value = serde_json::from_str(&names(answer.body)).expect("JSON");
        match (&ours, &recorded["body"]) {
            // The nodes are in the same order.
            (Value::Array(ours), Value::Array(recorded)) => {
                assert_eq!(ours.len(), recorded.len(), "{state}, {request}");
                for (at, (ours, recorded)) in ours.iter().zip(recorded).enumerate() {
                    compare_node(&format!("{state}, {request}[{at}]"), ours, recorded, &mut wrong);
                }
            }
            // These have to be equal as a whole.
            (ours, recorded) if request.starts_with("health") => {
                if ours != recorded {
                    wrong.push(format!("{state}, {request}: {ours}, recorded {recorded}"));
                }
            }
            (ours, recorded) if request.starts_with("nodes/") => {
                compare_node(&format!("{state}, {request}"), ours, recorded, &mut wrong);
            }
            (ours, recorded) => compare(&format!("{state}, {request}"), ours, recorded, &mut wrong),
        }
    }
    wrong
}

#[test]
fn nodes_are_shown_as_rabbitmq_shows_them() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster_formation.target_cluster_size_hint", 3));
    let check = "/api/health/checks/node-is-quorum-critical";
    declare(&cluster, 0, "checked");
    cluster.wait_until("it is replicated", |cluster| {
        shown(cluster, 0, "checked").is_some_and(|row| row["online"].as_array().is_some_and(|online| online.len() == 3))
    });
    cluster.wait_until("none is critical", |cluster| {
        cluster.nodes.iter().all(|node| node.http().get(check).is_ok_and(|answer| answer.status == 200))
    });
    let wrong = differences(&cluster, "all");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let nodes = cluster.nodes[0].http().get("/api/nodes").expect("an answer").json();
    let pids: BTreeSet<&str> =
        nodes.as_array().expect("a list").iter().filter_map(|row| row["os_pid"].as_str()).collect();
    assert_eq!(pids.len(), 3, "each tells its own figures: {nodes}");
    cluster.nodes[2].kill();
    cluster.wait_until("it is seen", |cluster| {
        let is_critical = cluster.nodes[0].http().get(check).is_ok_and(|answer| answer.status == 503);
        is_critical && cluster.members(&cluster.nodes[0]).len() == 2
    });
    let wrong = differences(&cluster, "one down");
    assert!(wrong.is_empty(), "{wrong:#?}");
    cluster.nodes[1].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 1);
    let wrong = differences(&cluster, "two down");
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (request, reason) in OTHERWISE_ALONE {
        cluster.wait_until(reason, |cluster| {
            cluster.nodes[0].http().get(&format!("/api/{request}")).is_ok_and(|answer| answer.status == 503)
        });
    }
}

/// The failure of a health check as it is recorded: the body, and the status.
fn recorded_failure(check: &str) -> (Value, u16) {
    let request = format!("GET /api/health/checks/{check}");
    let mut lines = ANSWERS.lines();
    loop {
        let line = lines.by_ref().find(|line| line.ends_with(&request));
        line.unwrap_or_else(|| panic!("no failure of {check} is recorded"));
        let (body, status) = (lines.next().expect("a body"), lines.next().expect("a status"));
        if status != "200" {
            return (serde_json::from_str(body).expect("JSON"), status.parse().expect("a status"));
        }
    }
}

#[test]
fn too_few_members_are_told_as_rabbitmq_tells_them() {
    let (recorded, status) = recorded_failure("reached-target-cluster-size");
    let check = |node: &Node| {
        let answer = node.http().get("/api/health/checks/reached-target-cluster-size").expect("an answer");
        (answer.json(), answer.status)
    };
    let hint = |options: Options| options.set("cluster_formation.target_cluster_size_hint", 3);
    // One of three pods, the first, which seeds the cluster at once.
    let (net, mut options) = Cluster::options(1);
    let options = options.remove(0).without("cluster_formation.classic_config.nodes.1");
    let options = options.set("cluster_formation.peer_discovery_backend", "k8s");
    let first = Node::start(hint(options).set("cluster_formation.k8s.seed_node", format!("leveret@{net}.1")));
    assert_eq!(check(&first), (recorded.clone(), status));
    // Two of three.
    let mut cluster = Cluster::start_with(2, hint);
    let mut of_two = recorded;
    let words = of_two["reason"].as_str().expect("a reason").replacen('1', "2", 1);
    (of_two["reason"], of_two["online"]) = (words.into(), 2.into());
    assert_eq!(check(&cluster.nodes[0]), (of_two.clone(), status));
    assert_eq!(cluster.tool("upgrade", 0, &["has_reached_target_cluster_size"]).0, 69);
    // Members count whether they run or not.
    cluster.nodes[1].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 1);
    assert_eq!(check(&cluster.nodes[0]), (of_two, status));
}
