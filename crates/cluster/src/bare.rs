//! The engine alone, for a comparison in the same run: a log that is a list, links that are calls, and a machine that counts. Nothing is
//! encoded, checked or written; a sync takes its time and does nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use leveret_log::PlacementId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    AsyncRuntime, LogState, Raft, RaftLogReader, RaftNetworkFactory, RaftNetworkV2, RaftSnapshotBuilder,
    StoredMembership,
};

use crate::machine::Applied;
use crate::settings::Settings;
use crate::types::{Commands, LogEntry, LogId, MemberInfo, Payload, ReplicaId, Term, Types, VoteOfRaft};

type Engine<R> = Raft<Types<R>, Counts>;
type Peers<R> = Rc<RefCell<BTreeMap<ReplicaId, Engine<R>>>>;
type Snapshot = openraft::Snapshot<Term, ReplicaId, MemberInfo, Bytes>;

/// The replicas of a placement.
pub struct Bare<R: AsyncRuntime>(Peers<R>);

impl<R: AsyncRuntime> Clone for Bare<R> {
    fn clone(&self) -> Self {
        Bare(self.0.clone())
    }
}

impl<R: AsyncRuntime> Bare<R> {
    /// Starts so many replicas, whose frames travel and whose syncs take so long.
    ///
    /// # Panics
    /// If the engine refuses its settings.
    pub async fn start(replicas: u64, travel: Duration, sync: Duration) -> Bare<R> {
        let bare = Bare(Rc::default());
        let config = Settings::default().config(PlacementId(0)).validate().expect("the settings are ours");
        let config = Arc::new(config);
        for id in 1..=replicas {
            let links = Links { peers: bare.0.clone(), travel };
            let raft = Raft::new(id, config.clone(), links, List::new(sync), Counts::default()).await;
            bare.0.borrow_mut().insert(id, raft.expect("it starts from nothing"));
        }
        let members: BTreeMap<_, _> = (1..=replicas).map(|id| (id, MemberInfo)).collect();
        let first = bare.0.borrow()[&1].clone();
        // A second call would be refused.
        let _ = first.initialize(members).await;
        bare
    }

    /// Proposes commands at whoever leads. False if they weren't applied.
    pub async fn propose(&self, commands: Bytes) -> bool {
        let leader = {
            let peers = self.0.borrow();
            let leader = peers.values().find_map(|raft| raft.metrics().borrow_watched().current_leader);
            leader.and_then(|leader| peers.get(&leader).cloned())
        };
        match leader {
            Some(leader) => leader.client_write(Commands(commands)).await.is_ok(),
            None => false,
        }
    }

    /// The ids of the replicas.
    #[must_use]
    pub fn replicas(&self) -> BTreeSet<ReplicaId> {
        self.0.borrow().keys().copied().collect()
    }
}

struct List<R: AsyncRuntime> {
    kept: Rc<RefCell<(Option<VoteOfRaft>, Vec<LogEntry>)>>,
    /// Appends that wait for the next sync.
    waiting: Rc<RefCell<Vec<IOFlushed<Types<R>>>>>,
    /// The time that a sync takes.
    sync: Duration,
}

impl<R: AsyncRuntime> Clone for List<R> {
    fn clone(&self) -> Self {
        List { kept: self.kept.clone(), waiting: self.waiting.clone(), sync: self.sync }
    }
}

impl<R: AsyncRuntime> List<R> {
    fn new(sync: Duration) -> Self {
        List { kept: Rc::default(), waiting: Rc::default(), sync }
    }

    /// Syncs until nothing waits: each sync has what was appended before it began.
    async fn sync(self) {
        loop {
            let now = self.waiting.borrow().len();
            if now == 0 {
                return;
            }
            R::sleep(self.sync).await;
            let synced: Vec<_> = self.waiting.borrow_mut().drain(..now).collect();
            synced.into_iter().for_each(|flushed| flushed.io_completed(Ok(())));
        }
    }
}

impl<R: AsyncRuntime> RaftLogReader<Types<R>> for List<R> {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + std::fmt::Debug>(
        &mut self,
        range: B,
    ) -> io::Result<Vec<LogEntry>> {
        let list = self.kept.borrow();
        let from = match range.start_bound() {
            Bound::Included(from) => *from as usize,
            _ => 0,
        };
        let to = match range.end_bound() {
            Bound::Excluded(to) => (*to as usize).min(list.1.len()),
            _ => list.1.len(),
        };
        Ok(list.1[from.min(to)..to].to_vec())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOfRaft>> {
        Ok(self.kept.borrow().0)
    }
}

impl<R: AsyncRuntime> RaftLogStorage<Types<R>> for List<R> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<R>>> {
        let last_log_id = self.kept.borrow().1.last().map(|entry| entry.id);
        Ok(LogState { last_purged_log_id: None, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOfRaft) -> io::Result<()> {
        self.kept.borrow_mut().0 = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types<R>>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry>,
    {
        self.kept.borrow_mut().1.extend(entries);
        let is_syncing = !self.waiting.borrow().is_empty();
        self.waiting.borrow_mut().push(flushed);
        if !is_syncing {
            drop(R::spawn(self.clone().sync()));
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.kept.borrow_mut().1.truncate(last.map_or(0, |id| id.index as usize + 1));
        Ok(())
    }

    async fn purge(&mut self, _: LogId) -> io::Result<()> {
        Ok(())
    }
}

type Members = StoredMembership<Term, ReplicaId, MemberInfo>;

/// The number of entries, the last of them, and the members by then.
#[derive(Clone, Default)]
struct Counts(Rc<RefCell<(u64, Option<LogId>, Members)>>);

impl<R: AsyncRuntime> RaftSnapshotBuilder<Types<R>> for Counts {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (_, last_log_id, last_membership) = self.0.borrow().clone();
        Ok(Snapshot { meta: openraft::SnapshotMeta { last_log_id, last_membership }, snapshot: Bytes::new() })
    }
}

impl<R: AsyncRuntime> RaftStateMachine<Types<R>> for Counts {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        let (_, applied, members) = self.0.borrow().clone();
        Ok((applied, members))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types<R>>>> + Unpin,
    {
        let mut entries = pin!(entries);
        while let Some(next) = std::future::poll_fn(|context| entries.as_mut().poll_next(context)).await {
            let (entry, responder) = next?;
            let count = {
                let mut counts = self.0.borrow_mut();
                counts.0 += 1;
                counts.1 = Some(entry.id);
                if let Payload::Members(members) = entry.payload {
                    counts.2 = StoredMembership::new(Some(entry.id), members);
                }
                counts.0
            };
            if let Some(responder) = responder {
                responder.send(Applied(Bytes::copy_from_slice(&count.to_le_bytes())));
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        _: &openraft::SnapshotMeta<Term, ReplicaId, MemberInfo>,
        _: Bytes,
    ) -> io::Result<()> {
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(None)
    }
}

struct Links<R: AsyncRuntime> {
    peers: Peers<R>,
    travel: Duration,
}

struct Link<R: AsyncRuntime> {
    peers: Peers<R>,
    target: ReplicaId,
    travel: Duration,
}

impl<R: AsyncRuntime> RaftNetworkFactory<Types<R>> for Links<R> {
    type Network = Link<R>;

    async fn new_client(&mut self, target: ReplicaId, _: &MemberInfo) -> Link<R> {
        Link { peers: self.peers.clone(), target, travel: self.travel }
    }
}

impl<R: AsyncRuntime> Link<R> {
    async fn peer(&self) -> Result<Engine<R>, RPCError<Types<R>>> {
        R::sleep(self.travel).await;
        let peer = self.peers.borrow().get(&self.target).cloned();
        peer.ok_or_else(|| unreachable("it isn't there yet"))
    }
}

fn unreachable<R: AsyncRuntime>(reason: &str) -> RPCError<Types<R>> {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

impl<R: AsyncRuntime> RaftNetworkV2<Types<R>> for Link<R> {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        let answer = self.peer().await?.append_entries(rpc).await;
        R::sleep(self.travel).await;
        answer.map_err(|error| unreachable(&error.to_string()))
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let answer = self.peer().await?.vote(rpc).await;
        R::sleep(self.travel).await;
        answer.map_err(|error| unreachable(&error.to_string()))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let answer = self.peer().await?.pre_vote(rpc).await;
        R::sleep(self.travel).await;
        answer.map_err(|error| unreachable(&error.to_string()))
    }

    async fn full_snapshot(
        &mut self,
        _: VoteOfRaft,
        _: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        Err(StreamingError::Unreachable(Unreachable::from_string("nothing is purged here")))
    }
}
