//! The engine's storage over the entry log.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_core::Stream;
use leveret_log::{FoundEntry, Vote};
use openraft::async_runtime::{Oneshot, OneshotSender};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{AsyncRuntime, LogState, RaftLogReader};

use crate::entry_codec::log_id;
use crate::network::Host;
use crate::shared::Shared;
use crate::types::{ENTRIES_BYTES, LogEntry, LogId, Types, VoteOfRaft};

/// A placement's log. Clones share it.
pub(crate) struct Storage<H>(pub Rc<Shared<H>>);

impl<H> Clone for Storage<H> {
    fn clone(&self) -> Self {
        Storage(self.0.clone())
    }
}

fn from_raft(vote: &VoteOfRaft) -> Vote {
    Vote { term: vote.leader_id.term, replica: vote.leader_id.voted_for, is_leader: vote.committed }
}

/// A saved vote as the engine has it.
pub(crate) fn to_raft(vote: Vote) -> VoteOfRaft {
    match vote.is_leader {
        true => VoteOfRaft::new_committed(vote.term, vote.replica),
        false => VoteOfRaft::new(vote.term, vote.replica),
    }
}

impl<H: Host> Storage<H> {
    /// The entries of this range, or its first ones if they have more than so many bytes. The first is there in any case.
    async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<LogEntry>> {
        let shared = &self.0;
        let found = shared.log(|log| log.read_up_to(shared.placement, range, bytes_max))?;
        let of = |entry| LogEntry::of(entry).map_err(|reason| shared.stop(&reason));
        let reads = found.iter().filter_map(|found| match found {
            FoundEntry::OnDisk(read) => Some(read.clone()),
            FoundEntry::Here(_) => None,
        });
        let reads: Vec<_> = reads.collect();
        let mut read = match reads.is_empty() {
            true => Vec::new(),
            false => shared.host.read(reads).await.map_err(|reason| shared.stop(&reason))?,
        }
        .into_iter();
        let entries = found.into_iter().map(|found| match found {
            FoundEntry::Here(entry) => of(entry),
            FoundEntry::OnDisk(_) => {
                read.next().map_or_else(|| Err(shared.stop("fewer entries were read than asked for")), of)
            }
        });
        entries.collect()
    }

    /// The indexes of a range. Entries behind the end may be asked for; those that were purged may not.
    fn indexes(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let end = self.0.node.with(|log| log.bounds(self.0.placement).end);
        from..to.min(end).max(from)
    }
}

impl<R: AsyncRuntime, H: Host> RaftLogReader<Types<R>> for Storage<H> {
    /// Entries to apply, read piece by piece: a replica that lags has more of them than should be in memory.
    async fn entries_stream<B: RangeBounds<u64> + Clone + std::fmt::Debug>(
        &mut self,
        range: B,
    ) -> impl Stream<Item = io::Result<LogEntry>> {
        Pieces { left: self.indexes(&range), storage: self.clone(), piece: VecDeque::new(), reading: None }
    }

    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + std::fmt::Debug>(
        &mut self,
        range: B,
    ) -> io::Result<Vec<LogEntry>> {
        self.read(self.indexes(&range), usize::MAX).await
    }

    /// The entries of one frame.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        self.read(self.indexes(&(start..end)), ENTRIES_BYTES).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOfRaft>> {
        Ok(self.0.node.with(|log| log.vote(self.0.placement)).map(to_raft))
    }
}

/// Most entries of a piece.
const PIECE_ENTRIES: u64 = 1024;

type Reading = Pin<Box<dyn Future<Output = io::Result<Vec<LogEntry>>>>>;

/// Entries of a range, of which at most [`ENTRIES_BYTES`] are in memory.
struct Pieces<H> {
    left: Range<u64>,
    storage: Storage<H>,
    piece: VecDeque<LogEntry>,
    reading: Option<Reading>,
}

impl<H: Host> Stream for Pieces<H> {
    type Item = io::Result<LogEntry>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(entry) = this.piece.pop_front() {
                return Poll::Ready(Some(Ok(entry)));
            }
            let Some(reading) = &mut this.reading else {
                if this.left.is_empty() {
                    return Poll::Ready(None);
                }
                let (storage, from) = (this.storage.clone(), this.left.start);
                let to = this.left.end.min(from.saturating_add(PIECE_ENTRIES));
                this.reading = Some(Box::pin(async move { storage.read(from..to, ENTRIES_BYTES).await }));
                continue;
            };
            let read = std::task::ready!(reading.as_mut().poll(context));
            this.reading = None;
            match read {
                Ok(entries) => {
                    this.left.start += entries.len() as u64;
                    this.piece = entries.into();
                }
                Err(error) => {
                    this.left.end = this.left.start;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<R: AsyncRuntime, H: Host> RaftLogStorage<Types<R>> for Storage<H> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<R>>> {
        let bounds = self.0.node.with(|log| log.bounds(self.0.placement));
        let before = |index: u64, term| index.checked_sub(1).map(|index| log_id(term, index));
        let last_purged_log_id = before(bounds.first, bounds.purged_term);
        Ok(LogState { last_purged_log_id, last_log_id: before(bounds.end, bounds.last_term) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOfRaft) -> io::Result<()> {
        let shared = &self.0;
        let now = shared.host.now();
        let position = shared.log(|log| log.save_vote(shared.placement, from_raft(vote), now))?;
        shared.host.appended();
        if planted!(AnswerVoteEarly) {
            return Ok(());
        }
        let (sender, durable) = R::Oneshot::channel();
        let stopping = shared.clone();
        let report = Box::new(move |result: io::Result<()>| drop(sender.send(stopping.stop_unless(result))));
        shared.node.when_durable(position, report).map_err(|reason| shared.stop(&reason))?;
        durable.await.map_err(|_| io::Error::other("the entry log is gone"))?
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types<R>>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry>,
    {
        let shared = &self.0;
        let entries = entries.into_iter().map(|entry| shared.complete(entry).into_entry(shared.placement)).collect();
        let now = shared.host.now();
        let position = shared.log(|log| log.append(shared.placement, entries, now))?;
        shared.host.appended();
        let stopping = shared.clone();
        let report = Box::new(move |result| flushed.io_completed(stopping.stop_unless(result)));
        shared.node.when_durable(position, report).map_err(|reason| shared.stop(&reason))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.0.log(|log| log.cut(self.0.placement, last.map_or(0, |id| id.index + 1)))
    }

    async fn purge(&mut self, last: LogId) -> io::Result<()> {
        let now = self.0.host.now();
        self.0.log(|log| log.purge(self.0.placement, last.index + 1, last.leader_id.term, now))?;
        self.0.host.appended();
        Ok(())
    }
}
