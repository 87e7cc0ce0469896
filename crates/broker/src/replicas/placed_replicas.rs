//! The replicas of a node: what replay builds of each queue in its placements, and how far their entries are in the node's store.
//!
//! A committed entry is appended to the store at once, in one batch with a mark, and lazily synced: the entry log has it until then. A replica
//! takes it when the store has it for good, since the state of a checkpoint must not have a message whose bytes a crash could take. So what a
//! crash loses is the same part of the records, of the marks and of the replicas, and is applied again from the entry log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use leveret_log::{LiveState, Log, LogId, Nanos, Payload, Position, Wait};
use leveret_model::PlacementNumber;
use leveret_queue::{Place, QueueRecord, Replica};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::command::{Command, CommandKind, decode};
use super::copies::{CopyNumber, copy_of, queue_of};
use super::difference::Difference;
use super::mark::{AppliedMark, CONTROL_APPLIED, PlacedState, log_of, placement_of};
use crate::planted::{Bug, is_planted};
use crate::publish_origin::{self, WriterMark};
use crate::records::{departure_of, live_state_of};
use crate::streams::{LocalStream, Store as _};
use crate::ticket::Ticket;

/// The replicas of a node.
pub struct PlacedReplicas {
    pub(super) store: Arc<LocalStream>,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    /// By the log that a queue's first copy has, which is that of its id.
    pub queues: FxHashMap<LogId, Kept>,
    pub placements: BTreeMap<PlacementNumber, Applied>,
    /// States of other members that aren't complete yet.
    pub differences: BTreeMap<PlacementNumber, Difference>,
    /// The last number that a copy was given.
    pub last_copy: CopyNumber,
    /// Queues that were deleted while entries with their records waited.
    dropped: FxHashSet<LogId>,
}

/// A queue's replica.
pub(super) struct Kept {
    pub replica: Replica,
    /// The log with its messages.
    pub log: LogId,
    /// Its placement; `None` from a start on until the metadata or an entry has said it.
    pub placement: Option<PlacementNumber>,
    /// Position of the last record in it.
    pub position: Position,
}

/// A placement as far as its entries are applied.
#[derive(Default)]
pub(super) struct Applied {
    /// The mark that the replicas have.
    pub kept: Arc<AppliedMark>,
    /// Its position.
    pub position: Position,
    /// The mark of the last entry in the store.
    pub latest: Arc<AppliedMark>,
    /// Its ticket.
    pub last: Ticket,
    /// Entries in the store that the replicas don't have.
    pub pending: VecDeque<PendingEntry>,
    /// Every member has all entries below this index, as far as the leader has said.
    pub held_below: u64,
    /// Whether the replicas may have more than the mark says: a start may find a part of the next entry, if that was too large for a batch.
    /// It is applied again.
    pub may_be_ahead: bool,
}

pub(super) struct PendingEntry {
    position: Position,
    mark: Arc<AppliedMark>,
    commands: Vec<Command>,
}

/// The result of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedHere {
    /// The number of the entry among those of its leader's term; `None` for an entry without commands, and for one that is refused: see
    /// [`AppliedMark::accepts`].
    pub sequence: Option<u64>,
    /// The ticket after which the store has it for good.
    pub ticket: Ticket,
}

impl PlacedReplicas {
    /// Replicas with this store.
    pub(crate) fn new(store: Arc<LocalStream>) -> Self {
        Self { store, inner: Mutex::default() }
    }

    /// Takes queues that a start found, with their logs; `position` is that of the last record, and `placement_of` says what the metadata
    /// knows of a queue. Of several copies of a queue, the last one that is complete counts. Returns the logs of the others, which nobody
    /// needs. The marks have to be there.
    pub(crate) fn restore(
        &self,
        found: Vec<(LogId, Replica)>,
        position: Position,
        placement_of: impl Fn(LogId) -> Option<PlacementNumber>,
    ) -> Vec<LogId> {
        let mut inner = self.inner.lock();
        let copies: Vec<_> = inner.placements.values().flat_map(|applied| applied.latest.copies.clone()).collect();
        // The log of the queue's id is older than all copies.
        let age = |log: LogId| match copy_of(log) {
            None => Some(0),
            Some((_, copy)) => copies.iter().position(|complete| *complete == copy).map(|at| at + 1),
        };
        let mut left = Vec::new();
        for (log, replica) in found {
            if let Some((_, copy)) = copy_of(log) {
                inner.last_copy = inner.last_copy.max(copy);
            }
            let queue = queue_of(log);
            let is_newer = age(log).is_some() && inner.queues.get(&queue).is_none_or(|other| age(log) > age(other.log));
            if !is_newer {
                left.push(log);
                continue;
            }
            let kept = Kept { replica, log, placement: placement_of(queue), position };
            left.extend(inner.queues.insert(queue, kept).map(|older| older.log));
        }
        let of_marks = inner.placements.values().map(|applied| applied.latest.last_copy).max();
        inner.last_copy = of_marks.unwrap_or_default().max(inner.last_copy);
        left
    }

    /// Takes a mark that a start found.
    pub(crate) fn restore_mark(&self, placement: PlacementNumber, mark: AppliedMark, position: Position) {
        let mark = Arc::new(mark);
        let applied = Applied { kept: mark.clone(), latest: mark, position, may_be_ahead: true, ..Applied::default() };
        self.inner.lock().placements.insert(placement, applied);
    }

    /// The log that has their bytes.
    pub(crate) fn store(&self) -> &Arc<LocalStream> {
        &self.store
    }

    /// A placement as far as its entries are in the store.
    pub fn state(&self, placement: PlacementNumber) -> PlacedState {
        let inner = self.inner.lock();
        inner.placements.get(&placement).map(|applied| applied.latest.state.clone()).unwrap_or_default()
    }

    /// The index behind the last entry that the store has for good.
    pub fn durable_below(&self, placement: PlacementNumber) -> u64 {
        let durable = self.store.inspect(Log::durable);
        let mut inner = self.inner.lock();
        inner.drain(durable);
        let applied = inner.placements.get(&placement).and_then(|applied| applied.kept.state.applied);
        applied.map_or(0, |(_, index)| index + 1)
    }

    /// The index below which every member has all entries, as far as the leader has said.
    pub fn held_below(&self, placement: PlacementNumber) -> u64 {
        self.inner.lock().placements.get(&placement).map_or(0, |applied| applied.held_below)
    }

    /// The ticket after which the store has all entries of a placement so far for good.
    pub fn last(&self, placement: PlacementNumber) -> Ticket {
        self.inner.lock().placements.get(&placement).map(|applied| applied.last).unwrap_or_default()
    }

    /// Has the store sync what was applied up to this ticket.
    pub fn hurry(&self, last: Ticket) {
        if !last.is_nothing() {
            self.store.hurry(last.place());
        }
    }

    /// The same of all placements.
    pub(crate) fn last_of_all(&self) -> Ticket {
        let inner = self.inner.lock();
        inner.placements.values().fold(Ticket::default(), |last, applied| last.or_later(applied.last))
    }

    /// Applies a committed entry, after which the placement is in this state. `is_dropped` says whether a queue without a replica was
    /// deleted: then it gets none.
    ///
    /// # Errors
    /// The entry isn't one of this version. Nothing was applied.
    pub fn apply(
        &self,
        placement: PlacementNumber,
        state: PlacedState,
        entry: Option<&Bytes>,
        is_dropped: &dyn Fn(LogId) -> bool,
    ) -> Result<AppliedHere, String> {
        let index = state.applied.map_or(0, |(_, index)| index);
        let unreadable = || {
            format!(
                "entry {index} of placement {placement} isn't one of this version; start the release that its leader runs"
            )
        };
        let found = entry.map(|entry| decode(entry).ok_or_else(unreadable)).transpose()?;
        let term = state.applied.map_or(0, |(term, _)| term);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let applied = inner.placements.entry(placement).or_default();
        let mut mark = AppliedMark { state, ..AppliedMark::clone(&applied.latest) };
        let (mut commands, mut sequence) = (Vec::new(), None);
        if let Some((header, found)) = found {
            applied.held_below = applied.held_below.max(header.held_below);
            let is_of_term = header.term.is_none_or(|decided| decided == term);
            let is_next = is_of_term && applied.latest.accepts(term, header.sequence);
            if is_next || is_planted(Bug::TakeAnyEntry) {
                mark.next = (term, header.sequence + 1);
                (commands, sequence) = (found, Some(header.sequence));
            }
        }
        for command in &commands {
            if let CommandKind::Origin { writer, number, accepted, heard } = command.what {
                publish_origin::note(&mut mark.writers, writer, (number, accepted, heard));
            }
        }
        commands.retain(|command| match inner.queues.get(&command.log) {
            _ if matches!(command.what, CommandKind::Origin { .. }) => false,
            // One that was too large for a batch with its mark may be in the store already.
            Some(kept) => {
                !matches!(command.what, CommandKind::Message { number, .. } if number < kept.replica.ledger.next())
            }
            None => !inner.dropped.contains(&command.log) && !is_dropped(command.log),
        });
        let mark = Arc::new(mark);
        let log_of = |queue: LogId| inner.queues.get(&queue).map_or(queue, |kept| kept.log);
        let ticket = self.append(placement, &commands, &mark, &log_of);
        applied.appended(ticket, mark, commands);
        Ok(AppliedHere { sequence, ticket })
    }

    /// Appends a mark of its own.
    pub(super) fn append_mark(&self, placement: PlacementNumber, mark: AppliedMark, applied: &mut Applied) {
        let mark = Arc::new(mark);
        let ticket = self.append(placement, &[], &mark, &|queue| queue);
        applied.appended(ticket, mark, Vec::new());
    }

    /// Appends an entry to the store, with its mark.
    fn append(
        &self,
        placement: PlacementNumber,
        commands: &[Command],
        mark: &AppliedMark,
        log_of_queue: &dyn Fn(LogId) -> LogId,
    ) -> Ticket {
        let mark = mark.encode();
        if is_planted(Bug::MarkBeforeRecords) {
            let append =
                |log: &mut Log, now| log.append_control(log_of(placement), CONTROL_APPLIED, &mark, Wait::Lazy, now);
            self.store.append_together(1, mark.len(), append);
        }
        let bytes = commands.iter().map(|command| command.what.record_bytes()).sum::<usize>() + mark.len();
        self.store.append_together(commands.len() + 1, bytes, |log, now| {
            let is_run = |one: &Command, next: &Command| match (&one.what, &next.what) {
                (CommandKind::Message { number, .. }, CommandKind::Message { number: next_number, .. }) => {
                    one.log == next.log && number + 1 == *next_number
                }
                _ => false,
            };
            commands.chunk_by(is_run).for_each(|run| append_run(run, log_of_queue, log, now));
            log.append_control(log_of(placement), CONTROL_APPLIED, &mark, Wait::Lazy, now)
        })
    }

    /// The state of a log for a checkpoint, if it is one of these. All records up to `durable` are in it.
    pub(crate) fn live_state(&self, log: LogId, durable: Position) -> Option<LiveState> {
        let mut inner = self.inner.lock();
        inner.drain(durable);
        if let Some(placement) = placement_of(log) {
            let Applied { kept, position, .. } = inner.placements.get(&placement)?;
            return Some(LiveState { log, position: *position, state: kept.encode(), ..LiveState::default() });
        }
        if let Some(kept) = inner.queues.get_mut(&queue_of(log)).filter(|kept| kept.log == log) {
            return Some(live_state_of(log, kept.position, kept.replica.checkpoint()));
        }
        inner.differences.values_mut().find_map(|difference| difference.live_state(log))
    }

    /// The log with the messages of a queue.
    pub(super) fn log_of(&self, queue: LogId) -> LogId {
        self.inner.lock().queues.get(&queue).map_or(queue, |kept| kept.log)
    }

    /// Takes what this node has of a queue that is a placement's from now on. The last record in it is at this position of the store, which
    /// has it for good.
    pub(crate) fn adopt(&self, queue: LogId, mut replica: Replica, (placement, position): (PlacementNumber, Position)) {
        // Its machine had no mark.
        replica.parts.delivered_below = replica.ledger.next();
        let kept = Kept { replica, log: queue, placement: Some(placement), position };
        self.inner.lock().queues.insert(queue, kept);
    }

    /// A queue is deleted.
    pub(crate) fn forget(&self, queue: LogId) {
        let log = {
            let mut inner = self.inner.lock();
            if inner.placements.values().any(|applied| !applied.pending.is_empty()) {
                inner.dropped.insert(queue);
            }
            inner.queues.remove(&queue).map_or(queue, |kept| kept.log)
        };
        self.store.forget(log);
    }

    /// A copy of a queue's replica for a machine, once the store has everything for good; `first` is the number of the first message of a
    /// queue without one.
    pub(crate) fn copy(&self, log: LogId, first: u64) -> Result<Replica, String> {
        let durable = self.store.inspect(Log::durable);
        let mut inner = self.inner.lock();
        inner.drain(durable);
        let Some(kept) = inner.queues.get_mut(&log) else { return Ok(Replica::none(first)) };
        let mut copy = Replica::restore(&kept.replica.checkpoint()).map_err(|error| error.to_string())?;
        copy.end_marked_replay();
        Ok(copy)
    }

    /// The committed publishes of the writers of a placement.
    pub(crate) fn writers(&self, placement: PlacementNumber) -> BTreeMap<u64, WriterMark> {
        let inner = self.inner.lock();
        inner.placements.get(&placement).map(|applied| applied.latest.writers.clone()).unwrap_or_default()
    }
}

/// Appends commands to a log: one, or messages with consecutive numbers.
fn append_run(run: &[Command], log_of_queue: &dyn Fn(LogId) -> LogId, log: &mut Log, now: Nanos) {
    let [Command { log: queue, what }, ..] = run else { return };
    let of = &log_of_queue(*queue);
    match what {
        CommandKind::Message { number, .. } => {
            let payloads = run.iter().filter_map(|command| match &command.what {
                CommandKind::Message { payload, .. } => Some(Payload { head: &[], body: Some(payload) }),
                _ => None,
            });
            log.append_messages(*of, *number, payloads, Wait::Lazy, now);
        }
        CommandKind::Settle { reason, ranges } => _ = log.append_settle(*of, *reason, ranges, Wait::Lazy, now),
        CommandKind::Control { kind, payload } => _ = log.append_control(*of, *kind, payload, Wait::Lazy, now),
        CommandKind::Origin { .. } => {}
    }
}

impl Applied {
    /// The store has this mark and these commands, which the replicas take when that is for good.
    fn appended(&mut self, ticket: Ticket, mark: Arc<AppliedMark>, commands: Vec<Command>) {
        self.pending.push_back(PendingEntry { position: ticket.place().number(), mark: mark.clone(), commands });
        (self.latest, self.last) = (mark, ticket);
    }
}

impl Inner {
    /// Has the replicas take what is durable by now.
    pub(super) fn drain(&mut self, durable: Position) {
        self.differences.values_mut().for_each(|difference| difference.drain(durable));
        for (placement, applied) in &mut self.placements {
            while let Some(next) = applied.pending.pop_front_if(|next| next.position <= durable) {
                for Command { log, what } in next.commands.iter().filter(|command| !self.dropped.contains(&command.log))
                {
                    let new = || Kept { replica: Replica::default(), log: *log, placement: None, position: 0 };
                    let kept = self.queues.entry(*log).or_insert_with(new);
                    kept.take(*log, what);
                    (kept.placement, kept.position) = (Some(*placement), next.position);
                }
                applied.may_be_ahead &= next.mark.state.applied == applied.kept.state.applied;
                (applied.kept, applied.position) = (next.mark, next.position);
            }
        }
        if !self.dropped.is_empty() && self.placements.values().all(|applied| applied.pending.is_empty()) {
            self.dropped.clear();
        }
    }
}

impl Kept {
    fn take(&mut self, log: LogId, what: &CommandKind) {
        let mut apply = |record: QueueRecord<'_>| {
            if let Err(error) = self.replica.apply(record) {
                tracing::error!(log = log.0, %error, "a record of a replicated queue can't be read; its replica goes on without it");
            }
        };
        match what {
            CommandKind::Message { number, payload } => apply(QueueRecord::Message { number: *number, payload }),
            CommandKind::Settle { reason, ranges } => ranges.iter().for_each(|range| {
                let departure = departure_of(*reason);
                apply(QueueRecord::Settled { first: range.first, last: range.last, bytes: range.bytes, departure });
            }),
            CommandKind::Control { kind, payload } => apply(QueueRecord::Control { kind: *kind, payload }),
            CommandKind::Origin { .. } => {}
        }
    }
}

/// Whether a ticket of the store is nothing or durable by `durable`.
pub(super) fn is_durable(ticket: Ticket, durable: Position) -> bool {
    ticket.place() == Place::NOTHING || ticket.place().number() <= durable
}
