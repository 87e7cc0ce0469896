//! Families by protocol: exact counters of the whole node.

use leveret_broker::Death;
use leveret_broker::traffic::Protocol;
use leveret_metrics::Kind::{Counter, Gauge, Histogram};
use leveret_metrics::{Kind, Name, Text, Totals};
use leveret_model::QueueType;

use super::node::Node;

/// The label of all queues, as long as counters aren't kept by type.
const QUEUE_TYPE: &str = QueueType::Classic.label();

/// A family by protocol.
pub(super) struct ByProtocol {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    /// Whether RabbitMQ also counts it by queue type.
    pub by_queue_type: bool,
    value: fn(&Node, Protocol) -> u64,
    /// The part that didn't come out of a queue but directly from another client.
    volatile: Option<fn(&Totals) -> u64>,
}

const fn by_protocol(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&Node, Protocol) -> u64,
) -> ByProtocol {
    ByProtocol { name, kind, help, by_queue_type: false, value, volatile: None }
}

const fn by_queue_type(name: &'static str, help: &'static str, value: fn(&Node, Protocol) -> u64) -> ByProtocol {
    ByProtocol { name, kind: Counter, help, by_queue_type: true, value, volatile: None }
}

const fn with_volatile(name: &'static str, help: &'static str, value: fn(&Node, Protocol) -> u64) -> ByProtocol {
    ByProtocol {
        name,
        kind: Counter,
        help,
        by_queue_type: true,
        value,
        volatile: Some(|totals| totals.delivered_replies),
    }
}

fn of(node: &Node, protocol: Protocol) -> &Totals {
    &node.by_protocol[protocol as usize]
}

/// All of them.
pub(super) const FAMILIES: &[ByProtocol] = &[
    by_protocol("global_consumers", Gauge, "Current number of consumers", |node, protocol| {
        let gauges = &node.queues.gauges;
        match protocol {
            Protocol::Amqp091 => gauges.consumers.saturating_sub(gauges.links),
            Protocol::Amqp10 => gauges.links,
        }
    }),
    by_protocol("global_publishers", Gauge, "Current number of publishers", |node, protocol| {
        of(node, protocol).publishers_opened.saturating_sub(of(node, protocol).publishers_closed)
    }),
    by_protocol(
        "global_messages_received_total",
        Counter,
        "Total number of messages received from publishers",
        |node, protocol| of(node, protocol).published,
    ),
    by_protocol(
        "global_messages_received_confirm_total",
        Counter,
        "Total number of messages received from publishers expecting confirmations",
        |node, protocol| of(node, protocol).published_with_confirm,
    ),
    by_protocol(
        "global_messages_confirmed_total",
        Counter,
        "Total number of messages confirmed to publishers",
        |node, protocol| of(node, protocol).confirmed,
    ),
    by_protocol(
        "global_messages_routed_total",
        Counter,
        "Total number of messages routed to queues or streams",
        |node, protocol| of(node, protocol).routed,
    ),
    by_protocol(
        "global_messages_unroutable_dropped_total",
        Counter,
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        |node, protocol| of(node, protocol).unroutable_dropped,
    ),
    by_protocol(
        "global_messages_unroutable_returned_total",
        Counter,
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
        |node, protocol| of(node, protocol).unroutable_returned,
    ),
    with_volatile(
        "global_messages_delivered_total",
        "Total number of messages delivered to consumers",
        |node, protocol| of(node, protocol).delivered(),
    ),
    by_queue_type(
        "global_messages_delivered_consume_manual_ack_total",
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
        |node, protocol| of(node, protocol).delivered_ack,
    ),
    with_volatile(
        "global_messages_delivered_consume_auto_ack_total",
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
        |node, protocol| of(node, protocol).delivered_no_ack,
    ),
    by_queue_type(
        "global_messages_delivered_get_manual_ack_total",
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
        |node, protocol| of(node, protocol).get_ack,
    ),
    by_queue_type(
        "global_messages_delivered_get_auto_ack_total",
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
        |node, protocol| of(node, protocol).get_no_ack,
    ),
    by_queue_type(
        "global_messages_get_empty_total",
        "Total number of times basic.get operations fetched no message",
        |node, protocol| of(node, protocol).get_empty,
    ),
    by_queue_type(
        "global_messages_redelivered_total",
        "Total number of messages redelivered to consumers",
        |node, protocol| of(node, protocol).redelivered,
    ),
    by_queue_type(
        "global_messages_acknowledged_total",
        "Total number of messages acknowledged by consumers",
        |node, protocol| of(node, protocol).acked,
    ),
];

/// Pseudo queue type of direct replies.
const VOLATILE: &str = "rabbit_volatile_queue";

/// Writes all families.
pub(super) fn write(node: &Node, text: &mut Text) {
    for family in FAMILIES {
        let name = Name("rabbitmq_", family.name);
        text.family(name, family.kind, family.help);
        for protocol in Protocol::ALL {
            let value = (family.value)(node, protocol);
            let label = ("protocol", protocol.label());
            if !family.by_queue_type {
                text.sample(name, &[label], value);
                continue;
            }
            let volatile = family.volatile.map(|read| read(of(node, protocol)));
            text.sample(name, &[label, ("queue_type", QUEUE_TYPE)], value.saturating_sub(volatile.unwrap_or(0)));
            if let Some(volatile) = volatile {
                text.sample(name, &[label, ("queue_type", VOLATILE)], volatile);
            }
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
];

/// The labels of [`DEATHS`].
pub(super) const DEATH_LABELS: [&str; 2] = ["queue_type", "dead_letter_strategy"];

/// Dead letters, by whether the queue has a dead-letter exchange. RabbitMQ calls the strategy of classic queues with
/// one "at most once"; here dead-lettering is atomic.
pub(super) fn write_deaths(node: &Node, text: &mut Text) {
    let metrics = &node.api.broker().queue_metrics;
    for (name, help, death) in DEATHS {
        let name = Name("rabbitmq_", name);
        text.family(name, Counter, help);
        for (strategy, deaths) in [("at_most_once", &metrics.dead_lettered), ("disabled", &metrics.dropped)] {
            let labels = [(DEATH_LABELS[0], QUEUE_TYPE), (DEATH_LABELS[1], strategy)];
            text.sample(name, &labels, deaths.of(*death));
        }
    }
}

/// Name, kind and help text.
pub(super) const SIZES: (&str, Kind, &str) =
    ("message_size_bytes", Histogram, "Size of messages received from publishers");

/// Writes the sizes of published messages: of bodies, and in AMQP 1.0 of all sections.
pub(super) fn write_sizes(node: &Node, text: &mut Text) {
    let name = Name("rabbitmq_", SIZES.0);
    text.family(name, SIZES.1, SIZES.2);
    for protocol in Protocol::ALL {
        let totals = &node.sizes[protocol as usize];
        let up_to = totals.up_to().map(|(bound, count)| (bound.into(), count));
        text.histogram(name, &[("protocol", protocol.label())], up_to, totals.messages(), totals.bytes());
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

/// Writes logins by protocol.
pub(super) fn write_logins(prefix: &str, node: &Node, text: &mut Text) {
    let (succeeded, failed) = node.api.logins().totals();
    let of_protocol = |protocol: Protocol| {
        let totals = of(node, protocol);
        (protocol.label(), [totals.auth_attempts, totals.auth_succeeded, totals.auth_failed])
    };
    let [amqp091, amqp10] = Protocol::ALL.map(of_protocol);
    let all = [amqp10, ("http", [succeeded + failed, succeeded, failed]), amqp091];
    for (at, (name, help)) in LOGINS.into_iter().enumerate() {
        let name = Name(prefix, name);
        text.family(name, Counter, help);
        for (protocol, counts) in &all {
            text.sample(name, &[("protocol", protocol)], counts[at]);
        }
    }
}
