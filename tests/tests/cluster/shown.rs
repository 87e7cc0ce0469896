//! The page's data: nodes with their links, and the node of everything that is shown.

use leveret_tests::wire::{Wire, publish};
use serde_json::{Value, json};

use crate::Cluster;

fn rows(cluster: &Cluster, at: usize, path: &str) -> Vec<Value> {
    let answer = cluster.nodes[at].http().get(path).expect("an answer");
    answer.json().as_array().unwrap_or_else(|| panic!("{path}: {}", answer.body)).clone()
}

fn named<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} in {rows:?}"))
}

#[test]
fn links_between_nodes_are_shown_with_traffic_and_reasons() {
    let mut cluster = Cluster::start(3);
    let kinds = |link: &Value| -> Vec<String> {
        let up = link["kinds"].as_array().into_iter().flatten().filter(|kind| kind["up"].as_u64() > Some(0));
        up.map(|kind| kind["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    let all = ["control", "append", "bulk", "data"];
    cluster.wait_until("all links stand", |cluster| {
        (0..3).all(|at| {
            let rows = rows(cluster, 0, "/api/nodes");
            let links = named(&rows, &cluster.name(at))["links"].as_array().cloned().unwrap_or_default();
            links.len() == 2 && links.iter().all(|link| link["state"] == "up" && kinds(link) == all)
        })
    });
    // Traffic of clients over nodes counts: publishes of the second node to a queue of the first.
    Wire::open(cluster.nodes[0].amqp()).declare(1, "q", true);
    cluster.wait_until("it is known", |cluster| cluster.queues(1) == ["q"]);
    let mut wire = Wire::open(cluster.nodes[1].amqp());
    wire.confirm_select(1);
    (0..10).for_each(|_| wire.send(&publish(1, "", "q", &[7; 10_000], false, true)));
    wire.confirms(10);
    let found = rows(&cluster, 2, "/api/nodes");
    let of_data = |at: usize, to: usize, key: &str| {
        let links = named(&found, &cluster.name(at))["links"].as_array().expect("links").clone();
        let kinds = named(&links, &cluster.name(to))["kinds"].as_array().expect("kinds").clone();
        kinds.iter().find(|kind| kind["kind"] == "data").and_then(|kind| kind[key].as_u64()).expect("a number")
    };
    assert!(of_data(1, 0, "send_bytes") > 100_000 && of_data(0, 1, "recv_bytes") > 100_000);
    assert!(of_data(2, 0, "send_bytes") < 100_000);
    let link = &named(&found, &cluster.name(0))["cluster_links"][0];
    assert_eq!(link["name"], cluster.name(1));
    assert!(link["stats"]["send_bytes"].as_u64() > Some(0) && link["sock_addr"].is_string(), "{link}");
    let name = cluster.name(2);
    cluster.nodes[2].kill();
    let down = |cluster: &Cluster| {
        let rows = rows(cluster, 0, "/api/nodes");
        let links = named(&rows, &cluster.name(0))["links"].as_array().expect("links").clone();
        (named(&rows, &name).clone(), named(&links, &name).clone())
    };
    cluster.wait_until("its links are down", |cluster| {
        let (row, link) = down(cluster);
        link["state"] == "down" && row["reason"].is_string()
    });
    let (row, link) = down(&cluster);
    assert_eq!(row["running"], false);
    for reason in [&row["reason"], &link["reason"]] {
        assert!(reason.as_str().is_some_and(|reason| reason.contains(&name)), "{reason}");
    }
    let found = rows(&cluster, 1, "/api/nodes");
    assert_eq!(named(&found, &cluster.name(0))["cluster_links"].as_array().map(Vec::len), Some(1));
}

#[test]
fn waits_of_all_nodes_are_shown_with_their_nodes() {
    let cluster = Cluster::start(2);
    for at in 0..2 {
        let mut wire = Wire::open(cluster.nodes[at].amqp());
        wire.declare(1, &format!("q{at}"), true);
        wire.confirm_select(1);
        wire.send(&publish(1, "", &format!("q{at}"), b"m", false, true));
        wire.confirms(1);
    }
    let _wires: Vec<Wire> = (0..2).map(|at| Wire::open(cluster.nodes[at].amqp())).collect();
    for at in 0..2 {
        let waiting = |cluster: &Cluster| {
            let answer = cluster.nodes[at].http().get("/api/attention?why=no_consumers").expect("an answer").json();
            let items = answer["items"].as_array().expect("a list").iter();
            let mut items: Vec<Value> = items.map(|item| json!([item["name"], item["node"]])).collect();
            items.sort_by_key(Value::to_string);
            (items, answer["total_count"].clone())
        };
        let expected = (0..2).map(|at| json!([format!("q{at}"), cluster.name(at)])).collect::<Vec<_>>();
        cluster.wait_until("both are shown", |cluster| waiting(cluster) == (expected.clone(), json!(2)));
        let queues = rows(&cluster, at, "/api/queues");
        let connections = rows(&cluster, at, "/api/connections");
        for of in 0..2 {
            assert_eq!(named(&queues, &format!("q{of}"))["node"], cluster.name(of));
            assert!(connections.iter().any(|row| row["node"] == cluster.name(of)), "{connections:?}");
        }
    }
}
