//! A cluster of three nodes.

use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::{Wire, publish};
use serde_json::json;

use crate::Cluster;
use crate::elsewhere::get;

#[test]
fn an_object_declared_anywhere_is_everywhere_and_survives() {
    let mut cluster = Cluster::start(3);
    for at in 0..3 {
        let mut wire = Wire::open(cluster.nodes[at].amqp());
        let _ = wire.declare(1, &format!("of-{at}"), true);
        wire.close();
    }
    let http = cluster.nodes[1].http();
    let answer = http.put("/api/users/ops", &json!({"password": "s3cret-word", "tags": "management"}));
    assert_eq!(answer.expect("an answer").status, 201);
    let expected = ["of-0", "of-1", "of-2"];
    for at in 0..3 {
        cluster.wait_until("all queues are known", |cluster| cluster.queues(at) == expected);
        let user = cluster.nodes[at].http().get("/api/users/ops").expect("an answer");
        assert_eq!(user.status, 200, "node {at}: {}", user.body);
    }
    // The leader, whichever it is, goes.
    for at in 0..3 {
        cluster.nodes[at].kill();
        let other = (at + 1) % 3;
        let path = format!("/api/queues/%2F/while-{at}-is-gone");
        let answer = cluster.nodes[other].http().put(&path, &json!({"durable": true})).expect("an answer");
        assert_eq!(answer.status, 201, "without node {at}: {}", answer.body);
        cluster.nodes[at].restart();
    }
    for at in 0..3 {
        cluster.wait_until("all queues are known", |cluster| cluster.queues(at).len() == 6);
    }
}

#[test]
fn a_lookup_on_another_node_finds_what_was_just_declared() {
    let cluster = Cluster::start(3);
    for number in 0..60 {
        let (at, other) = (number % 3, (number + 1) % 3);
        let path = format!("/api/queues/%2F/q-{number}");
        let made = cluster.nodes[at].http().put(&path, &json!({"durable": true})).expect("an answer");
        assert_eq!(made.status, 201, "{number}");
        let found = cluster.nodes[other].http().get(&path).expect("an answer");
        assert_eq!(found.status, 200, "node {other} is asked for what node {at} has declared");
        let vhost = format!("/api/vhosts/v-{number}");
        assert_eq!(cluster.nodes[at].http().put(&vhost, &json!({})).expect("an answer").status, 201);
        let found = cluster.nodes[other].http().get(&vhost).expect("an answer");
        assert_eq!(found.status, 200, "node {other} is asked for a vhost of node {at}");
    }
    let missing = cluster.nodes[1].http().get("/api/queues/%2F/none").expect("an answer");
    assert_eq!(missing.status, 404);

    let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
    let mut senders: Vec<_> = cluster.nodes.iter().map(|node| Amqp10::open(node.amqp())).collect();
    for number in 0..60 {
        let (at, other) = (number % 3, (number + 1) % 3);
        let name = format!("of-amqp-{number}");
        let _ = wires[at].declare(1, &name, true);
        let handle = 1 + number as u32;
        if number % 2 == 0 {
            assert_eq!(wires[other].message_count(1, &name), 0);
        } else {
            senders[other].sender(handle, &format!("/queues/{name}"));
        }
    }
    let refused = get(&mut wires[0], "none").expect_err("there is none");
    assert_eq!(refused.reason().map(|(code, _)| code), Some(404));
}

#[test]
fn balanced_queues_are_used_from_any_node() {
    let cluster = Cluster::start_with(3, |options| options.set("queue_leader_locator", "balanced"));
    let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
    for number in 0..9 {
        let _ = wires[0].declare(1, &format!("q-{number}"), true);
    }
    let listed = cluster.nodes[0].http().get("/api/queues?columns=name,node").expect("an answer").json();
    let mut nodes: Vec<_> = listed.as_array().expect("a list").iter().map(|row| row["node"].clone()).collect();
    nodes.sort_by_key(|node| node.as_str().map(str::to_owned));
    let expected: Vec<_> = (0..9).map(|at| json!(cluster.name(at / 3))).collect();
    assert_eq!(nodes, expected, "three on each");
    for (number, wire) in (0..9).map(|number| (number, number % 3)) {
        let (publisher, name) = (&mut wires[wire], format!("q-{number}"));
        if number < 3 {
            publisher.confirm_select(1);
        }
        publisher.send(&publish(1, "", &name, name.as_bytes(), false, true));
        publisher.confirms(1);
        let mut consumer = Wire::open(cluster.nodes[(wire + 1) % 3].amqp());
        consumer.consume(1, &name, false);
        let (tag, _, body) = consumer.delivery();
        assert_eq!(body, name.as_bytes());
        consumer.ack(1, tag, false);
    }
}

#[test]
fn pods_form_a_cluster_and_warn_of_one_that_is_gone() {
    let mut cluster = Cluster::start_each(3, |_, options| {
        let list = |at| format!("cluster_formation.classic_config.nodes.{at}");
        let seed = options.value(&list(1)).expect("the first node").to_owned();
        let options = (1..=3).fold(options, |options, at| options.without(&list(at)));
        options
            .set("cluster_formation.peer_discovery_backend", "k8s")
            .set("cluster_formation.target_cluster_size_hint", 3)
            .set("cluster_formation.node_cleanup.interval", 1)
            .set("cluster_formation.k8s.seed_node", seed)
    });
    assert!(cluster.nodes[0].wait_for_line("the one that seeds the cluster"), "{}", cluster.nodes[0].log());
    cluster.nodes[2].kill();
    let warning = format!("Peer discovery: node {} is unreachable", cluster.name(2));
    assert!(cluster.nodes[0].wait_for_line(&warning), "{}", cluster.nodes[0].log());
}
