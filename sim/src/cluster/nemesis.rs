//! A seed of faults against a cluster under load.

use std::collections::BTreeMap;

use super::executor::below;
use super::world::Cluster;

/// The faults of a seed, by name.
pub type Faults = BTreeMap<&'static str, u64>;

/// Most nodes that are down at once, so that a majority stays: beyond that only what survives is of interest.
fn down(cluster: &Cluster, nodes: u64) -> u64 {
    (1..=nodes).filter(|node| !cluster.is_alive(*node)).count() as u64
}

/// Runs a cluster of three nodes with two placements through faults, judges it after each, and lets it settle.
///
/// # Errors
/// A promise that was broken.
pub fn run_seed(seed: u64, prepare: impl FnOnce(&Cluster)) -> Result<Faults, String> {
    let nodes = if seed % 4 == 3 { 5 } else { 3 };
    let cluster = Cluster::new(seed, nodes, 2);
    prepare(&cluster);
    let mut faults = Faults::new();
    cluster.run(1500);
    for name in 0..4 {
        cluster.client(name, 400, 10, 3000);
    }
    for _ in 0..12 {
        let name = strike(&cluster, nodes);
        *faults.entry(name).or_default() += 1;
        cluster.run(50 + below(900));
        cluster.judge().map_err(|text| format!("seed {seed}, after {name}: {text}"))?;
    }
    cluster.links(super::links::LinkFaults::heal);
    for node in 1..=nodes {
        cluster.slow_disk(node, 1000);
        if !cluster.is_alive(node) {
            cluster.start(node);
        }
    }
    cluster.settle(30).map_err(|text| format!("seed {seed}: {text}"))?;
    cluster.judge().map_err(|text| format!("seed {seed}, at the end: {text}"))?;
    let stopped = cluster.stopped();
    if !stopped.is_empty() {
        return Err(format!("seed {seed}: {stopped:?}"));
    }
    faults.insert("polls", super::executor::polls());
    faults.insert("simulated milliseconds", super::executor::now() / 1_000_000);
    *faults.entry("acknowledged commands").or_default() += cluster.acknowledged().len() as u64;
    Ok(faults)
}

fn strike(cluster: &Cluster, nodes: u64) -> &'static str {
    let node = 1 + below(nodes);
    let other = 1 + below(nodes);
    match below(13) {
        0 if down(cluster, nodes) == 0 => {
            cluster.kill(node);
            "kill"
        }
        1 | 2 if down(cluster, nodes) == 0 && cluster.is_alive(node) => {
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
            cluster.links(|links| links.isolate(node, nodes));
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
        8 => {
            cluster.slow_disk(node, 1000 + below(100_000));
            "slow disk"
        }
        9 => {
            cluster.step_clock(node, below(7_200_000) as i64 - 3_600_000);
            "clock step"
        }
        _ => {
            cluster.links(super::links::LinkFaults::heal);
            for node in (1..=nodes).filter(|node| !cluster.is_alive(*node)).collect::<Vec<_>>() {
                cluster.start(node);
            }
            "mending"
        }
    }
}
