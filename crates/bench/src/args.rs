//! Command line of `leveret bench`.

use std::path::PathBuf;

use clap::Args;

use crate::message_properties::MessageProperties;
use crate::settings::{Durability, Rate};
use crate::{Scenario, rows, scenario};

/// Measures a broker with a verified load.
#[derive(Debug, Clone, Args)]
#[command(after_help = scenarios())]
pub struct BenchArgs {
    /// The scenarios to run, see below [default: classic]
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<Scenario>,

    /// Rows of the table that --list prints, instead of scenarios: names with `*`, or `all` for those that run in any
    /// order on one node; the options below say otherwise than the row where they are given
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "scenarios")]
    pub rows: Vec<String>,

    /// Print the rows, each with a description
    #[arg(long)]
    pub list: bool,

    /// The broker to measure; amqps:// for TLS
    #[arg(long, default_value = "amqp://guest:guest@127.0.0.1:5672")]
    pub uri: String,

    /// Process id of the broker, for its CPU time and memory; those of all nodes of a cluster, separated by commas, are
    /// added up
    #[arg(long, value_delimiter = ',')]
    pub pid: Vec<u32>,

    /// Port of the broker's Prometheus metrics, for its disk syncs and durability, and Leveret's own counts of socket
    /// calls and times of syncs, which no other broker has
    #[arg(long)]
    pub metrics_port: Option<u16>,

    /// Port of the broker's listener for the stream protocol
    #[arg(long, value_name = "PORT", default_value_t = 5552)]
    pub stream_port: u16,

    /// Port of the second broker's listener for the stream protocol
    #[arg(long, value_name = "PORT", default_value_t = 5552)]
    pub vs_stream_port: u16,

    /// A second broker, measured in turns with the first
    #[arg(long, value_name = "URI")]
    pub vs: Option<String>,

    /// Process id of the second broker, or those of its nodes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub vs_pid: Vec<u32>,

    /// Metrics port of the second broker
    #[arg(long, value_name = "PORT")]
    pub vs_metrics_port: Option<u16>,

    /// Other queues of the second broker where they aren't as many: 0 beside --other-queues compares a broker that has
    /// them with one that has none
    #[arg(long, value_name = "COUNT", requires = "vs")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub vs_other_queues: Option<u32>,

    /// Port of the broker's HTTP API, by which idle scenarios list all sessions
    #[arg(long, value_name = "PORT")]
    pub management_port: Option<u16>,

    /// Port of the second broker's HTTP API
    #[arg(long, value_name = "PORT")]
    pub vs_management_port: Option<u16>,

    /// Count by `perf stat` the system calls of a broker that doesn't count its own; takes its process id, and
    /// permission to look at it
    #[arg(long)]
    pub perf: bool,

    /// Certificates to trust over TLS, in PEM [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub cacertfile: Option<PathBuf>,

    /// The certificate to send to a broker that requests one, in PEM
    #[arg(long, value_name = "FILE", requires = "keyfile")]
    pub certfile: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "certfile")]
    pub keyfile: Option<PathBuf>,

    /// How often each scenario runs against each broker [default: 1, with --vs 3]
    #[arg(long, default_value_t = 1, default_value_if("vs", clap::builder::ArgPredicate::IsPresent, "3"))]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// The load
    #[command(flatten)]
    pub load: LoadArgs,

    /// Seconds of silence from the broker after which missing messages count as lost
    #[arg(long, default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub silence_max_s: u64,

    /// Show progress on standard error, as long runs do on a terminal
    #[arg(long)]
    pub progress: bool,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,

    /// Also write the results as JSON to a file, again after each scenario
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,

    /// Write CSV to a file: a line per round
    #[arg(long, value_name = "FILE")]
    pub csv_file: Option<PathBuf>,

    /// Write a page with tables and plots to a file; it needs no other
    #[arg(long, value_name = "FILE")]
    pub html_file: Option<PathBuf>,

    /// Append this to the names of rows and scenarios, to tell several runs in one report apart
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,

    /// Measure nothing: make one report of the files that earlier runs wrote with --json-file
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["scenarios", "rows", "vs"])]
    pub from_json: Vec<PathBuf>,
}

/// The options of a load; the scenario's values apply to those that aren't given. Options that PerfTest or quiver
/// have, too, have the same names.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct LoadArgs {
    /// Messages per round [default: 1,000,000, or 10 seconds' worth at a fixed rate]
    #[arg(long, visible_alias = "count", conflicts_with = "seconds")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub messages: Option<u64>,

    /// Seconds for which publishers publish, instead of a number of messages
    #[arg(long, visible_alias = "time")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,

    /// Bytes per message body; the first 10 hold sequence number and checksum [default: the scenario's]
    #[arg(long, visible_alias = "body-size")]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=134_217_728))]
    pub size: Option<u32>,

    /// Properties of every message, separated by commas: contentType, contentEncoding, priority, correlationId, replyTo,
    /// messageId; a name that PerfTest knows no property by is a header (an application property) [default: none]
    #[arg(long, value_name = "NAME=VALUE,...")]
    pub message_properties: Option<MessageProperties>,

    /// Publishers, each with a connection of its own [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub producers: Option<u32>,

    /// Consumers, each with a connection of its own [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub consumers: Option<u32>,

    /// Queues, with a publisher and a consumer each if it isn't said how many there are [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub queues: Option<u32>,

    /// Durable queues that are there beside them and that nobody uses, made before the first round and deleted after the
    /// last one over AMQP 0-9-1 [default: 0]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub other_queues: Option<u32>,

    /// Messages per second of all publishers together, or `half` for half of the broker's rate, which is measured for
    /// three seconds first; latency counts from when each was due [default: the scenario's]
    #[arg(long)]
    pub rate: Option<Rate>,

    /// Most unconfirmed publishes (unsettled messages), 0 for no confirms [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub confirm: Option<u32>,

    /// Prefetch, or link credit [default: the scenario's]
    #[arg(long, visible_alias = "credit")]
    pub qos: Option<u16>,

    /// Deliveries per acknowledgement, 0 for automatic ones [default: the scenario's]
    #[arg(long)]
    pub multi_ack_every: Option<u64>,

    /// Bindings of the exchange: one for each queue matches, the rest match nothing [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub bindings: Option<u32>,

    /// Routing keys that the messages for a queue take in turn, all of which one binding of its topic exchange matches
    /// [default: 1]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub routing_key_cache_size: Option<u32>,

    /// The meaning of a confirm of a durable message in Leveret, as its x-durability; other brokers don't get it.
    /// With two of them durable loads run in each [default: the node's setting]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub durability: Vec<Durability>,

    /// Use quorum queues, for scenarios with durable queues; in Leveret they are always synced, whatever --durability says
    #[arg(long)]
    pub quorum_queue: bool,

    /// Members of each quorum queue, as its x-quorum-initial-group-size [default: the broker's]
    #[arg(long, requires = "quorum_queue")]
    #[arg(value_parser = quorum_members)]
    pub quorum_members: Option<u32>,

    /// Use streams, which are read from their first message on, for scenarios with durable queues and acknowledgements
    #[arg(long, conflicts_with = "quorum_queue")]
    pub stream_queue: bool,

    /// Messages of each chunk, over the stream protocol: two publishers of a connection take turns with frames of as many,
    /// of which Leveret makes a chunk each [default: as many as come together]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub chunk: Option<u32>,

    /// Connections of the idle scenarios [default: 1000]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: Option<u32>,

    /// Sessions, or channels, of each of them [default: 2]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub sessions: Option<u16>,

    /// Seconds for which they do nothing [default: 10]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub idle_s: Option<u64>,

    /// Seconds between heartbeats of idle connections, 0 for none [default: 0]. A broker of AMQP 1.0 that wants to hear
    /// of its clients is answered all the same
    #[arg(long, visible_alias = "requested-heartbeat")]
    pub heartbeat: Option<u16>,
}

impl LoadArgs {
    /// These options, with those of `row` where none are given.
    pub(crate) fn or(&self, row: &Self) -> Self {
        let is_counted = self.messages.is_some() || self.seconds.is_some();
        Self {
            messages: if is_counted { self.messages } else { row.messages },
            seconds: if is_counted { self.seconds } else { row.seconds },
            size: self.size.or(row.size),
            message_properties: self.message_properties.clone().or_else(|| row.message_properties.clone()),
            producers: self.producers.or(row.producers),
            consumers: self.consumers.or(row.consumers),
            queues: self.queues.or(row.queues),
            other_queues: self.other_queues.or(row.other_queues),
            rate: self.rate.or(row.rate),
            confirm: self.confirm.or(row.confirm),
            qos: self.qos.or(row.qos),
            multi_ack_every: self.multi_ack_every.or(row.multi_ack_every),
            bindings: self.bindings.or(row.bindings),
            routing_key_cache_size: self.routing_key_cache_size.or(row.routing_key_cache_size),
            durability: if self.durability.is_empty() { &row.durability } else { &self.durability }.clone(),
            quorum_queue: self.quorum_queue || row.quorum_queue,
            quorum_members: self.quorum_members.or(row.quorum_members),
            stream_queue: self.stream_queue || row.stream_queue,
            chunk: self.chunk.or(row.chunk),
            connections: self.connections.or(row.connections),
            sessions: self.sessions.or(row.sessions),
            idle_s: self.idle_s.or(row.idle_s),
            heartbeat: self.heartbeat.or(row.heartbeat),
        }
    }
}

/// The help's list of scenarios.
fn scenarios() -> String {
    let mut text = String::from("Scenarios, with -amqp10 behind the name over AMQP 1.0:\n");
    for (name, help) in scenario::all() {
        text += &format!("  {name:<14} {help}\n");
    }
    text + &format!("The rows of --list are made of them: {} with options of their own.", rows::count())
}

/// The numbers that a queue of every broker may have.
fn quorum_members(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|members| matches!(members, 1 | 3 | 5)).ok_or_else(|| "1, 3 or 5".into())
}
