//! The data of a round, independent of its measurement: the model behind text, JSON, CSV and HTML.

use serde::{Deserialize, Serialize};

/// The records of one run, or of several that were merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) rounds: Vec<Record>,
}

/// A round of one load against one broker. Unknown values are `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The name of the load: the row of the table.
    pub(crate) scenario: String,
    pub(crate) round: u32,
    /// `A` for the measured broker, `B` for the one that it is compared with.
    pub(crate) target: String,
    /// Product and version, as reported by the broker.
    pub(crate) broker: Option<String>,
    pub(crate) protocol: String,
    /// Durability of confirmed messages.
    pub(crate) durability: Option<String>,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    /// The reason why the round is void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) void: Option<String>,
    #[serde(flatten)]
    pub(crate) asked: Asked,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    #[serde(flatten)]
    pub(crate) idle: Idle,
    /// Points of the latency curve: percentile, and latency in microseconds, ascending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) latency_curve_us: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sync_histogram: Vec<Bucket>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<SampleRecord>,
}

/// The machine and time of the measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// UTC, in seconds.
    pub(crate) measured_at: String,
    pub(crate) kernel: String,
    /// Cores shared by broker and load.
    pub(crate) cores: Option<usize>,
    pub(crate) cpu_model: Option<String>,
}

/// The requested load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// Its description.
    #[serde(rename = "load")]
    pub(crate) description: String,
    pub(crate) messages: Option<u64>,
    /// Deliveries including copies, or messages sent if only that was measured. Figures per message refer to this
    /// number.
    pub(crate) delivered: Option<u64>,
    pub(crate) queues: Option<u32>,
    pub(crate) publishers: Option<u32>,
    pub(crate) consumers: Option<u32>,
    /// Messages per second of all publishers together.
    pub(crate) rate: Option<f64>,
    pub(crate) max_length: Option<u64>,
    /// Bytes of a body.
    pub(crate) size: Option<usize>,
    pub(crate) confirm_window: Option<u32>,
    pub(crate) prefetch: Option<u16>,
    pub(crate) ack_every: Option<u64>,
    pub(crate) durable: Option<bool>,
}

/// The results of a load of messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    /// Messages dropped by a full queue by design.
    pub(crate) dropped: Option<u64>,
    pub(crate) sent_per_second: Option<f64>,
    pub(crate) received_per_second: Option<f64>,
    /// The rate in the last quarter of the time relative to that in the first, if no rate was requested.
    pub(crate) rate_at_end: Option<f64>,
    pub(crate) latency_us: Option<Percentiles>,
    pub(crate) confirm_latency_us: Option<Percentiles>,
    pub(crate) broker_cpu_seconds_per_million: Option<f64>,
    pub(crate) messages_per_broker_cpu_second: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) resident_bytes_max: Option<u64>,
    /// If false, the peak is that of the process's whole life.
    pub(crate) resident_max_is_of_this_round: Option<bool>,
    pub(crate) syncs: Option<f64>,
    pub(crate) syncs_per_message: Option<f64>,
    pub(crate) reads_per_message: Option<f64>,
    pub(crate) writes_per_message: Option<f64>,
    /// Whether these calls and syncs are all that the process made, including those for files, rather than the
    /// broker's own counters.
    pub(crate) calls_were_counted_by_perf: Option<bool>,
    /// Duration of the disk's syncs.
    pub(crate) sync_us: Option<SyncTime>,
    pub(crate) publisher_cpu_ns_per_message: Option<f64>,
    pub(crate) consumer_cpu_ns_per_message: Option<f64>,
}

/// The results of idle connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Idle {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opened_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_connection: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_further_session: Option<f64>,
    /// CPU seconds per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_seconds: Option<f64>,
    /// The freed fraction of the growth, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_back: Option<f64>,
    /// Time until nine tenths were freed; unknown if not within 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_back_90_percent_seconds: Option<f64>,
    /// Heartbeat interval, 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat_seconds: Option<u16>,
    /// Relative to the memory of the connections, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) growth_by_further_session: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_wake_ups_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cores_without_connections: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wake_ups_per_second_without_connections: Option<f64>,
    /// When they were listed over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions_open: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions_listed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listing_seconds: Option<f64>,
    /// Time until all sockets were closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop_seconds: Option<f64>,
    /// New logins, one after the other, while the broker cleaned up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logins_while_dropping: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login_while_dropping_ms_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login_while_dropping_ms_max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extrapolated: Option<Extrapolated>,
}

/// Estimate for this many connections, derived from a measurement with fewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extrapolated {
    pub(crate) connections: u32,
    /// More than that of a broker without connections.
    pub(crate) bytes: Option<f64>,
    /// In total.
    pub(crate) idle_cores: Option<f64>,
}

/// Percentiles of latencies, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p75: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    /// The percentiles with their names, ascending.
    pub(crate) fn named(&self) -> [(&'static str, f64); 6] {
        let Self { p50, p75, p95, p99, p999, max } = *self;
        [("p50", p50), ("p75", p75), ("p95", p95), ("p99", p99), ("p99.9", p999), ("max", max)]
    }
}

/// Durations of syncs in microseconds: upper bounds of their buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SyncTime {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// Number of syncs between the previous bucket's bound and this one's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// `None` in the last bucket, which has no bound.
    pub(crate) at_most_us: Option<f64>,
    pub(crate) count: f64,
}

/// A sample of a round; in JSON a list, because there are many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "SampleFields", into = "SampleFields")]
pub(crate) struct SampleRecord {
    /// Since the start.
    pub(crate) seconds: f64,
    /// Messages sent since the start; the next field has those received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) resident_bytes: Option<u64>,
    /// In microseconds, for messages since the previous sample.
    pub(crate) latency_p99_us: Option<f64>,
}

type SampleFields = (f64, u64, u64, Option<u64>, Option<f64>);

impl From<SampleRecord> for SampleFields {
    fn from(sample: SampleRecord) -> Self {
        let SampleRecord { seconds, sent, received, resident_bytes, latency_p99_us } = sample;
        (seconds, sent, received, resident_bytes, latency_p99_us)
    }
}

impl From<SampleFields> for SampleRecord {
    fn from((seconds, sent, received, resident_bytes, latency_p99_us): SampleFields) -> Self {
        Self { seconds, sent, received, resident_bytes, latency_p99_us }
    }
}

impl Record {
    /// The figure by which rounds are ordered: the rate received, or sent if nothing is received.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.figures.received_per_second.or(self.figures.sent_per_second).or(self.idle.opened_per_second)
    }

    /// The key by which records are grouped: the same load against the same broker with the same durability.
    pub(crate) fn column(&self) -> Column<'_> {
        Column {
            target: &self.target,
            broker: self.broker.as_deref().unwrap_or_default(),
            durability: self.durability.as_deref().unwrap_or_default(),
        }
    }
}

/// A column of a comparison: a broker with a durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column<'r> {
    pub(crate) target: &'r str,
    pub(crate) broker: &'r str,
    pub(crate) durability: &'r str,
}

impl Results {
    /// The broker's name, from a round in which it could be asked.
    pub(crate) fn broker(&self, target: &str) -> Option<String> {
        self.rounds.iter().filter(|record| record.target == target).find_map(|record| record.broker.clone())
    }

    /// `Leveret 0.1.0, synced`, with the prefix `A: ` if two brokers were compared.
    pub(crate) fn name_of(&self, column: Column<'_>) -> String {
        let broker = self.broker_of(column);
        if column.durability.is_empty() { broker } else { format!("{broker}, {}", column.durability) }
    }

    /// As [`Results::name_of`], without durability.
    pub(crate) fn broker_of(&self, column: Column<'_>) -> String {
        let broker = if column.broker.is_empty() { "unknown broker" } else { column.broker };
        // Leveret's name is followed by the version of RabbitMQ that it presents itself as.
        let broker = broker.split_once(" (as ").map_or(broker, |(own, _)| own);
        let are_two = self.rounds.iter().any(|record| record.target == "B");
        if are_two { format!("{}: {broker}", column.target) } else { broker.to_owned() }
    }
}
