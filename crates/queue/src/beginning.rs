//! The beginning of a queue: its recovered state, and its node.

use std::sync::Arc;

use crate::Nanos;
use crate::annotations::Annotations;
use crate::attempts::Attempts;
use crate::blocked_letters::Dying;
use crate::contents::MemoryBudget;
use crate::delayed::Delayed;
use crate::duplicates::RecoveredIds;
use crate::expiry::Expiry;
use crate::kept::Kept;
use crate::ledger::Ledger;
use crate::parked::Parked;
use crate::priorities::Priorities;
use crate::sequences::RecoveredSequences;
use crate::shared::References;
use crate::stretches::Stretches;
use crate::tracking::Tracking;
use crate::writers::Writers;

/// The messages that a queue had before the restart, if it existed.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Live messages.
    pub ledger: Ledger,
    /// Messages with lower numbers may have been delivered before.
    pub redelivered_below: u64,
    /// Their expiry times.
    pub expiry: Expiry,
    /// The messages that are stored in the shared log.
    pub references: References,
    /// How often they were delivered, and how often that failed.
    pub attempts: Attempts,
    /// The parked ones among them.
    pub parked: Parked,
    /// The delayed ones among them.
    pub delayed: Delayed,
    /// The annotations that consumers added to them.
    pub annotations: Annotations,
    /// The dying ones among them: dead letters that no queue takes.
    pub dying: Dying,
    /// Their priorities.
    pub priorities: Priorities,
    /// The index of a stream's chunks.
    pub stream: Stretches,
    /// The offsets that a stream keeps for its consumers.
    pub tracking: Tracking,
    /// The named publishers of a stream.
    pub writers: Writers,
    /// The ids of the last messages, if it drops duplicates.
    pub ids: RecoveredIds,
    /// The numbers of its publishers, if it drops what they send again.
    pub sequences: RecoveredSequences,
}

impl From<Recovered> for Kept {
    fn from(recovered: Recovered) -> Kept {
        let Recovered { expiry, references, attempts, parked, delayed, annotations, dying, priorities, .. } = recovered;
        let Recovered { stream, tracking, writers, ids, sequences, .. } = recovered;
        Kept {
            expiry,
            references,
            attempts,
            parked,
            delayed,
            annotations,
            dying,
            priorities,
            stream,
            tracking,
            writers,
            ids,
            sequences,
        }
    }
}

/// The parts of its node that a queue works with.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The memory that all queues share.
    pub budget: Arc<MemoryBudget>,
    /// Wall time of monotonic zero, in milliseconds since the Unix epoch.
    pub epoch_ms: u64,
    /// Whether a limit with `reject-publish` also refuses a message that a consumer waits for, if that message exceeds the limit
    /// by itself, as in RabbitMQ 4.3.
    pub strict_compat: bool,
    /// Publishers are paced while messages stand for longer than this, in nanoseconds; 0 if never.
    pub standing_delay_target: Nanos,
}

impl Recovered {
    /// No messages: the first one gets the number `first`.
    pub fn none(first: u64) -> Self {
        Self { ledger: Ledger::starting_at(first), ..Self::default() }
    }
}
