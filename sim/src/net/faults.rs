//! Links between nodes: delay, loss, and cuts, each way by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::executor::below;

/// The state of all links.
#[derive(Clone, Debug, Default)]
pub struct LinkFaults {
    /// Pairs of sender and receiver between which nothing passes.
    cut: BTreeSet<(u64, u64)>,
    /// Frames of a thousand that are lost.
    pub loss: u64,
    /// Longest delay in nanoseconds beyond the usual one.
    pub delay: u64,
    /// Frames that were sent, by sender and receiver.
    sent: BTreeMap<(u64, u64), u64>,
}

/// The usual time of a frame from node to node.
const TRAVEL: u64 = 250_000;

impl LinkFaults {
    /// Cuts a link one way.
    pub fn cut(&mut self, from: u64, to: u64) {
        self.cut.insert((from, to));
    }

    /// Cuts a node off from all others, both ways.
    pub fn isolate(&mut self, node: u64, nodes: u64) {
        for other in (1..=nodes).filter(|other| *other != node) {
            self.cut.extend([(node, other), (other, node)]);
        }
    }

    /// Mends everything.
    pub fn heal(&mut self) {
        (self.loss, self.delay) = (0, 0);
        self.cut.clear();
    }

    /// Number of frames that were sent one way.
    #[must_use]
    pub fn sent(&self, from: u64, to: u64) -> u64 {
        self.sent.get(&(from, to)).copied().unwrap_or(0)
    }

    /// The time that a frame takes; `None` if it is lost.
    pub(super) fn travel(&mut self, from: u64, to: u64) -> Option<u64> {
        *self.sent.entry((from, to)).or_default() += 1;
        let is_lost = self.cut.contains(&(from, to)) || below(1000) < self.loss;
        (!is_lost).then(|| TRAVEL + below(TRAVEL) + below(self.delay + 1))
    }
}
