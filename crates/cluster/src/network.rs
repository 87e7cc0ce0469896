//! The services of a node for its placements, and the engine's network over its links.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use leveret_log::{Entry, EntryRead, Nanos, PlacementId};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AsyncRuntime, RaftNetworkFactory, RaftNetworkV2};

use crate::frame::{Reply, Request, SnapshotFrame};
use crate::machine::Saved;
use crate::shared::Shared;
use crate::types::{LogId, MemberInfo, ReplicaId, STATE_BYTES_MAX, Term, Types, VoteOfRaft};
use crate::vetting::AskedOf;

/// The node under its placements: time, disk and links.
pub trait Host: Clone + 'static {
    /// Monotonic time.
    fn now(&self) -> Nanos;
    /// Wall time in milliseconds since the Unix epoch.
    fn wall_clock(&self) -> u64;
    /// Records were appended to the entry log: its lanes may have to be woken.
    fn appended(&self);
    /// Reads entries that aren't in memory, in this order.
    fn read(&self, reads: Vec<EntryRead>) -> impl Future<Output = Result<Vec<Entry>, String>>;
    /// Sends a frame to a replica, and waits for its answer for at most this long.
    fn call(
        &self,
        placement: PlacementId,
        target: ReplicaId,
        frame: Bytes,
        within: Duration,
    ) -> impl Future<Output = Result<Bytes, String>>;
    /// A placement has stopped, with this text.
    fn stopped(&self, placement: PlacementId, text: &str);
}

/// A link to one replica.
pub(crate) struct Network<H> {
    shared: Rc<Shared<H>>,
    target: ReplicaId,
}

/// Makes links.
pub(crate) struct Links<H>(pub Rc<Shared<H>>);

impl<R: AsyncRuntime, H: Host> RaftNetworkFactory<Types<R>> for Links<H> {
    type Network = Network<H>;

    async fn new_client(&mut self, target: ReplicaId, _: &MemberInfo) -> Network<H> {
        Network { shared: self.0.clone(), target }
    }
}

/// Term of a request's vote, the entry before those sent, and the last of them.
type Sent = (u64, Option<LogId>, Option<LogId>);

impl<H: Host> Network<H> {
    async fn call<R: AsyncRuntime>(
        &self,
        request: Request,
        (with, previous, last): Sent,
        within: Duration,
    ) -> Result<Reply, RPCError<Types<R>>> {
        let shared = &self.shared;
        let frame = request.encode(shared.placement);
        let answer = shared.host.call(shared.placement, self.target, frame, within).await;
        let answer = answer.map_err(|reason| unreachable(&reason))?;
        let reply = match Reply::decode(&answer) {
            Some(Reply::Refused(reason)) => return Err(unreachable(&reason)),
            Some(reply) => reply,
            None => return Err(wrong()),
        };
        let acknowledged = shared.acknowledged(self.target, with);
        let asked =
            AskedOf { replica: shared.replica, term: shared.term(), with, sent: (previous, last), acknowledged };
        asked.check(&reply).map_err(|reason| unreachable(&format!("replica {}: {reason}", self.target)))?;
        match &reply {
            Reply::Appended => shared.acknowledge(self.target, with, last),
            Reply::AppendedUpTo(id) => shared.acknowledge(self.target, with, *id),
            _ => {}
        }
        Ok(reply)
    }
}

fn wrong<R: AsyncRuntime>() -> RPCError<Types<R>> {
    RPCError::Network(NetworkError::from_string("the answer isn't one to the request"))
}

fn unreachable<R: AsyncRuntime>(reason: &str) -> RPCError<Types<R>> {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

impl<R: AsyncRuntime, H: Host> RaftNetworkV2<Types<R>> for Network<H> {
    type SnapshotData = Saved;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        let last = rpc.entries.last().map(|entry| entry.id).or(rpc.prev_log_id);
        let sent = (rpc.vote.leader_id.term, rpc.prev_log_id, last);
        let request = Request::Append {
            vote: rpc.vote,
            previous: rpc.prev_log_id,
            committed: rpc.leader_commit,
            entries: rpc.entries,
        };
        match self.call(request, sent, option.hard_ttl()).await? {
            Reply::Appended => Ok(AppendEntriesResponse::Success),
            Reply::AppendedUpTo(id) => Ok(AppendEntriesResponse::PartialSuccess(id)),
            Reply::Conflict => Ok(AppendEntriesResponse::Conflict),
            Reply::HigherVote(vote) => Ok(AppendEntriesResponse::HigherVote(vote)),
            _ => Err(wrong()),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let sent = (rpc.vote.leader_id.term, None, None);
        let request = Request::Vote { vote: rpc.vote, last: rpc.last_log_id, is_transfer: rpc.leadership_transfer };
        match self.call(request, sent, option.hard_ttl()).await? {
            Reply::Voted { vote, is_granted, last } => Ok(VoteResponse::new(vote, last, is_granted)),
            _ => Err(wrong()),
        }
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        let sent = (rpc.vote.leader_id.term, None, None);
        let request = Request::PreVote { vote: rpc.vote, last: rpc.last_log_id, is_transfer: rpc.leadership_transfer };
        match self.call(request, sent, option.hard_ttl()).await? {
            Reply::Voted { vote, is_granted, last } => Ok(VoteResponse::new(vote, last, is_granted)),
            _ => Err(wrong()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOfRaft,
        snapshot: openraft::Snapshot<Term, ReplicaId, MemberInfo, Saved>,
        _cancel: impl Future<Output = ReplicationClosed> + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let Saved { clock, state } = snapshot.snapshot;
        if state.len() > STATE_BYTES_MAX {
            let text = format!("a state of {} bytes can't be sent; it has at most {STATE_BYTES_MAX}", state.len());
            return Err(StreamingError::Unreachable(Unreachable::from_string(text)));
        }
        let sent = (vote.leader_id.term, None, None);
        let request = Request::Snapshot(SnapshotFrame {
            vote,
            last: snapshot.meta.last_log_id,
            members_at: *snapshot.meta.last_membership.log_id(),
            members: snapshot.meta.last_membership.membership().clone(),
            clock,
            state,
        });
        match self.call::<R>(request, sent, option.hard_ttl()).await {
            Ok(Reply::Installed(vote)) => Ok(SnapshotResponse::new(vote)),
            Ok(_) => Err(StreamingError::Network(NetworkError::from_string("the answer isn't one to the request"))),
            Err(error) => Err(StreamingError::Unreachable(Unreachable::from_string(error))),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<R>>, RPCError<Types<R>>> {
        let sent = (request.from_leader().leader_id.term, None, None);
        let frame = Request::Transfer {
            from: *request.from_leader(),
            to: *request.to_node_id(),
            last: request.last_log_id().copied(),
        };
        match self.call(frame, sent, option.hard_ttl()).await? {
            Reply::Transferred => Ok(Ok(())),
            _ => Err(wrong()),
        }
    }
}
