//! Families that only we have: durability, waits, syncs, links.

use leveret_broker::queue_handle::{QueueRef, SetAsideOf};
use leveret_broker::quota::Kind as Counted;
use leveret_broker::registry::Snapshot;
use leveret_broker::{ConnectionState, SetAside, WaitReason};
use leveret_metrics::Kind::{Counter, Gauge, Histogram, Untyped};
use leveret_metrics::{Kind, Name, Text};
use leveret_model::{Durability, QueueType};

use super::family::{Family, Group};
use super::node::Node;
use super::queues;

type Of = Family<()>;
type OfQueue = Family<QueueRef>;

/// Families without labels.
pub(super) const OWN: Group<()> = Group {
    name: "",
    labels: &[],
    label: |()| Vec::new(),
    families: &[
        Of::total("links", Gauge, "Attached AMQP 1.0 links", |node| {
            node.api.broker().quota.used(Counted::Links).into()
        }),
        Of::total("sessions", Gauge, "Open AMQP 1.0 sessions", |node| node.clients.sessions.into()),
        Of::total("taps", Gauge, "Open live taps of queues and exchanges", |node| {
            (node.api.broker().taps.count() as u64).into()
        }),
        Of::total("connections_blocked", Gauge, "Connections blocked by an alarm", |node| {
            in_state(node, ConnectionState::Blocked).into()
        }),
        Of::total("connections_flow", Gauge, "Connections whose publishes wait for the disk", |node| {
            in_state(node, ConnectionState::Flow).into()
        }),
        Of::total(
            "connections_shed_total",
            Counter,
            "Connections closed because sockets that hadn't logged in used too much memory",
            |node| node.api.broker().unauthenticated.shed().into(),
        ),
        Of::total(
            "connections_unfinished_closed_total",
            Counter,
            "Connections closed because their unfinished messages kept the memory alarm raised",
            |node| node.api.broker().unfinished_closed().into(),
        ),
        Of::total(
            "unfinished_bytes",
            Gauge,
            "Bytes of memory of messages that came in only partly, parts of frames, and open transactions",
            |node| node.api.broker().unfinished_bytes().into(),
        ),
        Of::total(
            "stream_messages_unreadable_total",
            Counter,
            "Messages of damaged sub-batches of streams that readers over AMQP and HTTP weren't given, for each reader",
            |node| node.api.broker().reads.unreadable.messages().into(),
        ),
        Of::total("unauthenticated_bytes", Gauge, "Bytes used by sockets that haven't logged in", |node| {
            node.api.broker().unauthenticated.bytes().into()
        }),
        Of::total("socket_reads_total", Counter, "Reads from sockets", |node| node.totals.reads.into()),
        Of::total("socket_writes_total", Counter, "Writes to sockets", |node| node.totals.writes.into()),
        Of::total("segments", Gauge, "Files with messages that left the write-ahead log", |node| {
            node.log.segments.into()
        }),
        Of::total("segment_bytes", Gauge, "Bytes of these files", |node| node.log.segment_bytes.into()),
        Of::total("segments_rewritten_total", Counter, "Sparse or small segments that were rewritten", |node| {
            node.log.segments_rewritten.into()
        }),
        Of::total("segments_reclaimed_bytes_total", Counter, "Bytes saved by rewriting", |node| {
            node.log.bytes_reclaimed.into()
        }),
        Of::total("queues_stopped", Gauge, "Queues that have stopped because of damage or an internal error", |node| {
            node.queues.waiting[WaitReason::Failed as usize].into()
        }),
        Of::total("unowned_logs", Gauge, "Logs with messages that no queue in the metadata owns", |node| {
            (node.api.broker().unowned().len() as u64).into()
        }),
        Of::total("unowned_messages", Gauge, "Messages of these logs", |node| {
            node.api.broker().unowned().iter().map(|log| log.messages).sum::<u64>().into()
        }),
        Of::total(
            "own_messages_dropped_total",
            Counter,
            "Messages of the broker itself, such as traces, dropped because publishing was blocked or too many waited",
            |node| (node.api.broker().own_dropped() + node.api.broker().notices.dropped()).into(),
        ),
        Of::total(
            "clock_set_total",
            Counter,
            "Times that wall time was set because the system's clock differed by a second or more",
            |node| node.api.broker().wall.steps().0.into(),
        ),
        Of::total(
            "messages_deduplicated_total",
            Counter,
            "Messages dropped because their queue or exchange had one with the same id",
            |node| node.api.broker().queue_metrics.duplicates().into(),
        ),
    ],
};

/// Families of single queues, which only quorum queues have.
pub(super) const OF_QUEUES: Group<QueueRef> = Group {
    name: "",
    labels: queues::LABELS,
    label: queues::labels,
    families: &[
        OfQueue::both(
            "queue_messages_parked",
            Gauge,
            "Messages that came to the delivery limit of a quorum queue and were set aside",
            |node| node.parked.0.into(),
            |queue| is_quorum(queue).then(|| queue.look(SetAsideOf(SetAside::Parked)).0.into()),
        ),
        OfQueue::both(
            "queue_messages_parked_bytes",
            Gauge,
            "Size in bytes of these messages",
            |node| node.parked.1.into(),
            |queue| is_quorum(queue).then(|| queue.look(SetAsideOf(SetAside::Parked)).1.into()),
        ),
        OfQueue::both(
            "queue_messages_delayed",
            Gauge,
            "Messages that wait in a quorum queue for a time",
            |node| node.delayed.0.into(),
            |queue| is_quorum(queue).then(|| queue.look(SetAsideOf(SetAside::Delayed)).0.into()),
        ),
        OfQueue::both(
            "queue_messages_delayed_bytes",
            Gauge,
            "Size in bytes of these messages",
            |node| node.delayed.1.into(),
            |queue| is_quorum(queue).then(|| queue.look(SetAsideOf(SetAside::Delayed)).1.into()),
        ),
    ],
};

fn is_quorum(queue: &QueueRef) -> bool {
    queue.info().queue_type() == QueueType::Quorum
}

/// Number and body bytes of all messages that were set aside in this way. Only quorum queues are asked: no sum is kept, because
/// gauges are written at every call of a queue and such messages are rare.
pub(super) fn set_aside(queues: &Snapshot, which: SetAside) -> (u64, u64) {
    let each = queues.queues.values().filter(|queue| is_quorum(queue)).map(|queue| queue.look(SetAsideOf(which)));
    each.fold((0, 0), |(messages, bytes), (more, further)| (messages + more, bytes + further))
}

fn in_state(node: &Node, state: ConnectionState) -> u64 {
    node.statuses.iter().filter(|status| status.state == state).count() as u64
}

/// Families with labels: name, kind, help text, label.
pub(super) const LABELLED: [(&str, Kind, &str, &str); 7] = [
    ("durability_info", Untyped, "Meaning of a confirm of a durable message", "mode"),
    ("durability_queues", Gauge, "Queues by the meaning of a confirm", "durability"),
    ("durability_messages", Gauge, "Messages in queues by the meaning of a confirm", "durability"),
    (
        "queues_waiting",
        Gauge,
        "Queues by the reason why they or their publishers wait; a queue may have several",
        "reason",
    ),
    ("connections_waiting", Gauge, "Connections whose input is blocked, by reason", "reason"),
    ("build_info", Untyped, "Leveret's own version", "version"),
    ("sync_seconds", Histogram, "Time of a sync of the write-ahead log; the sum is estimated from the buckets", ""),
];

/// Our prefix.
pub(super) const PREFIX: &str = "leveret_";

/// Writes all families.
pub(super) fn write(node: &Node, text: &mut Text) {
    OWN.totals(PREFIX, node, text);
    let [info, queues, messages, waiting, connections, build, sync] = LABELLED;
    let begin = |text: &mut Text, family: (&'static str, Kind, &str, &str)| {
        let name = Name(PREFIX, family.0);
        text.family(name, family.1, family.2);
        name
    };
    let name = begin(text, info);
    text.sample(name, &[(info.3, node.api.durability())], 1u64);
    let by_durability = Durability::ALL.map(|class| (class.name(), node.queues.by_durability[class as usize]));
    let name = begin(text, queues);
    by_durability.iter().for_each(|(class, (queues, _))| text.sample(name, &[(queues_label(), class)], *queues));
    let name = begin(text, messages);
    by_durability.iter().for_each(|(class, (_, messages))| text.sample(name, &[(queues_label(), class)], *messages));
    let name = begin(text, waiting);
    for reason in WaitReason::ALL {
        let count = node.queues.waiting[reason as usize];
        if count > 0 {
            text.sample(name, &[(waiting.3, reason.code())], count);
        }
    }
    let name = begin(text, connections);
    for reason in WaitReason::ALL {
        let waits = |status: &&leveret_broker::ConnectionStatus| status.wait.is_some_and(|wait| wait.reason == reason);
        let count = node.statuses.iter().filter(waits).count();
        if count > 0 {
            text.sample(name, &[(connections.3, reason.code())], count as u64);
        }
    }
    let name = begin(text, build);
    text.sample(name, &[(build.3, env!("CARGO_PKG_VERSION"))], 1u64);
    let name = begin(text, sync);
    const MICROSECONDS: f64 = 1e6;
    text.powers_of_two(name, &[], &node.log.sync_us, MICROSECONDS);
}

fn queues_label() -> &'static str {
    LABELLED[1].3
}
