//! Nodes that can't be members, and members without the others.

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::Wire;
use serde_json::json;

use crate::Cluster;

#[test]
fn a_minority_answers_and_refuses_changes_in_words() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster.metadata_timeout", 1000));
    // One of these was the leader, and another one a follower.
    for left in 0..3 {
        let (gone, other) = ((left + 1) % 3, (left + 2) % 3);
        cluster.nodes[gone].kill();
        cluster.nodes[other].kill();
        let http = cluster.nodes[left].http();
        let path = format!("/api/queues/%2F/q-{left}");
        let answer = http.put(&path, &json!({"durable": true})).expect("an answer");
        assert!(answer.status >= 400 && answer.body.contains("due to timeout"), "{} {}", answer.status, answer.body);
        assert_eq!(http.get("/api/overview").expect("an answer").status, 200);
        let unknown = http.as_user("nobody", "nothing").get("/api/whoami").expect("an answer");
        assert_eq!(unknown.status, 401);
        cluster.nodes[gone].restart();
        cluster.wait_until("a majority works", |cluster| {
            let answer = cluster.nodes[left].http().put(&path, &json!({"durable": true}));
            answer.is_ok_and(|answer| answer.status < 300)
        });
        cluster.nodes[other].restart();
        cluster.wait_until("all know it", |cluster| {
            (0..3).all(|at| cluster.nodes[at].http().get(&path).is_ok_and(|found| found.status == 200))
        });
    }
}

#[test]
fn all_members_restart_in_any_order() {
    let mut cluster = Cluster::start(3);
    let answer = cluster.nodes[0].http().put("/api/users/ops", &json!({"password": "s3cret-word", "tags": ""}));
    assert_eq!(answer.expect("an answer").status, 201);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        (0..3).for_each(|at| cluster.nodes[at].kill());
        for at in order {
            // It opens its ports whatever the others do.
            cluster.nodes[at].restart();
        }
        for at in 0..3 {
            // Its store may lack the last entries, which the others give it.
            cluster.wait_until("the user is known", |cluster| {
                cluster.nodes[at].http().get("/api/users/ops").is_ok_and(|user| user.status == 200)
            });
        }
        cluster.wait_until("changes work", |cluster| {
            let answer = cluster.nodes[order[2]].http().put("/api/vhosts/again", &json!({}));
            answer.is_ok_and(|answer| answer.status < 300)
        });
    }
}

#[test]
fn exclusive_queues_go_with_their_connection_everywhere() {
    let mut cluster = Cluster::start(2);
    let declare = |cluster: &Cluster, name: &str| {
        let mut wire = Wire::open(cluster.nodes[1].amqp());
        let _ = wire.declare_exclusive(1, name);
        wire
    };
    let wire = declare(&cluster, "mine");
    cluster.wait_until("it is known", |cluster| cluster.queues(0) == ["mine"]);
    drop(wire);
    cluster.wait_until("it is gone", |cluster| cluster.queues(0).is_empty() && cluster.queues(1).is_empty());
    let _wire = declare(&cluster, "again");
    cluster.wait_until("it is known", |cluster| cluster.queues(0) == ["again"]);
    cluster.nodes[1].kill();
    cluster.nodes[1].restart();
    cluster.wait_until("it ended with the start before", |cluster| cluster.queues(0).is_empty());
}

#[test]
fn another_cookie_is_refused_on_both_sides() {
    let mut cluster = Cluster::alone(1);
    let (_, options) = Cluster::options(1);
    let other = options.into_iter().next().expect("one").with_variable("RABBITMQ_ERLANG_COOKIE", "another-cookie");
    let other = other.without("cluster_formation.classic_config.nodes.1");
    let first = cluster.name(0);
    cluster.nodes.push(Node::start(other));
    let (exit, text) = cluster.ctl(1, &["join_cluster", &first]);
    assert!(exit != 0 && text.to_lowercase().contains("cookie"), "{exit} {text}");
    assert!(cluster.nodes[0].wait_for_line("cookie"), "{}", cluster.nodes[0].log());
    assert_eq!(cluster.members(&cluster.nodes[0]).len(), 1);
}

#[test]
fn a_node_with_data_of_its_own_goes_on_alone() {
    let (_, options) = Cluster::options(2);
    let options: Vec<Options> = options;
    let alone = (1..3).fold(options[0].clone(), |options, at| {
        options.without(&format!("cluster_formation.classic_config.nodes.{at}"))
    });
    let mut node = Node::start(alone);
    let answer = node.http().put("/api/queues/%2F/kept", &json!({"durable": true})).expect("an answer");
    assert_eq!(answer.status, 201);
    node.restart_with("cluster_formation.classic_config.nodes.1", "leveret@127.0.0.99");
    let queues = node.http().get("/api/queues/%2F/kept").expect("an answer");
    assert_eq!(queues.status, 200, "{}", queues.body);
}
