//! A seed of faults against a cluster under load.

use std::collections::BTreeMap;

use super::executor::{self, below};
use super::world::Cluster;

/// The faults of a seed, by name.
pub type Faults = BTreeMap<&'static str, u64>;

/// Most nodes that are down at once, so that a majority stays: beyond that only what survives is of interest.
fn down(cluster: &Cluster, nodes: u64) -> u64 {
    (1..=nodes).filter(|node| !cluster.is_alive(*node)).count() as u64
}

/// Runs a cluster of three or five nodes, and two that are no members yet, with two placements through faults, judges it after each, and
/// lets it settle.
///
/// # Errors
/// A promise that was broken.
pub fn run_seed(seed: u64, prepare: impl FnOnce(&Cluster)) -> Result<Faults, String> {
    let members = if seed % 4 == 3 { 5 } else { 3 };
    let cluster = Cluster::with_spares(seed, members, 2, 2);
    let nodes = members + 2;
    cluster.check_answers();
    prepare(&cluster);
    let mut faults = Faults::new();
    cluster.run(1500);
    for name in 0..4 {
        cluster.client(name, 400, 10, 3000);
    }
    for _ in 0..14 {
        let name = strike(&cluster, nodes, members);
        *faults.entry(name).or_default() += 1;
        cluster.run(50 + below(900));
        cluster.judge().map_err(|text| format!("seed {seed}, after {name}: {text}"))?;
    }
    mend(&cluster, nodes);
    for placement in cluster.placements() {
        let voters = (1..=members).collect();
        cluster.make_voters(*placement, &voters);
    }
    cluster.settle(60).map_err(|text| format!("seed {seed}: {text}"))?;
    cluster.judge().map_err(|text| format!("seed {seed}, at the end: {text}"))?;
    let stopped = cluster.stopped();
    if !stopped.is_empty() {
        return Err(format!("seed {seed}: {stopped:?}"));
    }
    faults.insert("polls", super::executor::polls());
    faults.insert("simulated milliseconds", super::executor::now() / 1_000_000);
    *faults.entry("acknowledged commands").or_default() += cluster.acknowledged().len() as u64;
    *faults.entry("replicas under a new id").or_default() += cluster.generations();
    Ok(faults)
}

/// Mends links and disks, and starts what is down or has a disk with wrong bits.
fn mend(cluster: &Cluster, nodes: u64) {
    cluster.links(crate::net::LinkFaults::heal);
    for node in 1..=nodes {
        cluster.mend_disk(node);
        if cluster.is_hit(node) && cluster.is_alive(node) {
            cluster.kill(node);
        }
        if !cluster.is_alive(node) {
            cluster.start(node);
        }
    }
    for placement in cluster.placements() {
        let voters = cluster.voters(*placement);
        if !voters.is_empty() && !cluster.is_whole() {
            cluster.make_voters(*placement, &voters);
        }
    }
}

fn strike(cluster: &Cluster, nodes: u64, members: u64) -> &'static str {
    let node = 1 + below(nodes);
    let other = 1 + below(nodes);
    let placement = cluster.placements()[below(2) as usize];
    let is_calm = down(cluster, nodes) == 0;
    match below(22) {
        0 if is_calm => {
            cluster.kill(node);
            "kill"
        }
        1 | 2 if is_calm => {
            cluster.cut_power(node);
            "power cut"
        }
        3 => {
            for node in (1..=nodes).filter(|node| cluster.is_alive(*node)).collect::<Vec<_>>() {
                cluster.cut_power(node);
            }
            "power cut of all"
        }
        4 => {
            cluster.pause(node, 100 + below(1500));
            "pause"
        }
        5 => {
            cluster.links(|links| links.isolate(node, 1..=nodes));
            "isolation"
        }
        6 if node != other => {
            cluster.links(|links| links.cut(node, other));
            "cut one way"
        }
        7 => {
            cluster.links(|links| (links.loss, links.delay) = (below(200), below(20_000_000)));
            "loss and delay"
        }
        19 if node != other => {
            let period = 10_000_000 + below(2_000_000_000);
            cluster.links(|links| links.flap(node, other, period, executor::now()));
            "flapping link"
        }
        8 => {
            cluster.slow_disk(node, 1000 + below(100_000));
            "slow disk"
        }
        9 => {
            cluster.step_clock(node, below(7_200_000) as i64 - 3_600_000);
            "clock step"
        }
        10 | 11 if is_calm && cluster.is_whole() && cluster.change_bits(node) => "wrong bits",
        12 => {
            cluster.fill_disk(node);
            "full disk"
        }
        13 | 14 if is_calm => {
            cluster.fail_disk(node);
            "failed sync or write"
        }
        15 => {
            cluster.make_learner(placement, node);
            "learner added"
        }
        16 | 17 => {
            // So many nodes as before, of which one or two are others.
            let skipped = [node, other];
            let voters = (1..=nodes).filter(|node| !skipped.contains(node)).take(members as usize).collect();
            cluster.make_voters(placement, &voters);
            "members replaced"
        }
        // With two voters, damage of one would leave no majority.
        18 if cluster.voters(placement).len() > 3 => {
            let voters = cluster.voters(placement).into_iter().filter(|voter| *voter != node).collect();
            cluster.make_voters(placement, &voters);
            "member removed"
        }
        _ => {
            mend(cluster, nodes);
            "mending"
        }
    }
}
