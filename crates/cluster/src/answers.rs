//! The answers of a replica to frames of others.

use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::RaftError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use openraft::{AsyncRuntime, SnapshotMeta, StoredMembership};

use crate::frame::{Reply, Request, SnapshotFrame};
use crate::machine::{LocalFuture, Machine, Saved};
use crate::network::Host;
use crate::placement::Placement;
use crate::storage::to_raft;
use crate::types::{LogId, Types, VoteOfRaft};
use crate::vetting::Vetted;

/// Longest time for an answer to a question about a state.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

impl<R: AsyncRuntime, H: Host, M: Machine> Placement<R, H, M> {
    /// Answers a frame of another replica. `None` if it is one for another placement.
    pub async fn answer(&self, frame: &Bytes) -> Option<Bytes> {
        let refused = |reason: &str| Some(Reply::Refused(reason.to_owned()).encode());
        let Some((placement, request)) = Request::decode(frame) else {
            return refused("the frame isn't one of this version");
        };
        if placement != self.shared.placement {
            return None;
        }
        if let Err(reason) = self.check(&request) {
            return refused(&format!("placement {placement} refuses a frame: {reason}"));
        }
        let reply = self.ask_engine(request).await;
        Some(reply.unwrap_or_else(|error| Reply::Refused(error.to_string())).encode())
    }

    /// Whether the engine may see this request.
    fn check(&self, request: &Request) -> Result<(), String> {
        let shared = &self.shared;
        let committed = self.raft.metrics().borrow_watched().local_committed;
        let committed = committed.map(|id| (id.leader_id.term, id.index)).max(shared.state.borrow().applied);
        let term_of = |index| shared.node.with(|log| log.term(shared.placement, index));
        Vetted { replica: shared.replica, term: shared.term(), committed, term_of: &term_of }.check(request)
    }

    async fn ask_engine(&self, request: Request) -> Result<Reply, RaftError<Types<R>>> {
        match request {
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
                self.raft.vote(vote_request(vote, last, is_transfer)).await.map(voted)
            }
            Request::PreVote { vote, last, is_transfer } => {
                self.raft.pre_vote(vote_request(vote, last, is_transfer)).await.map(voted)
            }
            Request::Snapshot(frame) => {
                // One at a time: the machine completes one state, and is given that one.
                if self.shared.is_completing.replace(true) {
                    return Ok(Reply::Refused("a state is being completed already".to_owned()));
                }
                let reply = self.replace(frame).await;
                self.shared.is_completing.set(false);
                reply
            }
            Request::Ask(question) => {
                let answer = self.machine.borrow().answer(&question);
                Ok(answer.await.map_or_else(Reply::Refused, Reply::Told))
            }
            Request::Transfer { from, to, last } => {
                let request = TransferLeaderRequest::new(from, to, last);
                match self.raft.handle_transfer_leader(request).await {
                    Ok(Ok(())) => Ok(Reply::Transferred),
                    Ok(Err(reason)) => Ok(Reply::Refused(reason.to_string())),
                    Err(error) => Ok(Reply::Refused(error.to_string())),
                }
            }
        }
    }
}

impl<R: AsyncRuntime, H: Host, M: Machine> Placement<R, H, M> {
    /// Completes a state, and gives it to the engine.
    async fn replace(&self, frame: SnapshotFrame) -> Result<Reply, RaftError<Types<R>>> {
        let is_new = |frame: &SnapshotFrame| {
            frame.last.is_some_and(|last| self.shared.state.borrow().applied < Some((last.leader_id.term, last.index)))
        };
        if is_new(&frame)
            && let Err(reason) = self.complete(&frame).await
        {
            return Ok(Reply::Refused(reason));
        }
        if let Some(reply) = self.has_in_log(&frame) {
            self.machine.borrow().abandon();
            return Ok(reply);
        }
        let is_needed = is_new(&frame);
        let SnapshotFrame { vote, last, members_at, members, clock, state } = frame;
        let meta = SnapshotMeta { last_log_id: last, last_membership: StoredMembership::new(members_at, members) };
        let snapshot = openraft::Snapshot { meta, snapshot: Saved { clock, state } };
        let reply = self.raft.install_full_snapshot(vote, snapshot).await;
        if !is_needed {
            // Entries came by another way meanwhile.
            self.machine.borrow().abandon();
        }
        reply.map(|reply| Reply::Installed(reply.vote)).map_err(RaftError::from)
    }

    /// The answer to a state whose last entry is in the log already, from the same leader: it was sent before the entries behind it, and came
    /// after them. The engine would take the log to end where the state does.
    fn has_in_log(&self, frame: &SnapshotFrame) -> Option<Reply> {
        let (shared, last) = (&self.shared, frame.last?);
        let (vote, term, is_flushed) = shared.node.with(|log| {
            let (vote, term) = (log.vote(shared.placement), log.term(shared.placement, last.index));
            (vote, term, log.durable() == log.appended())
        });
        let is_of_leader = vote.is_some_and(|vote| to_raft(vote) == frame.vote);
        if !is_of_leader || term != Some(last.leader_id.term) {
            return None;
        }
        Some(match is_flushed {
            true => Reply::Installed(frame.vote),
            false => Reply::Refused("the entries of the state are being flushed".to_owned()),
        })
    }

    /// Gets what a state leaves out, before the engine sees it: that may take long, and the engine takes entries meanwhile.
    async fn complete(&self, frame: &SnapshotFrame) -> Result<(), String> {
        let shared = &self.shared;
        let (asking, leader) = (shared.clone(), frame.vote.leader_id.voted_for);
        let ask = move |question| -> LocalFuture<Result<Bytes, String>> {
            let shared = asking.clone();
            Box::pin(async move {
                let question = Request::Ask(question).encode(shared.placement);
                let answer = shared.host.call(shared.placement, leader, question, ANSWER_WITHIN).await?;
                match Reply::decode(&answer) {
                    Some(Reply::Told(answer)) => Ok(answer),
                    Some(Reply::Refused(reason)) => Err(reason),
                    _ => Err("the answer isn't one to the request".to_owned()),
                }
            })
        };
        let completing = self.machine.borrow().complete(&frame.state, Box::new(ask));
        completing.await
    }
}

fn vote_request<R: AsyncRuntime>(vote: VoteOfRaft, last: Option<LogId>, is_transfer: bool) -> VoteRequest<Types<R>> {
    let mut request = VoteRequest::new(vote, last);
    request.leadership_transfer = is_transfer;
    request
}

fn voted<R: AsyncRuntime>(reply: VoteResponse<Types<R>>) -> Reply {
    Reply::Voted { vote: reply.vote, is_granted: reply.vote_granted, last: reply.last_log_id }
}
