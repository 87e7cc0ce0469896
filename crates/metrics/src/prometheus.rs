use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::histogram::upper_bound;
use crate::{BUCKETS, HistogramTotals, Totals};

/// What `Content-Type` says of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is read and not counted: the node's state at the moment of the scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Open connections.
    pub connections: u64,
    /// Open channels.
    pub channels: u64,
    /// AMQP 1.0 links.
    pub links: u64,
    /// Bytes that sockets hold that haven't logged in.
    pub unauthenticated_bytes: u64,
    /// Queues.
    pub queues: u64,
    /// Queues and their messages by what a confirm means in them.
    pub by_durability: [ByDurability; 3],
    /// Consumers.
    pub consumers: u64,
    /// Messages ready, in all queues.
    pub messages_ready: u64,
    /// Messages delivered and not yet settled, in all queues.
    pub messages_unacked: u64,
    /// Free bytes where the data directory lies.
    pub disk_space_available_bytes: u64,
    /// The limit below which publishers are stopped.
    pub disk_space_limit_bytes: u64,
    /// Resident memory of the process.
    pub resident_memory_bytes: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// The most that may be open.
    pub max_fds: u64,
    /// More resident memory than this raises the alarm, in bytes.
    pub resident_memory_limit_bytes: u64,
    /// Connections that an alarm holds back.
    pub connections_blocked: u64,
    /// Connections whose publishes wait for the disk.
    pub connections_in_flow: u64,
    /// Whether free disk space is below its limit.
    pub disk_alarm: bool,
    /// Whether memory is above its limit.
    pub memory_alarm: bool,
}

/// See [`Gauges::by_durability`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ByDurability {
    /// What a confirm means: the class by its name.
    pub durability: &'static str,
    /// How many queues.
    pub queues: u64,
    /// Their messages, ready and unacknowledged.
    pub messages: u64,
}

/// Everything that one scrape shows.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    /// The sum over all cores.
    pub totals: Totals,
    /// The state at this moment.
    pub gauges: Gauges,
    /// The node's name.
    pub node: String,
    /// The cluster's name.
    pub cluster: String,
    /// Our own version.
    pub version: String,
    /// The version of RabbitMQ that we are compatible with.
    pub rabbitmq_version: String,
    /// The durability of a confirm, as the start log names it.
    pub durability: String,
    /// Microseconds that syncs of the write-ahead log took.
    pub sync_us: HistogramTotals,
    /// Bytes written to the write-ahead log.
    pub log_bytes_written: u64,
    /// Segments: files with messages that left the write-ahead log.
    pub segments: Segments,
    /// Connections closed because sockets that hadn't logged in held too much.
    pub connections_shed: u64,
}

/// The files with messages that left the write-ahead log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segments {
    /// How many there are.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were written again without what is dead, or together with others.
    pub rewritten: u64,
    /// Bytes that the files are shorter since.
    pub bytes_reclaimed: u64,
}

/// The text of a scrape, in the OpenMetrics form.
pub fn encode(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(scrape)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry)
        .expect("formatting into a string has no error of its own");
    out
}

/// A counted family: its name without `_total`, what it says, and the counts by label sets.
type Counted = (&'static str, &'static str, fn(&Totals) -> u64);

const GLOBAL: &[Counted] = &[
    ("rabbitmq_global_messages_received", "Messages received from publishers", |t| t.published),
    ("rabbitmq_global_messages_received_confirm", "Messages received from publishers that use confirms", |t| {
        t.published_with_confirm
    }),
    ("rabbitmq_global_messages_confirmed", "Messages confirmed to publishers", |t| t.confirmed),
    ("rabbitmq_global_messages_routed", "Messages routed to at least one queue", |t| t.routed),
    ("rabbitmq_global_messages_unroutable_returned", "Mandatory messages returned as unroutable", |t| {
        t.unroutable_returned
    }),
    ("rabbitmq_global_messages_unroutable_dropped", "Messages dropped as unroutable", |t| t.unroutable_dropped),
    ("rabbitmq_global_messages_delivered", "Messages delivered to consumers or fetched", Totals::delivered),
    (
        "rabbitmq_global_messages_delivered_consume_manual_ack",
        "Messages delivered to consumers that acknowledge",
        |t| t.delivered_ack,
    ),
    (
        "rabbitmq_global_messages_delivered_consume_auto_ack",
        "Messages delivered to consumers that don't acknowledge",
        |t| t.delivered_no_ack,
    ),
    ("rabbitmq_global_messages_delivered_get_manual_ack", "Messages fetched to be acknowledged", |t| t.get_ack),
    ("rabbitmq_global_messages_delivered_get_auto_ack", "Messages fetched without acknowledgement", |t| t.get_no_ack),
    ("rabbitmq_global_messages_get_empty", "Fetches that found nothing", |t| t.get_empty),
    ("rabbitmq_global_messages_redelivered", "Messages delivered again", |t| t.redelivered),
    ("rabbitmq_global_messages_acknowledged", "Messages acknowledged", |t| t.acked),
];

const NODE: &[Counted] = &[
    ("rabbitmq_connections_opened", "Connections opened", |t| t.connections_opened),
    ("rabbitmq_connections_closed", "Connections closed", |t| t.connections_closed),
    ("rabbitmq_channels_opened", "Channels opened", |t| t.channels_opened),
    ("rabbitmq_channels_closed", "Channels closed", |t| t.channels_closed),
    ("rabbitmq_queues_declared", "Successful queue declarations", |t| t.queues_declared),
    ("rabbitmq_queues_created", "Queues created", |t| t.queues_created),
    ("rabbitmq_queues_deleted", "Queues deleted", |t| t.queues_deleted),
    ("rabbitmq_auth_attempts", "Login attempts", |t| t.auth_attempts),
    ("rabbitmq_auth_attempts_succeeded", "Logins that succeeded", |t| t.auth_succeeded),
    ("rabbitmq_auth_attempts_failed", "Logins that failed", |t| t.auth_failed),
    ("rabbitmq_connection_incoming_bytes", "Bytes read from connections", |t| t.bytes_in),
    ("rabbitmq_connection_outgoing_bytes", "Bytes written to connections", |t| t.bytes_out),
    ("leveret_socket_reads", "Reads from sockets", |t| t.reads),
    ("leveret_socket_writes", "Writes to sockets", |t| t.writes),
];

type Read = (&'static str, &'static str, fn(&Gauges) -> u64);

const GAUGES: &[Read] = &[
    ("rabbitmq_connections", "Open connections", |g| g.connections),
    ("rabbitmq_channels", "Open channels", |g| g.channels),
    ("rabbitmq_queues", "Queues", |g| g.queues),
    ("rabbitmq_consumers", "Consumers", |g| g.consumers),
    ("rabbitmq_queue_messages_ready", "Messages ready to be delivered", |g| g.messages_ready),
    ("rabbitmq_queue_messages_unacked", "Messages delivered but not settled", |g| g.messages_unacked),
    ("rabbitmq_queue_messages", "Messages ready and unacknowledged", |g| g.messages_ready + g.messages_unacked),
    ("rabbitmq_disk_space_available_bytes", "Free disk space", |g| g.disk_space_available_bytes),
    ("rabbitmq_disk_space_available_limit_bytes", "Free disk space alarm limit", |g| g.disk_space_limit_bytes),
    ("rabbitmq_process_resident_memory_bytes", "Resident memory", |g| g.resident_memory_bytes),
    ("rabbitmq_resident_memory_limit_bytes", "Memory high watermark", |g| g.resident_memory_limit_bytes),
    ("leveret_links", "Attached AMQP 1.0 links", |g| g.links),
    ("leveret_unauthenticated_bytes", "Bytes held by sockets that haven't logged in", |g| g.unauthenticated_bytes),
    ("leveret_connections_blocked", "Connections that an alarm holds back", |g| g.connections_blocked),
    ("leveret_connections_flow", "Connections whose publishes wait for the disk", |g| g.connections_in_flow),
    ("rabbitmq_process_open_fds", "Open file descriptors", |g| g.open_fds),
    ("rabbitmq_process_max_fds", "Limit of open file descriptors", |g| g.max_fds),
    ("rabbitmq_alarms_free_disk_space_watermark", "1 while free disk space is too low", |g| u64::from(g.disk_alarm)),
    ("rabbitmq_alarms_memory_used_watermark", "1 while too much memory is used", |g| u64::from(g.memory_alarm)),
];

type Classified = (&'static str, &'static str, fn(&ByDurability) -> u64);

const BY_DURABILITY: &[Classified] = &[
    ("leveret_durability_queues", "Queues by what a confirm means in them", |class| class.queues),
    ("leveret_durability_messages", "Messages in queues by what a confirm means there", |class| class.messages),
];

#[derive(Debug)]
struct Families(Scrape);

impl Collector for Families {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let scrape = &self.0;
        for (name, help, read) in GLOBAL {
            let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
            let counter = ConstCounter::new(read(&scrape.totals));
            counter.encode(family.encode_family(&[("protocol", "amqp091")])?)?;
        }
        for (name, help, read) in NODE {
            let family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(read(&scrape.totals)).encode(family)?;
        }
        for (name, help, read) in GAUGES {
            gauge(&mut out, name, help, read(&scrape.gauges))?;
        }
        gauge(&mut out, "leveret_segments", "Files with messages that left the log", scrape.segments.count)?;
        gauge(&mut out, "leveret_segment_bytes", "Bytes of these files", scrape.segments.bytes)?;
        let by_durability = &scrape.gauges.by_durability;
        for (name, help, read) in BY_DURABILITY {
            let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for class in by_durability {
                let gauge = ConstGauge::new(i64::try_from(read(class)).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&[("durability", class.durability)])?)?;
            }
        }
        let sync = &scrape.sync_us;
        for (name, help, value) in [
            ("rabbitmq_io_sync_ops", "Syncs of the write-ahead log", sync.count()),
            ("rabbitmq_io_write_bytes", "Bytes written to the write-ahead log", scrape.log_bytes_written),
            ("leveret_segments_rewritten", "Sparse or small segments that were rewritten", scrape.segments.rewritten),
            ("leveret_segments_reclaimed_bytes", "Bytes saved by rewriting", scrape.segments.bytes_reclaimed),
            ("leveret_connections_shed", "Connections closed before login for want of room", scrape.connections_shed),
        ] {
            let family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(family)?;
        }
        let help = "Time of a sync of the write-ahead log; the sum is estimated from the buckets";
        const MICROSECONDS: f64 = 1e6;
        histogram(&mut out, "leveret_sync_seconds", help, sync, MICROSECONDS)?;
        info(
            &mut out,
            "rabbitmq_build",
            "Versions",
            &[("rabbitmq_version", &scrape.rabbitmq_version), ("leveret_version", &scrape.version)],
        )?;
        info(
            &mut out,
            "rabbitmq_identity",
            "Names of node and cluster",
            &[("rabbitmq_node", &scrape.node), ("rabbitmq_cluster", &scrape.cluster)],
        )?;
        info(
            &mut out,
            "leveret_durability",
            "What a confirm of a durable message means",
            &[("mode", &scrape.durability)],
        )
    }
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(family)
}

fn info(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, labels: &[(&str, &String)]) -> fmt::Result {
    let labels: Vec<(String, String)> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect();
    let info = Info::new(labels);
    let family = out.encode_descriptor(name, help, None, info.metric_type())?;
    info.encode(family)
}

/// Buckets up to the largest value seen; later scrapes may have more.
fn histogram(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    totals: &HistogramTotals,
    scale: f64,
) -> fmt::Result {
    let used = totals.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let mut buckets: Vec<(f64, u64)> =
        (0..used.min(BUCKETS - 1)).map(|at| (upper_bound(at) as f64 / scale, totals.buckets[at])).collect();
    let listed: u64 = buckets.iter().map(|(_, count)| count).sum();
    buckets.push((f64::MAX, totals.count() - listed));
    let mut family = out.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let sum = totals.sum as f64 / scale;
    family.encode_histogram::<prometheus_client::encoding::NoLabelSet>(sum, totals.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counters, Histogram};

    #[test]
    fn the_text_has_every_family_with_its_value() {
        let counters = Counters::default();
        counters.published.add(5);
        let sync = Histogram::default();
        sync.record_many(60, 3);
        let text = encode(Scrape {
            totals: Totals::of([&counters]),
            gauges: Gauges { queues: 7, ..Gauges::default() },
            durability: "synced".to_owned(),
            sync_us: sync.totals(),
            ..Scrape::default()
        });
        for line in [
            "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} 5",
            "rabbitmq_queues 7",
            "rabbitmq_io_sync_ops_total 3",
            "leveret_sync_seconds_bucket{le=\"0.000064\"} 3",
            "leveret_sync_seconds_bucket{le=\"+Inf\"} 3",
            "leveret_sync_seconds_count 3",
            "leveret_durability_info{mode=\"synced\"} 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
