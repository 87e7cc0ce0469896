//! Placements of replicated queues.
//!
//! Each member's broker has the replicas of a placement's queues and applies its entries to them. The member that leads has the queues'
//! machines, whose records are the commands of the next entries.

mod handing_over;
mod leading;
mod machine;
mod promise;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leveret_broker::Broker;
use leveret_log::{Nanos, PlacementId};
use leveret_model::{MemberNumber, QueuePlacement};
use openraft::AsyncRuntime;

use self::handing_over::HandOvers;
use self::machine::{QueueMachine, QueuesShared};
use crate::flushes::NodeLog;
use crate::metadata::{MetadataHost, member_of, replica_of};
use crate::placement::{Placement, ReplicaStatus};
use crate::settings::{Settings, StartError};
use crate::types::ReplicaId;

/// Time after which a member makes a new placement that the one which is to lead it hasn't made.
const FOUND_AFTER: Duration = Duration::from_millis(1500);
/// Interval at which a replica notes what is durable, and purges what all members have.
const TEND: Duration = Duration::from_millis(200);
/// Entries that are purged together, unless they wait for long.
const PURGED_TOGETHER: u64 = 64;
/// Longest time that fewer wait.
const PURGE_WAIT_NS: Nanos = 5_000_000_000;
/// Interval at which it is looked whether a placement has the queues that it begins with.
const ADOPT: Duration = Duration::from_millis(2);
/// Entries that a new member may lack when it gets its vote.
const CAUGHT_UP: u64 = 16;

/// A replica of a placement of queues. Clones share it.
pub struct QueueReplica<R: AsyncRuntime, H: MetadataHost>(Rc<Inner<R, H>>);

struct Inner<R: AsyncRuntime, H: MetadataHost> {
    placement: Placement<R, H, QueueMachine<H>>,
    shared: Rc<QueuesShared<H>>,
    member: MemberNumber,
    /// The placement as the metadata has it.
    made: Arc<QueuePlacement>,
    /// Bytes of entries of all placements that are kept for members which lag behind.
    catch_up_bytes: u64,
    /// Wakes the task that proposes, from any thread.
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<R: AsyncRuntime, H: MetadataHost> Clone for QueueReplica<R, H> {
    fn clone(&self) -> Self {
        QueueReplica(self.0.clone())
    }
}

impl<R: AsyncRuntime, H: MetadataHost> QueueReplica<R, H> {
    /// Starts the replica of a member. Then [`found`](Self::found), [`lead`](Self::lead), [`propose`](Self::propose) and
    /// [`tend`](Self::tend) have to be spawned. `wake` has the thread of the placements call [`arrived`](Self::arrived).
    ///
    /// # Errors
    /// As [`Placement::start`].
    pub async fn start(
        settings: &Settings,
        (broker, log, host): (Arc<Broker>, NodeLog, H),
        member: MemberNumber,
        made: Arc<QueuePlacement>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, StartError> {
        let shared = Rc::new(QueuesShared::new(host.clone(), broker, made.number));
        let id = (shared.id(), replica_of(member));
        let placement = Placement::start(settings, id, log, host, QueueMachine(shared.clone())).await?;
        let catch_up_bytes = settings.catch_up_bytes;
        Ok(QueueReplica(Rc::new(Inner { placement, shared, member, made, catch_up_bytes, wake })))
    }

    /// The placement and the replica.
    #[must_use]
    pub fn id(&self) -> (PlacementId, ReplicaId) {
        (self.0.shared.id(), replica_of(self.0.member))
    }

    /// Answers a frame of another member's replica; `None` if it is one for another placement.
    pub async fn answer(&self, frame: &Bytes) -> Option<Bytes> {
        self.0.placement.answer(frame).await
    }

    /// The replica as its engine sees it.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.0.placement.status()
    }

    /// The member that leads, as far as this one knows.
    #[must_use]
    pub fn leader(&self) -> Option<MemberNumber> {
        self.0.placement.leader().1.map(member_of)
    }

    /// The term in which this member leads, with the queues' machines.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.0.shared.stream.borrow().as_ref().map(|stream| stream.term())
    }

    /// The members that vote.
    #[must_use]
    pub fn voters(&self) -> Vec<MemberNumber> {
        let voters = self.0.placement.state().voters();
        let all: BTreeSet<_> = voters.iter().flatten().map(|replica| member_of(*replica)).collect();
        all.into_iter().collect()
    }

    /// The last entry that each other member is known to have, at the leader.
    #[must_use]
    pub fn matched(&self) -> Vec<(MemberNumber, u64)> {
        let others = self.voters().into_iter().filter(|member| *member != self.0.member);
        others.map(|member| (member, self.0.placement.matched(replica_of(member)).unwrap_or(0))).collect()
    }

    /// Makes a new placement: at once where it is to be led, later elsewhere if nobody has. Every member makes the same one.
    pub async fn found(self) {
        let founders = &self.0.made.founders;
        if !founders.contains(&self.0.member) {
            // The others send it what they have.
            return;
        }
        let members: BTreeSet<ReplicaId> = founders.iter().map(|member| replica_of(*member)).collect();
        if founders.first() != Some(&self.0.member) {
            R::sleep(FOUND_AFTER).await;
        }
        // Later members get what this one had of the queues before with its first state.
        while !self.0.shared.broker.placements.has_adopted(self.0.made.number) {
            R::sleep(ADOPT).await;
        }
        if self.0.placement.is_blank()
            && let Err(error) = self.0.placement.initialize(&members).await
            && self.0.placement.is_blank()
        {
            tracing::error!("placement {} can't be made: {error}", self.0.made.number);
        }
    }

    /// Something may have to be proposed.
    pub fn arrived(&self) {
        self.0.shared.arrivals.happen();
    }

    /// Notes what the store has for good, and purges entries that all members have, while the placement runs.
    pub async fn tend(self) {
        let (placement, shared) = (&self.0.placement, &self.0.shared);
        let replicas = shared.broker.placements.replicas().clone();
        let mut last_purge = shared.host.now();
        let mut hand_overs = HandOvers::default();
        while placement.stopped().is_none() {
            R::sleep(TEND).await;
            let durable = replicas.durable_below(shared.number);
            if durable > placement.durably_applied()
                && let Err(error) = placement.applied_durably(durable)
            {
                tracing::error!("placement {}: {error}", shared.number);
            }
            if shared.stream.borrow().is_some() {
                self.tend_members().await;
                if !shared.broker.is_in_maintenance() {
                    hand_overs = HandOvers::default();
                } else if hand_overs.is_due(shared.host.now()) {
                    self.transfer().await;
                    hand_overs.tried(shared.host.now());
                }
            }
            let held =
                if shared.stream.borrow().is_some() { self.held_below() } else { replicas.held_below(shared.number) };
            let (below, first) = (held.min(placement.durably_applied()), placement.first_index());
            let now = shared.host.now();
            let is_due = below >= first + PURGED_TOGETHER || below > first && now >= last_purge + PURGE_WAIT_NS;
            if is_due {
                last_purge = now;
                if let Err(error) = placement.purge(below).await {
                    tracing::warn!("entries of placement {} can't be purged yet: {error}", shared.number);
                }
            }
        }
    }

    /// Takes members out that were struck, and new ones in: as learners at first, which vote once they have caught up.
    async fn tend_members(&self) {
        let placement = &self.0.placement;
        let topology = self.0.shared.broker.registry.snapshot().topology.clone();
        let Some(made) = topology.placement(self.0.shared.number) else { return };
        let state = placement.state();
        let voters = state.voters();
        let [voters] = &voters[..] else {
            return placement.end_change_of_voters(&voters).await;
        };
        let wanted: BTreeSet<ReplicaId> = made.members.iter().map(|member| replica_of(*member)).collect();
        if wanted == *voters || !wanted.contains(&replica_of(self.0.member)) {
            return;
        }
        let known = state.replicas();
        let changed = if let Some(new) = wanted.iter().find(|replica| !known.contains(replica)) {
            // The one that made the placement alone may have had queues before, which are in no entry: the log mustn't begin there.
            if self.0.made.founders.len() == 1 && !placement.begins_later().await {
                return;
            }
            placement.add_learner(*new).await
        } else {
            let last = placement.status().committed;
            let has_caught_up = |replica: &ReplicaId| {
                voters.contains(replica) || placement.matched(*replica).is_some_and(|index| index + CAUGHT_UP >= last)
            };
            let next: BTreeSet<_> = wanted.into_iter().filter(has_caught_up).collect();
            if next == *voters { Ok(()) } else { placement.change_voters(next).await }
        };
        if let Err(error) = changed {
            tracing::warn!("the members of placement {} can't be changed yet: {error}", self.0.shared.number);
        }
    }

    /// The index below which every member is known to have all entries, at the leader, or those that are waited for.
    fn held_below(&self) -> u64 {
        self.0.placement.held_below(self.0.catch_up_bytes)
    }

    /// Stops the replica's tasks.
    pub async fn shutdown(&self) {
        self.0.placement.shutdown().await;
    }
}
