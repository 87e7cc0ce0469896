//! From a data directory to a broker: what the log replays becomes a model and ledgers.

use leveret_log::{LiveState, LogId, Replay, SettleRange, SettleReason};
use leveret_message::stored;
use leveret_model::{Model, QueueId};
use leveret_queue::{Expiry, ExpiryStateError, Ledger, Outcome};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::queue_handle::CONTROL_DELIVERED_BELOW;
use crate::registry::CONTROL_MODEL_COMMAND;

/// A data directory that this version can't read.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The model refuses its own records.
    #[error("metadata record cannot be replayed: {0}")]
    Metadata(String),
    /// A record kind of a newer version.
    #[error("log {log:?} has a control record of unknown kind {kind}; was this directory written by a newer version?")]
    UnknownControl {
        /// Whose.
        log: LogId,
        /// The kind found.
        kind: u8,
    },
    /// Times of messages that this version doesn't understand.
    #[error("log {log:?}: {error}")]
    Expiry {
        /// Whose.
        log: LogId,
        /// What is wrong with them.
        error: ExpiryStateError,
    },
    /// A message that isn't one.
    #[error("log {log:?}, message {number}: {error}")]
    Message {
        /// Whose.
        log: LogId,
        /// Which.
        number: u64,
        /// What is wrong with it.
        error: stored::StoredError,
    },
}

#[derive(Default)]
struct RecoveredLog {
    ledger: Ledger,
    delivered_below: u64,
    expiry: Expiry,
}

/// What the log knows of a queue's messages.
#[derive(Default)]
pub struct RecoveredQueue {
    /// Which are there.
    pub ledger: Ledger,
    /// Those with lower numbers may have been delivered before.
    pub redelivered_below: u64,
    /// When they expire.
    pub expiry: Expiry,
}

/// Collects what the log replays.
#[derive(Default)]
pub struct Recovered {
    /// The control plane.
    pub model: Model,
    logs: FxHashMap<LogId, RecoveredLog>,
    error: Option<RecoveryError>,
}

impl Recovered {
    /// The first thing that could not be understood.
    ///
    /// # Errors
    /// See [`RecoveryError`].
    pub fn check(&mut self) -> Result<(), RecoveryError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Takes out what is known of a queue. Which messages may have been delivered is known after a clean stop;
    /// after a crash it is every one.
    pub fn take(&mut self, id: QueueId, clean: bool) -> RecoveredQueue {
        let Some(log) = self.logs.remove(&LogId(id.0)) else { return RecoveredQueue::default() };
        let redelivered_below = if clean { log.delivered_below } else { log.ledger.next() };
        RecoveredQueue { ledger: log.ledger, redelivered_below, expiry: log.expiry }
    }

    /// The messages of a log that are there.
    pub(crate) fn ledger(&self, log: LogId) -> Option<&Ledger> {
        self.logs.get(&log).map(|log| &log.ledger)
    }

    /// Logs that no queue owns.
    pub fn orphans(&self) -> Vec<LogId> {
        let mut orphans: Vec<_> = self.logs.keys().copied().filter(|log| *log != LogId::METADATA).collect();
        orphans.sort_unstable();
        orphans
    }

    fn fail(&mut self, error: RecoveryError) {
        self.error.get_or_insert(error);
    }
}

impl Replay for Recovered {
    fn restore(&mut self, state: LiveState) {
        if state.log == LogId::METADATA {
            if !state.state.is_empty() {
                match Model::restore(&state.state) {
                    Ok(model) => self.model = model,
                    Err(error) => self.fail(RecoveryError::Metadata(error.to_string())),
                }
            }
            return;
        }
        let ledger = Ledger::restore(state.next, &state.live, state.bytes);
        match Expiry::decode(&state.state) {
            Ok(expiry) => {
                self.logs.insert(state.log, RecoveredLog { ledger, delivered_below: 0, expiry });
            }
            Err(error) => self.fail(RecoveryError::Expiry { log: state.log, error }),
        }
    }

    fn message(&mut self, log: LogId, number: u64, payload: &[u8]) {
        match stored::lengths(payload) {
            Ok((_, body)) => {
                let log = self.logs.entry(log).or_default();
                log.ledger.accept(number, 1, body as u64);
                let (received_ms, expiry_ms) = stored::times(payload);
                log.expiry.arrived(number, 1, received_ms, log.ledger.low());
                if expiry_ms != 0 {
                    log.expiry.expires(number, expiry_ms, body as u32);
                }
            }
            Err(error) => self.fail(RecoveryError::Message { log, number, error }),
        }
    }

    fn withdraw(&mut self, log: LogId, number: u64, payload: &[u8]) {
        if let Ok((_, body)) = stored::lengths(payload)
            && let Some(log) = self.logs.get_mut(&log)
        {
            log.ledger.settle(number, number, body as u64, Outcome::Dropped);
        }
    }

    fn settle(&mut self, log: LogId, reason: SettleReason, ranges: &[SettleRange]) {
        let outcome = match reason {
            SettleReason::Purged => Outcome::Purged,
            SettleReason::Expired => Outcome::Expired,
            SettleReason::Acknowledged => Outcome::Settled,
            SettleReason::DeadLettered => Outcome::DeadLettered,
            _ => Outcome::Dropped,
        };
        let ledger = &mut self.logs.entry(log).or_default().ledger;
        for range in ranges {
            ledger.settle(range.first, range.last, range.bytes, outcome);
        }
    }

    fn control(&mut self, log: LogId, kind: u8, payload: &[u8]) {
        if log == LogId::METADATA && kind == CONTROL_MODEL_COMMAND {
            if let Err(error) = self.model.replay(payload) {
                self.fail(RecoveryError::Metadata(error.to_string()));
            }
        } else if log != LogId::METADATA && kind == CONTROL_DELIVERED_BELOW && payload.len() == 8 {
            let mut number = [0; 8];
            number.copy_from_slice(payload);
            self.logs.entry(log).or_default().delivered_below = u64::from_le_bytes(number);
        } else {
            self.fail(RecoveryError::UnknownControl { log, kind });
        }
    }
}
