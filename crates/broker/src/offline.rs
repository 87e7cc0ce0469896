//! A data directory without its node: whose logs are whose, and what is left of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_log::{
    Damage, Hit, LiveState, LogId, Numbers, Owners, Position, Replay, SettleRange, SettleReason, Survivors, Verified,
};
use leveret_message::{StoredMessage, stored};
use leveret_model::{Queue, QueueId, Topology};
use leveret_queue::Expiry;
use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use crate::recovery::{Recovered, RecoveryError};

/// Looks on while the log is replayed, and knows the queues afterwards.
#[derive(Default)]
pub struct Offline {
    recovered: Recovered,
    /// First number of each log that was replayed, not restored.
    first_replayed: FxHashMap<LogId, u64>,
    /// Logs whose state in the checkpoint is damaged: what is older than the WAL counts as alive.
    without_state: BTreeSet<LogId>,
    copied: FxHashMap<LogId, Copied>,
    position: Position,
}

/// What a repaired copy has of a queue.
#[derive(Default)]
struct Copied {
    live: RoaringTreemap,
    body_bytes: u64,
    expiry: Expiry,
}

/// Why nothing can be repaired.
#[derive(Debug, thiserror::Error)]
pub enum NotRepairable {
    /// Nothing says what is alive.
    #[error("it can't be repaired: {0}")]
    Refused(String),
    /// Nothing says which queues there are.
    #[error("it can't be repaired: the metadata (log 0) is damaged in {0}")]
    Metadata(String),
}

impl Offline {
    /// The queue that owns a log.
    #[must_use]
    pub fn queue(&self, log: LogId) -> Option<Arc<Queue>> {
        self.topology().queue_by_id(QueueId(log.0)).cloned()
    }

    /// Logs of the queues with this name, in any vhost.
    #[must_use]
    pub fn logs_named(&self, name: &str) -> Vec<LogId> {
        let topology = self.topology();
        let queues = topology.vhosts().filter_map(|vhost| topology.queue(vhost, name));
        queues.filter(|queue| queue.is_logged()).map(|queue| LogId(queue.id.0)).collect()
    }

    /// How many queues there are.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.topology().queue_count()
    }

    /// The first record that can't be understood although its bytes are right.
    ///
    /// # Errors
    /// See [`RecoveryError`]; a start would refuse with it.
    pub fn check(&mut self) -> Result<(), RecoveryError> {
        self.recovered.check()
    }

    /// Prepares for copying what is left.
    ///
    /// # Errors
    /// There is nothing to go by.
    pub fn salvage(&mut self, verified: &Verified) -> Result<(), NotRepairable> {
        if let Some(reason) = &verified.refused {
            return Err(NotRepairable::Refused(reason.clone()));
        }
        let states = verified.damaged.iter().filter(|damage| damage.file.starts_with("checkpoint-"));
        for damage in states {
            match &damage.logs {
                Hit::Logs(logs) if logs.contains(&LogId::METADATA) => {
                    return Err(NotRepairable::Metadata(damage.file.clone()));
                }
                Hit::Logs(logs) if damage.messages.is_empty() => self.without_state.extend(logs),
                _ => {}
            }
        }
        self.position = verified.position;
        Ok(())
    }

    /// Messages in the copy.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied.values().map(|copied| copied.live.len()).sum()
    }

    fn topology(&self) -> Topology {
        self.recovered.model.topology()
    }
}

impl Replay for Offline {
    fn restore(&mut self, state: LiveState) {
        self.recovered.restore(state);
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.first_replayed.entry(log).or_insert(number);
        self.recovered.message(log, number, payload);
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        self.recovered.withdraw(log, number, payload);
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
        log == LogId::METADATA || self.topology().queue_by_id(QueueId(log.0)).is_some()
    }
}

impl Survivors for Offline {
    fn is_alive(&self, log: LogId, number: u64) -> bool {
        let is_older = || self.first_replayed.get(&log).is_none_or(|first| number < *first);
        let is_live = self.recovered.ledger(log).is_some_and(|ledger| ledger.is_live(number));
        is_live || self.without_state.contains(&log) && is_older()
    }

    fn copied(&mut self, log: LogId, number: u64, payload: &[u8]) {
        let copied = self.copied.entry(log).or_default();
        copied.live.insert(number);
        if let Ok((_, body)) = stored::lengths(payload) {
            let (received_ms, expiry_ms) = stored::times(payload);
            copied.body_bytes += body as u64;
            copied.expiry.arrived(number, 1, received_ms, number);
            if expiry_ms != 0 {
                copied.expiry.expires(number, expiry_ms, body as u32);
            }
        }
    }

    fn states(&mut self) -> Vec<LiveState> {
        let state = self.recovered.model.snapshot();
        let metadata = LiveState { position: self.position, state, ..LiveState::default() };
        let topology = self.topology();
        let logged = topology.vhosts().flat_map(|vhost| topology.queues(vhost)).filter(|queue| queue.is_logged());
        let queues = logged.map(|queue| {
            let log = LogId(queue.id.0);
            let mut copied = self.copied.remove(&log).unwrap_or_default();
            if queue.options.message_ttl_ms.is_none() {
                copied.expiry.forget_arrivals();
            }
            // Above every number that was ever given, also one that is lost.
            let next = self.recovered.ledger(log).map_or(1, |ledger| ledger.next());
            LiveState {
                log,
                next: next.max(copied.live.max().map_or(0, |last| last + 1)),
                position: self.position,
                bytes: copied.body_bytes,
                state: copied.expiry.encode(&RoaringTreemap::new()),
                live: copied.live,
            }
        });
        std::iter::once(metadata).chain(queues).collect()
    }
}

/// The messages of a damage by queue.
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

/// A stored message, if these bytes are one.
#[must_use]
pub fn stored_message(payload: &[u8]) -> Option<StoredMessage<'_>> {
    StoredMessage::parse(payload).ok()
}

pub use leveret_message::Encoding;
