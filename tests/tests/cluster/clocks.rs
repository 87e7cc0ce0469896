//! A node whose clock is wrong: it is a member, both sides say so, and nothing is lost.

use leveret_tests::wire::{Wire, publish};

use crate::Cluster;
use crate::elsewhere::get;

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
