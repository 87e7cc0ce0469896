//! The node of a queue, as the queue sees it.

use std::sync::Arc;

use crate::contents::MemoryBudget;
use crate::epoch::Epoch;
use crate::nanos::Nanos;

/// The parts of its node that a queue works with.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The memory that all queues share.
    pub budget: Arc<MemoryBudget>,
    /// Wall time of monotonic zero.
    pub epoch: Epoch,
    /// Whether a limit with `reject-publish` also refuses a message that a consumer waits for, if that message exceeds the limit
    /// by itself, as in RabbitMQ 4.3.
    pub strict_compat: bool,
    /// Publishers are paced while messages stand for longer than this, in nanoseconds; 0 if never.
    pub standing_delay_target: Nanos,
}
