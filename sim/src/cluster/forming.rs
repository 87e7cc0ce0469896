//! Blank nodes that form a cluster while they are started, restarted, cut off and healed: there is never a second one.

use std::collections::BTreeMap;

use leveret_cluster::forming::{Forming, FormingOptions, FormingRound, FormingStep, PeerAnswer, SeedRule};

use crate::random::Random;

/// Number of nodes.
const NODES: usize = 3;
/// Events of a seed.
const EVENTS: u64 = 60;
/// Retries after the first round.
const RETRIES: u32 = 4;

/// A node that forms a cluster, or has.
enum FormingNode {
    Down,
    /// With the time of its start, and with a round whose answers have come, but which it hasn't judged yet.
    Blank(Box<Forming>, u64, Option<FormingRound>),
    Member(u8),
}

struct FormingWorld {
    nodes: Vec<FormingNode>,
    rule: SeedRule,
    /// The nodes that reach each other have the same number.
    groups: Vec<u64>,
    starts: u64,
    clusters: u8,
}

fn name(node: usize) -> String {
    format!("rabbit@{node}")
}

impl FormingWorld {
    fn start(&mut self, node: usize) {
        if matches!(self.nodes[node], FormingNode::Member(_)) {
            return;
        }
        self.starts += 1;
        let options = FormingOptions {
            name: name(node),
            started_at_ms: self.starts,
            is_blank: true,
            is_first_start: matches!(self.nodes[node], FormingNode::Down),
            rule: self.rule.clone(),
            retry_limit: Some(RETRIES),
            target_size: NODES as u32,
        };
        self.nodes[node] = FormingNode::Blank(Box::new(Forming::new(options)), self.starts, None);
    }

    fn answer(&self, from: usize, of: usize) -> PeerAnswer {
        match &self.nodes[of] {
            _ if self.groups[from] != self.groups[of] => PeerAnswer::Unreachable("cut off".to_owned()),
            FormingNode::Down => PeerAnswer::Unreachable("down".to_owned()),
            FormingNode::Blank(forming, started_at_ms, _) => {
                let (started_at_ms, mark) = (*started_at_ms, forming.mark());
                PeerAnswer::Blank { started_at_ms, mark, follows: Some(forming.follows().to_owned()) }
            }
            FormingNode::Member(id) => {
                PeerAnswer::InCluster { cluster_id: [*id; 16], size: 1, started_at_ms: u64::from(*id) }
            }
        }
    }

    /// A blank node asks all others.
    fn ask(&mut self, node: usize) {
        let others = (0..NODES).filter(|other| *other != node);
        let answers: BTreeMap<_, _> = others.map(|other| (name(other), self.answer(node, other))).collect();
        if let FormingNode::Blank(.., asked) = &mut self.nodes[node] {
            *asked = Some(FormingRound { elapsed_ms: 0, names: Ok((0..NODES).map(name).collect()), answers });
        }
    }

    /// A blank node judges the answers that it has.
    fn judge(&mut self, node: usize) {
        let FormingNode::Blank(forming, _, asked) = &mut self.nodes[node] else { return };
        let Some(round) = asked.take() else { return };
        match forming.round(&round) {
            FormingStep::Seed { .. } => {
                self.clusters += 1;
                self.nodes[node] = FormingNode::Member(self.clusters);
            }
            FormingStep::Join { node: target, .. } => {
                let target = (0..NODES).find(|other| name(*other) == target).map(|other| &self.nodes[other]);
                if let Some(FormingNode::Member(id)) = target {
                    self.nodes[node] = FormingNode::Member(*id);
                }
            }
            FormingStep::Wait { .. } | FormingStep::GoOnAlone(_) => {}
        }
    }
}

/// Runs blank nodes by one of the rules, in an order of events that the seed picks. Then all can reach each other.
///
/// # Errors
/// There are two clusters, or none, or a node has none.
pub fn run_forming_seed(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let node = |random: &mut Random| usize::try_from(random.below(NODES as u64)).expect("it is small");
    let rule = match random.below(3) {
        0 => SeedRule::FirstListed,
        1 => SeedRule::Named(name(0)),
        _ => SeedRule::FirstOfOrder,
    };
    let nodes = (0..NODES).map(|_| FormingNode::Down).collect();
    let mut world = FormingWorld { nodes, rule, groups: vec![0; NODES], starts: 0, clusters: 0 };
    // Where a majority decides, half of the seeds let each node start once and stay cut off: only then are the retries over before all meet.
    let is_calm = world.rule == SeedRule::FirstOfOrder && random.below(2) == 0;
    if is_calm {
        world.groups = (0..NODES).map(|_| random.below(2)).collect();
    }
    for _ in 0..EVENTS {
        match random.below(16) {
            0 | 1 => {
                let node = node(&mut random);
                if !is_calm || matches!(world.nodes[node], FormingNode::Down) {
                    world.start(node);
                }
            }
            3.. if is_calm => {
                let node = node(&mut random);
                world.ask(node);
                world.judge(node);
            }
            2 if is_calm => {}
            2 => world.groups = (0..NODES).map(|_| random.below(2)).collect(),
            3..=8 => world.ask(node(&mut random)),
            _ => world.judge(node(&mut random)),
        }
    }
    world.groups = vec![0; NODES];
    for node in 0..NODES {
        if matches!(world.nodes[node], FormingNode::Down) {
            world.start(node);
        }
    }
    for _ in 0..4 * (RETRIES + 2) {
        for node in 0..NODES {
            world.ask(node);
            world.judge(node);
        }
    }
    let members = world.nodes.iter().filter(|node| matches!(node, FormingNode::Member(1))).count();
    match (world.clusters, members) {
        (1, NODES) => Ok(()),
        (clusters, _) => Err(format!("seed {seed}: by {:?}, {clusters} clusters with {members} members", world.rule)),
    }
}
