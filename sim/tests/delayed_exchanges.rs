//! Power cuts and kills after every change of the disk while messages wait in a delayed exchange, are moved to its queues, and are
//! consumed: each comes to each of its queues once, and not before it is due.

use std::ops::Range;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted as broker;
use leveret_queue::planted as queue;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::publisher::PipelinedPublisher;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body;
use leveret_sim::clock::Clock;
use leveret_sim::cuts;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::ledger::Stamp;
use leveret_sim::planted::Bug;
use leveret_sim::world::{World, small_log};

const EXCHANGE: &str = "later";
/// The queues with their types.
const QUEUES: [(&str, &str); 2] = [("classic", "classic"), ("quorum", "quorum")];
/// The routing key of messages that go to both queues. By the name of a queue they go to that one, and by others nowhere.
const BOTH: &str = "both";
const DELAY_MAX_MS: u64 = 5_000;
const MESSAGES: u64 = 70;

/// A message that was taken out of a queue.
#[derive(Clone, Copy, Debug)]
struct Taken {
    id: u64,
    queue: usize,
    /// When it was asked for.
    asked: Stamp,
    /// When the transaction with its acknowledgement was answered.
    gone: Stamp,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// From the declarations to the last confirm.
    range: Range<Stamp>,
    publisher: PipelinedPublisher,
    /// The key and delay of each message.
    sent: Vec<(&'static str, u64)>,
    taken: Vec<Taken>,
}

/// A message that is found after a crash, and the wall time then.
type Found = (u64, u64);

fn wrong<T>(check: Check, detail: String) -> Result<T, Failure> {
    Err(Failure::new(check, detail))
}

fn goes_to(key: &str, queue: usize) -> bool {
    key == BOTH || key == QUEUES[queue].0
}

fn declare(world: &mut World, script: &Script) -> Result<(), Failure> {
    let arguments = FieldTable::new().with("x-delayed-type", "direct");
    let client = &mut world.links[script.link].amqp091().client;
    client.declare_exchange(CHANNEL, EXCHANGE.as_bytes(), "x-delayed-message", true, &arguments);
    script.reply(world, "exchange.declare-ok")?;
    for (name, queue_type) in QUEUES {
        let queue_type = FieldValue::LongString(queue_type.as_bytes().to_vec());
        script.declare(world, name, &FieldTable::new().with("x-queue-type", queue_type))?;
        for key in [name, BOTH] {
            let client = &mut world.links[script.link].amqp091().client;
            client.bind_queue(CHANNEL, name.as_bytes(), EXCHANGE.as_bytes(), key.as_bytes(), &FieldTable::new());
            script.reply(world, "queue.bind-ok")?;
        }
    }
    Ok(())
}

/// Lets wall time pass, at least this long; the cores do what is due.
fn pass(world: &mut World, ms: u64, mut step: impl FnMut(&mut World) -> Result<bool, Failure>) -> Result<(), Failure> {
    let until = world.clock.nanos() + ms * 1_000_000;
    while world.clock.nanos() < until {
        let left = until - world.clock.nanos();
        world.clock.advance(left.min(50_000_000));
        for _ in 0..20 {
            step(world)?;
        }
    }
    Ok(())
}

impl Trace {
    fn publish(&mut self, world: &mut World) {
        let key = [BOTH, BOTH, QUEUES[0].0, QUEUES[1].0, "nowhere"][world.random.below(5) as usize];
        let delay_ms = if world.random.below(4) == 0 { 0 } else { 1 + world.random.below(DELAY_MAX_MS) };
        let mut headers = FieldTable::new();
        if delay_ms > 0 {
            headers.insert("x-delay", FieldValue::I64(delay_ms as i64));
        }
        // A quorum queue keeps transient messages, too.
        let persistent = goes_to(key, 0) || world.random.below(2) == 0;
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        self.publisher.publish(world, (EXCHANGE, key), &headers, persistent, length);
        self.sent.push((key, delay_ms));
    }

    /// Takes a message out of a queue, in a transaction.
    fn take(&mut self, world: &mut World, script: &Script) -> Result<(), Failure> {
        let (queue, asked) = (world.random.below(2) as usize, world.disk.count());
        world.links[script.link].amqp091().client.get(CHANNEL, QUEUES[queue].0.as_bytes(), false);
        let got = self.publisher.step_until(world, script.link, |heard| match heard {
            Heard::Got(received) => Some(Some(received)),
            Heard::Empty(_) => Some(None),
            _ => None,
        })?;
        let Some(received) = got else { return Ok(()) };
        let id = body::id(&received.content.body).expect("it is one of ours");
        self.check_due(id, world.clock.now().wall_ms)?;
        let client = &mut world.links[script.link].amqp091().client;
        client.ack(CHANNEL, received.tag, false);
        client.tx_commit(CHANNEL);
        self.publisher
            .step_until(world, script.link, |heard| matches!(heard, Heard::Reply(_, "tx.commit-ok")).then_some(()))?;
        self.taken.push(Taken { id, queue, asked, gone: world.disk.count() });
        Ok(())
    }

    fn check_due(&self, id: u64, now_ms: u64) -> Result<(), Failure> {
        let Some(((_, delay_ms), known)) = self.sent.get(id as usize).zip(self.publisher.known.get(id as usize)) else {
            return wrong(Check::NoPhantom, format!("message {id} was never published"));
        };
        let earliest_ms = known.published_ms + delay_ms;
        if now_ms < earliest_ms {
            return wrong(Check::NotEarly, format!("message {id} is ready at {now_ms}, and due at {earliest_ms}"));
        }
        Ok(())
    }

    /// Checks the messages that are found in a queue after a crash at a moment.
    fn check(&self, at: Stamp, queue: usize, found: &[Found]) -> Result<(), Failure> {
        let name = QUEUES[queue].0;
        for (id, now_ms) in found {
            self.check_due(*id, *now_ms)?;
        }
        for (id, (known, (key, _))) in (0..).zip(self.publisher.known.iter().zip(&self.sent)) {
            let count = found.iter().filter(|(other, _)| *other == id).count();
            let taken = self.taken.iter().find(|taken| taken.id == id && taken.queue == queue);
            let is_expected = goes_to(key, queue) && known.published <= at;
            if count > 0 && !is_expected {
                return wrong(Check::NoPhantom, format!("message {id} is in {name}, and isn't one of its messages"));
            }
            if count > 1 {
                return wrong(Check::NoDuplicate, format!("message {id} is in {name} {count} times"));
            }
            if count > 0 && taken.is_some_and(|taken| taken.gone <= at) {
                return wrong(Check::NothingComesBack, format!("message {id} was taken out of {name}, and is back"));
            }
            let may_be_gone = taken.is_some_and(|taken| taken.asked <= at);
            if count == 0 && goes_to(key, queue) && known.is_promised(at) && !may_be_gone {
                return wrong(Check::NothingLost, format!("message {id} isn't in {name}: {known:?}"));
            }
        }
        self.check_order(at, queue, found)
    }

    /// Messages with a delay came in the order of their due times, as far as these are known: the broker received a message after it was
    /// published, and before it was confirmed. A consumer may have had some of them, which come first then.
    fn check_order(&self, at: Stamp, queue: usize, found: &[Found]) -> Result<(), Failure> {
        let was_held =
            |id: u64| self.taken.iter().any(|taken| taken.id == id && taken.queue == queue && taken.asked <= at);
        let delayed = found.iter().map(|(id, _)| *id).filter(|id| self.sent[*id as usize].1 > 0 && !was_held(*id));
        let mut latest = (0, 0);
        for id in delayed {
            let (known, delay_ms) = (&self.publisher.known[id as usize], self.sent[id as usize].1);
            if known.confirmed_ms.saturating_add(delay_ms) < latest.0 {
                return wrong(Check::Order, format!("message {id} is behind {}, which was due later", latest.1));
            }
            latest = latest.max((known.published_ms + delay_ms, id));
        }
        Ok(())
    }
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    declare(world, &script)?;
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(world, "tx.select-ok")?;
    let publisher = PipelinedPublisher::start(world)?;
    let (sent, taken) = (Vec::new(), Vec::new());
    let mut trace = Trace { range: disk.count()..Stamp::MAX, disk, publisher, sent, taken };
    while (trace.sent.len() as u64) < MESSAGES {
        for _ in 0..world.random.below(4) {
            trace.publish(world);
        }
        for _ in 0..world.random.below(60) {
            trace.publisher.step(world)?;
        }
        if world.random.below(3) == 0 {
            trace.take(world, &script)?;
        }
        if world.random.below(3) == 0 {
            let ms = world.random.below(700);
            pass(world, ms, |world| trace.publisher.step(world))?;
        }
    }
    trace.publisher.rest(world)?;
    trace.range.end = trace.disk.count();
    judge(&trace, trace.range.end, world)?;
    Ok(trace)
}

fn drain(world: &mut World, script: &Script, queue: usize, found: &mut Vec<Found>) -> Result<(), Failure> {
    while let Some(received) = script.get(world, QUEUES[queue].0, false)? {
        let id = body::id(&received.content.body).expect("it is one of ours");
        found.push((id, world.clock.now().wall_ms));
    }
    Ok(())
}

/// Looks at the queues, waits until everything is due, and looks again.
fn judge(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let script = Script::start(world)?;
    let mut found = [Vec::new(), Vec::new()];
    for (queue, found) in found.iter_mut().enumerate() {
        drain(world, &script, queue, found)?;
    }
    // Wall time may have been further than it is now when the last ones were published.
    let latest_ms = trace.publisher.wall_ms(Stamp::MAX) + DELAY_MAX_MS + 1_000;
    let left_ms = latest_ms.saturating_sub(world.clock.now().wall_ms);
    pass(world, left_ms, World::step)?;
    for (queue, found) in found.iter_mut().enumerate() {
        drain(world, &script, queue, found)?;
        trace.check(at, queue, found)?;
    }
    Ok(())
}

/// Ends the broker at every `every`th change of a trace; returns how often.
fn cut(seed: u64, every: usize) -> Result<usize, Failure> {
    let trace = trace(seed)?;
    cuts::cut_or_kill(&trace.disk, trace.range.clone(), (seed, every), |at, survived| {
        let clock = Clock::at(trace.publisher.wall_ms(at));
        let (mut world, _) = World::start_at(clock, Arc::new(survived), small_log(), seed)?;
        judge(&trace, at, &mut world)
    })
}

#[test]
fn a_delayed_message_comes_once_and_in_time_after_any_crash() {
    cuts::assert_survived(&[(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5)], cut);
}

#[test]
fn planted_bugs_of_delayed_exchanges_are_caught() {
    let bugs = [Bug::Queue(queue::Bug::LoseTimers), Bug::Broker(broker::Bug::RepeatLetters)];
    cuts::assert_caught(&bugs, 1..5, |seed| cut(seed, 3));
}
