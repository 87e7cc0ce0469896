//! Members that join and leave by commands.

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
