//! A node whose clock is wrong: it is a member, both sides say so, and nothing is lost.

use std::time::{SystemTime, UNIX_EPOCH};

use leveret_tests::wire::{Wire, publish, publish_delayed, publish_expiring};
use serde_json::json;

use crate::Cluster;
use crate::elsewhere::{get, is_reached};

/// The key by which a node takes its machine's clock to be ahead.
const AHEAD: &str = "debug.clock_ahead_ms";
const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_clock_an_hour_off_is_said_on_both_sides() {
    let mut cluster = Cluster::start_each(3, |at, options| if at == 2 { options.set(AHEAD, HOUR_MS) } else { options });
    let names: Vec<String> = (0..3).map(|at| cluster.name(at)).collect();
    // Each side names the other one, the way, and what to do.
    for (at, other, way) in [(0, 2, "ahead of"), (1, 2, "ahead of"), (2, 0, "behind"), (2, 1, "behind")] {
        let node = &mut cluster.nodes[at];
        let begin = format!("the clock of node {} is ", names[other]);
        assert!(node.wait_for_line(&begin), "{at}, {other}: {}", node.log());
        let log = node.log();
        let line = log.lines().find(|line| line.contains(&begin)).expect("the line");
        assert!(line.contains(&format!("s {way} this node's")) && line.contains("set the clocks right"), "{line}");
        assert!(line.contains(" 3600.") || line.contains(" 3599."), "{line}");
    }
    cluster.wait_until("it is shown", |cluster| {
        let status = cluster.ctl(0, &["cluster_status"]).1;
        status.lines().any(|line| line.starts_with(&format!("Node: {}, ", names[2])) && line.ends_with(" s ahead"))
    });
    // Objects and messages of each node are there for the others.
    let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
    for (at, wire) in wires.iter_mut().enumerate() {
        let _ = wire.declare(1, &format!("of-{at}"), true);
    }
    cluster.wait_until("each knows all queues", |cluster| (0..3).all(|at| cluster.queues(at).len() == 3));
    for at in 0..3 {
        let publisher = &mut wires[(at + 1) % 3];
        publisher.confirm_select(1);
        publisher.send(&publish(1, "", &format!("of-{at}"), b"kept", false, true));
        publisher.confirms(1);
    }
    for at in 0..3 {
        let got = get(&mut wires[(at + 2) % 3], &format!("of-{at}")).expect("an answer");
        assert_eq!(got.map(|(_, body)| body).as_deref(), Some(&b"kept"[..]), "of node {at}");
    }
    // Once its clock is right, nothing is shown any more.
    drop(wires);
    cluster.nodes[2].restart_with(AHEAD, 0);
    cluster.wait_until("it is right", |cluster| {
        let (exit, status) = cluster.ctl(0, &["cluster_status"]);
        exit == 0 && cluster.members(&cluster.nodes[0]).len() == 3 && !status.contains(" s ahead")
    });
}

/// Messages of each node at queues of each, with times of their publisher's node, which the queue's one judges.
#[test]
fn messages_keep_their_times_where_a_clock_is_wrong() {
    const HALF_HOUR_MS: u64 = HOUR_MS / 2;
    for wrong in [0, 2] {
        let ahead = |at| if at == wrong { HOUR_MS } else { 0 };
        let mut cluster = Cluster::start_each(3, |at, options| options.set(AHEAD, ahead(at)));
        let told = "its time is set back by 3";
        assert!(cluster.nodes[wrong].wait_for_line(told), "{}", cluster.nodes[wrong].log());
        let mut wires: Vec<_> = cluster.nodes.iter().map(|node| Wire::open(node.amqp())).collect();
        let quorum = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
        for (at, wire) in wires.iter_mut().enumerate() {
            let _ = wire.declare(1, &format!("of-{at}"), true);
            let path = format!("/api/queues/%2F/placed-{at}");
            cluster.nodes[at].http().put(&path, &quorum).expect("an answer");
            wire.confirm_select(1);
        }
        cluster.wait_until("each knows all queues", |cluster| (0..3).all(|at| cluster.queues(at).len() == 6));
        for at in 0..3 {
            for name in ["of", "placed"] {
                cluster.wait_until("it is reached", |cluster| {
                    (0..3).all(|from| is_reached(cluster, from, &format!("{name}-{at}")))
                });
            }
        }
        for (from, wire) in wires.iter_mut().enumerate() {
            for queue in (0..3).flat_map(|at| [format!("of-{at}"), format!("placed-{at}")]) {
                wire.send(&publish_expiring(1, &queue, b"soon", 100));
                wire.send(&publish_expiring(1, &queue, format!("{from}").as_bytes(), HALF_HOUR_MS));
                wire.confirms(2);
            }
        }
        for queue in (0..3).flat_map(|at| [format!("of-{at}"), format!("placed-{at}")]) {
            cluster.wait_until("those that end soon are over", |_| wires[1].message_count(1, &queue) == 3);
            let mut bodies: Vec<_> = (0..3).map(|at| get(&mut wires[at], &queue).expect("an answer")).collect();
            bodies.sort();
            let bodies: Vec<_> = bodies.into_iter().map(|got| got.expect("a message").1).collect();
            assert_eq!(bodies, [b"0", b"1", b"2"], "{queue}");
        }
        // Nor does it take its own clock for right when it is asked what to hand out at a time.
        let soon = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as u64 + HALF_HOUR_MS;
        let queue = format!("placed-{wrong}");
        wires[wrong].send(&publish_delayed(1, &queue, b"later", soon));
        wires[wrong].confirms(1);
        assert_eq!(get(&mut wires[1], &queue).expect("an answer"), None);
    }
}
