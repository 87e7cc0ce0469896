//! The values that one scrape reads from the node, and the families of the node itself.

use leveret_broker::protocol::ProtocolTotals;
use leveret_broker::queue_metrics::QueueSums;
use leveret_broker::{AlarmSource, ConnectionStatus, SetAside};
use leveret_metrics::{HistogramTotals, Kind, Totals};

use super::clients::ClientSums;
use super::family::{Family, Group};
use super::own;
use super::queues::StreamSums;
use crate::api::Api;
use crate::process;

/// A scrape's view of the node.
pub(super) struct Node {
    pub totals: Totals,
    pub by_protocol: Vec<ProtocolTotals>,
    /// The counters of connections of all protocols with channels.
    pub with_channels: Totals,
    pub queues: QueueSums,
    /// Number of queues.
    pub queue_count: u64,
    /// Number and body bytes of parked messages.
    pub parked: (u64, u64),
    /// Number and body bytes of delayed messages.
    pub delayed: (u64, u64),
    /// Values of streams.
    pub streams: StreamSums,
    pub open_connections: u64,
    pub statuses: Vec<ConnectionStatus>,
    pub clients: ClientSums,
    pub log: LogFigures,
    pub disk_free_bytes: u64,
    pub resident_bytes: u64,
    pub open_descriptors: u64,
    pub disk_alarm: bool,
    pub memory_alarm: bool,
    pub api: Api,
}

/// The log's counters.
pub(super) struct LogFigures {
    pub writes: u64,
    pub bytes_written: u64,
    pub syncs: u64,
    /// Durations of syncs in microseconds.
    pub sync_us: HistogramTotals,
    /// Number of segments, which hold messages that left the write-ahead log.
    pub segments: u64,
    pub segment_bytes: u64,
    pub segments_rewritten: u64,
    pub bytes_reclaimed: u64,
}

impl Node {
    pub(super) fn read(api: &Api, clients: ClientSums) -> Self {
        let broker = api.broker();
        let snapshot = broker.registry.snapshot_full();
        let by_protocol = broker.totals_by_protocol();
        let log = broker.commit.inspect(|log| log.statistics().clone());
        let log = LogFigures {
            writes: log.batches,
            bytes_written: log.bytes_written,
            syncs: log.syncs,
            sync_us: HistogramTotals::estimated(&log.sync_histogram),
            segments: log.segments,
            segment_bytes: log.segment_bytes,
            segments_rewritten: log.segments_rewritten,
            bytes_reclaimed: log.bytes_reclaimed,
        };
        Node {
            totals: broker.totals(),
            with_channels: by_protocol
                .iter()
                .filter(|protocol| protocol.info.has_channels)
                .fold(Totals::default(), |sum, protocol| sum.plus(&protocol.totals)),
            by_protocol,
            queues: broker.queue_metrics.sums(),
            queue_count: snapshot.queues.len() as u64,
            streams: StreamSums::of(&snapshot),
            parked: own::set_aside(&snapshot, SetAside::Parked),
            delayed: own::set_aside(&snapshot, SetAside::Delayed),
            open_connections: clients.connections,
            statuses: broker.connection_statuses(),
            clients,
            log,
            disk_free_bytes: process::disk_free_bytes(api.data_directory()),
            resident_bytes: process::resident_memory_bytes(),
            open_descriptors: process::open_descriptors(),
            disk_alarm: broker.alarms.is_raised(AlarmSource::Disk),
            memory_alarm: broker.alarms.is_raised(AlarmSource::Memory),
            api: api.clone(),
        }
    }
}

use Kind::{Counter, Gauge};

type Of = Family<()>;

const fn group(name: &'static str, families: &'static [Of]) -> Group<()> {
    Group { name, labels: &[], label: |()| Vec::new(), families }
}

/// Churn. Channels are those of AMQP 0-9-1, as in RabbitMQ: sessions of AMQP 1.0 aren't counted.
pub(super) const CHURN: Group<()> = group(
    "connection_churn_metrics",
    &[
        Of::total("connections_opened_total", Counter, "Total number of connections opened", |node| {
            node.totals.connections_opened.into()
        }),
        Of::total("connections_closed_total", Counter, "Total number of connections closed or terminated", |node| {
            node.totals.connections_closed.into()
        }),
        Of::total("channels_opened_total", Counter, "Total number of channels opened", |node| {
            node.with_channels.channels_opened.into()
        }),
        Of::total("channels_closed_total", Counter, "Total number of channels closed", |node| {
            node.with_channels.channels_closed.into()
        }),
        Of::total("queues_declared_total", Counter, "Total number of queues declared", |node| {
            node.totals.queues_declared.into()
        }),
        Of::total("queues_created_total", Counter, "Total number of queues created", |node| {
            node.totals.queues_created.into()
        }),
        Of::total("queues_deleted_total", Counter, "Total number of queues deleted", |node| {
            node.totals.queues_deleted.into()
        }),
    ],
);

/// Resources used by the process.
pub(super) const COARSE: Group<()> = group(
    "node_coarse_metrics",
    &[
        Of::total("process_open_fds", Gauge, "Open file descriptors", |node| node.open_descriptors.into()),
        Of::total("process_resident_memory_bytes", Gauge, "Memory used in bytes", |node| node.resident_bytes.into()),
        Of::total("disk_space_available_bytes", Gauge, "Disk space available in bytes", |node| {
            node.disk_free_bytes.into()
        }),
    ],
);

/// Limits of the process.
pub(super) const LIMITS: Group<()> = group(
    "node_metrics",
    &[
        Of::total("process_max_fds", Gauge, "Open file descriptors limit", |node| {
            node.api.node().descriptor_limit().into()
        }),
        Of::total("resident_memory_limit_bytes", Gauge, "Memory high watermark in bytes", |node| {
            node.api.node().alarm_limits().memory_bytes.map_or(f64::INFINITY.into(), Into::into)
        }),
        Of::total("disk_space_available_limit_bytes", Gauge, "Free disk space low watermark in bytes", |node| {
            node.api.node().disk_free_limit().into()
        }),
        Of::total("erlang_uptime_seconds", Gauge, "Node uptime", |node| (node.api.uptime_ms() as f64 / 1000.0).into()),
    ],
);

/// The log's disk writes.
pub(super) const PERSISTER: Group<()> = group(
    "node_persister_metrics",
    &[
        Of::total("io_write_ops_total", Counter, "Total number of I/O write operations", |node| node.log.writes.into()),
        Of::total("io_write_bytes_total", Counter, "Total number of I/O bytes written", |node| {
            node.log.bytes_written.into()
        }),
        Of::total("io_sync_ops_total", Counter, "Total number of I/O sync operations", |node| node.log.syncs.into()),
        Of::total("io_sync_time_seconds_total", Counter, "Total I/O sync time", |node| {
            (node.log.sync_us.sum as f64 / 1e6).into()
        }),
    ],
);

/// Numbers of objects.
pub(super) const COUNTS: Group<()> = group(
    "",
    &[
        Of::total("connections", Gauge, "Connections currently open", |node| node.open_connections.into()),
        Of::total("channels", Gauge, "Channels currently open", |node| {
            let totals = &node.with_channels;
            totals.channels_opened.saturating_sub(totals.channels_closed).into()
        }),
        Of::total("consumers", Gauge, "Consumers currently connected", |node| node.queues.gauges.consumers.into()),
        Of::total("queues", Gauge, "Queues available", |node| node.queue_count.into()),
        Of::total(
            "alarms_free_disk_space_watermark",
            Kind::Untyped,
            "is 1 if free disk space watermark alarm is in effect",
            |node| node.disk_alarm.into(),
        ),
        Of::total(
            "alarms_memory_used_watermark",
            Kind::Untyped,
            "is 1 if VM memory watermark alarm is in effect",
            |node| node.memory_alarm.into(),
        ),
        Of::total(
            "unreachable_cluster_peers_count",
            Gauge,
            "Number of peers in the cluster the current node cannot reach.",
            |node| (node.api.other_members().iter().filter(|other| !other.is_running()).count() as u64).into(),
        ),
    ],
);

/// Families without RabbitMQ's prefix.
pub(super) const PLAIN: Group<()> = group(
    "",
    &[Of::total(
        "process_start_time_seconds",
        Gauge,
        "Start time of the process since unix epoch in seconds.",
        |node| {
            let now_ms = node.api.node().clock().now().wall_ms;
            (now_ms.saturating_sub(node.api.uptime_ms()) / 1000).into()
        },
    )],
);
