//! The cluster as a node sees it, which other threads read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use leveret_cluster::ReplicaStatus;
use leveret_model::{MemberNumber, PlacementNumber, QueuePlacement};
use leveret_peer::{GossipReplica, LinkKind};
use parking_lot::Mutex;

use super::gossip::{self, ToldByMember};
use super::links::LinkCounters;
use super::log_driver::EntrySyncs;
use super::page_sessions::PageSessions;

/// The cluster as this node sees it, for other threads.
#[derive(Debug, Default)]
pub struct ClusterView {
    pub(super) seen: Mutex<ClusterSeen>,
    pub(super) counters: Arc<LinkCounters>,
    pub(super) syncs: OnceLock<Arc<EntrySyncs>>,
    pub(super) page_sessions: Arc<PageSessions>,
}

/// Counters of the cluster, for metrics.
#[derive(Clone, Debug, Default)]
pub struct ClusterFigures {
    /// Links by kind.
    pub links: Vec<LinkFigures>,
    /// Attempts to connect to other nodes.
    pub dials: u64,
    /// Attempts that failed.
    pub dials_failed: u64,
    /// Connections of other nodes that were refused.
    pub refused: u64,
    /// Number of syncs of the entry log.
    pub syncs: u64,
    /// Time of all of these together, in nanoseconds.
    pub sync_ns: u64,
    /// Time of the last one, in nanoseconds.
    pub last_sync_ns: u64,
}

/// Counters of the links of a kind.
#[derive(Clone, Copy, Debug)]
pub struct LinkFigures {
    /// The name of the kind.
    pub kind: &'static str,
    /// Links that stand.
    pub up: u64,
    /// Bytes that came.
    pub received: u64,
    /// Bytes that went.
    pub sent: u64,
}

/// The links to a member.
#[derive(Clone, Debug)]
pub struct MemberLinks {
    /// Both ends of the last control link, this node's first.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The links by kind.
    pub links: Vec<LinkFigures>,
}

/// The cluster as this node sees it.
#[derive(Clone, Debug, Default)]
pub struct ClusterSeen {
    /// This node's number; `None` if it is alone.
    pub member: Option<MemberNumber>,
    /// The member that leads the metadata.
    pub leader: Option<MemberNumber>,
    /// Its term.
    pub term: u64,
    /// Number of applied entries of the metadata.
    pub applied: u64,
    /// The voters of the metadata.
    pub voters: Vec<MemberNumber>,
    /// Members that a control link stands to, with the wall time of their start in milliseconds since the Unix epoch.
    pub reached: BTreeMap<MemberNumber, u64>,
    /// The reasons why the others can't be reached, as far as they are known.
    pub failures: BTreeMap<MemberNumber, String>,
    /// The words of these about themselves.
    pub told: BTreeMap<MemberNumber, Arc<ToldByMember>>,
    /// This node's replica of the metadata.
    pub replica: ReplicaStatus,
    /// Number of this node's changes that the metadata hasn't answered.
    pub in_flight: usize,
    /// This node's replicas of placements of queues.
    pub placements: BTreeMap<PlacementNumber, PlacementSeen>,
}

/// A replica of a placement of queues.
#[derive(Clone, Debug, Default)]
pub struct PlacementSeen {
    /// The member that leads.
    pub leader: Option<MemberNumber>,
    /// The members that vote.
    pub voters: Vec<MemberNumber>,
    /// The replica of this node.
    pub replica: ReplicaStatus,
    /// The last entry that each other member is known to have, at the leader.
    pub matched: Vec<(MemberNumber, u64)>,
}

impl ClusterSeen {
    /// Whether the metadata loses its majority without this node, or has none.
    #[must_use]
    pub fn is_critical_for_metadata(&self) -> bool {
        self.is_needed_by(&self.voters)
    }

    /// The placements of queues, of those that the metadata has, that lose their majorities without this node, or have none.
    #[must_use]
    pub fn critical_placements<'a>(
        &self,
        made: impl IntoIterator<Item = &'a Arc<QueuePlacement>>,
    ) -> BTreeSet<PlacementNumber> {
        let is_critical = |placement: &&Arc<QueuePlacement>| {
            let voters = self.placements.get(&placement.number).map(|seen| &*seen.voters);
            // A replica that has just been made doesn't know its voters yet.
            self.is_needed_by(voters.filter(|voters| !voters.is_empty()).unwrap_or(&placement.members))
        };
        made.into_iter().filter(is_critical).map(|placement| placement.number).collect()
    }

    fn is_needed_by(&self, voters: &[MemberNumber]) -> bool {
        let is_online = |voter: &&MemberNumber| Some(**voter) == self.member || self.reached.contains_key(voter);
        let is_voter = self.member.is_some_and(|member| voters.contains(&member));
        let online = voters.iter().filter(is_online).count();
        is_voter && online <= voters.len() / 2 + 1
    }

    /// This node's replica of the metadata as the others are told.
    #[must_use]
    pub fn replica_in_words(&self) -> GossipReplica {
        gossip::replica_in_words(&self.replica, &self.voters, self.member)
    }
}

impl ClusterView {
    /// A copy of it.
    #[must_use]
    pub fn seen(&self) -> ClusterSeen {
        self.seen.lock().clone()
    }

    /// Whether a control link to a member stands.
    #[must_use]
    pub fn reaches(&self, member: MemberNumber) -> bool {
        self.seen.lock().reached.contains_key(&member)
    }

    /// The sessions of the page in the cluster.
    #[must_use]
    pub fn page_sessions(&self) -> &PageSessions {
        &self.page_sessions
    }

    /// The links to a member since this node started; `None` if there has been none.
    #[must_use]
    pub fn links_to(&self, member: MemberNumber) -> Option<MemberLinks> {
        let traffic = self.counters.known(member.0)?;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = |kind: LinkKind| LinkFigures {
            kind: kind.name(),
            up: load(traffic.up(kind)),
            received: load(traffic.received(kind)),
            sent: load(traffic.sent(kind)),
        };
        Some(MemberLinks { addresses: traffic.addresses(), links: LinkKind::ALL.into_iter().map(of).collect() })
    }

    /// The counters.
    #[must_use]
    pub fn figures(&self) -> ClusterFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let of = |kind: LinkKind| LinkFigures {
            kind: kind.name(),
            up: load(counters.all().up(kind)),
            received: load(counters.all().received(kind)),
            sent: load(counters.all().sent(kind)),
        };
        let syncs = self.syncs.get();
        ClusterFigures {
            links: LinkKind::ALL.into_iter().map(of).collect(),
            dials: load(&counters.dials),
            dials_failed: load(&counters.dials_failed),
            refused: load(&counters.refused),
            syncs: syncs.map_or(0, |syncs| load(&syncs.count)),
            sync_ns: syncs.map_or(0, |syncs| load(&syncs.total)),
            last_sync_ns: syncs.map_or(0, |syncs| load(&syncs.last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_needed_if_the_others_are_no_majority() {
        let member = |number: u16| MemberNumber(number);
        let seen = |voters: u16, reached: &[u16]| ClusterSeen {
            member: Some(member(0)),
            voters: (0..voters).map(member).collect(),
            reached: reached.iter().map(|number| (member(*number), 1)).collect(),
            ..ClusterSeen::default()
        };
        assert!(!seen(3, &[1, 2]).is_critical_for_metadata());
        assert!(seen(3, &[1]).is_critical_for_metadata());
        assert!(seen(3, &[]).is_critical_for_metadata(), "there is no majority at all");
        assert!(seen(2, &[1]).is_critical_for_metadata());
        assert!(!seen(5, &[1, 2, 4]).is_critical_for_metadata() && seen(5, &[1, 3]).is_critical_for_metadata());
        let of_two = PlacementSeen { voters: vec![member(0), member(1)], ..PlacementSeen::default() };
        let placements = [(PlacementNumber(7), of_two)].into();
        let with_queues = ClusterSeen { placements, ..seen(3, &[1, 2]) };
        let made = |number, members: &[u16]| {
            let members: Arc<[MemberNumber]> = members.iter().map(|number| member(*number)).collect();
            Arc::new(QueuePlacement::new(PlacementNumber(number), members, 3))
        };
        let placements = [made(7, &[0, 1, 2]), made(8, &[0, 2, 1]), made(9, &[0, 5, 6]), made(10, &[4, 5, 6])];
        let critical: Vec<u32> = with_queues.critical_placements(&placements).into_iter().map(|made| made.0).collect();
        assert_eq!(critical, [7, 9], "one has two voters, and of one that isn't seen yet only this node is there");
        assert!(!with_queues.is_critical_for_metadata());
        let learner = ClusterSeen { member: Some(member(9)), ..seen(3, &[0, 1]) };
        assert!(!learner.is_critical_for_metadata());
    }
}
