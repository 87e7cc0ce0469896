//! The parts of the broker that its queues use.

use std::sync::Arc;

use leveret_metrics::Counters;
use leveret_model::{Durability, MemberNumber};
use leveret_queue::{Epoch, MemoryBudget};

use crate::deferred::Deferred;
use crate::placed::Placements;
use crate::queue_metrics::QueueMetrics;
use crate::reads::Reads;
use crate::remote::Lanes;
use crate::shared_messages::SharedMessages;
use crate::streams::LateStream;
use crate::streams::Streams;
use crate::taps::Taps;
use crate::time::Nanos;

/// The parts that all queues of a registry use.
#[derive(Clone)]
pub struct Services {
    /// The commit streams that their records are appended to.
    pub streams: Arc<Streams>,
    /// Requests for messages that have left memory.
    pub reads: Arc<Reads>,
    /// Work for their home cores.
    pub deferred: Arc<Deferred>,
    /// The memory that they share.
    pub budget: Arc<MemoryBudget>,
    /// Wall time of monotonic zero.
    pub epoch: Epoch,
    /// Messages that are stored once for several of them.
    pub shared: Arc<SharedMessages>,
    /// Their gauges, and counters of messages that died in them.
    pub metrics: Arc<QueueMetrics>,
    /// Counters for what belongs to no connection.
    pub counters: Arc<Counters>,
    /// Open taps.
    pub taps: Arc<Taps>,
    /// The meaning of a confirm in queues that don't say so themselves.
    pub durability: Durability,
    /// The ways to queues of other nodes.
    pub lanes: Arc<Lanes>,
    /// The placements of replicated queues.
    pub placements: Arc<Placements>,
    /// A random number of this process.
    pub process: u32,
    /// This node's number in its cluster.
    pub member: MemberNumber,
    /// Number of the first message of a new queue.
    pub first_number: u64,
    /// See [`crate::Settings::consumer_disconnected_timeout_ms`].
    pub consumer_disconnected_timeout_ms: u64,
    /// See [`crate::Settings::strict_compat`].
    pub strict_compat: bool,
    /// See [`crate::Settings::standing_delay_target`].
    pub standing_delay_target: Nanos,
    /// The streams that say later what became of publishes, one for each log; none without [`crate::Settings::answers_late`].
    pub late: Vec<Arc<LateStream>>,
}
