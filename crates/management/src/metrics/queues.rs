//! Families of queues. Sizes are read from gauges that need no lock of the queue; counters come from the queues
//! themselves.

use leveret_broker::queue_handle::{CountOf, HeadTimestamp, QueueRef, Status};
use leveret_broker::queue_metrics::{in_memory_bytes, persistent_bytes};
use leveret_broker::registry::Snapshot;
use leveret_broker::{QueueCount, QuorumStatus, StreamStatus};
use leveret_metrics::Kind::{Counter, Gauge};
use leveret_metrics::Sample;
use leveret_model::QueueType;

use super::family::{Family, Group};
use super::filters::Filters;
use crate::queues::consumer_capacity;

type Of = Family<QueueRef>;

/// The labels of a queue.
pub(super) const LABELS: &[&str] = &["vhost", "queue"];

pub(super) fn labels(queue: &QueueRef) -> Vec<&str> {
    vec![&queue.info().vhost, &queue.info().name]
}

/// Whether the queue has the families that RabbitMQ has for classic queues only.
fn is_classic(queue: &QueueRef) -> bool {
    queue.info().queue_type() == QueueType::Classic
}

/// The queues that a scrape asks for.
pub(super) fn rows(snapshot: &Snapshot, filters: &Filters) -> Vec<QueueRef> {
    let vhosts = filters.vhosts(snapshot);
    let mut queues = snapshot.queues_of(vhosts.iter().map(|vhost| &**vhost));
    if filters.limits_queues() {
        queues.retain(|queue| filters.has_queue(&queue.info().name));
    }
    queues
}

/// Numbers of messages in queues.
pub(super) const COARSE: Group<QueueRef> = Group {
    name: "queue_coarse_metrics",
    labels: LABELS,
    label: labels,
    families: &[
        Of::both(
            "queue_messages_ready",
            Gauge,
            "Messages ready to be delivered to consumers",
            |node| node.queues.gauges.ready.into(),
            |queue| Some(queue.gauges().ready.into()),
        ),
        Of::both(
            "queue_messages_unacked",
            Gauge,
            "Messages delivered to consumers but not yet acknowledged",
            |node| node.queues.gauges.unacknowledged.into(),
            |queue| Some(queue.gauges().unacknowledged.into()),
        ),
        Of::both(
            "queue_messages",
            Gauge,
            "Sum of ready and unacknowledged messages - total queue depth",
            |node| node.queues.gauges.messages().into(),
            |queue| Some(queue.gauges().messages().into()),
        ),
    ],
};

const CONSUMERS: Of = Of::both(
    "queue_consumers",
    Gauge,
    "Consumers on a queue",
    |node| node.queues.gauges.consumers.into(),
    |queue| Some(queue.gauges().consumers.into()),
);

/// The number of consumers alone, which is also in the next group.
pub(super) const CONSUMER_COUNT: Group<QueueRef> =
    Group { name: "queue_consumer_count", labels: LABELS, label: labels, families: &[CONSUMERS] };

/// Other sizes.
pub(super) const SIZES: Group<QueueRef> = Group {
    name: "queue_metrics",
    labels: LABELS,
    label: labels,
    families: &[
        CONSUMERS,
        Of::each("queue_consumer_capacity", Gauge, "Consumer capacity", |queue| Some(capacity(queue))),
        Of::each("queue_consumer_utilisation", Gauge, "Same as consumer capacity", |queue| Some(capacity(queue))),
        Of::each(
            "queue_head_message_timestamp",
            Gauge,
            "Timestamp of the first message in the queue, if any and while it is in memory",
            |queue| is_classic(queue).then(|| queue.look(HeadTimestamp).map(Sample::from)).flatten(),
        ),
        Of::both(
            "queue_process_memory_bytes",
            Gauge,
            "Memory in bytes used by the messages of a queue",
            |node| node.queues.gauges.memory.into(),
            |queue| Some(queue.gauges().memory.into()),
        ),
        Of::both(
            "queue_messages_ram",
            Gauge,
            "Ready and unacknowledged messages stored in memory",
            |node| node.queues.gauges.in_memory.into(),
            |queue| Some(queue.gauges().in_memory.into()),
        ),
        Of::both(
            "queue_messages_ram_bytes",
            Gauge,
            "Size of ready and unacknowledged messages stored in memory",
            |node| node.queues.in_memory_bytes.into(),
            |queue| Some(in_memory_bytes(&queue.gauges()).into()),
        ),
        Of::both(
            "queue_messages_ready_ram",
            Gauge,
            "Ready messages stored in memory",
            |node| node.queues.in_memory_ready.into(),
            |queue| is_classic(queue).then(|| queue.gauges().in_memory.min(queue.gauges().ready).into()),
        ),
        Of::both(
            "queue_messages_unacked_ram",
            Gauge,
            "Unacknowledged messages stored in memory",
            |node| node.queues.gauges.in_memory.saturating_sub(node.queues.in_memory_ready).into(),
            |queue| is_classic(queue).then(|| queue.gauges().in_memory.saturating_sub(queue.gauges().ready).into()),
        ),
        Of::both(
            "queue_messages_persistent",
            Gauge,
            "Persistent messages",
            |node| {
                let gauges = &node.queues.gauges;
                gauges.messages().saturating_sub(gauges.volatile).into()
            },
            |queue| {
                let gauges = queue.gauges();
                Some(gauges.messages().saturating_sub(gauges.volatile).into())
            },
        ),
        Of::both(
            "queue_messages_persistent_bytes",
            Gauge,
            "Size in bytes of persistent messages",
            |node| node.queues.persistent_bytes.into(),
            |queue| Some(persistent_bytes(&queue.gauges()).into()),
        ),
        Of::both(
            "queue_messages_bytes",
            Gauge,
            "Size in bytes of ready and unacknowledged messages",
            |node| node.queues.gauges.message_bytes().into(),
            |queue| Some(queue.gauges().message_bytes().into()),
        ),
        Of::both(
            "queue_messages_ready_bytes",
            Gauge,
            "Size in bytes of ready messages",
            |node| node.queues.gauges.ready_bytes.into(),
            |queue| Some(queue.gauges().ready_bytes.into()),
        ),
        Of::both(
            "queue_messages_unacked_bytes",
            Gauge,
            "Size in bytes of all unacknowledged messages",
            |node| node.queues.gauges.unacknowledged_bytes.into(),
            |queue| Some(queue.gauges().unacknowledged_bytes.into()),
        ),
        Of::both(
            "stream_segments",
            Counter,
            "Total number of stretches of streams, which retention removes as a whole",
            |node| node.streams.stretches.into(),
            |queue| stream(queue).map(|stream| stream.stretches.into()),
        ),
    ],
};

/// The part of a queue's status that only a stream has.
fn stream(queue: &QueueRef) -> Option<StreamStatus> {
    queue.is_stream().then(|| queue.look(Status)?.stream).flatten()
}

/// Values of all streams. They are read from the streams, which are few: no sum is kept, because gauges are written at every call of
/// a queue.
#[derive(Default)]
pub(super) struct StreamSums {
    /// Number of stretches.
    pub stretches: u64,
    /// Number of messages that the slowest of all readers hasn't been sent.
    pub lag_max: u64,
}

impl StreamSums {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        snapshot.queues.values().filter_map(stream).fold(Self::default(), |sums, stream| Self {
            stretches: sums.stretches + stream.stretches,
            lag_max: sums.lag_max.max(stream.lag_max),
        })
    }
}

/// Readers of streams.
pub(super) const STREAM_CONSUMERS: Group<QueueRef> = Group {
    name: "stream_consumer_metrics",
    labels: LABELS,
    label: labels,
    families: &[Of::both(
        "stream_consumer_max_offset_lag",
        Gauge,
        "Messages of a stream that its slowest consumer hasn't been sent",
        |node| node.streams.lag_max.into(),
        |queue| stream(queue).map(|stream| stream.lag_max.into()),
    )],
};

/// A quorum queue's log.
pub(super) struct RaftLog {
    queue: QueueRef,
    status: QuorumStatus,
}

impl RaftLog {
    /// The logs of the quorum queues among these, each asked once.
    pub(super) fn of(queues: &[QueueRef]) -> Vec<Self> {
        // Replicated queues have the logs of their placements.
        let has_log = |queue: &&QueueRef| {
            queue.info().queue_type() == QueueType::Quorum && queue.info().home.placement().is_none()
        };
        let quorum = queues.iter().filter(has_log);
        quorum.filter_map(|queue| Some(Self { queue: queue.clone(), status: queue.look(Status)?.quorum? })).collect()
    }
}

/// The log of a quorum queue, by the names of Raft's. A position is the number of messages up to there since the queue was declared.
pub(super) const RAFT: Group<RaftLog> = Group {
    name: "ra_metrics",
    labels: LABELS,
    label: |log| labels(&log.queue),
    families: &[
        Family::each(
            "raft_term",
            Counter,
            "The term of a quorum queue, which is 1 if it has one member, or of a placement",
            |_| Some(1u64.into()),
        ),
        Family::each(
            "raft_commit_index",
            Counter,
            "The position up to which a quorum queue has its messages for good, or the last committed entry of a placement",
            next,
        ),
        Family::each(
            "raft_last_applied",
            Gauge,
            "The position up to which a quorum queue has taken in its messages, or the last applied entry of a placement",
            next,
        ),
        Family::each(
            "raft_last_written_index",
            Counter,
            "The position up to which a quorum queue's messages are on disk, or the last entry of a placement",
            next,
        ),
        Family::each(
            "raft_snapshot_index",
            Counter,
            "The position of a quorum queue's oldest message, or the last entry of a placement that isn't kept any more",
            |log| Some(log.status.low.into()),
        ),
    ],
};

fn next(log: &RaftLog) -> Option<Sample> {
    Some(log.status.next.into())
}

/// The share of consumers that could take a message now.
fn capacity(queue: &QueueRef) -> Sample {
    let status = (queue.gauges().consumers > 0).then(|| queue.look(Status)).flatten();
    status.map_or(0u64.into(), |status| consumer_capacity(&status).into())
}

/// Labels with information about a queue besides its name.
pub(super) const INFO: Group<QueueRef> = Group {
    name: "queue_metrics",
    labels: &["vhost", "queue", "queue_type", "membership"],
    label: |queue| vec![&queue.info().vhost, &queue.info().name, queue.info().queue_type().label(), "leader"],
    families: &[Of::each(
        "queue_info",
        Gauge,
        "A metric with a constant '1' value and labels that provide some queue details",
        |_| Some(1u64.into()),
    )],
};

/// Deliveries from queues, by both protocols. Totals are counted by the node, so that they don't decrease when a
/// queue is deleted.
pub(super) const DELIVERY: Group<QueueRef> = Group {
    name: "queue_delivery_metrics",
    labels: LABELS,
    label: labels,
    families: &[
        Of::both(
            "queue_get_ack_total",
            Counter,
            "Total number of messages fetched from a queue with basic.get in manual acknowledgement mode",
            |node| node.totals.all_get_ack().into(),
            |queue| counted(queue, QueueCount::Get),
        ),
        Of::both(
            "queue_get_total",
            Counter,
            "Total number of messages fetched from a queue with basic.get in automatic acknowledgement mode",
            |node| node.totals.all_get_no_ack().into(),
            |queue| counted(queue, QueueCount::GetNoAck),
        ),
        Of::both(
            "queue_messages_delivered_ack_total",
            Counter,
            "Total number of messages delivered from a queue to consumers in manual acknowledgement mode",
            |node| node.totals.all_delivered_ack().into(),
            |queue| counted(queue, QueueCount::Deliver),
        ),
        Of::both(
            "queue_messages_delivered_total",
            Counter,
            "Total number of messages delivered from a queue to consumers in automatic acknowledgement mode",
            |node| node.totals.queues_delivered_no_ack().into(),
            |queue| counted(queue, QueueCount::DeliverNoAck),
        ),
        Of::both(
            "queue_messages_redelivered_total",
            Counter,
            "Total number of messages redelivered from a queue to consumers",
            |node| node.totals.all_redelivered().into(),
            |queue| counted(queue, QueueCount::Redeliver),
        ),
        Of::both(
            "queue_messages_acked_total",
            Counter,
            "Total number of messages acknowledged by consumers on a queue",
            |node| node.totals.all_acked().into(),
            |queue| counted(queue, QueueCount::Ack),
        ),
        Of::both(
            "queue_get_empty_total",
            Counter,
            "Total number of times basic.get operations fetched no message on a queue",
            |node| node.totals.all_get_empty().into(),
            |queue| counted(queue, QueueCount::GetEmpty),
        ),
    ],
};

fn counted(queue: &QueueRef, count: QueueCount) -> Option<Sample> {
    queue.look(CountOf(count)).map(Into::into)
}

/// Publishes to queues. They aren't counted by channel and exchange.
pub(super) const PUBLISHED: Group<QueueRef> = Group {
    name: "channel_queue_exchange_metrics",
    labels: &["queue_vhost", "queue"],
    label: labels,
    families: &[Of::both(
        "queue_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange on a channel",
        |node| node.totals.enqueued.into(),
        |queue| counted(queue, QueueCount::Publish),
    )],
};

/// Publishes to queues, by exchange.
pub(super) const PUBLISHED_BY_EXCHANGE: Group<QueueRef> = Group {
    name: "queue_exchange_metrics",
    labels: LABELS,
    label: labels,
    families: &[Of::both(
        "queue_exchange_messages_published_total",
        Counter,
        "Total number of messages published into a queue through an exchange",
        |node| node.totals.enqueued.into(),
        |queue| counted(queue, QueueCount::Publish),
    )],
};
