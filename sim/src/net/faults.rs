//! Faults between nodes: delay, loss, cuts and flapping, each way by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeNumber;

/// The faults of all links. Nodes are known by their numbers.
#[derive(Clone, Debug, Default)]
pub struct LinkFaults {
    /// Pairs of sender and receiver between which nothing passes.
    cut: BTreeSet<(NodeNumber, NodeNumber)>,
    /// Pairs between which nothing passes for every second of these periods, in nanoseconds, which begin at a phase.
    flapping: BTreeMap<(NodeNumber, NodeNumber), (u64, u64)>,
    /// Frames of a thousand that are lost.
    pub loss: u64,
    /// Longest delay in nanoseconds beyond the usual one.
    pub delay: u64,
    /// Frames that were sent, by sender and receiver.
    sent: BTreeMap<(NodeNumber, NodeNumber), u64>,
}

/// The usual time of a frame from node to node.
const TRAVEL: u64 = 250_000;

impl LinkFaults {
    /// Cuts a link one way.
    pub fn cut(&mut self, from: NodeNumber, to: NodeNumber) {
        self.cut.insert((from, to));
    }

    /// Cuts a link and lets it pass again, in turn, one way: for so many nanoseconds each. It passes at `now`.
    pub fn flap(&mut self, from: NodeNumber, to: NodeNumber, period: u64, now: u64) {
        let period = period.max(1);
        self.flapping.insert((from, to), (period, now % (2 * period)));
    }

    /// Cuts a node off from all others of these, both ways.
    pub fn isolate(&mut self, node: NodeNumber, all: impl IntoIterator<Item = NodeNumber>) {
        for other in all.into_iter().filter(|other| *other != node) {
            self.cut.extend([(node, other), (other, node)]);
        }
    }

    /// Mends everything.
    pub fn heal(&mut self) {
        (self.loss, self.delay) = (0, 0);
        self.cut.clear();
        self.flapping.clear();
    }

    /// Number of frames that were sent one way.
    #[must_use]
    pub fn sent(&self, from: NodeNumber, to: NodeNumber) -> u64 {
        self.sent.get(&(from, to)).copied().unwrap_or(0)
    }

    fn is_cut(&self, way: (NodeNumber, NodeNumber), now: u64) -> bool {
        let is_down = |(period, phase): &(u64, u64)| (now + 2 * period - phase) / period % 2 == 1;
        self.cut.contains(&way) || self.flapping.get(&way).is_some_and(is_down)
    }

    /// The time that a frame takes which is sent `now`, in nanoseconds; `None` if it is lost. `below` gives random numbers.
    pub(crate) fn travel(
        &mut self,
        from: NodeNumber,
        to: NodeNumber,
        now: u64,
        below: &mut dyn FnMut(u64) -> u64,
    ) -> Option<u64> {
        *self.sent.entry((from, to)).or_default() += 1;
        let is_lost = self.is_cut((from, to), now) || below(1000) < self.loss;
        (!is_lost).then(|| TRAVEL + below(TRAVEL) + below(self.delay + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The part of a thousand frames that pass one way within a time.
    fn passing(faults: &mut LinkFaults, from: NodeNumber, to: NodeNumber) -> usize {
        let mut random = Random::new(1);
        let mut below = |end| random.below(end);
        (0..1000).filter(|at| faults.travel(from, to, at * 1_000_000, &mut below).is_some()).count()
    }

    #[test]
    fn a_cut_is_one_way_and_an_isolated_node_is_alone() {
        let mut faults = LinkFaults::default();
        faults.cut(1, 2);
        let pairs = [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)];
        assert_eq!(pairs.map(|(from, to)| passing(&mut faults, from, to)), [0, 1000, 1000, 1000, 1000, 1000]);
        faults.isolate(3, 1..=3);
        assert_eq!(pairs.map(|(from, to)| passing(&mut faults, from, to)), [0, 1000, 0, 0, 0, 0]);
        faults.heal();
        assert_eq!(pairs.map(|(from, to)| passing(&mut faults, from, to)), [1000; 6]);
        assert_eq!(faults.sent(1, 2), 3000);
    }

    #[test]
    fn a_flapping_link_passes_half_of_the_time() {
        let mut faults = LinkFaults::default();
        faults.flap(1, 2, 100_000_000, 250_000_000);
        assert_eq!((passing(&mut faults, 1, 2), passing(&mut faults, 2, 1)), (500, 1000));
        let mut below = |_| 0;
        let mut passes = |ms: u64| faults.travel(1, 2, ms * 1_000_000, &mut below).is_some();
        assert_eq!([250, 349, 350, 449, 450].map(&mut passes), [true, true, false, false, true]);
    }

    #[test]
    fn frames_are_lost_and_delayed_as_much_as_asked() {
        let mut faults = LinkFaults { loss: 200, delay: 9_000_000, ..LinkFaults::default() };
        let passed = passing(&mut faults, 1, 2);
        assert!((740..860).contains(&passed), "{passed}");
        let mut random = Random::new(2);
        let times: Vec<u64> = (0..1000).filter_map(|_| faults.travel(1, 2, 0, &mut |end| random.below(end))).collect();
        assert!(times.iter().all(|time| (TRAVEL..2 * TRAVEL + 9_000_001).contains(time)));
        assert!(times.iter().max() > Some(&8_000_000) && times.iter().min() < Some(&1_000_000));
    }
}
