//! A cluster of three nodes.

use leveret_tests::wire::Wire;
use serde_json::json;

use crate::Cluster;

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
}
