//! The members of placement 0: those of the cluster, the first ones as voters.

use std::collections::BTreeSet;
use std::time::Duration;

use leveret_log::Nanos;
use openraft::AsyncRuntime;

use super::{Metadata, MetadataHost, replica_of};
use crate::types::ReplicaId;

/// Most voters; further members are learners.
pub(super) const VOTERS_MAX: usize = 7;
/// Entries that a learner may lack when it becomes a voter.
const LAG_MAX: u64 = 64;
/// Interval at which the leader looks whether members came or went.
const INTERVAL: Duration = Duration::from_millis(100);
/// Files of entries from which on those are purged that the store has: the log's ring has four, with the one that comes next.
const FILES_MAX: usize = 3;
/// Entries that a member keeps besides, so that as a leader it can send them to others that are a little behind.
const KEPT: u64 = 16;
/// Shortest time between two purges, since each needs the whole metadata as bytes.
const PURGE_WAIT_NS: Nanos = 10_000_000_000;

impl<R: AsyncRuntime, H: MetadataHost> Metadata<R, H> {
    /// Keeps the placement's members those of the cluster, notes what is durable, and purges entries, while the placement runs.
    pub async fn tend(self) {
        let mut last_purge = None;
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
            let now = self.0.shared.host.now();
            if last_purge.is_none_or(|last| now >= last + PURGE_WAIT_NS) && self.purge().await {
                last_purge = Some(now);
            }
        }
    }

    /// Purges entries if the files are many. The leader waits for those who lack some, as for queues; other members keep a few for them,
    /// since a later leader can send the state. Returns whether there were any.
    async fn purge(&self) -> bool {
        let placement = &self.0.placement;
        if placement.entry_files() < FILES_MAX {
            return false;
        }
        let leads = self.leader().1 == Some(self.0.shared.member);
        let durable = placement.durably_applied();
        let below = match leads {
            true => placement.held_below(self.0.catch_up_bytes).min(durable),
            false => durable.saturating_sub(KEPT),
        };
        if below <= placement.first_index() {
            return false;
        }
        if let Err(error) = placement.purge(below).await {
            tracing::warn!("entries of the metadata can't be purged yet: {error}");
        }
        true
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
