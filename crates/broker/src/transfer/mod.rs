//! Moves and copies messages of a queue to other queues of its vhost, at the request of an operator.
//!
//! Within one log, each step is one group of it, as a move of dead letters is: after a crash, a message that is moved is either in its queue or in
//! its targets. Messages for a queue of another log leave their own once that has them, so that some may be in both after a crash. A step
//! is made in a turn of the queue's home core and takes a bounded number of messages; those that aren't in
//! memory the caller has read from disk. It ends at the first message that can't be moved, which stays where it is with all behind it.

mod letters;
mod parked;
mod ready;

use std::sync::Arc;

pub use crate::names::TRANSFER_PARAMETER;
use leveret_message::Batch;
pub use parked::{MoveStep, MovedStep};
pub use ready::{Leaving, TransferStep, TransferredStep};

/// Most messages that a step moves.
pub const STEP_MESSAGES_MAX: usize = 1000;

const BLOCKED: &str = "publishing is blocked by an alarm";

/// The place that messages are moved or copied to, in their own vhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferTarget {
    /// This queue, with the exchange and routing key that they have.
    Queue(String),
    /// The queues that this exchange leads to, with this routing key.
    Exchange {
        /// The exchange.
        name: String,
        /// The routing key.
        routing_key: String,
    },
}

/// Messages that were read from a queue's log: runs by the number of their first, in ascending order.
pub type StoredRuns = Vec<(u64, Arc<Batch>)>;
