//! Command line of `leveret bench`.

use std::path::PathBuf;

use clap::Args;

use crate::Scenario;

/// Measures a broker with a verified load.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// What to run
    #[arg(value_enum, value_name = "SCENARIO", default_value = "classic-amqp091")]
    pub scenarios: Vec<Scenario>,

    /// The broker to measure; amqps:// for TLS
    #[arg(long, default_value = "amqp://guest:guest@127.0.0.1:5672")]
    pub uri: String,

    /// Process id of the broker, for its CPU time and memory
    #[arg(long)]
    pub pid: Option<u32>,

    /// Port of the broker's Prometheus metrics, for its disk syncs and durability
    #[arg(long)]
    pub metrics_port: Option<u16>,

    /// A second broker, measured in turns with the first
    #[arg(long, value_name = "URI")]
    pub vs: Option<String>,

    /// Process id of the second broker
    #[arg(long, value_name = "PID")]
    pub vs_pid: Option<u32>,

    /// Metrics port of the second broker
    #[arg(long, value_name = "PORT")]
    pub vs_metrics_port: Option<u16>,

    /// Whom to trust over TLS, in PEM [default: the system's certificates]
    #[arg(long, value_name = "FILE")]
    pub cacertfile: Option<PathBuf>,

    /// The certificate to show to a broker that asks for one, in PEM
    #[arg(long, value_name = "FILE", requires = "keyfile")]
    pub certfile: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "certfile")]
    pub keyfile: Option<PathBuf>,

    /// How often each scenario runs against each broker [default: 1, with --vs 3]
    #[arg(long, default_value_t = 1, default_value_if("vs", clap::builder::ArgPredicate::IsPresent, "3"))]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Messages per round [default: 1,000,000, or 10 seconds' worth at a fixed rate]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub messages: Option<u64>,

    /// Bytes per message body; the first 10 hold sequence number and checksum [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=134_217_728))]
    pub size: Option<u32>,

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

    /// Messages per second of all publishers together; latency counts from when each was due [default: the scenario's]
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,

    /// Most unconfirmed publishes (unsettled messages), 0 for no confirms [default: the scenario's]
    #[arg(long)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub confirm: Option<u32>,

    /// Prefetch, or link credit [default: the scenario's]
    #[arg(long)]
    pub qos: Option<u16>,

    /// Deliveries per acknowledgement, 0 for automatic ones [default: the scenario's]
    #[arg(long)]
    pub multi_ack_every: Option<u64>,

    /// Connections of the idle scenarios
    #[arg(long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,

    /// Sessions, or channels, of each of them
    #[arg(long, default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub sessions: u16,

    /// Seconds for which they do nothing
    #[arg(long, default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub idle_s: u64,

    /// Seconds without a word from the broker after which what is missing counts as lost
    #[arg(long, default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub silence_max_s: u64,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| format!("expected messages per second from 0.001 to 1000000000, got '{text}'"))
}
