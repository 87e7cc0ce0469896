//! Schedules of faults that don't depend on the engine, so that another one can be run through the same.

use super::world::Cluster;
use crate::random::Random;

/// A fault, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The process of this node is killed: what it wrote stays.
    Kill(u64),
    /// This node loses its power, with what isn't synced.
    CutPower(u64),
    /// All nodes lose their power at once.
    CutPowerOfAll,
    /// This node stands still for so many milliseconds.
    Pause(u64, u64),
    /// This node is cut off from all others.
    Isolate(u64),
    /// Nothing passes from the first node to the second.
    CutOneWay(u64, u64),
    /// Links lose so many frames of a thousand, and delay them by up to so many nanoseconds.
    Lose {
        /// Frames of a thousand.
        loss: u64,
        /// Nanoseconds.
        delay: u64,
    },
    /// Nothing passes from the first node to the second for every second of these periods, in nanoseconds.
    Flap(u64, u64, u64),
    /// Syncs of this node take so many microseconds.
    SlowDisk(u64, u64),
    /// Links and disks are as before, and nodes that are down start.
    Mend,
}

/// A schedule: the number of nodes, and faults, each with the milliseconds behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Number of nodes, numbered from 1 on.
    pub nodes: u64,
    /// The faults. The last one is an end of all.
    pub strikes: Vec<(Strike, u64)>,
}

/// Number of clients that propose during a schedule.
pub const CLIENTS: u8 = 4;
/// Number of commands that each of them proposes.
pub const COMMANDS: u64 = 400;
/// About how many milliseconds a client waits between commands.
pub const PAUSE: u64 = 10;
/// Milliseconds for which it waits for an answer.
pub const WITHIN: u64 = 3000;
/// Milliseconds before the first fault.
pub const BEFORE: u64 = 1500;

impl Schedule {
    /// The schedule of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Schedule {
        let mut random = Random::new(seed);
        let nodes = if seed % 4 == 3 { 5 } else { 3 };
        let (mut strikes, mut is_calm) = (Vec::new(), true);
        while strikes.len() < 14 {
            let (node, other) = (1 + random.below(nodes), 1 + random.below(nodes));
            let strike = match random.below(14) {
                // A majority stays, but when all lose their power.
                0 if is_calm => Strike::Kill(node),
                1 | 2 if is_calm => Strike::CutPower(node),
                3 => Strike::CutPowerOfAll,
                4 => Strike::Pause(node, 100 + random.below(1500)),
                5 | 6 => Strike::Isolate(node),
                7 if node != other => Strike::CutOneWay(node, other),
                8 => Strike::Lose { loss: random.below(200), delay: random.below(20_000_000) },
                9 if node != other => Strike::Flap(node, other, 10_000_000 + random.below(2_000_000_000)),
                10 => Strike::SlowDisk(node, 1000 + random.below(100_000)),
                11.. => Strike::Mend,
                _ => continue,
            };
            is_calm = match strike {
                Strike::Kill(_) | Strike::CutPower(_) | Strike::CutPowerOfAll => false,
                Strike::Mend => true,
                _ => is_calm,
            };
            strikes.push((strike, 50 + random.below(900)));
        }
        strikes.push((Strike::Mend, 0));
        Schedule { nodes, strikes }
    }
}

/// The outcome of a schedule whose promises were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleOutcome {
    /// Commands that clients got an answer for.
    pub acknowledged: usize,
    /// Milliseconds from the end of all faults until all nodes had the same.
    pub settled_after: u64,
}

/// Most milliseconds that a cluster may take until all nodes have the same.
pub const SETTLED_WITHIN: u64 = 60_000;

/// Runs placements through a schedule, and judges them after each fault.
///
/// # Errors
/// A promise that was broken.
pub fn run_schedule(seed: u64, schedule: &Schedule) -> Result<ScheduleOutcome, String> {
    let cluster = Cluster::new(seed, schedule.nodes, 1);
    cluster.check_answers();
    cluster.run(BEFORE);
    (0..CLIENTS).for_each(|name| cluster.client(name, COMMANDS, PAUSE, WITHIN));
    for (strike, behind) in &schedule.strikes {
        carry_out(&cluster, *strike, schedule.nodes);
        cluster.run(*behind);
        cluster.judge().map_err(|text| format!("seed {seed}, after {strike:?}: {text}"))?;
    }
    let from = super::executor::now();
    cluster.settle(SETTLED_WITHIN / 1000).map_err(|text| format!("seed {seed}: {text}"))?;
    let settled_after = (super::executor::now() - from) / 1_000_000;
    cluster.judge().map_err(|text| format!("seed {seed}, at the end: {text}"))?;
    match cluster.stopped() {
        stopped if stopped.is_empty() => {
            Ok(ScheduleOutcome { acknowledged: cluster.acknowledged().len(), settled_after })
        }
        stopped => Err(format!("seed {seed}: {stopped:?}")),
    }
}

fn carry_out(cluster: &Cluster, strike: Strike, nodes: u64) {
    let alive = || (1..=nodes).filter(|node| cluster.is_alive(*node));
    match strike {
        Strike::Kill(node) => cluster.kill(node),
        Strike::CutPower(node) => cluster.cut_power(node),
        Strike::CutPowerOfAll => alive().for_each(|node| cluster.cut_power(node)),
        Strike::Pause(node, milliseconds) => cluster.pause(node, milliseconds),
        Strike::Isolate(node) => cluster.links(|links| links.isolate(node, 1..=nodes)),
        Strike::CutOneWay(from, to) => cluster.links(|links| links.cut(from, to)),
        Strike::Lose { loss, delay } => cluster.links(|links| (links.loss, links.delay) = (loss, delay)),
        Strike::Flap(from, to, period) => {
            cluster.links(|links| links.flap(from, to, period, super::executor::now()));
        }
        Strike::SlowDisk(node, microseconds) => cluster.slow_disk(node, microseconds),
        Strike::Mend => {
            cluster.links(crate::net::LinkFaults::heal);
            for node in 1..=nodes {
                cluster.mend_disk(node);
                if !cluster.is_alive(node) {
                    cluster.start(node);
                }
            }
        }
    }
}
