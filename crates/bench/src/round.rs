//! One measured run of one scenario against one broker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leveret_strict_client::{amqp10, amqp091};

use crate::connection::{Client, Connection, Stopper};
use crate::measured::{Consumed, Part, Published, histogram};
use crate::metrics_endpoint::{Metrics, scrape};
use crate::process::{self, Memory};
use crate::scenario::{Course, Protocol, Settings};
use crate::tally::Tally;
use crate::tls::Tls;
use crate::uri::Uri;
use crate::{BenchArgs, BenchError};

/// Of a thread, which does little but read and write.
const STACK_BYTES: usize = 512 << 10;

/// A broker to measure.
pub(crate) struct Target {
    pub(crate) uri: Uri,
    /// Where the URI asks for it.
    pub(crate) tls: Option<Tls>,
    pub(crate) pid: Option<u32>,
    metrics_port: Option<u16>,
    pub(crate) silence_max: Duration,
    /// Before the broker's name, where two are compared.
    pub(crate) label: &'static str,
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

/// What a round measured, or one half of it.
pub(crate) struct Outcome {
    pub(crate) settings: Settings,
    /// The scenario, with the half.
    pub(crate) name: String,
    pub(crate) broker: String,
    /// Messages that were published, or consumed where none are.
    pub(crate) messages: u64,
    /// Those that a full queue dropped by design.
    pub(crate) dropped: u64,
    /// Until the last publisher was done.
    pub(crate) send_time: Option<Duration>,
    /// Until the last message was received.
    pub(crate) receive_time: Option<Duration>,
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

    /// Opens a session (channel) beside those that are open; `number` counts them from 0.
    fn open_session(connection: &mut Connection<Self>, number: u16) -> Result<(), BenchError>;

    /// Makes a queue and empties it.
    fn prepare_queue(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError>;

    /// Starts the consumer.
    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError>;

    /// Prepares a publisher's connection.
    fn prepare_publisher(connection: &mut Connection<Self>, settings: &Settings, queue: &str)
    -> Result<(), BenchError>;

    /// Publishes its part and waits for the confirms.
    fn publish(connection: &mut Connection<Self>, part: Part<'_>) -> Result<Published, BenchError>;

    /// Receives and verifies until all consumers together have everything.
    fn consume(connection: &mut Connection<Self>, part: Part<'_>) -> Result<Consumed, BenchError>;

    /// Ends the consumer. Returns how many messages came that weren't due.
    fn end_consumer(connection: &mut Connection<Self>) -> Result<u64, BenchError>;

    /// Deletes a queue. Returns how many messages were left.
    fn delete_queue(connection: &mut Connection<Self>, queue: &str) -> Result<u64, BenchError>;

    /// Says goodbye.
    fn close(connection: Connection<Self>) -> Result<(), BenchError>;
}

/// Runs `settings` against `target` once.
pub(crate) fn run(settings: &Settings, target: &Target) -> Result<Vec<Outcome>, BenchError> {
    if ![settings.publishers, settings.consumers].iter().all(|count| count.is_multiple_of(settings.queues)) {
        return Err(BenchError::Usage(format!(
            "{} publishers and {} consumers can't be shared out evenly among {} queues",
            settings.publishers, settings.consumers, settings.queues
        )));
    }
    match settings.protocol {
        Protocol::Amqp091 => run_as::<amqp091::Client>(settings, target),
        Protocol::Amqp10 => run_as::<amqp10::Client>(settings, target),
    }
}

fn run_as<L: Load>(settings: &Settings, target: &Target) -> Result<Vec<Outcome>, BenchError> {
    let queues: Vec<String> = (0..settings.queues).map(|number| settings.queue(number)).collect();
    let queue_of = |number: u32| queues[(number % settings.queues) as usize].as_str();
    let mut consuming = Vec::new();
    for number in 0..settings.consumers {
        let mut connection = L::open(target, "consumer")?;
        // The first consumers make the queues: an exclusive one is theirs.
        if number < settings.queues {
            L::prepare_queue(&mut connection, settings, queue_of(number))?;
        }
        consuming.push(connection);
    }
    let mut publishing = Vec::new();
    for number in 0..settings.publishers {
        let mut connection = L::open(target, "publisher")?;
        L::prepare_publisher(&mut connection, settings, queue_of(number))?;
        publishing.push(connection);
    }
    let broker = format!("{}{}", target.label, publishing.first().map_or("", |first| first.broker_name()));
    let sent_at: Vec<AtomicU64> = (0..settings.messages()).map(|_| AtomicU64::new(0)).collect();
    let tally = Tally::new(settings);
    let part = |number: u32, start: Instant| Part {
        settings,
        queue: queue_of(number),
        number,
        sent_at: &sent_at,
        tally: &tally,
        start,
    };
    let prepare_consumers = |consuming: &mut [Connection<L>]| {
        let numbered = (0..).zip(consuming.iter_mut());
        numbered
            .into_iter()
            .try_for_each(|(number, connection)| L::prepare_consumer(connection, settings, queue_of(number)))
    };

    let mut outcomes = Vec::new();
    match settings.course {
        Course::AtOnce => {
            let prepared: Result<(), BenchError> = prepare_consumers(&mut consuming);
            prepared?;
            let gauge = Gauge::read(target)?;
            let start = Instant::now();
            let (published, consumed) = both(&mut publishing, &mut consuming, &tally, |number| part(number, start))?;
            outcomes.push(gauge.outcome(settings, target, &broker, "", &published, &consumed, &tally)?);
        }
        Course::InThenOut => {
            let gauge = Gauge::read(target)?;
            let start = Instant::now();
            let (published, _) = both(&mut publishing, &mut Vec::new(), &tally, |number| part(number, start))?;
            outcomes.push(gauge.outcome(settings, target, &broker, " (in)", &published, &[], &tally)?);
            let gauge = Gauge::read(target)?;
            let start = Instant::now();
            let prepared: Result<(), BenchError> = prepare_consumers(&mut consuming);
            prepared?;
            let (_, consumed) = both(&mut Vec::new(), &mut consuming, &tally, |number| part(number, start))?;
            outcomes.push(gauge.outcome(settings, target, &broker, " (out)", &[], &consumed, &tally)?);
        }
    }
    for connection in publishing {
        L::close(connection)?;
    }
    let mut surplus = 0;
    for connection in &mut consuming {
        surplus += L::end_consumer(connection)?;
    }
    for (connection, queue) in consuming.iter_mut().zip(&queues) {
        surplus += L::delete_queue(connection, queue)?;
    }
    if let Some(fault) = tally.verdict() {
        return Err(BenchError::Void(fault));
    }
    if surplus > 0 {
        let messages = settings.messages();
        let text = format!("of {messages} messages {surplus} duplicated: there were more after all had come");
        return Err(BenchError::Void(text));
    }
    consuming.into_iter().try_for_each(L::close)?;
    Ok(outcomes)
}

/// What a broker has used up before a round.
struct Gauge {
    peak_is_fresh: bool,
    metrics: Metrics,
    cpu: Option<Duration>,
}

impl Gauge {
    fn read(target: &Target) -> Result<Self, BenchError> {
        let peak_is_fresh = target.pid.is_some_and(process::reset_peak);
        let metrics = target.scrape()?;
        Ok(Self { peak_is_fresh, metrics, cpu: target.pid.and_then(process::cpu_time) })
    }

    #[expect(clippy::too_many_arguments, reason = "they are what a round is made of")]
    fn outcome(
        self,
        settings: &Settings,
        target: &Target,
        broker: &str,
        half: &str,
        published: &[Published],
        consumed: &[Consumed],
        tally: &Tally,
    ) -> Result<Outcome, BenchError> {
        let cpu = target.pid.and_then(process::cpu_time);
        let memory = target.pid.and_then(process::memory);
        let metrics = target.scrape()?;
        let (mut latency, mut confirm_latency) = (histogram(), histogram());
        // What waited for its consumers on purpose has no latency.
        for one in consumed.iter().filter(|_| settings.course == Course::AtOnce) {
            latency.add(&one.latency).expect("the bounds are the same");
        }
        for one in published {
            confirm_latency.add(&one.confirm_latency).expect("the bounds are the same");
        }
        let messages = settings.messages();
        Ok(Outcome {
            settings: *settings,
            name: format!("{}{half}", settings.name),
            broker: broker.to_owned(),
            messages,
            dropped: if consumed.is_empty() { 0 } else { messages - tally.received() },
            send_time: published.iter().map(|one| one.elapsed).max(),
            receive_time: consumed.iter().map(|one| one.elapsed).max(),
            latency,
            confirm_latency,
            publisher_cpu: published.iter().map(|one| one.cpu).sum(),
            consumer_cpu: consumed.iter().map(|one| one.cpu).sum(),
            broker_cpu: cpu.zip(self.cpu).map(|(after, before)| after - before),
            memory,
            peak_is_fresh: self.peak_is_fresh,
            syncs: metrics.syncs.zip(self.metrics.syncs).map(|(after, before)| after - before),
            durability: metrics.durability,
        })
    }
}

/// Runs both sides at once. Whoever fails stops the others; the error told is that of one that wasn't stopped.
fn both<'r, L: Load>(
    publishing: &mut [Connection<L>],
    consuming: &mut [Connection<L>],
    tally: &Tally,
    part: impl Fn(u32) -> Part<'r> + Sync,
) -> Result<(Vec<Published>, Vec<Consumed>), BenchError> {
    let stoppers: Result<Vec<Stopper>, BenchError> =
        publishing.iter().chain(consuming.iter()).map(Connection::stopper).collect();
    let stoppers = stoppers?;
    let stop_all = || stoppers.iter().for_each(Stopper::stop);
    let left = AtomicUsize::new(publishing.len());
    let (part, stop_all, left) = (&part, &stop_all, &left);
    thread::scope(|scope| {
        let mut publishers = Vec::new();
        for (number, connection) in (0..).zip(publishing) {
            let publish = move || {
                let done = L::publish(connection, part(number)).inspect_err(|_| stop_all());
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    tally.all_is_published();
                }
                done
            };
            publishers.push(start(scope, publish)?);
        }
        let mut consumers = Vec::new();
        for (number, connection) in (0..).zip(consuming) {
            let consume = move || L::consume(connection, part(number)).inspect_err(|_| stop_all());
            consumers.push(start(scope, consume)?);
        }
        let published: Vec<_> = publishers.into_iter().map(|one| one.join().expect("no publisher panics")).collect();
        let consumed: Vec<_> = consumers.into_iter().map(|one| one.join().expect("no consumer panics")).collect();
        // What somebody found out is worth more than that others were stopped.
        let mut first = None;
        let mut tell = |error: BenchError| {
            if first.as_ref().is_none_or(|known| matches!(known, BenchError::Stopped)) {
                first = Some(error);
            }
        };
        let published: Vec<Published> = published.into_iter().filter_map(|one| one.map_err(&mut tell).ok()).collect();
        let consumed: Vec<Consumed> = consumed.into_iter().filter_map(|one| one.map_err(&mut tell).ok()).collect();
        match first {
            Some(error) => Err(error),
            None => Ok((published, consumed)),
        }
    })
}

/// A thread for one connection; there may be thousands.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, BenchError> {
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    started.map_err(|error| BenchError::Usage(format!("cannot start a thread for each connection: {error}")))
}
