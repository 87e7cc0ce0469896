//! A data directory without a running node: the owners of its logs, and the messages that can be saved.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_log::{
    Damage, Hit, JointRecord, LiveState, LogId, Numbers, Owners, Position, Replay, SettleRange, SettleReason,
    Survivors, Verified,
};
use leveret_message::{StoredMessage, stored};
use leveret_model::{Queue, QueueId, QueueType, Topology};
use leveret_queue::Replica;
use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use crate::recovered_shared::RecoveredShared;
use crate::recovery::{Recovered, RecoveryError};
use crate::replicas::{copy_of, queue_of};

/// Observes the replay of the log, and knows the queues afterwards.
#[derive(Default)]
pub struct Offline {
    recovered: Recovered,
    /// First number of each log that was replayed rather than restored.
    first_replayed: FxHashMap<LogId, u64>,
    /// Logs whose state in the checkpoint is damaged: messages older than the WAL count as live.
    without_state: BTreeSet<LogId>,
    /// Messages of the shared log that at least one queue has, and the sizes of the copied ones.
    shared: RoaringTreemap,
    shared_bodies: FxHashMap<u64, u32>,
    /// Messages that count as live although no state has them, sorted.
    untaken: Vec<Numbers>,
    copied: FxHashMap<LogId, Copied>,
    position: Position,
    /// Number of messages in the copy.
    messages: u64,
    /// Set for a directory that a start refuses: logs without an owner are saved, too.
    salvages: bool,
    /// Logs with a state in the checkpoint.
    restored: BTreeSet<LogId>,
    /// Logs of queues that the metadata in the checkpoint has.
    owned: Vec<LogId>,
    /// Messages of the shared log that are live by its state in the checkpoint.
    shared_live: RoaringTreemap,
    /// The logs without an owner that became queues of the copy, with the names of these.
    adopted: Vec<(LogId, Arc<str>)>,
}

/// The part of a log that a repaired copy contains.
#[derive(Default)]
struct Copied {
    live: RoaringTreemap,
    body_bytes: u64,
    has_chunks: bool,
}

/// The reason why nothing can be repaired.
#[derive(Debug, thiserror::Error)]
pub enum NotRepairable {
    /// This version can't read it.
    #[error("it can't be repaired: {0}")]
    Refused(String),
}

impl Offline {
    /// Takes what can be saved of a directory that a start refuses.
    #[must_use]
    pub fn salvaging() -> Offline {
        Offline { salvages: true, ..Offline::default() }
    }

    /// Logs with messages that no queue owns, and how many live messages each of them has. A node keeps them, and a repaired copy
    /// has them as queues.
    #[must_use]
    pub fn unowned(&self) -> Vec<(LogId, u64)> {
        let logs = self.recovered.replicas().map(|(log, replica)| (log, replica.ledger.len()));
        let mut unowned: Vec<_> = logs.filter(|(log, messages)| *messages > 0 && self.is_unowned(*log)).collect();
        unowned.sort_unstable();
        unowned
    }

    /// The logs without an owner that became queues of the copy, with the names of these in the vhost `/`.
    #[must_use]
    pub fn adopted(&self) -> &[(LogId, Arc<str>)] {
        &self.adopted
    }

    /// Whether the metadata has no queue for this log, and doesn't show that it was deleted either.
    fn is_unowned(&self, log: LogId) -> bool {
        let id = QueueId(queue_of(log).0);
        let is_of_queue = log != LogId::METADATA && log != LogId::SHARED;
        let is_known = self.topology().queue_by_id(id).is_some();
        is_of_queue && !is_known && (self.salvages || !self.recovered.model.has_given(id))
    }

    /// Makes queues of the copied logs that have no owner.
    fn adopt(&mut self) {
        let with_messages = self.recovered.replicas().filter(|(_, replica)| !replica.ledger.is_empty());
        let logs: BTreeSet<LogId> = self.copied.keys().copied().chain(with_messages.map(|(log, _)| log)).collect();
        for log in logs.into_iter().filter(|log| self.is_unowned(*log)).collect::<Vec<_>>() {
            let has_chunks = self.copied.get(&log).is_some_and(|copied| copied.has_chunks);
            let queue_type = match has_chunks {
                true => QueueType::Stream,
                false if self.recovered.replica(log).is_some_and(Replica::is_of_quorum_queue) => QueueType::Quorum,
                false => QueueType::Classic,
            };
            self.adopted.push((log, self.recovered.model.adopt(QueueId(log.0), queue_type)));
        }
    }

    /// The queue that owns a log.
    #[must_use]
    pub fn queue(&self, log: LogId) -> Option<Arc<Queue>> {
        self.topology().queue_by_id(QueueId(queue_of(log).0)).cloned()
    }

    /// Logs of the queues with this name, in any vhost.
    #[must_use]
    pub fn logs_named(&self, name: &str) -> Vec<LogId> {
        let topology = self.topology();
        let queues = topology.vhosts().filter_map(|vhost| topology.queue(vhost, name));
        let own = queues.filter(|queue| queue.is_logged()).map(|queue| LogId(queue.id.0));
        let mut logs: Vec<LogId> = own.collect();
        // A replicated queue may be in a copy.
        let copies = self.recovered.replicas().map(|(log, _)| log).filter(|log| copy_of(*log).is_some());
        let copies: Vec<LogId> = copies.filter(|log| logs.contains(&queue_of(*log))).collect();
        logs.extend(copies);
        logs
    }

    /// The body files of messages that at least one queue has: number in the shared log, and id.
    #[must_use]
    pub fn body_files(&self) -> Vec<(u64, u64)> {
        let is_wanted =
            |number: u64| !self.referring(&Numbers { log: LogId::SHARED, first: number, last: number }).is_empty();
        let files = self.recovered.shared.files.iter().map(|(number, id)| (*number, *id));
        files.filter(|(number, _)| is_wanted(*number)).collect()
    }

    /// The damage of a body file, extended by the messages that are lost with it.
    #[must_use]
    pub fn with_messages(&self, mut damage: Damage, number: u64) -> Damage {
        damage.messages = self.referring(&Numbers { log: LogId::SHARED, first: number, last: number });
        damage.logs = Hit::Logs(damage.messages.iter().map(|numbers| numbers.log).collect());
        damage
    }

    /// Omits a message of the shared log from the copy.
    pub fn leave_out(&mut self, number: u64) {
        self.shared.remove(number);
    }

    /// Number of queues.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.topology().queue_count()
    }

    /// Checks that every record can be decoded.
    ///
    /// # Errors
    /// [`RecoveryError`] of the first record with correct bytes that can't be decoded; a start would refuse with it.
    pub fn check(&mut self) -> Result<(), RecoveryError> {
        self.recovered.check()
    }

    /// Prepares for copying the undamaged part.
    ///
    /// # Errors
    /// The live messages or the queues can't be determined.
    pub fn salvage(&mut self, verified: &Verified) -> Result<(), NotRepairable> {
        if let Some(reason) = verified.refused.as_ref().filter(|_| !self.salvages) {
            return Err(NotRepairable::Refused(reason.clone()));
        }
        let states = verified.damaged.iter().filter(|damage| damage.file.starts_with("checkpoint-"));
        for damage in states {
            match &damage.logs {
                Hit::Logs(logs) if damage.messages.is_empty() => self.without_state.extend(logs),
                _ => {}
            }
        }
        self.untaken.clone_from(&verified.untaken);
        self.position = verified.position;
        self.shared = self.recovered.referred();
        Ok(())
    }

    /// The logs of queues whose state in the checkpoint is lost, and how many shared messages they may have had at most: any of them may
    /// have had any that came before the checkpoint. Nothing else says which, so no copy has them.
    #[must_use]
    pub fn unattributed(&self, verified: &Verified) -> (Vec<LogId>, u64) {
        let is_of_checkpoint = |damage: &Damage| damage.file.starts_with("checkpoint-");
        if verified.refused.is_none() && !verified.damaged.iter().any(is_of_checkpoint) {
            return (Vec::new(), 0);
        }
        let is_there = |log: &LogId| self.topology().queue_by_id(QueueId(log.0)).is_some();
        let without = self.owned.iter().copied().filter(|log| !self.restored.contains(log) && is_there(log));
        let without: Vec<LogId> = without.collect();
        let most = self.shared_live.len() * without.len() as u64;
        (without, most)
    }

    /// Number of messages in the copy.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.messages
    }

    fn topology(&self) -> &Topology {
        self.recovered.model.topology()
    }
}

impl Replay for Offline {
    fn restore(&mut self, state: LiveState) {
        self.restored.insert(state.log);
        if state.log == LogId::SHARED {
            self.shared_live.clone_from(&state.live);
        }
        let is_metadata = state.log == LogId::METADATA;
        self.recovered.restore(state);
        if is_metadata {
            self.owned = self.recovered.owned(LogId::METADATA, LogId::SHARED);
        }
    }

    fn owned(&self, first: LogId, last: LogId) -> Vec<LogId> {
        self.recovered.owned(first, last)
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.first_replayed.entry(log).or_insert(number);
        self.recovered.message(log, number, payload);
    }

    fn references(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, .. } = record;
        self.first_replayed.entry(log).or_insert(first);
        self.recovered.references(record);
    }

    fn chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, .. } = record;
        self.first_replayed.entry(log).or_insert(first);
        self.recovered.chunk(record);
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.recovered.withdraw(log, number, payload);
    }

    fn withdraw_chunk(&mut self, record: JointRecord<'_>) {
        self.recovered.withdraw_chunk(record);
    }

    fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]) {
        self.recovered.settle(log, reason, ranges);
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        self.recovered.control(log, kind, payload);
    }
}

impl Owners for Offline {
    fn owns(&self, log: LogId) -> bool {
        log == LogId::METADATA || self.salvages || self.topology().queue_by_id(QueueId(log.0)).is_some()
    }

    fn elsewhere(&self, log: LogId) -> Vec<Numbers> {
        let places = self.recovered.replica(log).into_iter().flat_map(|replica| replica.parts.references.stretches());
        places.map(|place| Numbers { log, first: place.first, last: place.first + place.count - 1 }).collect()
    }

    fn referring(&self, shared: &Numbers) -> Vec<Numbers> {
        let mut referring = Vec::new();
        for (log, replica) in self.recovered.replicas().filter(|(log, _)| self.owns(*log)) {
            for place in replica.parts.references.stretches() {
                let first = shared.first.max(place.shared);
                let end = shared.last.saturating_add(1).min(place.shared + place.count);
                if first < end {
                    let here = |number| place.first + (number - place.shared);
                    let runs = replica.ledger.live_runs(here(first), here(end - 1));
                    referring.extend(runs.map(|(first, last)| Numbers { log, first, last }));
                }
            }
        }
        referring
    }
}

impl Survivors for Offline {
    fn is_alive(&self, log: LogId, number: u64) -> bool {
        let is_untaken = || Numbers::have(&self.untaken, log, number);
        if log == LogId::SHARED {
            return self.shared.contains(number) || is_untaken();
        }
        let is_older = || self.first_replayed.get(&log).is_none_or(|first| number < *first);
        let is_live = self.recovered.replica(log).is_some_and(|replica| replica.ledger.is_live(number));
        let lacks_state = self.without_state.contains(&log) || self.salvages && !self.restored.contains(&log);
        is_live || lacks_state && is_older() || is_untaken()
    }

    fn copied(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let copied = self.copied.entry(log).or_default();
        copied.live.insert(number);
        if let Ok((_, body)) = stored::lengths(payload) {
            copied.body_bytes += body as u64;
            if log == LogId::SHARED {
                self.shared_bodies.insert(number, body as u32);
            }
        }
    }

    fn copied_chunk(&mut self, record: JointRecord<'_>) {
        let JointRecord { log, first, messages, payload } = record;
        let numbers = first..first + u64::from(messages);
        let live: Vec<u64> = numbers.filter(|number| self.is_alive(log, *number)).collect();
        let copied = self.copied.entry(log).or_default();
        copied.live.extend(live);
        copied.has_chunks = true;
        copied.body_bytes += payload.len() as u64;
    }

    fn states(&mut self) -> Vec<LiveState> {
        self.adopt();
        let position = self.position;
        let shared = self.copied.remove(&LogId::SHARED).unwrap_or_default().live;
        let state = self.recovered.model.snapshot();
        let mut states = vec![LiveState { position, state, ..LiveState::default() }];
        let RecoveredShared { next, files } = std::mem::take(&mut self.recovered.shared);
        if next > 0 {
            let files = files.into_iter().filter(|(number, _)| shared.contains(*number)).collect();
            let state = RecoveredShared::encode(&files);
            let log = LogId::SHARED;
            states.push(LiveState { log, next, position, live: shared.clone(), state, ..LiveState::default() });
        }
        let topology = self.topology().clone();
        let logged = topology.vhosts().flat_map(|vhost| topology.queues(vhost)).filter(|queue| queue.is_logged());
        for queue in logged {
            let log = LogId(queue.id.0);
            let Copied { mut live, mut body_bytes, .. } = self.copied.remove(&log).unwrap_or_default();
            let found = self.recovered.take(queue.id, &queue.earlier_priorities, false);
            for place in found.parts.references.stretches() {
                for (number, at) in (place.first..place.first + place.count).zip(place.shared..) {
                    if found.ledger.is_live(number) && shared.contains(at) {
                        live.insert(number);
                        body_bytes += u64::from(self.shared_bodies.get(&at).copied().unwrap_or_default());
                    }
                }
            }
            // Above every number that was ever used, including lost ones.
            let lowest = if queue.queue_type() == QueueType::Stream { 0 } else { 1 };
            let next = found.ledger.next().max(live.max().map_or(lowest, |last| last + 1));
            self.messages += live.len();
            let state = found.parts.encode(next);
            states.push(LiveState { log, next, position, bytes: body_bytes, state, live, ..LiveState::default() });
        }
        states.sort_unstable_by_key(|state| state.log);
        states
    }
}

/// The damaged messages by log.
#[must_use]
pub fn by_log(damage: &Damage) -> Vec<(LogId, Vec<Numbers>)> {
    let mut logs: Vec<(LogId, Vec<Numbers>)> = match &damage.logs {
        Hit::Logs(logs) => logs.iter().map(|log| (*log, Vec::new())).collect(),
        Hit::Any => Vec::new(),
    };
    for numbers in &damage.messages {
        match logs.iter_mut().find(|(log, _)| *log == numbers.log) {
            Some((_, known)) => known.push(*numbers),
            None => logs.push((numbers.log, vec![*numbers])),
        }
    }
    logs
}

/// A stored message, if these bytes are one, with the id and length of its body file if it has one.
#[must_use]
pub fn stored_message(payload: &[u8]) -> Option<(StoredMessage<'_>, Option<(u64, usize)>)> {
    match stored::body_file(payload).ok()? {
        Some((id, _, length)) => Some((StoredMessage::parse_head(payload).ok()?, Some((id, length)))),
        None => Some((StoredMessage::parse(payload).ok()?, None)),
    }
}

/// The number in the shared log with which the messages of a reference record begin.
#[must_use]
pub fn shared_reference(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|first| u64::from_le_bytes(*first))
}

pub use leveret_message::hub::encoding_name;
