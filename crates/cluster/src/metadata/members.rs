//! The members of placement 0: those of the cluster, the first ones as voters.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::AsyncRuntime;

use super::{Metadata, MetadataHost, replica_of};
use crate::types::ReplicaId;

/// Most voters; further members are learners.
pub(super) const VOTERS_MAX: usize = 7;
/// Entries that a learner may lack when it becomes a voter.
const LAG_MAX: u64 = 64;
/// Interval at which the leader looks whether members came or went.
const INTERVAL: Duration = Duration::from_millis(100);

impl<R: AsyncRuntime, H: MetadataHost> Metadata<R, H> {
    /// Keeps the placement's members those of the cluster, and notes what is durable, while the placement runs.
    pub async fn tend(self) {
        while self.0.placement.stopped().is_none() {
            R::sleep(INTERVAL).await;
            if let Some(below) = self.0.shared.durable()
                && let Err(error) = self.0.placement.applied_durably(below)
            {
                tracing::error!("the metadata: {error}");
            }
            if self.leads_with_all() {
                self.tend_members().await;
            }
        }
    }

    async fn tend_members(&self) {
        let placement = &self.0.placement;
        let topology = self.0.shared.broker.registry.snapshot().topology.clone();
        let members: Vec<ReplicaId> = topology.members().map(|member| replica_of(member.number)).collect();
        let state = placement.state();
        let (voters, replicas) = (state.voters(), state.replicas());
        let [voters] = &voters[..] else {
            return placement.end_change_of_voters(&voters).await;
        };
        if let Some(new) = members.iter().find(|replica| !replicas.contains(replica)) {
            // A newcomer has none of what was there before the first entry: it gets the state whole, as the log doesn't begin there.
            if placement.begins_later().await
                && let Err(error) = placement.add_learner(*new).await
            {
                tracing::warn!("the metadata gets no replica {new} yet: {error}");
            }
            return;
        }
        let mut wanted: BTreeSet<ReplicaId> = members.iter().copied().take(VOTERS_MAX).collect();
        let applied = state.applied.map_or(0, |(_, index)| index);
        let has_caught_up = |replica: &ReplicaId| {
            voters.contains(replica) || placement.matched(*replica).is_some_and(|index| index + LAG_MAX >= applied)
        };
        wanted.retain(has_caught_up);
        if wanted.is_empty() || wanted == *voters {
            return;
        }
        let mine = replica_of(self.0.shared.member);
        if !wanted.contains(&mine)
            && let Some(other) = wanted.first()
        {
            // One that isn't a member any more leads no change of members.
            let _ = placement.transfer(*other).await;
            return;
        }
        if let Err(error) = placement.change_voters(wanted).await {
            tracing::warn!("the voters of the metadata can't be changed yet: {error}");
        }
    }
}
