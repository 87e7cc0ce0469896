//! A replica of a placement: started, asked, told.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leveret_log::PlacementId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::metrics::RaftServerMetrics;
use openraft::raft::ReadPolicy;
use openraft::type_config::TypeConfigExt as _;
use openraft::type_config::alias::{LogIdOf, WatchReceiverOf};
use openraft::{AsyncRuntime, ChangeMembers, Raft, ServerState};

use crate::flushes::NodeLog;
use crate::machine::{Applied, Applier, Machine};
use crate::members;
use crate::network::{Host, Links};
use crate::settings::{Settings, StartError};
use crate::shared::Shared;
use crate::start;
use crate::storage::Storage;
use crate::types::{Commands, MemberInfo, ReplicaId, Types};
use crate::vetting::check_commands;

/// A placement as far as entries are applied: the term and index of the last one, and the members by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementState {
    /// Term and index of the last applied entry.
    pub applied: Option<(u64, u64)>,
    /// Term and index of the entry with these members.
    pub members_at: Option<(u64, u64)>,
    /// The members, encoded as in their entry.
    pub members: Bytes,
    /// The placement's clock: that of the last applied entry, in milliseconds since the Unix epoch. It never goes back.
    pub clock: u64,
}

impl PlacementState {
    /// The voters by then: one set, or two while they change from one to the other.
    #[must_use]
    pub fn voters(&self) -> Vec<BTreeSet<ReplicaId>> {
        members::decode(&self.members).map_or(Vec::new(), |members| members.get_joint_config().clone())
    }

    /// All replicas by then, voters and learners.
    #[must_use]
    pub fn replicas(&self) -> BTreeSet<ReplicaId> {
        let members = members::decode(&self.members);
        members.map_or(BTreeSet::new(), |members| members.nodes().map(|(id, _)| *id).collect())
    }
}

/// The role of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaRole {
    /// It gets entries, and has no vote.
    #[default]
    Learner,
    /// It has a vote, and another one leads.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
    /// It has stopped.
    Stopped,
}

/// A replica as its engine sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its role.
    pub role: ReplicaRole,
    /// Its term.
    pub term: u64,
    /// Index of its last entry.
    pub last: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed: u64,
    /// Index of the last entry that is applied.
    pub applied: u64,
    /// Index of the last entry that it has purged.
    pub snapshot: u64,
}

/// The result of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It was committed and applied here.
    Applied {
        /// Term of its entry.
        term: u64,
        /// Index of its entry.
        index: u64,
        /// The machine's answer.
        answer: Applied,
    },
    /// This replica doesn't lead; that one may.
    NotLeader(Option<ReplicaId>),
    /// It can't be an entry, and wasn't proposed.
    Refused(String),
    /// It isn't known whether it was committed: the leadership was lost, or the placement stopped.
    Unknown(String),
}

/// The index up to which a replica has to have applied entries, so that a lookup finds whatever was committed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadIndex {
    /// Index of the last entry that was committed when this replica was asked.
    At(u64),
    /// This replica doesn't lead; that one may.
    NotLeader(Option<ReplicaId>),
    /// No majority has answered, or the placement has stopped.
    Unknown,
}

/// The last change that a caller of [`Placement::leadership_changed`] has seen.
pub struct LeadershipSeen<R: AsyncRuntime>(Option<WatchReceiverOf<Types<R>, RaftServerMetrics<Types<R>>>>);

impl<R: AsyncRuntime> Default for LeadershipSeen<R> {
    fn default() -> Self {
        LeadershipSeen(None)
    }
}

/// A replica of a placement.
pub struct Placement<R: AsyncRuntime, H: Host, M: Machine> {
    pub(crate) raft: Raft<Types<R>, Applier<H, M>>,
    pub(crate) shared: Rc<Shared<H>>,
    pub(crate) machine: Rc<RefCell<M>>,
}

impl<R: AsyncRuntime, H: Host, M: Machine> Clone for Placement<R, H, M> {
    fn clone(&self) -> Self {
        Placement { raft: self.raft.clone(), shared: self.shared.clone(), machine: self.machine.clone() }
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> Placement<R, H, M> {
    /// Starts a replica from what the entry log and the machine have.
    ///
    /// # Errors
    /// Its records were damaged or are gone, the two don't fit together, or an id or the settings are wrong.
    pub async fn start(
        settings: &Settings,
        (placement, replica): (PlacementId, ReplicaId),
        node: NodeLog,
        host: H,
        machine: M,
    ) -> Result<Self, StartError> {
        start::check_replicas([replica])?;
        let state = machine.state();
        let now = host.now();
        let clock = node.with(|log| start::fit(log, placement, &state, now)).map_err(StartError)?;
        let config = settings.config(placement).validate().map_err(|error| StartError(error.to_string()))?;
        let shared = Rc::new(Shared::new((placement, replica), node, host, (state, clock)));
        let machine = Rc::new(RefCell::new(machine));
        let applier = Applier { shared: shared.clone(), machine: machine.clone() };
        let (links, storage) = (Links(shared.clone()), Storage(shared.clone()));
        let raft = Raft::new(replica, Arc::new(config), links, storage, applier).await;
        let raft = raft.map_err(|error| StartError(error.to_string()))?;
        shared.is_running.set(true);
        Ok(Placement { raft, shared, machine })
    }

    /// Gives a new placement its members. Every member does it, with the same ones.
    ///
    /// # Errors
    /// The placement has members, an id is wrong, or the placement has stopped.
    pub async fn initialize(&self, members: &BTreeSet<ReplicaId>) -> Result<(), StartError> {
        start::check_replicas(members.iter().copied())?;
        let members: BTreeMap<ReplicaId, MemberInfo> = members.iter().map(|id| (*id, MemberInfo)).collect();
        self.raft.initialize(members).await.map_err(|error| StartError(error.to_string()))
    }

    /// Proposes commands, and waits until they are applied here.
    pub async fn propose(&self, commands: Bytes) -> Proposed {
        if let Err(reason) = check_commands(commands.len()) {
            return Proposed::Refused(reason);
        }
        match self.raft.client_write(Commands(commands)).await {
            Ok(written) => Proposed::Applied {
                term: written.log_id.leader_id.term,
                index: written.log_id.index,
                answer: written.data,
            },
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                Proposed::NotLeader(forward.leader_id)
            }
            Err(error) => Proposed::Unknown(error.to_string()),
        }
    }

    /// The read index, after a majority has said that it follows this replica.
    pub async fn read_index(&self) -> ReadIndex {
        match self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
            Ok(linearizer) => ReadIndex::At(linearizer.read_log_id().index()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                ReadIndex::NotLeader(forward.leader_id)
            }
            Err(_) => ReadIndex::Unknown,
        }
    }

    /// Makes these replicas the voters. Those that are new have to be learners before.
    ///
    /// # Errors
    /// The change was refused, or it isn't known whether it was made.
    pub async fn change_voters(&self, voters: BTreeSet<ReplicaId>) -> Result<(), StartError> {
        start::check_replicas(voters.iter().copied())?;
        let change = self.raft.change_membership(ChangeMembers::ReplaceAllVoters(voters), false).await;
        change.map(drop).map_err(|error| StartError(error.to_string()))
    }

    /// Ends a change of the voters that an earlier leader began, and that has two sets of them: the engine leaves that to its user.
    pub(crate) async fn end_change_of_voters(&self, sets: &[BTreeSet<ReplicaId>]) {
        if let Some(next) = sets.last().filter(|_| sets.len() > 1)
            && let Err(error) = self.change_voters(next.clone()).await
        {
            tracing::warn!("the voters of placement {} can't be changed yet: {error}", self.shared.placement);
        }
    }

    /// Adds a learner, which gets entries and has no vote.
    ///
    /// # Errors
    /// The change was refused, or it isn't known whether it was made.
    pub async fn add_learner(&self, replica: ReplicaId) -> Result<(), StartError> {
        start::check_replicas([replica])?;
        let added = self.raft.add_learner(replica, MemberInfo, false).await;
        added.map(drop).map_err(|error| StartError(error.to_string()))
    }

    /// Hands the leadership over. Does nothing where it isn't.
    ///
    /// # Errors
    /// The placement has stopped.
    pub async fn transfer(&self, to: ReplicaId) -> Result<(), StartError> {
        self.raft.trigger().transfer_leader(to).await.map_err(|error| StartError(error.to_string()))
    }

    /// Waits until the leader, the role or the term has changed, as this replica sees it, since the last call with these.
    pub async fn leadership_changed(&self, seen: &mut LeadershipSeen<R>) {
        let metrics = seen.0.get_or_insert_with(|| self.raft.server_metrics());
        // The sender is only gone with the engine, whose end its state says.
        let _ = metrics.changed().await;
    }

    /// The term, the replica that leads, and whether that is this one: as of the last change that [`Self::leadership_changed`] tells.
    #[must_use]
    pub fn leadership(&self) -> (u64, Option<ReplicaId>, bool) {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        (metrics.vote.leader_id.term, metrics.current_leader, metrics.state == ServerState::Leader)
    }

    /// The time since this leader sent what a quorum has answered last; `None` if it doesn't lead, or none has answered.
    #[must_use]
    pub fn quorum_answered(&self) -> Option<Duration> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.last_quorum_acked.map(|acked| Types::<R>::now() - acked.into_inner())
    }

    /// Whether nothing was ever written here: neither a vote nor an entry.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let (has_vote, end) = self
            .shared
            .node
            .with(|log| (log.vote(self.shared.placement).is_some(), log.bounds(self.shared.placement).end));
        !has_vote && end == 0 && self.shared.state.borrow().applied.is_none()
    }

    /// Purges the entries below this index, which are durably applied. The engine keeps those that a follower is being sent.
    ///
    /// # Errors
    /// Some of them aren't durably applied, or the placement has stopped.
    pub async fn purge(&self, below: u64) -> Result<(), StartError> {
        let Some(last) = below.checked_sub(1) else { return Ok(()) };
        let applied = self.shared.node.with(|log| log.durably_applied(self.shared.placement));
        if below > applied {
            let text = format!("entries below {below} can't be purged, those below {applied} are durably applied");
            return Err(StartError(text));
        }
        self.name_state(last).await?;
        self.raft.trigger().purge_log(last).await.map_err(|error| StartError(error.to_string()))
    }

    /// Lets the engine name a state that has this entry: it purges nothing behind the last one that it knows of.
    async fn name_state(&self, last: u64) -> Result<(), StartError> {
        let mut metrics = self.raft.metrics();
        let before = metrics.borrow_and_update().snapshot.map(|id| id.index);
        if before >= Some(last) {
            return Ok(());
        }
        self.raft.trigger().snapshot().await.map_err(|error| StartError(error.to_string()))?;
        loop {
            let ended = metrics.changed().await.is_err();
            let metrics = metrics.borrow_and_update();
            if let Err(error) = &metrics.running_state {
                return Err(StartError(error.to_string()));
            }
            if metrics.snapshot.map(|id| id.index) > before {
                return Ok(());
            }
            if ended {
                return Err(StartError("the placement has stopped".into()));
            }
        }
    }

    /// Notes that entries below this index are durably applied.
    ///
    /// # Errors
    /// The index falls.
    pub fn applied_durably(&self, below: u64) -> Result<(), StartError> {
        let noted = self.shared.log(|log| log.applied(self.shared.placement, below));
        noted.map_err(|error| StartError(error.to_string()))
    }

    /// Index behind the last entry that is said to be durably applied.
    #[must_use]
    pub fn durably_applied(&self) -> u64 {
        self.shared.node.with(|log| log.durably_applied(self.shared.placement))
    }

    /// Index of the first entry that isn't purged.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.shared.node.with(|log| log.bounds(self.shared.placement).first)
    }

    /// Whether the log doesn't begin with the first entry; purges it if that is possible. What a placement had before its first entry is in
    /// none: a newcomer gets it, with the state whole, only if the log begins later.
    pub(crate) async fn begins_later(&self) -> bool {
        let durable = self.durably_applied();
        if self.first_index() == 0
            && durable > 0
            && let Err(error) = self.purge(durable).await
        {
            tracing::warn!("entries of placement {} can't be purged yet: {error}", self.shared.placement);
        }
        self.first_index() > 0
    }

    /// Bytes of the files that have entries of any placement of this node.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        self.shared.node.with(|log| log.bytes_in_use())
    }

    /// Number of files that have entries of any placement of this node.
    pub(crate) fn entry_files(&self) -> usize {
        self.shared.node.with(|log| log.files_in_use())
    }

    /// The index below which every replica is known to have all entries, at the leader. If the files of entries take more than so many
    /// bytes, replicas that lag behind the majority aren't waited for: they get the state.
    pub(crate) fn held_below(&self, catch_up_bytes: u64) -> u64 {
        let (state, own) = (self.state(), self.shared.replica);
        let of_others = |replicas: BTreeSet<ReplicaId>| {
            let others = replicas.into_iter().filter(|replica| *replica != own);
            let mut matched: Vec<_> = others.map(|other| self.matched(other).map_or(0, |index| index + 1)).collect();
            matched.sort_unstable();
            matched
        };
        if self.entry_bytes() <= catch_up_bytes {
            return of_others(state.replicas()).first().copied().unwrap_or(u64::MAX);
        }
        let of_voters = of_others(state.voters().into_iter().flatten().collect());
        // With this replica, those from here on are a majority.
        of_voters.get(of_voters.len() / 2).copied().unwrap_or(u64::MAX)
    }

    /// The last entry that another replica is known to have, at the leader.
    #[must_use]
    pub fn matched(&self, replica: ReplicaId) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.replication.as_ref()?.get(&replica)?.as_ref().map(|id| id.index)
    }

    /// The replica that leads, as far as this one knows, and the term.
    #[must_use]
    pub fn leader(&self) -> (u64, Option<ReplicaId>) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_term, metrics.current_leader)
    }

    /// The replica as the engine sees it.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let role = match metrics.state {
            ServerState::Learner => ReplicaRole::Learner,
            ServerState::Follower => ReplicaRole::Follower,
            ServerState::Candidate => ReplicaRole::Candidate,
            ServerState::Leader => ReplicaRole::Leader,
            ServerState::Shutdown => ReplicaRole::Stopped,
        };
        let index = |id: Option<LogIdOf<Types<R>>>| id.map_or(0, |id| id.index);
        ReplicaStatus {
            role,
            term: metrics.current_term,
            last: metrics.last_log_index.unwrap_or(0),
            committed: index(metrics.local_committed),
            applied: index(metrics.last_applied),
            snapshot: self.first_index().saturating_sub(1),
        }
    }

    /// The state of what is applied here.
    #[must_use]
    pub fn state(&self) -> PlacementState {
        self.shared.state.borrow().clone()
    }

    /// The text with which the placement stopped.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped()
    }

    /// Looks at the machine.
    pub fn with_machine<T>(&self, look: impl FnOnce(&mut M) -> T) -> T {
        look(&mut self.machine.borrow_mut())
    }

    /// Stops the replica's tasks.
    pub async fn shutdown(&self) {
        // Its tasks are over in any case.
        let _ = self.raft.shutdown().await;
    }
}
