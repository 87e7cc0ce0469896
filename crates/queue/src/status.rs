//! What operators see of a queue: counts, conservation, and why it or a consumer waits.

use std::sync::Arc;

use crate::answers::QueueState;
use crate::consumer::{ConsumerMode, LatencyBuckets};
use crate::counts::QueueCounts;
use crate::ledger::Conservation;
use crate::wait::QueueWait;

/// One consumer as a listing shows it.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// Its tag.
    pub tag: Arc<str>,
    /// Its connection and channel.
    pub channel: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// The arguments it came with.
    pub arguments: leveret_model::Arguments,
    /// Its prefetch; 0 is unlimited.
    pub prefetch: u32,
    /// What is left of its link credit, which it has instead of a prefetch (AMQP 1.0).
    pub link_credit: Option<u32>,
    /// Deliveries of its link so far, a serial number (AMQP 1.0).
    pub delivery_count: u32,
    /// Higher ones are served first.
    pub priority: i32,
    /// Whether it takes messages or looks at them.
    pub mode: ConsumerMode,
    /// Without acknowledgements.
    pub automatic_ack: bool,
    /// Alone on the queue.
    pub exclusive: bool,
    /// Delivered and not yet settled.
    pub unacknowledged: u32,
    /// Handed out since it began.
    pub delivered: u64,
    /// Why it waits.
    pub wait: QueueWait,
    /// Time from publish to hand-out in powers of two of microseconds.
    pub latency: LatencyBuckets,
}

/// What a listing shows of a queue.
#[derive(Debug, Clone)]
pub struct QueueStatus {
    /// Whether it works.
    pub state: QueueState,
    /// Ready messages.
    pub ready: u64,
    /// Their body bytes.
    pub ready_bytes: u64,
    /// Delivered, not settled.
    pub unacknowledged: u64,
    /// Their body bytes.
    pub unacknowledged_bytes: u64,
    /// Body bytes of all messages, as the next checkpoint has them: those that are ready and those that are
    /// unacknowledged.
    pub bytes: u64,
    /// Messages on their way to disk.
    pub pending: u64,
    /// Messages on their way to the dead-letter exchange.
    pub moving: u64,
    /// Bytes of messages in memory.
    pub memory: u64,
    /// What became of all messages.
    pub conservation: Conservation,
    /// Why the queue itself waits, if it does.
    pub waits: Vec<QueueWait>,
    /// Its consumers, oldest first.
    pub consumers: Vec<ConsumerStatus>,
    /// Refused by a length limit so far.
    pub refused: u64,
    /// What it counted, with rates.
    pub counts: QueueCounts,
    /// Of its messages, those that don't survive a restart.
    pub volatile: u64,
    /// Their body bytes.
    pub volatile_bytes: u64,
    /// Of its messages, those whose bodies are in memory.
    pub in_memory: u64,
}
