//! A queue as operators see it: counts, conservation, and why it or a consumer waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::answers::QueueState;
use crate::consumer::{ConsumerMode, LatencyBuckets};
use crate::counts::QueueCounts;
use crate::ledger::Conservation;
use crate::single_active::Activity;
use crate::wait::QueueWait;

/// One consumer as a listing shows it.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// Its tag.
    pub tag: Arc<str>,
    /// Its connection and channel.
    pub channel: Arc<str>,
    /// Its user.
    pub user: Arc<str>,
    /// Its arguments.
    pub arguments: leveret_model::Arguments,
    /// Its prefetch; 0 is unlimited.
    pub prefetch: u32,
    /// Remaining link credit, which it has instead of a prefetch (AMQP 1.0).
    pub link_credit: Option<u32>,
    /// Number of deliveries of its link so far, a serial number (AMQP 1.0).
    pub delivery_count: u32,
    /// Higher ones are served first.
    pub priority: i32,
    /// Whether it takes messages or browses them.
    pub mode: ConsumerMode,
    /// Whether it acknowledges automatically.
    pub automatic_ack: bool,
    /// Whether it is exclusive.
    pub exclusive: bool,
    /// Milliseconds for which it may leave a delivery unsettled, by its own argument or its queue's; `None` for the node's
    /// setting.
    pub timeout_ms: Option<u64>,
    /// Its part in a queue with a single active consumer.
    pub activity: Activity,
    /// Number of deliveries that aren't settled yet.
    pub unacknowledged: u32,
    /// Number of deliveries since it was added.
    pub delivered: u64,
    /// The reason why it waits.
    pub wait: QueueWait,
    /// Time from publish to hand-out in powers of two of microseconds.
    pub latency: LatencyBuckets,
}

/// The part of a listing that only quorum queues have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuorumStatus {
    /// Number of failed deliveries after which a message leaves; `None` is unlimited.
    pub delivery_limit: Option<u64>,
    /// Number of ready messages that came back from a consumer.
    pub returned: u64,
    /// Number of ready messages of each priority that never came back, for priorities that have some.
    pub by_priority: BTreeMap<u8, u64>,
    /// Messages that came to their delivery limit and were set aside.
    pub parked: u64,
    /// Their body bytes.
    pub parked_bytes: u64,
    /// Dead letters that are kept until queues take them.
    pub dying: u64,
    /// Their body bytes.
    pub dying_bytes: u64,
    /// Messages that came back and wait for a time.
    pub delayed: u64,
    /// Their body bytes.
    pub delayed_bytes: u64,
}

/// A queue as a listing shows it.
#[derive(Debug, Clone)]
pub struct QueueStatus {
    /// Whether it works.
    pub state: QueueState,
    /// Ready messages.
    pub ready: u64,
    /// Their body bytes.
    pub ready_bytes: u64,
    /// Messages that are delivered and not settled.
    pub unacknowledged: u64,
    /// Their body bytes.
    pub unacknowledged_bytes: u64,
    /// Body bytes of all ready and unacknowledged messages, as the next checkpoint counts them.
    pub bytes: u64,
    /// Messages on their way to disk.
    pub pending: u64,
    /// Messages on their way to the dead-letter exchange.
    pub moving: u64,
    /// Bytes of messages in memory.
    pub memory: u64,
    /// Counters of how messages left.
    pub conservation: Conservation,
    /// The reasons why the queue itself waits, if it does.
    pub waits: Vec<QueueWait>,
    /// Its consumers, oldest first.
    pub consumers: Vec<ConsumerStatus>,
    /// Number of messages refused by a length limit so far.
    pub refused: u64,
    /// Its counts, with rates.
    pub counts: QueueCounts,
    /// Number of its messages that don't survive a restart.
    pub volatile: u64,
    /// Their body bytes.
    pub volatile_bytes: u64,
    /// Number of its messages whose bodies are in memory.
    pub in_memory: u64,
    /// The part that only a quorum queue has.
    pub quorum: Option<QuorumStatus>,
}
