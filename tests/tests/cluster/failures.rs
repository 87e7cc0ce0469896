//! Nodes that can't be members, and members without the others.

use leveret_tests::node::{Node, Options};
use leveret_tests::random::Random;
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
        let unknown = http.as_user("nobody", "never-given-to-anybody").get("/api/whoami").expect("an answer");
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

/// Restarts all members so many times: some end by a kill and some in order, and they start in any order, each beside those before it.
/// After each, every member has what was agreed on, and takes changes.
fn restart_all(times: usize, seed: u64) {
    let mut cluster = Cluster::start(3);
    let mut random = Random::new(seed);
    for time in 0..times {
        let vhost = format!("/api/vhosts/v-{time}");
        let at = random.below(3);
        let answer = cluster.nodes[at].http().put(&vhost, &json!({})).expect("an answer");
        assert_eq!(answer.status, 201, "restart {time}: {}", answer.body);
        let mut order = vec![0, 1, 2];
        for at in [order.remove(random.below(3)), order.remove(random.below(2)), order[0]] {
            if random.below(3) == 0 {
                assert_eq!(cluster.nodes[at].terminate().code(), Some(0), "restart {time}, node {at}");
            } else {
                cluster.nodes[at].kill();
            }
        }
        let mut order = vec![0, 1, 2];
        for at in [order.remove(random.below(3)), order.remove(random.below(2)), order[0]] {
            // It opens its ports whatever the others do.
            cluster.nodes[at].restart();
        }
        for at in 0..3 {
            // Its store may lack the last entries, which the others give it.
            cluster.wait_until("what was agreed on is known", |cluster| {
                cluster.nodes[at].http().get(&vhost).is_ok_and(|found| found.status == 200)
            });
        }
        cluster.wait_until("changes work", |cluster| {
            let gone = cluster.nodes[time % 3].http().delete(&vhost);
            gone.is_ok_and(|answer| answer.status == 204 || answer.status == 404)
        });
    }
}

#[test]
fn all_members_restart_in_any_order() {
    restart_all(4, 1);
}

/// The number of files of entries of a node.
fn entry_files(node: &Node) -> usize {
    let files = std::fs::read_dir(node.directory().join("store")).expect("a store");
    let is_one = |name: &str| name.starts_with("raft-");
    files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_str().is_some_and(is_one))).count()
}

#[test]
fn restarts_leave_no_more_files_of_entries() {
    let mut cluster = Cluster::start(2);
    // Each start begins a file of its own.
    for _ in 0..12 {
        cluster.nodes.iter_mut().for_each(Node::kill);
        cluster.nodes.iter_mut().for_each(Node::restart);
        cluster.wait_until("they are members", |cluster| {
            cluster.nodes.iter().all(|node| cluster.members(node).len() == 2)
        });
    }
    // The ring, the reserve, and files with the few entries that are kept.
    cluster.wait_until("old files are gone", |cluster| cluster.nodes.iter().all(|node| entry_files(node) <= 9));
    let answer = cluster.nodes[1].http().put("/api/vhosts/after", &json!({})).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[test]
#[ignore = "300 restarts of three nodes: make cluster-restarts"]
fn three_hundred_restarts_end_with_one_cluster() {
    restart_all(300, 54);
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

#[test]
fn a_large_import_is_made_in_parts_and_refused_as_a_whole() {
    // Slow machines take long for a part.
    let cluster = Cluster::start_with(3, |options| options.set("cluster.metadata_timeout", 60_000));
    let applied = |cluster: &Cluster, at: usize| {
        let status = cluster.nodes[at].http().get("/api/cluster/status").expect("an answer").json();
        status["applied"].as_u64().expect("a number")
    };
    let queue =
        |name: String, vhost: &str| json!({"name": name, "vhost": vhost, "durable": true, "auto_delete": false});
    let definitions = |prefix: &str, last: &str| {
        let mut queues: Vec<_> = (0..4_200).map(|number| queue(format!("{prefix}-{number}"), "/")).collect();
        queues.push(queue("last".to_owned(), last));
        json!({"queues": queues})
    };
    let path = "/api/definitions";
    for at in 0..3 {
        let refused = cluster.nodes[at].http().post(path, &definitions("none", "nowhere")).expect("an answer");
        assert_eq!(refused.status, 400, "node {at}: {}", refused.body);
        let before = applied(&cluster, at);
        let answer = cluster.nodes[at].http().post(path, &definitions(&format!("of-{at}"), "/")).expect("an answer");
        assert_eq!(answer.status, 204, "node {at}: {}", answer.body);
        // It is shown with a delay.
        cluster.wait_until("it took several entries", |cluster| applied(cluster, at) >= before + 2);
    }
    cluster.wait_until("all have all queues", |cluster| {
        let page = "/api/queues?page=1&page_size=1&columns=name";
        let count = |at: usize| cluster.nodes[at].http().get(page).expect("an answer").json()["total_count"].as_u64();
        (0..3).all(|at| count(at) == Some(12_601))
    });
}
