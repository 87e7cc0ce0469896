//! The beginning of a queue: its recovered state, and its node.

use std::sync::Arc;

use crate::contents::MemoryBudget;
use crate::expiry::Expiry;
use crate::ledger::Ledger;
use crate::shared::References;

/// The messages of a queue's former life, if it had one.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Live messages.
    pub ledger: Ledger,
    /// Numbers below may have been delivered before.
    pub redelivered_below: u64,
    /// When they expire.
    pub expiry: Expiry,
    /// Which of them stand in the shared log.
    pub references: References,
}

/// The parts of its node that a queue works with.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The memory that all queues share.
    pub budget: Arc<MemoryBudget>,
    /// Wall time of monotonic zero, in milliseconds since the Unix epoch.
    pub epoch_ms: u64,
    /// Has a limit that refuses messages refuse those that are above it alone, also when a consumer waits for them, as
    /// RabbitMQ 4.3 does.
    pub strict_compat: bool,
}

impl Recovered {
    /// No messages: the first one gets the number `first`.
    pub fn none(first: u64) -> Self {
        Self { ledger: Ledger::starting_at(first), ..Self::default() }
    }
}
