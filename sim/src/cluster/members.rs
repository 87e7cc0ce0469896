//! Changes of the members of placements, made by a task of the world that asks whoever leads until it is done.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use leveret_cluster::runtime::AsyncRuntime;
use leveret_log::PlacementId;

use super::executor::{self, Sleep};
use super::node::{Shared, node_of};
use super::runtime::SimRuntime;
use super::world::{Cluster, leader};

/// How often a change is asked for.
const TRIES: usize = 200;

impl Cluster {
    /// The nodes with voters of a placement, as its leader has applied it.
    #[must_use]
    pub fn voters(&self, placement: PlacementId) -> BTreeSet<u64> {
        let state = leader(&self.shared, placement).map(|(_, replica)| replica.state());
        state.map_or(BTreeSet::new(), |state| state.voters().iter().flatten().map(|id| node_of(*id)).collect())
    }

    /// Whether all voters of all placements are replicas that their nodes have, and no disk was changed.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_hit = self.shared.nodes.borrow().values().any(|node| node.is_hit.get());
        !is_hit
            && self.placements.iter().all(|placement| {
                let Some((_, replica)) = leader(&self.shared, *placement) else { return false };
                replica.state().voters().iter().flatten().all(|id| {
                    let node = self.node(node_of(*id));
                    node.replica_id(*placement) == *id
                })
            })
    }

    /// Makes the replicas of these nodes the voters of a placement, in the background. Those that gave up their id get their new one.
    /// It ends an earlier change: two of them would hand the leadership to and fro.
    pub fn make_voters(&self, placement: PlacementId, nodes: &BTreeSet<u64>) {
        let (shared, nodes) = (self.shared.clone(), nodes.clone());
        let number = {
            let mut changes = shared.changes.borrow_mut();
            let number = changes.entry(placement).or_default();
            *number += 1;
            *number
        };
        executor::spawn_in(0, async move {
            for _ in 0..TRIES {
                if shared.changes.borrow()[&placement] != number {
                    return;
                }
                // Also once it is done: an earlier change may stand in the log, and become part of it later.
                change(&shared, placement, &nodes).await;
                Sleep::after(200_000_000).await;
            }
        });
    }

    /// Asks the leader once to make these nodes the voters, in the background, although it may be among those that go.
    pub fn begin_change(&self, placement: PlacementId, nodes: &[u64]) {
        let Some((node, replica)) = leader(&self.shared, placement) else { return };
        let ids = nodes.iter().map(|node| self.node(*node).replica_id(placement));
        let voters: BTreeSet<u64> = ids.collect();
        executor::spawn_in(node.life.get(), async move {
            let known = replica.state().replicas();
            for id in voters.iter().copied().filter(|id| !known.contains(id)) {
                let replica = replica.clone();
                let added = async move { replica.add_learner(id).await };
                let _ = SimRuntime::timeout(Duration::from_millis(50), added).await;
            }
            // Whether it is done is of no interest.
            let _ = replica.change_voters(voters).await;
        });
    }

    /// Adds a node as a learner of a placement, in the background.
    pub fn make_learner(&self, placement: PlacementId, node: u64) {
        let shared = self.shared.clone();
        executor::spawn_in(0, async move {
            let Some((_, replica)) = leader(&shared, placement) else { return };
            let id = shared.nodes.borrow()[&node].replica_id(placement);
            let added = async move { replica.add_learner(id).await };
            // The leader may be gone.
            let _ = SimRuntime::timeout(Duration::from_secs(2), added).await;
        });
    }
}

/// One step of a change, unless it is done. `None` if nothing came of it.
async fn change(shared: &Rc<Shared>, placement: PlacementId, nodes: &BTreeSet<u64>) -> Option<()> {
    let (node, replica) = leader(shared, placement)?;
    let id_of = |node: &u64| shared.nodes.borrow()[node].replica_id(placement);
    let wanted: BTreeSet<u64> = nodes.iter().map(id_of).collect();
    let state = replica.state();
    if state.voters() == [wanted.clone()] {
        return Some(());
    }
    // A leader that is removed hands over first.
    let voters: BTreeSet<u64> = state.voters().into_iter().flatten().collect();
    if !wanted.contains(&node.replica_id(placement))
        && let Some(next) = voters.intersection(&wanted).next()
    {
        let (replica, next) = (replica.clone(), *next);
        let handed = async move { replica.transfer(next).await };
        SimRuntime::timeout(Duration::from_secs(1), handed).await.ok()?.ok()?;
        return Some(());
    }
    let known = state.replicas();
    for id in wanted.iter().copied().filter(|id| !known.contains(id)) {
        let replica = replica.clone();
        let added = async move { replica.add_learner(id).await };
        SimRuntime::timeout(Duration::from_secs(2), added).await.ok()?.ok()?;
    }
    let changed = async move { replica.change_voters(wanted).await };
    SimRuntime::timeout(Duration::from_secs(3), changed).await.ok()?.ok()
}
