//! A replica of a placement: started, asked, told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{Bounds, EntryError, EntryLog, PlacementId};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest};
use openraft::{AsyncRuntime, ChangeMembers, Config, Raft, SnapshotMeta, SnapshotPolicy, StoredMembership};

use crate::flushes::NodeLog;
use crate::frame::{Reply, Request, SnapshotFrame};
use crate::machine::{Applied, Applier, Machine};
use crate::network::{Host, Links};
use crate::storage::Storage;
use crate::types::{Commands, LogEntry, MemberInfo, ReplicaId, Types};

/// A placement as far as entries are applied: the term and index of the last one, and the members by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementState {
    /// Term and index of the last applied entry.
    pub applied: Option<(u64, u64)>,
    /// Term and index of the entry with these members.
    pub members_at: Option<(u64, u64)>,
    /// The members, encoded as in their entry.
    pub members: Bytes,
}

/// The engine's times, in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interval of a leader's heartbeats.
    pub heartbeat: u64,
    /// Shortest and longest time without a leader before a follower stands for election.
    pub election: (u64, u64),
    /// Time without answers of a quorum after which a leader asks, and steps down.
    pub quorum_probe: u64,
    /// Most entries in one frame.
    pub entries_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { heartbeat: 100, election: (300, 500), quorum_probe: 1000, entries_max: 300 }
    }
}

impl Settings {
    fn config(&self, placement: PlacementId) -> Config {
        Config {
            cluster_name: format!("placement {placement}"),
            heartbeat_interval: self.heartbeat,
            election_timeout_min: self.election.0,
            election_timeout_max: self.election.1,
            max_payload_entries: self.entries_max,
            // A state is made when a follower needs one.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            // A leader that sends but hears nothing would stay for ever.
            quorum_loss_probe_interval: Some(self.quorum_probe),
            enable_pre_vote: Some(true),
            // A log that went back is damage, and never repaired by others' logs under the same id.
            allow_log_reversion: Some(false),
            // After a start the machines of its queues are empty: leading needs a new term.
            enable_leader_restore: Some(false),
            ..Config::default()
        }
    }
}

/// A replica couldn't be started, or can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

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
    /// It isn't known whether it was committed: the leadership was lost, or the placement stopped.
    Unknown(String),
}

/// The parts of a replica that storage and machine share.
pub(crate) struct Shared<H> {
    pub placement: PlacementId,
    pub replica: ReplicaId,
    pub node: NodeLog,
    pub host: H,
    /// The entries that are applied.
    pub state: RefCell<PlacementState>,
    /// The placement's clock: it never goes back.
    clock: Cell<u64>,
    stopped: RefCell<Option<String>>,
}

impl<H: Host> Shared<H> {
    /// Stops the placement with this text, once.
    pub(crate) fn stop(&self, reason: &str) -> io::Error {
        let text = match reason.starts_with("placement ") {
            true => reason.to_owned(),
            false => format!("placement {} stops: {reason}", self.placement),
        };
        if self.stopped.borrow().is_none() {
            *self.stopped.borrow_mut() = Some(text.clone());
            self.host.stopped(self.placement, &text);
        }
        io::Error::other(text)
    }

    /// Calls the log; what it refuses stops the placement.
    pub(crate) fn log<T>(&self, call: impl FnOnce(&mut EntryLog) -> Result<T, EntryError>) -> io::Result<T> {
        if let Some(text) = &*self.stopped.borrow() {
            return Err(io::Error::other(text.clone()));
        }
        self.node.with(call).map_err(|error| self.stop(&error.to_string()))
    }

    /// Fills in what only the replica knows that made an entry.
    pub(crate) fn complete(&self, mut entry: LogEntry) -> LogEntry {
        if entry.led_by == 0 {
            entry.led_by = self.replica;
            entry.clock = self.clock.get().max(self.host.wall_clock());
            entry.committed = self.state.borrow().applied.map_or(0, |(_, index)| index + 1);
        }
        self.clock.set(self.clock.get().max(entry.clock));
        entry
    }
}

/// A replica of a placement.
pub struct Placement<R: AsyncRuntime, H: Host, M: Machine> {
    raft: Raft<Types<R>, Applier<H, M>>,
    shared: Rc<Shared<H>>,
    machine: Rc<RefCell<M>>,
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
    /// Its records were damaged, the two don't fit together, or the settings are wrong.
    pub async fn start(
        settings: &Settings,
        (placement, replica): (PlacementId, ReplicaId),
        node: NodeLog,
        host: H,
        machine: M,
    ) -> Result<Self, StartError> {
        let state = machine.state();
        let next = state.applied.map_or(0, |(_, index)| index + 1);
        let term = state.applied.map_or(0, |(term, _)| term);
        let now = host.now();
        let fitting = node.with(|log| -> Result<(), EntryError> {
            log.applied(placement, next)?;
            let Bounds { first, end, .. } = log.bounds(placement);
            if next < first {
                return Err(EntryError::NotThere { placement, from: next, to: first, first, end });
            }
            // Others made an entry durable before this node did, and the store synced it before the entry log.
            if next > end { log.purge(placement, next, term, now) } else { Ok(()) }
        });
        fitting.map_err(|error| StartError(error.to_string()))?;
        let config = settings.config(placement).validate().map_err(|error| StartError(error.to_string()))?;
        let shared = Rc::new(Shared {
            placement,
            replica,
            node,
            host: host.clone(),
            state: RefCell::new(state),
            clock: Cell::new(0),
            stopped: RefCell::default(),
        });
        let machine = Rc::new(RefCell::new(machine));
        let applier = Applier { shared: shared.clone(), machine: machine.clone() };
        let links = Links { host, placement };
        let raft = Raft::new(replica, Arc::new(config), links, Storage(shared.clone()), applier).await;
        let raft = raft.map_err(|error| StartError(error.to_string()))?;
        Ok(Placement { raft, shared, machine })
    }

    /// Gives a new placement its members. Every member does it, with the same ones.
    ///
    /// # Errors
    /// The placement has members, or has stopped.
    pub async fn initialize(&self, members: &BTreeSet<ReplicaId>) -> Result<(), StartError> {
        let members: BTreeMap<ReplicaId, MemberInfo> = members.iter().map(|id| (*id, MemberInfo)).collect();
        self.raft.initialize(members).await.map_err(|error| StartError(error.to_string()))
    }

    /// Proposes commands, and waits until they are applied here.
    pub async fn propose(&self, commands: Bytes) -> Proposed {
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

    /// Makes these replicas the voters. Those that are new have to be learners before.
    ///
    /// # Errors
    /// The change was refused, or it isn't known whether it was made.
    pub async fn change_voters(&self, voters: BTreeSet<ReplicaId>) -> Result<(), StartError> {
        let change = self.raft.change_membership(ChangeMembers::ReplaceAllVoters(voters), false).await;
        change.map(drop).map_err(|error| StartError(error.to_string()))
    }

    /// Adds a learner, which gets entries and has no vote.
    ///
    /// # Errors
    /// The change was refused, or it isn't known whether it was made.
    pub async fn add_learner(&self, replica: ReplicaId) -> Result<(), StartError> {
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

    /// Notes that the machine's state up to its last durable one survives a stop, and purges the entries below this index.
    ///
    /// # Errors
    /// The placement has stopped.
    pub async fn purge(&self, below: u64) -> Result<(), StartError> {
        let Some(last) = below.checked_sub(1) else { return Ok(()) };
        self.raft.trigger().purge_log(last).await.map_err(|error| StartError(error.to_string()))
    }

    /// Notes that entries below this index are durably applied.
    ///
    /// # Errors
    /// The index falls.
    pub fn applied_durably(&self, below: u64) -> Result<(), StartError> {
        let noted = self.shared.log(|log| log.applied(self.shared.placement, below));
        noted.map_err(|error| StartError(error.to_string()))
    }

    /// The replica that leads, as far as this one knows, and the term.
    #[must_use]
    pub fn leader(&self) -> (u64, Option<ReplicaId>) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_term, metrics.current_leader)
    }

    /// The state of what is applied here.
    #[must_use]
    pub fn state(&self) -> PlacementState {
        self.shared.state.borrow().clone()
    }

    /// The text with which the placement stopped.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped.borrow().clone()
    }

    /// Looks at the machine.
    pub fn with_machine<T>(&self, look: impl FnOnce(&mut M) -> T) -> T {
        look(&mut self.machine.borrow_mut())
    }

    /// Answers a frame of another replica. `None` if it isn't one for this placement.
    pub async fn answer(&self, frame: &Bytes) -> Option<Bytes> {
        let (placement, request) = Request::decode(frame)?;
        if placement != self.shared.placement {
            return None;
        }
        let reply = match request {
            Request::Append { vote, previous, committed, entries } => {
                let request = AppendEntriesRequest { vote, prev_log_id: previous, entries, leader_commit: committed };
                self.raft.append_entries(request).await.map(|reply| match reply {
                    AppendEntriesResponse::Success => Reply::Appended,
                    AppendEntriesResponse::PartialSuccess(id) => Reply::AppendedUpTo(id),
                    AppendEntriesResponse::Conflict => Reply::Conflict,
                    AppendEntriesResponse::HigherVote(vote) => Reply::HigherVote(vote),
                })
            }
            Request::Vote { vote, last, is_transfer } => {
                let mut request = VoteRequest::new(vote, last);
                request.leadership_transfer = is_transfer;
                let reply = self.raft.vote(request).await;
                reply.map(|reply| Reply::Voted {
                    vote: reply.vote,
                    is_granted: reply.vote_granted,
                    last: reply.last_log_id,
                })
            }
            Request::PreVote { vote, last, is_transfer } => {
                let mut request = VoteRequest::new(vote, last);
                request.leadership_transfer = is_transfer;
                let reply = self.raft.pre_vote(request).await;
                reply.map(|reply| Reply::Voted {
                    vote: reply.vote,
                    is_granted: reply.vote_granted,
                    last: reply.last_log_id,
                })
            }
            Request::Snapshot(SnapshotFrame { vote, last, members_at, members, state }) => {
                let meta =
                    SnapshotMeta { last_log_id: last, last_membership: StoredMembership::new(members_at, members) };
                let snapshot = openraft::Snapshot { meta, snapshot: state };
                let reply = self.raft.install_full_snapshot(vote, snapshot).await;
                reply.map(|reply| Reply::Installed(reply.vote)).map_err(RaftError::from)
            }
            Request::Transfer { from, to, last } => {
                let request = TransferLeaderRequest::new(from, to, last);
                match self.raft.handle_transfer_leader(request).await {
                    Ok(Ok(())) => Ok(Reply::Transferred),
                    Ok(Err(reason)) => Ok(Reply::Refused(reason.to_string())),
                    Err(error) => Ok(Reply::Refused(error.to_string())),
                }
            }
        };
        Some(reply.unwrap_or_else(|error| Reply::Refused(error.to_string())).encode())
    }

    /// Stops the replica's tasks.
    pub async fn shutdown(&self) {
        // Its tasks are over in any case.
        let _ = self.raft.shutdown().await;
    }
}
