//! Figures and alarms of other nodes, as operators see them on any node.

use std::thread;
use std::time::Duration;

use leveret_tests::node::Node;
use leveret_tests::wire::{Tuning, Wire, method};
use serde_json::{Value, json};

use crate::Cluster;
use crate::replicated::wait_until_whole;

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
fn an_alarm_is_shown_by_all_and_stops_its_own_publishers() {
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
    // A node that started last is heard of a moment after the alarm of another one.
    cluster.wait_until("the listeners of all are known", |cluster| {
        let status = cluster.well(0, &["cluster_status"]);
        (0..3).all(|at| status.contains(&format!("Node: {}, interface: 127.", cluster.name(at))))
    });
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
fn with_the_scope_cluster_an_alarm_stops_all_publishers() {
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
fn a_connection_is_shown_and_closed_by_any_node() {
    let cluster = Cluster::start(3);
    for by_user in [false, true] {
        let mut wire = Wire::open(cluster.nodes[2].amqp());
        let other = cluster.nodes[0].http();
        let listed = get(&cluster.nodes[0], "/api/connections").1;
        let name = listed[0]["name"].as_str().expect("a name").replace(' ', "%20").replace('>', "%3E");
        let path = format!("/api/connections/{name}");
        assert_eq!(get(&cluster.nodes[0], &path).1["node"], cluster.name(2));
        assert_eq!(get(&cluster.nodes[1], &format!("{path}/channels")).0, 200);
        assert_eq!(get(&cluster.nodes[1], &format!("/api/channels/{name}%20(1)")).1["number"], 1);
        let closes = if by_user { "/api/connections/username/guest" } else { &path };
        assert_eq!(other.delete(closes).expect("an answer").status, 204);
        assert_eq!(wire.next_frame().expect("a frame").method(), Some(method::CONNECTION_CLOSE));
        drop(wire);
        cluster.wait_until("it has gone", |cluster| get(&cluster.nodes[0], &path).0 == 404);
        assert_eq!(other.delete(&path).expect("an answer").status, 404);
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
        json!([{"readable_name": "rabbitmq_metadata", "name": "rabbitmq_metadata", "virtual_host": "(not applicable)", "type": "process"}])
    );
    let table = cluster.well(1, &["metadata_store_status", "-q", "--formatter", "csv"]);
    assert!(table.contains(&format!("\"{}\",\"nodedown\"", cluster.name(0))), "{table}");
}

#[test]
fn checks_name_the_quorum_queues_without_a_leader() {
    let mut cluster = Cluster::start(3);
    let body = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    for queue in ["orders-1", "orders-2"] {
        assert_eq!(
            cluster.nodes[0].http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer").status,
            201
        );
    }
    let check = |of: &str| format!("/api/health/checks/quorum-queues-without-elected-leaders/{of}");
    let command = ["check_for_quorum_queues_without_an_elected_leader", "orders-.*"];
    cluster.wait_until("all are led", |cluster| get(&cluster.nodes[2], &check("all-vhosts")).0 == 200);
    ["orders-1", "orders-2"].into_iter().for_each(|name| wait_until_whole(&cluster, 2, name));
    let (exit, text) = cluster.tool("diagnostics", 2, &command);
    assert!(exit == 0 && text.contains("reported all quorum queue as having responsive leader replicas"), "{text}");
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    let named = |name: &str| {
        let readable = format!("queue '{name}' in vhost '/'");
        json!({"readable_name": readable, "name": name, "virtual_host": "/", "type": "rabbit_quorum_queue"})
    };
    let failed = |queues: &[&str]| {
        let queues: Vec<Value> = queues.iter().map(|name| named(name)).collect();
        json!({"status": "failed", "reason": "Detected quorum queues without an elected leader", "queues": queues})
    };
    cluster.wait_until("none is led", |cluster| {
        get(&cluster.nodes[2], &check("all-vhosts")) == (503, failed(&["orders-1", "orders-2"]))
    });
    for (of, queues) in [("vhost/%2F", &["orders-1", "orders-2"][..]), ("all-vhosts/pattern/-2$", &["orders-2"])] {
        assert_eq!(get(&cluster.nodes[2], &check(of)), (503, failed(queues)), "{of}");
    }
    assert_eq!(get(&cluster.nodes[2], &check("vhost/%2F/pattern/%5Ebills")), (200, json!({"status": "ok"})));
    assert_eq!(get(&cluster.nodes[2], &check("vhost/%2F/pattern/%5B")).0, 400);
    let (exit, text) = cluster.tool("diagnostics", 2, &command);
    let line = "queue 'orders-2' in vhost '/' does not have an elected leader replica or the replica was unresponsive";
    assert!(exit == 69 && text.contains(line), "{text}");
    let (_, critical) = get(&cluster.nodes[2], "/api/health/checks/node-is-quorum-critical");
    let names: Vec<&str> = names(&critical["queues"]);
    assert!(["orders-1", "orders-2", "rabbitmq_metadata"].iter().all(|name| names.contains(name)), "{names:?}");
    cluster.nodes[0].restart();
    cluster.wait_until("a majority leads them", |cluster| get(&cluster.nodes[2], &check("all-vhosts")).0 == 200);
}

#[test]
fn settings_that_differ_between_nodes_are_named() {
    let cluster = Cluster::start_each(2, |at, options| options.set("heartbeat", 30 + at));
    cluster.wait_until("the key is named", |cluster| {
        let status = cluster.well(0, &["cluster_status"]);
        status.ends_with("Settings that differ between nodes\n\nheartbeat\n")
    });
}

/// The names in a list.
fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|row| row["name"].as_str().expect("a name")).collect()
}

#[test]
fn commands_reach_any_member_by_way_of_the_local_one() {
    let mut cluster = Cluster::start(3);
    let (second, third) = (cluster.name(1), cluster.name(2));
    let status = cluster.well(0, &["-n", &second, "status"]);
    assert!(status.contains(&format!("Status of node {second}")), "{status}");
    cluster.well(0, &["-n", &second, "suspend_listeners"]);
    cluster.wait_until("its listeners are closed", |cluster| connect_refused(&cluster.nodes[1]));
    cluster.well(0, &["-n", &second, "resume_listeners"]);
    let (exit, text) = cluster.ctl(0, &["-n", "leveret@nowhere", "status"]);
    assert!(exit != 0 && text.contains("knows no such member"), "{exit} {text}");
    let peers = cluster.nodes[0].http().get("/api/cluster/peers").expect("an answer").json();
    assert_eq!(peers, json!([cluster.name(0), second, third]));
    cluster.nodes[2].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    let (exit, text) = cluster.ctl(0, &["-n", &third, "status"]);
    assert!(exit != 0 && text.contains("was asked to reach") && text.contains("can't be asked"), "{exit} {text}");
}

/// Whether the port for clients is closed.
fn connect_refused(node: &Node) -> bool {
    std::net::TcpStream::connect(node.amqp()).is_err()
}

#[test]
fn a_request_about_a_queue_is_answered_by_its_node() {
    let mut cluster = Cluster::start(3);
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    let _ = wire.declare(1, "here", true);
    let home = cluster.name(0);
    let message = json!({"properties": {}, "routing_key": "here", "payload": "one", "payload_encoding": "string"});
    let answer = cluster.nodes[0].http().post("/api/exchanges/%2F/amq.default/publish", &message).expect("an answer");
    assert!(answer.body.contains("true"), "{}", answer.body);
    cluster.wait_until("it is known", |cluster| cluster.queues(2) == ["here"]);
    let path = "/api/queues/%2F/here";
    cluster.wait_until("its node is asked", |cluster| get(&cluster.nodes[2], path).1["messages"] == 1);
    let (_, queue) = get(&cluster.nodes[2], path);
    assert_eq!((&queue["node"], &queue["state"]), (&json!(home), &json!("running")));
    let take = json!({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"});
    let taken = cluster.nodes[1].http().post(&format!("{path}/get"), &take).expect("an answer");
    assert_eq!((taken.status, taken.json()[0]["payload"].clone()), (200, json!("one")), "{}", taken.body);
    let missing = cluster.nodes[1].http().delete("/api/queues/%2F/here?if-empty=true").expect("an answer");
    assert_eq!(missing.status, 400, "{}", missing.body);
    let purged = cluster.nodes[1].http().delete(&format!("{path}/contents")).expect("an answer");
    assert_eq!(purged.status, 204, "{}", purged.body);
    // Its node is gone: what is known is shown, and nothing is taken.
    drop(wire);
    cluster.nodes[0].kill();
    cluster.wait_until("it is down", |cluster| get(&cluster.nodes[2], path).1["state"] == "down");
    assert_eq!(get(&cluster.nodes[2], path).1["node"], json!(home));
    let taken = cluster.nodes[2].http().post(&format!("{path}/get"), &take).expect("an answer");
    assert_eq!(taken.status, 503, "{}", taken.body);
    assert!(taken.body.contains(&home), "{}", taken.body);
}

#[test]
fn lists_have_the_rows_of_all_nodes_and_name_missing_ones() {
    let mut cluster = Cluster::start(3);
    let mut wires = Vec::new();
    for at in 0..3 {
        let mut wire = Wire::open(cluster.nodes[at].amqp());
        let _ = wire.declare(1, &format!("of-{at}"), true);
        wires.push(wire);
    }
    for at in 0..3 {
        let message =
            json!({"properties": {}, "routing_key": format!("of-{at}"), "payload": "x", "payload_encoding": "string"});
        for _ in 0..=at {
            let answer = cluster.nodes[at].http().post("/api/exchanges/%2F/amq.default/publish", &message);
            assert_eq!(answer.expect("an answer").status, 200);
        }
    }
    let page = "/api/queues?page=1&page_size=2&sort=messages&sort_reverse=true&columns=messages";
    cluster.wait_until("figures of all are known", |cluster| {
        get(&cluster.nodes[1], page).1["items"] == json!([{"messages": 3}, {"messages": 2}])
    });
    let (_, first) = get(&cluster.nodes[1], page);
    assert_eq!((&first["total_count"], &first["page_count"], &first["item_count"]), (&json!(3), &json!(2), &json!(2)));
    let (_, last) = get(&cluster.nodes[1], "/api/queues?page=2&page_size=2");
    assert_eq!(names(&last["items"]), ["of-2"]);
    let (_, all) = get(&cluster.nodes[0], "/api/queues?sort=name");
    assert_eq!(names(&all), ["of-0", "of-1", "of-2"]);
    let nodes: Vec<&Value> = all.as_array().expect("a list").iter().map(|row| &row["node"]).collect();
    assert_eq!(nodes, [&json!(cluster.name(0)), &json!(cluster.name(1)), &json!(cluster.name(2))]);
    for list in ["/api/connections", "/api/channels"] {
        cluster.wait_until("rows of all", |cluster| {
            get(&cluster.nodes[2], list).1.as_array().is_some_and(|rows| rows.len() == 3)
        });
    }
    cluster.nodes[0].kill();
    cluster.wait_until("it is named", |cluster| {
        get(&cluster.nodes[2], "/api/queues?page=1").1["missing_nodes"] == json!([cluster.name(0)])
    });
    let (_, all) = get(&cluster.nodes[2], "/api/queues?sort=name");
    assert_eq!((names(&all), &all[0]["state"]), (vec!["of-0", "of-1", "of-2"], &json!("down")));
}

#[test]
fn definitions_come_with_the_node_that_completes_the_cluster() {
    let folder = leveret_tests::node::new_directory();
    let file = folder.path().join("definitions.json");
    let definitions = json!({
        "vhosts": [{"name": "/"}, {"name": "loaded"}],
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    });
    std::fs::write(&file, definitions.to_string()).expect("is written");
    let cluster = Cluster::start_with(2, |options| {
        options.set("load_definitions", file.display()).set("cluster_formation.target_cluster_size_hint", 2)
    });
    for node in &cluster.nodes {
        cluster.wait_until("they are there", |_| {
            node.http().get("/api/vhosts/loaded").is_ok_and(|answer| answer.status == 200)
        });
    }
}

#[test]
fn metrics_show_the_metadatas_replica_and_the_links() {
    let cluster = Cluster::start(2);
    let page = |at: usize| cluster.nodes[at].prometheus().get("/metrics").expect("an answer").body;
    let is_known = |page: &str| page.contains("leveret_cluster_members_reachable 2\n");
    cluster.wait_until("each reaches the other", |_| (0..2).all(|at| is_known(&page(at))));
    let pages = [page(0), page(1)];
    let links = "leveret_cluster_links{kind=\"control\"} 1\n";
    for sample in ["leveret_cluster_members 2\n", links, "rabbitmq_raft_term{placement=\"0\"} "] {
        assert!(pages.iter().all(|page| page.contains(sample)), "{sample}");
    }
    assert_eq!(pages.iter().filter(|page| page.contains("leveret_cluster_leads 1\n")).count(), 1);
    let of_objects = cluster.nodes[0].prometheus().get("/metrics/per-object").expect("an answer").body;
    assert_eq!(of_objects.matches("# TYPE rabbitmq_raft_commit_index").count(), 1);
    assert!(of_objects.contains("rabbitmq_raft_commit_index{placement=\"0\"}"));
}

#[test]
fn a_limit_of_queues_counts_those_of_all_nodes() {
    let cluster = Cluster::start(3);
    let limit =
        cluster.nodes[0].http().put("/api/vhost-limits/%2F/max-queues", &json!({"value": 2})).expect("an answer");
    assert!(limit.status < 300, "{}", limit.body);
    let declare = |at: usize| {
        let answer = cluster.nodes[at].http().put(&format!("/api/queues/%2F/of-{at}"), &json!({"durable": true}));
        answer.expect("an answer")
    };
    for at in 0..2 {
        assert_eq!(declare(at).status, 201);
    }
    let refused = declare(2);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("queue limit in vhost '/' (2) is reached"), "{}", refused.body);
}
