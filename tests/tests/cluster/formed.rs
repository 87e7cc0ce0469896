//! A cluster of three nodes.

use leveret_tests::wire::{Wire, Writer, method, method_frame};
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
fn a_queue_of_another_node_is_refused_in_words() {
    let cluster = Cluster::start(2);
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    let _ = wire.declare(1, "here", true);
    cluster.wait_until("it is known", |cluster| cluster.queues(1) == ["here"]);
    let mut other = Wire::open(cluster.nodes[1].amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("here").put_octet(0);
    other.send(&method_frame(1, method::BASIC_GET, &arguments));
    let refused = other.next_method(method::BASIC_GET_EMPTY).expect_err("it is on another node");
    let (code, text) = refused.reason().expect("the channel is closed");
    let expected =
        format!("home node '{}' of durable queue 'here' in vhost '/' is down or inaccessible", cluster.name(0));
    assert!(code == 404 && text.contains(&expected), "{code} {text}");
}
