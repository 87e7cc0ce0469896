//! A queue as operators see it: counts, conservation, and why it or a consumer waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::answers::QueueState;
use crate::counts::QueueCounts;
use crate::dispatch::{Activity, Consumer, ConsumerFlow, ConsumerMode, LatencyBuckets};
use crate::ledger::Conservation;
use crate::records::KeptOffset;
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
    /// Its position in a stream.
    pub position: Option<ReaderPosition>,
    /// The reason why it waits.
    pub wait: QueueWait,
    /// Time from publish to hand-out in powers of two of microseconds.
    pub latency: LatencyBuckets,
}

/// The position of a reader in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderPosition {
    /// Offset of the next message that it is sent.
    pub next: u64,
    /// Offset of the next message of the stream.
    pub end: u64,
}

impl ConsumerStatus {
    /// A consumer. `queue` is the reason that holds all consumers, and `timeout_ms` its queue's timeout.
    pub(crate) fn of(consumer: &Consumer, queue: Option<QueueWait>, timeout_ms: Option<u64>) -> Self {
        let options = &consumer.options;
        Self {
            tag: options.tag.clone(),
            channel: options.channel.clone(),
            user: options.user.clone(),
            arguments: options.arguments.clone(),
            prefetch: match options.flow {
                ConsumerFlow::Prefetch(prefetch) => prefetch,
                ConsumerFlow::Credit { .. } => 0,
            },
            link_credit: options.flow.is_credit().then(|| consumer.credit()),
            delivery_count: consumer.delivery_count(),
            priority: options.priority,
            mode: options.mode,
            automatic_ack: options.automatic_ack,
            exclusive: options.exclusive,
            timeout_ms: options.timeout_ms.or(timeout_ms),
            activity: consumer.activity,
            unacknowledged: consumer.unacknowledged,
            delivered: consumer.delivered,
            position: None,
            wait: consumer.wait(queue),
            latency: *consumer.latency,
        }
    }
}

/// The part of a listing that only quorum queues have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuorumStatus {
    /// Number of the lowest message that is there, of the next one if there is none: the beginning of the queue's log.
    pub low: u64,
    /// Number of the next message: the end of the queue's log.
    pub next: u64,
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

/// The part of a listing that only streams have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Offset of the oldest message that is there; of the next one if there is none.
    pub first: u64,
    /// Offset of the next message.
    pub next: u64,
    /// Offset of the first message of the last chunk; `None` without chunks.
    pub last_chunk: Option<u64>,
    /// Number of entries of its index, each for consecutive chunks that retention removes together.
    pub stretches: u64,
    /// Time of the oldest of them, in milliseconds since the Unix epoch.
    pub oldest_ms: Option<u64>,
    /// Time of the newest chunk, in milliseconds since the Unix epoch.
    pub newest_ms: Option<u64>,
    /// Number of messages that its slowest reader hasn't been sent yet, members of groups that wait for their turn left out; 0 without
    /// readers.
    pub lag_max: u64,
    /// The offsets that it keeps for consumers.
    pub offsets: Vec<KeptOffset>,
    /// Its named publishers, each with the number of its last message.
    pub writers: Vec<(Arc<str>, u64)>,
    /// Its groups of readers.
    pub groups: Vec<GroupStatus>,
}

/// A group as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its name.
    pub name: Arc<str>,
    /// The number of the stream among the partitions of its super stream.
    pub partition: Option<u32>,
    /// Its members in the order in which they came.
    pub members: Vec<GroupMemberStatus>,
}

/// A member of a group as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMemberStatus {
    /// The tag of the consumer.
    pub tag: Arc<str>,
    /// Its connection.
    pub connection: Arc<str>,
    /// Whether it is the one that is served, or is about to be.
    pub is_active: bool,
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
    /// Number of duplicates that it dropped; `None` if it drops none.
    pub duplicates: Option<u64>,
    /// Its counts, with rates.
    pub counts: QueueCounts,
    /// Number of its messages that don't survive a restart.
    pub volatile: u64,
    /// Their body bytes.
    pub volatile_bytes: u64,
    /// Number of its messages whose bodies are in memory.
    pub in_memory: u64,
    /// Number of its messages whose publishers gave them a time to live.
    pub timed: u64,
    /// The part that only a quorum queue has.
    pub quorum: Option<QuorumStatus>,
    /// Number of ready messages of each priority that never came back or have their old place, for priorities that have some. Empty
    /// without priorities.
    pub by_priority: BTreeMap<u8, u64>,
    /// The part that only a stream has.
    pub stream: Option<StreamStatus>,
}
