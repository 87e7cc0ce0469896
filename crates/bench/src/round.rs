//! One measured run of one load against one broker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::{amqp10, amqp091, stream};

use crate::BenchError;
use crate::at_once::some_at_once;
use crate::connection::{Client, Connection, Stopper};
use crate::measured::{ConnectionPart, Consumed, Published};
use crate::opening::Opening;
pub(crate) use crate::outcome::RoundOutcome;
use crate::outcome::{Gauge, Measured, Sides, is_leveret};
use crate::series::{Sample, Watch};
use crate::settings::{Course, Exchange, Protocol, Settings};
use crate::tally::Tally;
pub(crate) use crate::target::TargetBroker;

/// Time for starting one more thread on a machine that is busy starting thousands.
const HEAD_START_EACH: Duration = Duration::from_micros(300);
/// Stack size of a thread, which does little but read and write.
const STACK_BYTES: usize = 512 << 10;

/// The operations of a load in a protocol.
pub(crate) trait Load: Client + Sized + Send {
    /// Connects and logs in, with one session (channel).
    fn open(target: &TargetBroker, opening: &Opening<'_>) -> Result<Connection<Self>, BenchError>;

    /// Opens a further session (channel); `number` counts them from 0.
    fn open_session(connection: &mut Connection<Self>, number: u16) -> Result<(), BenchError>;

    /// Declares a queue and empties it.
    fn prepare_queue(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError>;

    /// Declares the exchange and its bindings, once the queues exist.
    fn prepare_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError>;

    /// Starts the consumer.
    fn prepare_consumer(connection: &mut Connection<Self>, settings: &Settings, queue: &str) -> Result<(), BenchError>;

    /// Prepares a publisher's connection.
    fn prepare_publisher(connection: &mut Connection<Self>, settings: &Settings, queue: &str)
    -> Result<(), BenchError>;

    /// Publishes its part and waits for the confirms.
    fn publish(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Published, BenchError>;

    /// Receives and verifies until all consumers together have everything.
    fn consume(connection: &mut Connection<Self>, part: ConnectionPart<'_>) -> Result<Consumed, BenchError>;

    /// Ends the consumer. Returns the number of unexpected messages.
    fn end_consumer(connection: &mut Connection<Self>) -> Result<u64, BenchError>;

    /// Deletes the exchange, on the connection that declared it.
    fn delete_exchange(connection: &mut Connection<Self>, settings: &Settings) -> Result<(), BenchError>;

    /// Deletes a queue. Returns the number of messages left in it.
    fn delete_queue(connection: &mut Connection<Self>, queue: &str) -> Result<u64, BenchError>;

    /// Closes the connection.
    fn close(connection: Connection<Self>) -> Result<(), BenchError>;
}

/// Runs `settings` against `target` once.
pub(crate) fn run(settings: &Settings, target: &TargetBroker) -> Result<Vec<RoundOutcome>, BenchError> {
    settings.check().map_err(BenchError::Usage)?;
    match settings.protocol {
        Protocol::Amqp091 => run_as::<amqp091::Client>(settings, target),
        Protocol::Amqp10 => run_as::<amqp10::Client>(settings, target),
        Protocol::Stream => run_as::<stream::Client>(settings, target),
    }
}

/// Messages per second that get through; in the first half if there are two.
pub(crate) fn highest_rate(settings: &Settings, target: &TargetBroker) -> Result<f64, BenchError> {
    let none = || BenchError::Usage(format!("{} has no rate of which half could be asked for", settings.name));
    let outcomes = run(settings, target)?;
    let rate = |outcome: &RoundOutcome| {
        Some(outcome.delivered as f64 / outcome.receive_time.or(outcome.send_time)?.as_secs_f64())
    };
    outcomes.first().and_then(rate).ok_or_else(none)
}

fn run_as<L: Load>(settings: &Settings, target: &TargetBroker) -> Result<Vec<RoundOutcome>, BenchError> {
    let queues: Vec<String> = (0..settings.queues).map(|number| settings.queue(number)).collect();
    let queue_of = |number: u32| queues[(number % settings.queues) as usize].as_str();
    let mut consuming = some_at_once(0..settings.consumers, |number| {
        let mut connection = L::open(target, &Opening::of("consumer"))?;
        // The first consumers declare the queues: exclusive ones belong to them.
        if number < settings.queues {
            let mut queue = settings.clone();
            queue.durability = queue.durability.filter(|_| is_leveret(connection.broker_name()));
            L::prepare_queue(&mut connection, &queue, queue_of(number))?;
        }
        Ok(connection)
    })?;
    if settings.exchange != Exchange::Default {
        L::prepare_exchange(&mut consuming[0], settings)?;
    }
    let mut publishing = some_at_once(0..settings.publishers, |number| {
        let mut connection = L::open(target, &Opening::of("publisher"))?;
        L::prepare_publisher(&mut connection, settings, queue_of(number))?;
        Ok(connection)
    })?;
    let broker = publishing.first().map_or("", |first| first.broker_name()).to_owned();
    let tally = Tally::new(settings);
    let measured = Measured { settings, target, broker: &broker, tally: &tally };
    let part = |number: u32, start: Instant| ConnectionPart {
        settings,
        queue: queue_of(number),
        number,
        tally: &tally,
        start,
    };
    let prepare_consumers = |consuming: &mut [Connection<L>]| -> Result<(), BenchError> {
        let mut numbered = (0..).zip(consuming.iter_mut());
        numbered.try_for_each(|(number, connection)| L::prepare_consumer(connection, settings, queue_of(number)))
    };

    let mut outcomes = Vec::new();
    if settings.course == Course::AtOnce {
        prepare_consumers(&mut consuming)?;
        let gauge = Gauge::read(target)?;
        let start = Instant::now() + head_start(settings);
        let sides = both(&mut publishing, &mut consuming, target, |number| part(number, start))?;
        outcomes.push(gauge.outcome(&measured, "", sides)?);
    } else {
        let (first, second) = if settings.course == Course::InThenOut { (" (in)", " (out)") } else { ("", "") };
        let gauge = Gauge::read(target)?;
        let start = Instant::now();
        let sides = both(&mut publishing, &mut Vec::new(), target, |number| part(number, start))?;
        if settings.course != Course::ConsumeOnly {
            outcomes.push(gauge.outcome(&measured, first, sides)?);
        }
        let gauge = Gauge::read(target)?;
        let start = Instant::now();
        prepare_consumers(&mut consuming)?;
        let sides = both(&mut Vec::new(), &mut consuming, target, |number| part(number, start))?;
        if settings.course != Course::PublishOnly {
            outcomes.push(gauge.outcome(&measured, second, sides)?);
        }
    }
    some_at_once(publishing, L::close)?;
    let mut surplus: u64 = some_at_once(&mut consuming, L::end_consumer)?.into_iter().sum();
    if settings.exchange != Exchange::Default {
        L::delete_exchange(&mut consuming[0], settings)?;
    }
    let deleted = some_at_once(consuming.iter_mut().zip(&queues), |(one, queue)| L::delete_queue(one, queue))?;
    // Reading takes nothing out of a stream.
    surplus += if settings.is_stream { 0 } else { deleted.into_iter().sum::<u64>() };
    if let Some(fault) = tally.verdict() {
        return Err(BenchError::Void(fault));
    }
    if surplus > 0 {
        let messages = tally.sent();
        let text = format!("of {messages} messages {surplus} duplicated: there were more after all had come");
        return Err(BenchError::Void(text));
    }
    some_at_once(consuming, L::close)?;
    Ok(outcomes)
}

/// Time for threads to start before the first message of a fixed rate is due. Without it the first message of each of
/// a thousand publishers would be late, and these are one in a hundred.
fn head_start(settings: &Settings) -> Duration {
    let threads = settings.publishers + settings.consumers;
    if settings.rate.is_some() { HEAD_START_EACH * threads } else { Duration::ZERO }
}

/// Runs both sides concurrently. If one fails, the others are stopped; the error returned is the original one.
fn both<'r, L: Load>(
    publishing: &mut [Connection<L>],
    consuming: &mut [Connection<L>],
    target: &TargetBroker,
    part: impl Fn(u32) -> ConnectionPart<'r> + Sync,
) -> Result<Sides, BenchError> {
    let ConnectionPart { settings, tally, start: started, .. } = part(0);
    let (publishes, consumes) = (!publishing.is_empty(), !consuming.is_empty());
    // Progress of the half that is behind.
    let done = move |at: &Sample| {
        let sent = match settings.stop_after {
            Some(all) => at.seconds / all.as_secs_f64(),
            None => at.sent as f64 / settings.messages() as f64,
        };
        match (publishes, consumes) {
            (true, true) => sent.min(at.received as f64 / (at.sent.max(1) * u64::from(settings.copies())) as f64),
            (true, false) => sent,
            _ => at.received as f64 / at.sent.max(1) as f64,
        }
    };
    let watch = Watch { tally, processes: &target.processes, start: started, progress: target.progress, done: &done };
    let stoppers: Result<Vec<Stopper>, BenchError> =
        publishing.iter().chain(consuming.iter()).map(Connection::stopper).collect();
    let stoppers = stoppers?;
    let stop_all = || stoppers.iter().for_each(Stopper::stop);
    let left = AtomicUsize::new(publishing.len());
    let (part, stop_all, left) = (&part, &stop_all, &left);
    let watch = &watch;
    thread::scope(|scope| {
        // Dropped at the end of this scope at the latest, which ends the watcher.
        let (running, over) = mpsc::channel();
        let first = watch.sample();
        let watching = start(scope, move || watch.run(first, &over))?;
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
        drop(running);
        let series = watching.join().expect("no watch panics");
        // An original error is worth more than the errors of stopped threads.
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
            None => Ok(Sides { published, consumed, series }),
        }
    })
}

/// A thread for one connection; there may be thousands.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, BenchError> {
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
    started.map_err(|error| BenchError::Usage(format!("cannot start a thread for each connection: {error}")))
}
