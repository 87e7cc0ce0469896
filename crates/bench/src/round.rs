//! One measured run of one scenario against one broker.

use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leveret_strict_client::{amqp10, amqp091};

use crate::connection::{Client, Connection};
use crate::measured::{Consumed, Published, SentAt};
use crate::metrics_endpoint::{Metrics, scrape};
use crate::process::{self, Memory};
use crate::scenario::{Protocol, Settings};
use crate::tls::Tls;
use crate::uri::Uri;
use crate::{BenchArgs, BenchError};

/// A broker to measure.
pub(crate) struct Target {
    pub(crate) uri: Uri,
    /// Where the URI asks for it.
    pub(crate) tls: Option<Tls>,
    pid: Option<u32>,
    metrics_port: Option<u16>,
    pub(crate) silence_max: Duration,
    /// Before the broker's name, where two are compared.
    label: &'static str,
}

impl Target {
    pub(crate) fn all(args: &BenchArgs) -> Result<Vec<Self>, BenchError> {
        let silence_max = Duration::from_secs(args.silence_max_s);
        let tls = |uri: &Uri| uri.secure.then(|| Tls::new(args)).transpose();
        let uri = Uri::parse(&args.uri)?;
        let mut targets = vec![Self {
            tls: tls(&uri)?,
            uri,
            pid: args.pid,
            metrics_port: args.metrics_port,
            silence_max,
            label: if args.vs.is_some() { "A: " } else { "" },
        }];
        if let Some(vs) = &args.vs {
            let uri = Uri::parse(vs)?;
            targets.push(Self {
                tls: tls(&uri)?,
                uri,
                pid: args.vs_pid,
                metrics_port: args.vs_metrics_port,
                silence_max,
                label: "B: ",
            });
        }
        if targets.iter().all(|target| target.tls.is_none()) && (args.cacertfile.is_some() || args.certfile.is_some()) {
            return Err(BenchError::Usage(
                "--cacertfile and --certfile are for TLS: the URI must begin with amqps://".into(),
            ));
        }
        for target in &targets {
            if let Some(pid) = target.pid
                && process::cpu_time(pid).is_none()
            {
                return Err(BenchError::Usage(format!("no process {pid} to measure")));
            }
        }
        Ok(targets)
    }

    fn scrape(&self) -> Result<Metrics, BenchError> {
        let Some(port) = self.metrics_port else {
            return Ok(Metrics::default());
        };
        scrape(&self.uri.host, port).map_err(|source| BenchError::Socket {
            broker: format!("{}:{port}", self.uri.host),
            doing: "read its metrics",
            source,
        })
    }
}

/// What a round measured.
pub(crate) struct Outcome {
    pub(crate) settings: Settings,
    pub(crate) broker: String,
    pub(crate) send_time: Duration,
    pub(crate) receive_time: Duration,
    pub(crate) latency: Histogram<u64>,
    pub(crate) confirm_latency: Histogram<u64>,
    pub(crate) publisher_cpu: Duration,
    pub(crate) consumer_cpu: Duration,
    pub(crate) broker_cpu: Option<Duration>,
    pub(crate) memory: Option<Memory>,
    /// The peak is that of this round, not of the process's life.
    pub(crate) peak_is_fresh: bool,
    pub(crate) syncs: Option<f64>,
    pub(crate) durability: Option<String>,
}

/// What a protocol must be able to do.
pub(crate) trait Load: Client + Sized + Send {
    /// Connects and logs in.
    fn open(target: &Target, name: &str) -> Result<Connection<Self>, BenchError>;

    /// Makes the queue, empties it, starts the consumer.
    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError>;

    /// Prepares the publisher's connection.
    fn prepare_publisher(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError>;

    /// Publishes everything and waits for the confirms.
    fn publish(
        connection: &mut Connection<Self>,
        settings: &Settings,
        sent_at: &SentAt,
        start: Instant,
    ) -> Result<Published, BenchError>;

    /// Receives and verifies everything.
    fn consume(
        connection: &mut Connection<Self>,
        settings: &Settings,
        sent_at: &SentAt,
        start: Instant,
    ) -> Result<Consumed, BenchError>;

    /// Ends the consumer and deletes the queue. Nothing may come any more, and nothing may be left.
    fn finish(connection: Connection<Self>, settings: &Settings) -> Result<(), BenchError>;

    /// Says goodbye.
    fn close(connection: Connection<Self>) -> Result<(), BenchError>;
}

/// Runs `settings` against `target` once.
pub(crate) fn run(settings: &Settings, target: &Target) -> Result<Outcome, BenchError> {
    match settings.protocol {
        Protocol::Amqp091 => run_as::<amqp091::Client>(settings, target),
        Protocol::Amqp10 => run_as::<amqp10::Client>(settings, target),
    }
}

fn run_as<L: Load>(settings: &Settings, target: &Target) -> Result<Outcome, BenchError> {
    let mut consuming = L::open(target, "consumer")?;
    L::prepare_consumer(&mut consuming, settings)?;
    let mut publishing = L::open(target, "publisher")?;
    L::prepare_publisher(&mut publishing, settings)?;
    let broker = format!("{}{}", target.label, publishing.broker_name());
    let sent_at: Vec<AtomicU64> = (0..settings.messages).map(|_| AtomicU64::new(0)).collect();

    let peak_is_fresh = target.pid.is_some_and(process::reset_peak);
    let metrics_before = target.scrape()?;
    let cpu_before = target.pid.and_then(process::cpu_time);
    let start = Instant::now();
    let stop_publisher = publishing.stopper()?;
    let stop_consumer = consuming.stopper()?;
    let (published, consumed) = both(
        || L::publish(&mut publishing, settings, &sent_at, start).inspect_err(|_| stop_consumer.stop()),
        || L::consume(&mut consuming, settings, &sent_at, start).inspect_err(|_| stop_publisher.stop()),
    )?;
    let broker_cpu = target.pid.and_then(process::cpu_time).zip(cpu_before).map(|(after, before)| after - before);
    let memory = target.pid.and_then(process::memory);
    let metrics = target.scrape()?;

    L::close(publishing)?;
    L::finish(consuming, settings)?;
    Ok(Outcome {
        settings: *settings,
        broker,
        send_time: published.elapsed,
        receive_time: consumed.elapsed,
        latency: consumed.latency,
        confirm_latency: published.confirm_latency,
        publisher_cpu: published.cpu,
        consumer_cpu: consumed.cpu,
        broker_cpu,
        memory,
        peak_is_fresh,
        syncs: metrics.syncs.zip(metrics_before.syncs).map(|(after, before)| after - before),
        durability: metrics.durability,
    })
}

/// Runs both sides at once. Each stops the other when it fails; the error told is that of the side that wasn't
/// stopped.
fn both(
    publish: impl FnOnce() -> Result<Published, BenchError> + Send,
    consume: impl FnOnce() -> Result<Consumed, BenchError> + Send,
) -> Result<(Published, Consumed), BenchError> {
    thread::scope(|scope| {
        let publisher = scope.spawn(publish);
        let consumer = scope.spawn(consume);
        let published = publisher.join().expect("the publisher doesn't panic");
        let consumed = consumer.join().expect("the consumer doesn't panic");
        match (published, consumed) {
            (Ok(published), Ok(consumed)) => Ok((published, consumed)),
            (Err(BenchError::Stopped), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
        }
    })
}
