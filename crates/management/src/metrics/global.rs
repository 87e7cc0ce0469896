//! Families by protocol: exact counters of the whole node.

use leveret_broker::Death;
use leveret_broker::protocol::{ProtocolTotals, RefusedCommands};
use leveret_metrics::Kind::{Counter, Gauge, Histogram};
use leveret_metrics::{Kind, Name, Text, Totals};
use leveret_model::QueueType;

use super::node::Node;

/// A family by protocol.
pub(super) struct ByProtocol {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    /// The count; that of classic queues, if there are others.
    value: fn(&Totals) -> u64,
    /// The counts of the other queue types, if RabbitMQ counts by these.
    others: Option<Others>,
}

/// The counts of what didn't come out of classic queues.
struct Others {
    quorum: fn(&Totals) -> u64,
    stream: fn(&Totals) -> u64,
    /// Directly from another client.
    volatile: fn(&Totals) -> u64,
}

impl ByProtocol {
    /// Whether it is counted by queue type.
    #[cfg(test)]
    pub(super) fn by_queue_type(&self) -> bool {
        self.others.is_some()
    }
}

const fn by_protocol(name: &'static str, kind: Kind, help: &'static str, value: fn(&Totals) -> u64) -> ByProtocol {
    ByProtocol { name, kind, help, value, others: None }
}

/// Counted by queue type: of classic queues, quorum queues and streams.
const fn by_queue_type(name: &'static str, help: &'static str, of: [fn(&Totals) -> u64; 3]) -> ByProtocol {
    let [value, quorum, stream] = of;
    ByProtocol { name, kind: Counter, help, value, others: Some(Others { quorum, stream, volatile: none }) }
}

/// As [`by_queue_type`], and direct replies as a type of their own.
const fn with_volatile(name: &'static str, help: &'static str, of: [fn(&Totals) -> u64; 3]) -> ByProtocol {
    let [value, quorum, stream] = of;
    let others = Others { quorum, stream, volatile: |totals| totals.delivered_replies };
    ByProtocol { name, kind: Counter, help, value, others: Some(others) }
}

/// The count of a type that has nothing of the kind.
fn none(_: &Totals) -> u64 {
    0
}

/// All of them.
pub(super) const FAMILIES: &[ByProtocol] = &[
    by_protocol("global_consumers", Gauge, "Current number of consumers", |totals| {
        totals.consumers_opened.saturating_sub(totals.consumers_closed)
    }),
    by_protocol("global_publishers", Gauge, "Current number of publishers", |totals| {
        totals.publishers_opened.saturating_sub(totals.publishers_closed)
    }),
    by_protocol(
        "global_messages_received_total",
        Counter,
        "Total number of messages received from publishers",
        |totals| totals.published,
    ),
    by_protocol(
        "global_messages_received_confirm_total",
        Counter,
        "Total number of messages received from publishers expecting confirmations",
        |totals| totals.published_with_confirm,
    ),
    by_protocol(
        "global_messages_confirmed_total",
        Counter,
        "Total number of messages confirmed to publishers",
        |totals| totals.confirmed,
    ),
    by_protocol(
        "global_messages_routed_total",
        Counter,
        "Total number of messages routed to queues or streams",
        |totals| totals.routed,
    ),
    by_protocol(
        "global_messages_unroutable_dropped_total",
        Counter,
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |totals| totals.unroutable_dropped,
    ),
    by_protocol(
        "global_messages_unroutable_returned_total",
        Counter,
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |totals| totals.unroutable_returned,
    ),
    with_volatile(
        "global_messages_delivered_total",
        "Total number of messages delivered to consumers",
        [Totals::classic_delivered, Totals::quorum_delivered, Totals::stream_delivered],
    ),
    by_queue_type(
        "global_messages_delivered_consume_manual_ack_total",
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
        [|totals| totals.delivered_ack, |totals| totals.quorum_delivered_ack, |totals| totals.stream_delivered_ack],
    ),
    with_volatile(
        "global_messages_delivered_consume_auto_ack_total",
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
        [
            |totals| totals.delivered_no_ack,
            |totals| totals.quorum_delivered_no_ack,
            |totals| totals.stream_delivered_no_ack,
        ],
    ),
    by_queue_type(
        "global_messages_delivered_get_manual_ack_total",
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
        [|totals| totals.get_ack, |totals| totals.quorum_get_ack, none],
    ),
    by_queue_type(
        "global_messages_delivered_get_auto_ack_total",
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
        [|totals| totals.get_no_ack, |totals| totals.quorum_get_no_ack, none],
    ),
    by_queue_type(
        "global_messages_get_empty_total",
        "Total number of times basic.get operations fetched no message",
        [|totals| totals.get_empty, |totals| totals.quorum_get_empty, none],
    ),
    by_queue_type(
        "global_messages_redelivered_total",
        "Total number of messages redelivered to consumers",
        [|totals| totals.redelivered, |totals| totals.quorum_redelivered, none],
    ),
    by_queue_type(
        "global_messages_acknowledged_total",
        "Total number of messages acknowledged by consumers",
        [|totals| totals.acked, |totals| totals.quorum_acked, |totals| totals.stream_acked],
    ),
];

/// Name of the family that counts commands of a protocol that were refused for this reason.
pub(super) fn refusals(protocol: &str, reason: &str) -> String {
    format!("global_{protocol}_error_{reason}_total")
}

/// Writes a family for each reason for which a protocol refuses commands.
fn write_refusals(node: &Node, text: &mut Text) {
    for ProtocolTotals { info, refused, .. } in &node.by_protocol {
        for RefusedCommands { name: reason, count } in refused {
            let family = refusals(info.label, reason);
            let name = Name("rabbitmq_", &family);
            text.family(name, Counter, &format!("Total number of commands failed with {}", reason.replace('_', " ")));
            text.sample(name, &[("protocol", info.label)], *count);
        }
    }
}

/// Pseudo queue type of direct replies.
const VOLATILE: &str = "rabbit_volatile_queue";

/// Writes all families.
pub(super) fn write(node: &Node, text: &mut Text) {
    write_refusals(node, text);
    for family in FAMILIES {
        let name = Name("rabbitmq_", family.name);
        text.family(name, family.kind, family.help);
        for ProtocolTotals { info, totals, .. } in &node.by_protocol {
            let value = (family.value)(totals);
            let label = ("protocol", info.label);
            let Some(others) = &family.others else {
                text.sample(name, &[label], value);
                continue;
            };
            for queue_type in QueueType::ALL {
                let value = match queue_type {
                    QueueType::Classic => value,
                    QueueType::Quorum => (others.quorum)(totals),
                    QueueType::Stream => (others.stream)(totals),
                };
                text.sample(name, &[label, ("queue_type", queue_type.label())], value);
            }
            text.sample(name, &[label, ("queue_type", VOLATILE)], (others.volatile)(totals));
        }
    }
}

/// Families of dead letters: name, help text, and reason of the death.
pub(super) const DEATHS: &[(&str, &str, Death)] = &[
    (
        "global_messages_dead_lettered_expired_total",
        "Total number of messages dead-lettered due to message TTL exceeded",
        Death::Expired,
    ),
    (
        "global_messages_dead_lettered_maxlen_total",
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx",
        Death::MaxLen,
    ),
    (
        "global_messages_dead_lettered_rejected_total",
        "Total number of messages dead-lettered due to basic.reject or basic.nack",
        Death::Rejected,
    ),
    (
        "global_messages_dead_lettered_delivery_limit_total",
        "Total number of messages dead-lettered due to delivery-limit exceeded",
        Death::DeliveryLimit,
    ),
];

/// The queue types that count deaths. Only quorum queues have a delivery limit.
const MORTAL: [QueueType; 2] = [QueueType::Classic, QueueType::Quorum];

/// The labels of [`DEATHS`].
pub(super) const DEATH_LABELS: [&str; 2] = ["queue_type", "dead_letter_strategy"];

const AT_LEAST_ONCE: &str = "at_least_once";

/// Name and help text of the dead letters that left a queue which keeps them until other queues have them.
pub(super) const CONFIRMED: (&str, &str) = (
    "global_messages_dead_lettered_confirmed_total",
    "Total number of messages dead-lettered and confirmed by target queues",
);

/// Dead letters, by what the queue does with them. RabbitMQ calls the strategy of classic queues with an exchange "at most once"; here
/// dead-lettering is atomic.
pub(super) fn write_deaths(node: &Node, text: &mut Text) {
    let metrics = &node.api.broker().queue_metrics;
    for (name, help, death) in DEATHS {
        let name = Name("rabbitmq_", name);
        text.family(name, Counter, help);
        let mut sample = |queue_type: &str, strategy: &str, value: u64| {
            text.sample(name, &[(DEATH_LABELS[0], queue_type), (DEATH_LABELS[1], strategy)], value);
        };
        let has = |queue_type: &QueueType| *death != Death::DeliveryLimit || *queue_type == QueueType::Quorum;
        for queue_type in MORTAL.into_iter().filter(has) {
            if queue_type == QueueType::Quorum {
                sample(queue_type.label(), AT_LEAST_ONCE, metrics.kept_dead_letters.of(queue_type, *death));
            }
            for (strategy, deaths) in [("at_most_once", &metrics.dead_lettered), ("disabled", &metrics.dropped)] {
                sample(queue_type.label(), strategy, deaths.of(queue_type, *death));
            }
        }
        if *death == Death::MaxLen {
            // Direct replies wait for their client without a limit.
            sample(VOLATILE, "disabled", 0);
        }
    }
    let name = Name("rabbitmq_", CONFIRMED.0);
    text.family(name, Counter, CONFIRMED.1);
    let of = |(_, _, death): &(_, _, Death)| metrics.kept_dead_letters.of(QueueType::Quorum, *death);
    let labels = [(DEATH_LABELS[0], QueueType::Quorum.label()), (DEATH_LABELS[1], AT_LEAST_ONCE)];
    text.sample(name, &labels, DEATHS.iter().map(of).sum::<u64>());
}

/// Name, kind and help text.
pub(super) const SIZES: (&str, Kind, &str) =
    ("message_size_bytes", Histogram, "Size of messages received from publishers");

/// Writes the sizes of published messages: of bodies, and in AMQP 1.0 of all sections.
pub(super) fn write_sizes(node: &Node, text: &mut Text) {
    let name = Name("rabbitmq_", SIZES.0);
    text.family(name, SIZES.1, SIZES.2);
    for ProtocolTotals { info, sizes, .. } in &node.by_protocol {
        let up_to = sizes.up_to().map(|(bound, count)| (bound.into(), count));
        text.histogram(name, &[("protocol", info.label)], up_to, sizes.messages(), sizes.bytes());
    }
}

/// Names and help texts of the families about logins: all, successful, failed.
pub(super) const LOGINS: [(&str, &str); 3] = [
    ("auth_attempts_total", "Total number of authentication attempts"),
    ("auth_attempts_succeeded_total", "Total number of successful authentication attempts"),
    ("auth_attempts_failed_total", "Total number of failed authentication attempts"),
];

/// The group of [`LOGINS`].
pub(super) const LOGINS_GROUP: &str = "auth_attempt_metrics";

/// Logins by protocol: the first protocol comes last and HTTP before it, as in RabbitMQ.
pub(super) fn write_logins(prefix: &str, node: &Node, text: &mut Text) {
    let (succeeded, failed) = node.api.logins().totals();
    let of_protocol = |ProtocolTotals { info, totals, .. }: &ProtocolTotals| {
        (info.label, [totals.auth_attempts, totals.auth_succeeded, totals.auth_failed])
    };
    let mut all: Vec<_> = node.by_protocol.iter().rev().map(of_protocol).collect();
    all.insert(all.len().saturating_sub(1), ("http", [succeeded + failed, succeeded, failed]));
    for (at, (name, help)) in LOGINS.into_iter().enumerate() {
        let name = Name(prefix, name);
        text.family(name, Counter, help);
        for (protocol, counts) in &all {
            text.sample(name, &[("protocol", protocol)], counts[at]);
        }
    }
}
