//! Members that join and leave by commands.

use leveret_tests::node::Node;
use leveret_tests::wire::Wire;

use crate::Cluster;

#[test]
fn a_node_joins_one_that_was_alone_and_both_have_the_same() {
    let cluster = Cluster::alone(2);
    let mut wire = Wire::open(cluster.nodes[0].amqp());
    let _ = wire.declare(1, "before", true);
    wire.close();
    cluster.well(1, &["join_cluster", &cluster.name(0)]);
    cluster.wait_until("both are members", |cluster| cluster.nodes.iter().all(|node| cluster.members(node).len() == 2));
    cluster.wait_until("the newcomer has what was there before", |cluster| cluster.queues(1) == ["before"]);
    assert_eq!(cluster.queues(0), ["before"], "the first member keeps what it had");
    let status = cluster.well(1, &["cluster_status"]);
    assert!(status.contains(&cluster.name(0)) && status.contains(&cluster.name(1)), "{status}");
    let (exit, text) = cluster.ctl(1, &["forget_cluster_node", &cluster.name(0)]);
    assert!(exit != 0 && text.contains("runs"), "{exit} {text}");
}

#[test]
fn the_steps_that_scripts_of_rabbitmq_take_work() {
    let cluster = Cluster::alone(2);
    for words in [&["stop_app"][..], &["reset"], &["join_cluster", &cluster.name(0)], &["start_app"]] {
        cluster.well(1, words);
    }
    cluster.wait_until("both are members", |cluster| cluster.nodes.iter().all(|node| cluster.members(node).len() == 2));
}

#[test]
fn a_member_that_is_gone_is_forgotten_with_its_queues() {
    let mut cluster = Cluster::start(3);
    let mut wire = Wire::open(cluster.nodes[2].amqp());
    let _ = wire.declare(1, "of-2", true);
    cluster.wait_until("it is known", |cluster| cluster.queues(0) == ["of-2"]);
    cluster.nodes[2].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[0]).len() == 2);
    cluster.well(0, &["forget_cluster_node", &cluster.name(2)]);
    for at in 0..2 {
        cluster.wait_until("its queue is gone", |cluster| cluster.queues(at).is_empty());
    }
    let status = cluster.well(1, &["cluster_status"]);
    assert!(!status.contains(&cluster.name(2)), "{status}");
}

#[test]
fn commands_that_count_members_count_those_of_the_cluster() {
    let mut cluster = Cluster::start_with(3, |options| options.set("cluster_formation.target_cluster_size_hint", 3));
    cluster.well(1, &["await_online_nodes", "3"]);
    cluster.well(1, &["set_cluster_name", "three"]);
    cluster.wait_until("each has the name", |cluster| {
        cluster
            .nodes
            .iter()
            .all(|node| node.http().get("/api/cluster-name").is_ok_and(|answer| answer.json()["name"] == "three"))
    });
    for command in ["has_reached_target_cluster_size", "await_online_quorum_plus_one"] {
        let (exit, text) = cluster.tool("upgrade", 1, &[command]);
        assert_eq!(exit, 0, "{command}: {text}");
    }
    cluster.nodes[2].kill();
    cluster.wait_until("it is seen", |cluster| cluster.members(&cluster.nodes[1]).len() == 2);
    let (exit, text) = cluster.ctl(1, &["await_online_nodes", "3", "-t", "1"]);
    assert!(exit != 0 && text.contains("Not enough nodes joined"), "{exit} {text}");
    let (exit, text) = cluster.tool("upgrade", 1, &["await_online_quorum_plus_one", "-t", "1"]);
    assert!(exit == 69 && text.contains("no quorum + 1 online replicas"), "{exit} {text}");
}

#[test]
fn a_node_whose_port_for_nodes_is_taken_goes_on_alone() {
    let (net, mut options) = Cluster::options(1);
    let named = options.remove(0).without("cluster_formation.classic_config.nodes.1");
    let other = named.clone().with_variable("RABBITMQ_NODENAME", format!("other@{net}.1"));
    let mut cluster = Cluster { net, nodes: vec![Node::start(named), Node::start(other)] };
    let second = &mut cluster.nodes[1];
    assert!(second.wait_for_line("other nodes can't reach this one"), "{}", second.log());
    assert!(second.log().contains("set cluster.listeners.tcp.default to another port"), "{}", second.log());
    assert_eq!(second.ports().cluster, 0);
    let mut wire = Wire::open(second.amqp());
    let _ = wire.declare(1, "own", true);
    assert_eq!(cluster.queues(1), ["own"]);
}
