//! Power cuts and kills after every change of the disk while a queue is converted between classic and quorum, again and again, and
//! clients publish to it, consume from it and hold messages: it is of one type or the other, with all messages, once and in order, and
//! of the new type once that was answered.

use std::ops::Range;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted as broker;
use leveret_broker::ticket::Ticket;
use leveret_model::{CommandOutcome, ConvertQueue, Permit, QueueType};
use leveret_queue::planted as queue;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::publisher::PipelinedPublisher;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body;
use leveret_sim::cuts;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::ledger::Stamp;
use leveret_sim::planted::Bug;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Consume;

const QUEUE: &str = "changing";
/// A queue that gets the messages of the exchange, too: they are stored once for both.
const OTHER: &str = "other";
const EXCHANGE: &str = "amq.fanout";
const CONVERSIONS: usize = 12;
/// Number of messages that the other consumer holds, at most.
const HELD: u16 = 3;

/// A conversion.
#[derive(Clone, Copy, Debug)]
struct Converted {
    to: QueueType,
    asked: Stamp,
    answered: Stamp,
}

/// A message that was taken out of the queue.
#[derive(Clone, Copy, Debug)]
struct Taken {
    id: u64,
    asked: Stamp,
    /// When the transaction with its acknowledgement was answered.
    gone: Stamp,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// From the declarations to the end of all clients.
    range: Range<Stamp>,
    publisher: PipelinedPublisher,
    /// Whether each message went to both queues.
    to_both: Vec<bool>,
    taken: Vec<Taken>,
    /// The messages that consumers held when the queue was converted.
    held: Vec<u64>,
    converted: Vec<Converted>,
}

fn wrong<T>(check: Check, detail: String) -> Result<T, Failure> {
    Err(Failure::new(check, detail))
}

/// Asks for a conversion. Its answer waits for the returned ticket.
fn convert(world: &mut World, to: QueueType) -> Result<Ticket, Failure> {
    let (vhost, name) = ("/".into(), QUEUE.into());
    let command = ConvertQueue { vhost, name, queue_type: Some(to), arguments: None, earlier: None };
    let now = world.clock.now().monotonic;
    let asked = world.broker.registry.convert_queue(Permit::system(), command, false, now);
    let converted = world.answer(asked)?;
    match converted {
        Ok(Some(changed)) if changed.outcome == CommandOutcome::Updated => Ok(changed.ticket),
        Ok(answer) => wrong(Check::Answered, format!("converted: {:?}", answer.map(|changed| changed.outcome))),
        Err(refused) => wrong(Check::Answered, refused.text),
    }
}

fn other_type(queue_type: QueueType) -> QueueType {
    if queue_type == QueueType::Classic { QueueType::Quorum } else { QueueType::Classic }
}

fn queue_type(world: &World) -> Result<QueueType, Failure> {
    let snapshot = world.broker.registry.snapshot_full();
    match snapshot.queue("/", QUEUE) {
        Some(queue) => Ok(queue.info().queue_type()),
        None => wrong(Check::ObjectsExist, format!("{QUEUE} is gone")),
    }
}

fn id_of(received: &leveret_sim::amqp091::Received) -> u64 {
    body::id(&received.content.body).expect("it is one of ours")
}

impl Trace {
    fn publish(&mut self, world: &mut World) {
        let to_both = world.random.below(3) == 0;
        let to = if to_both { (EXCHANGE, "") } else { ("", QUEUE) };
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        self.publisher.publish(world, to, &FieldTable::new(), true, length);
        self.to_both.push(to_both);
    }

    /// Takes the next message out of the queue, in a transaction.
    fn take(&mut self, world: &mut World, script: &Script) -> Result<(), Failure> {
        let asked = world.disk.count();
        world.links[script.link].amqp091().client.get(CHANNEL, QUEUE.as_bytes(), false);
        let got = self.publisher.step_until(world, script.link, |heard| match heard {
            Heard::Got(received) => Some(Some(received)),
            Heard::Empty(_) => Some(None),
            _ => None,
        })?;
        let Some(received) = got else { return Ok(()) };
        let client = &mut world.links[script.link].amqp091().client;
        client.ack(CHANNEL, received.tag, false);
        client.tx_commit(CHANNEL);
        self.publisher
            .step_until(world, script.link, |heard| matches!(heard, Heard::Reply(_, "tx.commit-ok")).then_some(()))?;
        self.check_flag(&received)?;
        let id = id_of(&received);
        if let Some(taken) = self.taken.iter().find(|taken| taken.id == id) {
            return wrong(Check::NothingComesBack, format!("{taken:?} comes back"));
        }
        self.taken.push(Taken { id, asked, gone: world.disk.count() });
        Ok(())
    }

    /// A message that a consumer held when the queue was converted comes back as one that was delivered before.
    fn check_flag(&self, received: &leveret_sim::amqp091::Received) -> Result<(), Failure> {
        let id = id_of(received);
        match self.held.contains(&id) && !received.content.redelivered {
            true => wrong(Check::Redelivered, format!("message {id} was delivered before")),
            false => Ok(()),
        }
    }

    /// Converts the queue while a consumer holds messages of it and further ones are published. The consumer's acknowledgements come too
    /// late.
    fn convert(&mut self, world: &mut World, holder: &Script) -> Result<(), Failure> {
        let client = &mut world.links[holder.link].amqp091().client;
        client.consume(CHANNEL, QUEUE.as_bytes(), b"holder", Consume::default(), &FieldTable::new());
        self.publisher.step_until(world, holder.link, |heard| matches!(heard, Heard::Consumer(_)).then_some(()))?;
        for _ in 0..world.random.below(150) {
            self.publisher.step(world)?;
        }
        let to = other_type(self.converted.last().map_or(QueueType::Classic, |last| last.to));
        let asked = world.disk.count();
        let ticket = convert(world, to)?;
        let mut left = world.random.below(5);
        while !world.broker.streams.is_durable(ticket) {
            if left > 0 && world.random.below(10) == 0 {
                left -= 1;
                self.publish(world);
            }
            if !self.publisher.step(world)? {
                return wrong(Check::Answered, "the conversion never becomes durable".to_owned());
            }
        }
        world.broker.registry.publish();
        self.converted.push(Converted { to, asked, answered: world.disk.count() });
        let (mut held, mut last) = (Vec::new(), 0);
        self.publisher.step_until(world, holder.link, |heard| match heard {
            Heard::Delivered(received) => {
                last = received.tag;
                held.push(received);
                None
            }
            Heard::Cancelled(..) => Some(()),
            _ => None,
        })?;
        for received in &held {
            self.check_flag(received)?;
        }
        self.held.extend(held.iter().map(id_of));
        if last > 0 {
            world.links[holder.link].amqp091().client.ack(CHANNEL, last, true);
        }
        Ok(())
    }

    /// Checks the messages that are found in a queue after a crash at a moment.
    fn check(&self, at: Stamp, name: &str, found: &[u64]) -> Result<(), Failure> {
        for (id, known) in (0..).zip(&self.publisher.known) {
            let count = found.iter().filter(|other| **other == id).count();
            let taken = self.taken.iter().find(|taken| taken.id == id && name == QUEUE);
            if count > 1 {
                return wrong(Check::NoDuplicate, format!("message {id} is in {name} {count} times"));
            }
            let goes_there = name == QUEUE || self.to_both[id as usize];
            if count > 0 && (!goes_there || known.published > at) {
                return wrong(Check::NoPhantom, format!("message {id} is in {name}"));
            }
            if count > 0 && taken.is_some_and(|taken| taken.gone <= at) {
                return wrong(Check::NothingComesBack, format!("message {id} was taken out of {name}, and is back"));
            }
            let may_be_gone = taken.is_some_and(|taken| taken.asked <= at);
            if count == 0 && goes_there && known.is_promised(at) && !may_be_gone {
                return wrong(Check::NothingLost, format!("message {id} isn't in {name}: {known:?}"));
            }
        }
        // A quorum queue has messages that came back before others.
        let was_delivered = |id: u64| self.held.contains(&id) || self.taken.iter().any(|taken| taken.id == id);
        if !found.iter().filter(|id| !was_delivered(**id)).is_sorted() {
            return wrong(Check::Order, format!("{name}: {found:?}"));
        }
        Ok(())
    }

    /// Checks the type of the queue after a crash at a moment: the last one that was answered, or a later one that was asked for.
    fn check_type(&self, at: Stamp, found: QueueType) -> Result<(), Failure> {
        let answered = self.converted.iter().rposition(|converted| converted.answered <= at);
        let least = answered.map_or(QueueType::Classic, |last| self.converted[last].to);
        let next = self.converted.get(answered.map_or(0, |last| last + 1)).filter(|next| next.asked <= at);
        if found != least && next.is_none_or(|next| next.to != found) {
            return wrong(
                Check::ObjectsExist,
                format!("{QUEUE} is a {found:?} queue, and was {least:?}, then {next:?}"),
            );
        }
        Ok(())
    }
}

fn declare(world: &mut World, script: &Script) -> Result<(), Failure> {
    for name in [QUEUE, OTHER] {
        let classic = FieldValue::LongString(b"classic".to_vec());
        script.declare(world, name, &FieldTable::new().with("x-queue-type", classic))?;
        let client = &mut world.links[script.link].amqp091().client;
        client.bind_queue(CHANNEL, name.as_bytes(), EXCHANGE.as_bytes(), b"", &FieldTable::new());
        script.reply(world, "queue.bind-ok")?;
    }
    Ok(())
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    declare(world, &script)?;
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(world, "tx.select-ok")?;
    let holder = Script::start(world)?;
    world.links[holder.link].amqp091().client.qos(CHANNEL, HELD, false);
    holder.reply(world, "basic.qos-ok")?;
    let (range, publisher) = (disk.count()..Stamp::MAX, PipelinedPublisher::start(world)?);
    let (to_both, taken, held, converted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut trace = Trace { disk, range, publisher, to_both, taken, held, converted };
    while trace.converted.len() < CONVERSIONS {
        for _ in 0..world.random.below(8) {
            trace.publish(world);
            for _ in 0..world.random.below(20) {
                trace.publisher.step(world)?;
            }
        }
        for _ in 0..world.random.below(3) {
            trace.take(world, &script)?;
        }
        if world.random.below(2) == 0 {
            trace.convert(world, &holder)?;
        }
    }
    trace.publisher.rest(world)?;
    while trace.publisher.step(world)? {}
    trace.range.end = trace.disk.count();
    judge(&trace, trace.range.end, world)?;
    Ok(trace)
}

/// Looks at the type and at all messages, of every second queue after one more conversion.
fn judge(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let found = queue_type(world)?;
    trace.check_type(at, found)?;
    if at.is_multiple_of(2) {
        let ticket = convert(world, other_type(found))?;
        while !world.broker.streams.is_durable(ticket) {
            world.step()?;
        }
        world.broker.registry.publish();
    }
    let script = Script::start(world)?;
    for name in [QUEUE, OTHER] {
        let found: Vec<u64> = script.drain(world, name)?.iter().map(id_of).collect();
        trace.check(at, name, &found)?;
    }
    Ok(())
}

/// Ends the broker at every `every`th change of a trace; returns how often.
fn cut(seed: u64, every: usize) -> Result<usize, Failure> {
    let trace = trace(seed)?;
    cuts::cut_or_kill(&trace.disk, trace.range.clone(), (seed, every), |at, survived| {
        let (mut world, _) = World::start(Arc::new(survived), small_log(), seed)?;
        judge(&trace, at, &mut world)
    })
}

#[test]
fn a_converted_queue_is_of_one_type_and_whole_after_any_crash() {
    cuts::assert_survived(&[(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5)], cut);
}

#[test]
fn planted_bugs_of_conversions_are_caught() {
    let bugs = [
        Bug::Broker(broker::Bug::ForgetConversion),
        Bug::Queue(queue::Bug::LeavePending),
        Bug::Queue(queue::Bug::ForgetHeld),
    ];
    cuts::assert_caught(&bugs, 1..5, |seed| cut(seed, 3));
}
