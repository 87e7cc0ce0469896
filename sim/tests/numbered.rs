//! Power cuts and kills after every change of the disk while publishers number their messages and send some of them again, at once or
//! later, and consumers take some: whoever then sends all of them again leaves one copy of each, and none of what was confirmed.

use std::ops::Range;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_broker::planted as broker;
use leveret_queue::planted as queue;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::publisher::PipelinedPublisher;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body};
use leveret_sim::cuts;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::ledger::Stamp;
use leveret_sim::planted::Bug;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "once";
const MESSAGES: usize = 90;
/// Publishers without transactions.
const PUBLISHERS: u64 = 3;

/// A message that was taken out of the queue.
#[derive(Clone, Copy, Debug)]
struct Taken {
    id: u64,
    asked: Stamp,
    gone: Stamp,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// From the declaration to the last confirm.
    range: Range<Stamp>,
    publisher: PipelinedPublisher,
    /// Another connection, which sends some of them again.
    other: PipelinedPublisher,
    /// Whether each message was published in a transaction.
    in_transaction: Vec<bool>,
    taken: Vec<Taken>,
}

fn wrong<T>(check: Check, detail: String) -> Result<T, Failure> {
    Err(Failure::new(check, detail))
}

fn length(id: u64) -> usize {
    [20, 700, 5_000][(id % 3) as usize]
}

fn headers(id: u64, in_transaction: bool) -> FieldTable {
    let name = if in_transaction { String::from("transactions") } else { format!("p{}", id % PUBLISHERS) };
    let name = FieldValue::LongString(name.into_bytes());
    FieldTable::new().with("x-publisher-id", name).with("x-publisher-sequence", id as i64)
}

fn send(publisher: &mut PipelinedPublisher, world: &mut World, id: u64, in_transaction: bool) {
    publisher.send(world, id, ("", QUEUE), (&headers(id, in_transaction), true), length(id));
}

impl Trace {
    /// A new message.
    fn note(&mut self, world: &World, in_transaction: bool) -> u64 {
        self.in_transaction.push(in_transaction);
        self.other.note(world);
        self.publisher.note(world)
    }

    fn publish(&mut self, world: &mut World) {
        let id = self.note(world, false);
        send(&mut self.publisher, world, id, false);
    }

    /// Another connection sends all again of which nobody knows whether they arrived, and some others, in order.
    fn send_again(&mut self, world: &mut World) {
        for id in 0..self.in_transaction.len() as u64 {
            let is_unknown = self.confirmed(id) == Stamp::MAX;
            if !self.in_transaction[id as usize] && (is_unknown || world.random.below(20) == 0) {
                send(&mut self.other, world, id, false);
            }
        }
    }

    /// When a message was confirmed first.
    fn confirmed(&self, id: u64) -> Stamp {
        self.publisher.known[id as usize].confirmed.min(self.other.known[id as usize].confirmed)
    }

    /// Takes a message, and publishes some, in a transaction.
    fn transact(&mut self, world: &mut World, script: &Script) -> Result<(), Failure> {
        let asked = world.disk.count();
        world.links[script.link].amqp091().client.get(CHANNEL, QUEUE.as_bytes(), false);
        let got = self.publisher.step_until(world, script.link, |heard| match heard {
            Heard::Got(received) => Some(Some(received)),
            Heard::Empty(_) => Some(None),
            _ => None,
        })?;
        let ids: Vec<u64> = (0..world.random.below(3)).map(|_| self.note(world, true)).collect();
        let client = &mut world.links[script.link].amqp091().client;
        for id in &ids {
            let table = headers(*id, true).encoded();
            let mut properties = Vec::new();
            Properties { delivery_mode: Some(2), headers: Some(table.as_table()), ..Properties::default() }
                .encode(&mut properties);
            client.publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), &body(*id, length(*id))).with(&properties));
        }
        got.iter().for_each(|received| client.ack(CHANNEL, received.tag, false));
        client.tx_commit(CHANNEL);
        self.publisher
            .step_until(world, script.link, |heard| matches!(heard, Heard::Reply(_, "tx.commit-ok")).then_some(()))?;
        ids.iter().for_each(|id| self.publisher.confirmed(world, *id));
        if let Some(received) = got {
            let id = body::id(&received.content.body).expect("it is one of ours");
            if let Some(taken) = self.taken.iter().find(|taken| taken.id == id) {
                return wrong(Check::NothingComesBack, format!("{taken:?} comes again"));
            }
            self.taken.push(Taken { id, asked, gone: world.disk.count() });
        }
        Ok(())
    }

    /// Checks what is found after a crash, and what else after everything was sent again.
    fn check(&self, at: Stamp, first: &[u64], second: &[u64]) -> Result<(), Failure> {
        for (id, known) in (0..).zip(&self.publisher.known) {
            let count = |found: &[u64]| found.iter().filter(|other| **other == id).count();
            let (before, after) = (count(first), count(second));
            let taken = self.taken.iter().find(|taken| taken.id == id);
            let was_taken = taken.is_some_and(|taken| taken.gone <= at);
            let may_be_gone = taken.is_some_and(|taken| taken.asked <= at);
            let what = || {
                let confirmed = self.confirmed(id);
                format!("message {id} is there {before} and {after} times: {known:?}, {confirmed}, {taken:?}")
            };
            if before + after > 1 {
                return wrong(Check::NoDuplicate, what());
            }
            if before > 0 && (known.published > at || was_taken) {
                return wrong(Check::NoPhantom, what());
            }
            if after > 0 && self.confirmed(id) <= at {
                return wrong(Check::NothingComesBack, what());
            }
            if before + after == 0 && !may_be_gone {
                return wrong(Check::NothingLost, what());
            }
        }
        Ok(())
    }
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let queue_type = if seed.is_multiple_of(2) { "quorum" } else { "classic" };
    let queue_type = FieldValue::LongString(queue_type.as_bytes().to_vec());
    let arguments = FieldTable::new().with("x-queue-type", queue_type).with("x-publisher-deduplication", true);
    script.declare(world, QUEUE, &arguments)?;
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(world, "tx.select-ok")?;
    let (range, publisher) = (disk.count()..Stamp::MAX, PipelinedPublisher::start(world)?);
    let other = PipelinedPublisher::start(world)?;
    let mut trace = Trace { disk, range, publisher, other, in_transaction: Vec::new(), taken: Vec::new() };
    while trace.in_transaction.len() < MESSAGES {
        for _ in 0..world.random.below(5) {
            trace.publish(world);
        }
        let again_after = world.random.below(100);
        for step in 0..world.random.below(80) {
            trace.publisher.step(world)?;
            trace.other.listen(world)?;
            if step == again_after {
                trace.send_again(world);
            }
        }
        if world.random.below(3) == 0 {
            trace.transact(world, &script)?;
        }
    }
    trace.publisher.rest(world)?;
    trace.other.rest(world)?;
    trace.range.end = trace.disk.count();
    judge(&trace, trace.range.end, world)?;
    Ok(trace)
}

fn drain(world: &mut World, script: &Script) -> Result<Vec<u64>, Failure> {
    let found = script.drain(world, QUEUE)?;
    Ok(found.iter().map(|received| body::id(&received.content.body).expect("it is one of ours")).collect())
}

/// Takes what is there, sends everything again, and takes what came.
fn judge(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let script = Script::start(world)?;
    let first = drain(world, &script)?;
    let mut publisher = PipelinedPublisher::start(world)?;
    for (id, in_transaction) in trace.in_transaction.iter().enumerate() {
        publisher.note(world);
        send(&mut publisher, world, id as u64, *in_transaction);
    }
    publisher.rest(world)?;
    let second = drain(world, &script)?;
    trace.check(at, &first, &second)
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
fn messages_sent_again_are_there_once_after_any_crash() {
    cuts::assert_survived(&[(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5)], cut);
}

#[test]
fn planted_bugs_of_numbered_publishers_are_caught() {
    let bugs = [
        Bug::Broker(broker::Bug::ConfirmRepeatEarly),
        Bug::Queue(queue::Bug::ForgetSequences),
        Bug::Queue(queue::Bug::ForgetPublishers),
    ];
    // In half of the seeds answers come late, which hides what is confirmed too early.
    cuts::assert_caught(&bugs, 1..60, |seed| cut(seed, 3));
}
