//! The page's data: nodes with their links, and the node of everything that is shown.

use std::collections::BTreeSet;

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

/// All items of a list of pages as a node shows them.
fn paged(cluster: &Cluster, at: usize, path: &str, size: usize) -> Vec<Value> {
    let (mut items, mut number) = (Vec::new(), 0);
    loop {
        number += 1;
        let answer = cluster.nodes[at].http().get(&format!("{path}&page={number}&page_size={size}"));
        let page = answer.expect("an answer").json();
        let more = page["items"].as_array().unwrap_or_else(|| panic!("{path} {number}: {page}")).clone();
        assert_eq!(page["item_count"], more.len(), "{path} {number}");
        items.extend(more);
        if number >= page["page_count"].as_u64().expect("a number") {
            assert_eq!(page["filtered_count"], items.len(), "{path}");
            return items;
        }
    }
}

#[test]
fn pages_of_all_nodes_are_those_of_their_whole_list() {
    let mut cluster = Cluster::start(3);
    // Enough for pages behind which members are asked for samples.
    let count = 720;
    std::thread::scope(|scope| {
        for at in 0..3 {
            let mut wire = Wire::open(cluster.nodes[at].amqp());
            scope.spawn(move || {
                for number in (at..count).step_by(3) {
                    // The nodes' shares aren't spread evenly over the names.
                    let name = format!("{}-{number:04}", ["a", "b", "x"][if number % 7 == 0 { 0 } else { at }]);
                    wire.declare(1, &name, true);
                }
                wire.confirm_select(1);
                let mut sent = 0;
                for number in (at..count).step_by(21) {
                    let name = format!("{}-{number:04}", ["a", "b", "x"][if number % 7 == 0 { 0 } else { at }]);
                    (0..=number % 3).for_each(|_| wire.send(&publish(1, "", &name, b"m", false, true)));
                    sent += number as u64 % 3 + 1;
                }
                wire.confirms(sent);
                wire.close();
            });
        }
    });
    cluster.wait_until("all are known", |cluster| (0..3).all(|at| cluster.queues(at).len() == count));
    let whole = |cluster: &Cluster, at: usize, query: &str| rows(cluster, at, &format!("/api/queues?{query}"));
    let sorts = [
        "sort=name",
        "sort=name&sort_reverse=true",
        "sort=messages",
        "sort=messages&sort_reverse=true",
        "sort=node",
        "sort=message_stats.publish&sort_reverse=true",
        "sort=idle_since",
    ];
    for (number, sort) in sorts.into_iter().enumerate() {
        let query = format!("{sort}&columns=name,node,messages");
        let all = whole(&cluster, number % 3, &query);
        assert_eq!(all.len(), count, "{sort}");
        for size in [17, 100, 500] {
            if size == 17 && number > 1 {
                continue;
            }
            assert_eq!(paged(&cluster, (number + 1) % 3, &format!("/api/queues?{query}"), size), all, "{sort} {size}");
        }
    }
    // Without an order, they are in that of one node.
    let names = |rows: Vec<Value>| rows.into_iter().map(|row| row["name"].clone()).collect::<Vec<_>>();
    let all = names(whole(&cluster, 0, "columns=name"));
    assert!(all.is_sorted_by_key(|name| name.as_str().map(str::to_owned)));
    assert_eq!(names(paged(&cluster, 1, "/api/queues?columns=name", 100)), all);
    // Filters count before pages do.
    let named = |name: &Value, first: &str| name.as_str().is_some_and(|name| name.starts_with(first));
    let found = names(paged(&cluster, 2, "/api/queues?sort=name&name=%5EA-&use_regex=true", 50));
    assert_eq!(found, all.iter().filter(|name| named(name, "a-")).cloned().collect::<Vec<_>>());
    let beyond = cluster.nodes[0].http().get("/api/queues?page=90&page_size=100").expect("an answer");
    assert!(beyond.status == 400 && beyond.body.contains("page_out_of_range"), "{}", beyond.body);
    // A node that is gone is named, and its queues stay where they were.
    let name = cluster.name(2);
    cluster.nodes[2].kill();
    cluster.wait_until("it is named", |cluster| {
        let page = cluster.nodes[0].http().get("/api/queues?page=7&page_size=100&sort=name").expect("an answer").json();
        page["missing_nodes"] == json!([name])
    });
    assert_eq!(names(paged(&cluster, 0, "/api/queues?sort=name&columns=name", 100)), all);
}

#[test]
fn pages_while_a_node_dies_and_queues_come_and_go_are_whole() {
    let mut cluster = Cluster::start(3);
    for at in 0..3 {
        let mut wire = Wire::open(cluster.nodes[at].amqp());
        (0..200).for_each(|number| drop(wire.declare(1, &format!("kept-{number:03}-{at}"), true)));
        wire.close();
    }
    cluster.wait_until("all are known", |cluster| (0..3).all(|at| cluster.queues(at).len() == 600));
    let (first, other, dying) = (cluster.nodes[0].http(), cluster.nodes[1].http(), cluster.name(2));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let ended = || is_over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended() {
                // They are behind all others, or before them.
                for name in ["aaa", "zzz"] {
                    let path = format!("/api/queues/%2F/{name}");
                    assert_eq!(other.put(&path, &json!({"durable": true})).expect("an answer").status, 201);
                    assert_eq!(other.delete(&path).expect("an answer").status, 204);
                }
            }
        });
        let looker = scope.spawn(|| {
            let mut is_missing = false;
            while !is_missing {
                let page = first.get("/api/queues?page=6&page_size=100&sort=name").expect("an answer");
                let page = page.json();
                let names: Vec<&str> =
                    page["items"].as_array().expect("a page").iter().filter_map(|row| row["name"].as_str()).collect();
                let kept: BTreeSet<&&str> = names.iter().filter(|name| name.starts_with("kept-")).collect();
                assert!(names.len() >= 98 && kept.len() >= 97 && kept.len() + 1 >= names.len(), "{names:?}");
                is_missing = page["missing_nodes"] == json!([dying]);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        cluster.nodes[2].kill();
        looker.join().expect("all pages are whole");
    });
}
