//! What is told of a round, whoever measured it and when: the model behind text, JSON, CSV and HTML.

use serde::{Deserialize, Serialize};

/// The records of one run, or of several that were put together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) rounds: Vec<Record>,
}

/// A round of one load against one broker. What isn't known is `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The row of the table: the load's name.
    pub(crate) scenario: String,
    pub(crate) round: u32,
    /// `A` for the broker that is measured, `B` for the one that it is compared with.
    pub(crate) target: String,
    /// Product and version, as it says itself.
    pub(crate) broker: Option<String>,
    pub(crate) protocol: String,
    /// What a confirmed message has gone through.
    pub(crate) durability: Option<String>,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    /// Why the round doesn't count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) void: Option<String>,
    #[serde(flatten)]
    pub(crate) asked: Asked,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    #[serde(flatten)]
    pub(crate) idle: Idle,
    /// Latency in microseconds below which so many of a hundred messages stayed, in rising order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) latency_curve_us: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sync_histogram: Vec<Bucket>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Sample>,
}

/// Where and when it was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// UTC, to the second.
    pub(crate) measured_at: String,
    pub(crate) kernel: String,
    /// Shared by broker and load.
    pub(crate) cores: Option<usize>,
    pub(crate) cpu_model: Option<String>,
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// In words.
    #[serde(rename = "load")]
    pub(crate) description: String,
    pub(crate) messages: Option<u64>,
    /// Those that came, each copy counted, or those that were sent where only that was measured: what figures per message
    /// are of.
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

/// What loads of messages come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    /// By a full queue, by design.
    pub(crate) dropped: Option<u64>,
    pub(crate) sent_per_second: Option<f64>,
    pub(crate) received_per_second: Option<f64>,
    /// The rate of the last quarter of the time as a share of that of the first, where no rate was asked for.
    pub(crate) rate_at_end: Option<f64>,
    pub(crate) latency_us: Option<Percentiles>,
    pub(crate) confirm_latency_us: Option<Percentiles>,
    pub(crate) broker_cpu_seconds_per_million: Option<f64>,
    pub(crate) messages_per_broker_cpu_second: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) resident_bytes_max: Option<u64>,
    /// Else the peak is that of the process's whole life.
    pub(crate) resident_max_is_of_this_round: Option<bool>,
    pub(crate) syncs: Option<f64>,
    pub(crate) syncs_per_message: Option<f64>,
    pub(crate) reads_per_message: Option<f64>,
    pub(crate) writes_per_message: Option<f64>,
    /// Those calls and syncs are all that the process made, of files too, and not what the broker says of its sockets.
    pub(crate) calls_were_counted_by_perf: Option<bool>,
    /// How long the disk took for a sync.
    pub(crate) sync_us: Option<SyncTime>,
    pub(crate) publisher_cpu_ns_per_message: Option<f64>,
    pub(crate) consumer_cpu_ns_per_message: Option<f64>,
}

/// What connections that do nothing come to.
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
    /// Share of the growth, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_back: Option<f64>,
    /// Until nine tenths of it were; unknown if they weren't within 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_back_90_percent_seconds: Option<f64>,
    /// 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat_seconds: Option<u16>,
    /// Of the memory of the connections, from 0 to 1.
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
    /// Until all sockets were closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop_seconds: Option<f64>,
    /// Others, one after the other, while the broker cleaned up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logins_while_dropping: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login_while_dropping_ms_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) login_while_dropping_ms_max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extrapolated: Option<Extrapolated>,
}

/// What so many connections would take, by what fewer took: not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extrapolated {
    pub(crate) connections: u32,
    /// Above a broker without connections.
    pub(crate) bytes: Option<f64>,
    /// In all.
    pub(crate) idle_cores: Option<f64>,
}

/// Of latencies, in microseconds.
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
    /// Each with its name, in rising order.
    pub(crate) fn named(&self) -> [(&'static str, f64); 6] {
        let Self { p50, p75, p95, p99, p999, max } = *self;
        [("p50", p50), ("p75", p75), ("p95", p95), ("p99", p99), ("p99.9", p999), ("max", max)]
    }
}

/// Of syncs, in microseconds: upper bounds of the buckets that they fell into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SyncTime {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// Syncs that took at most so long, and longer than those of the bucket before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// `None` in the last one: there is no bound.
    pub(crate) at_most_us: Option<f64>,
    pub(crate) count: f64,
}

/// How far a round was at some time; in JSON a list, as there are many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "SampleFields", into = "SampleFields")]
pub(crate) struct Sample {
    /// Since the start.
    pub(crate) seconds: f64,
    /// Messages since the start, as those received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) resident_bytes: Option<u64>,
    /// In microseconds, of what came since the sample before.
    pub(crate) latency_p99_us: Option<f64>,
}

type SampleFields = (f64, u64, u64, Option<u64>, Option<f64>);

impl From<Sample> for SampleFields {
    fn from(sample: Sample) -> Self {
        let Sample { seconds, sent, received, resident_bytes, latency_p99_us } = sample;
        (seconds, sent, received, resident_bytes, latency_p99_us)
    }
}

impl From<SampleFields> for Sample {
    fn from((seconds, sent, received, resident_bytes, latency_p99_us): SampleFields) -> Self {
        Self { seconds, sent, received, resident_bytes, latency_p99_us }
    }
}

impl Record {
    /// The figure by which rounds are ordered: what was received, or sent where nothing is received.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.figures.received_per_second.or(self.figures.sent_per_second).or(self.idle.opened_per_second)
    }

    /// With which others it is put together: the same load against the same broker with the same durability.
    pub(crate) fn column(&self) -> Column<'_> {
        Column {
            target: &self.target,
            broker: self.broker.as_deref().unwrap_or_default(),
            durability: self.durability.as_deref().unwrap_or_default(),
        }
    }
}

/// A broker beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column<'r> {
    pub(crate) target: &'r str,
    pub(crate) broker: &'r str,
    pub(crate) durability: &'r str,
}

impl Results {
    /// What a target said it was when it could be asked.
    pub(crate) fn broker(&self, target: &str) -> Option<String> {
        self.rounds.iter().filter(|record| record.target == target).find_map(|record| record.broker.clone())
    }

    /// `Leveret 0.1.0, synced`, with `A: ` before it where two brokers were measured in turns.
    pub(crate) fn name_of(&self, column: Column<'_>) -> String {
        let broker = self.broker_of(column);
        if column.durability.is_empty() { broker } else { format!("{broker}, {}", column.durability) }
    }

    /// The same without durability.
    pub(crate) fn broker_of(&self, column: Column<'_>) -> String {
        let broker = if column.broker.is_empty() { "unknown broker" } else { column.broker };
        // Leveret says behind its name which version of RabbitMQ it speaks as.
        let broker = broker.split_once(" (as ").map_or(broker, |(own, _)| own);
        let are_two = self.rounds.iter().any(|record| record.target == "B");
        if are_two { format!("{}: {broker}", column.target) } else { broker.to_owned() }
    }
}
