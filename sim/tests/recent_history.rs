//! Power cuts and kills after every change of the disk while messages are published to a recent history exchange and queues are bound to
//! it: a queue whose bind was answered has the last messages and all later ones, and the exchange keeps exactly its last messages.

use std::ops::Range;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted as broker;
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

const EXCHANGE: &str = "recent";
const LENGTH: usize = 6;
const BINDS: usize = 10;
/// Number of messages between binds, at most.
const BETWEEN: u64 = 12;

/// A published message.
#[derive(Clone, Copy, Debug)]
struct Sent {
    is_kept: bool,
    persistent: bool,
}

/// A queue that was bound to the exchange. Messages are counted by id.
#[derive(Clone, Debug)]
struct Bound {
    name: String,
    is_quorum: bool,
    answered: Stamp,
    /// The messages that were confirmed when the bind was asked for.
    confirmed: Vec<bool>,
    /// Number of messages that were published when the bind was answered.
    published: usize,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// From the declaration to the last confirm.
    range: Range<Stamp>,
    publisher: PipelinedPublisher,
    sent: Vec<Sent>,
    bound: Vec<Bound>,
}

fn wrong<T>(check: Check, detail: String) -> Result<T, Failure> {
    Err(Failure::new(check, detail))
}

fn declare_queue(world: &mut World, script: &Script, name: &str, is_quorum: bool) -> Result<(), Failure> {
    let queue_type = if is_quorum { "quorum" } else { "classic" };
    let queue_type = FieldValue::LongString(queue_type.as_bytes().to_vec());
    script.declare(world, name, &FieldTable::new().with("x-queue-type", queue_type))
}

fn ask_bind(world: &mut World, script: &Script, queue: &str) {
    let client = &mut world.links[script.link].amqp091().client;
    client.bind_queue(CHANNEL, queue.as_bytes(), EXCHANGE.as_bytes(), b"", &FieldTable::new());
}

/// The messages of a queue, in order.
fn drain(world: &mut World, script: &Script, queue: &str) -> Result<Vec<usize>, Failure> {
    let found = script.drain(world, queue)?;
    Ok(found.iter().map(|received| body::id(&received.content.body).expect("it is one of ours") as usize).collect())
}

impl Trace {
    fn publish(&mut self, world: &mut World) {
        let is_kept = world.random.below(5) > 0;
        let persistent = world.random.below(4) > 0;
        let mut headers = FieldTable::new();
        if !is_kept {
            headers.insert("x-recent-history-no-store", FieldValue::Bool(true));
        }
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        self.publisher.publish(world, (EXCHANGE, "any"), &headers, persistent, length);
        self.sent.push(Sent { is_kept, persistent });
    }

    /// Declares a queue and binds it, while further messages are published.
    fn bind(&mut self, world: &mut World, script: &Script) -> Result<(), Failure> {
        let (name, is_quorum) = (format!("q{}", self.bound.len()), world.random.below(2) == 0);
        declare_queue(world, script, &name, is_quorum)?;
        let confirmed = self.publisher.known.iter().map(|known| known.confirmed < Stamp::MAX).collect();
        ask_bind(world, script, &name);
        let mut left = world.random.below(4);
        for _ in 0..world.random.below(200) {
            self.publisher.step(world)?;
            if left > 0 && world.random.below(10) == 0 {
                left -= 1;
                self.publish(world);
            }
        }
        self.publisher
            .step_until(world, script.link, |heard| matches!(heard, Heard::Reply(_, "queue.bind-ok")).then_some(()))?;
        let (answered, published) = (world.disk.count(), self.sent.len());
        self.bound.push(Bound { name, is_quorum, answered, confirmed, published });
        Ok(())
    }

    /// How often a queue has to have a message whose bind was answered before this moment, and how often it may.
    fn expected(&self, bound: &Bound, at: Stamp, id: usize) -> (usize, usize) {
        let (sent, known) = (self.sent[id], &self.publisher.known[id]);
        let survives = sent.persistent || bound.is_quorum;
        let was_confirmed = bound.confirmed.get(id) == Some(&true);
        if known.published > at {
            return (0, 0);
        }
        if id >= bound.published {
            return ((known.is_promised(at) && survives).into(), 1);
        }
        if !was_confirmed {
            // Published while the queue was bound.
            return (0, if sent.is_kept { 2 } else { 1 });
        }
        if !sent.is_kept {
            return (0, 0);
        }
        let behind = |id: &usize| self.sent[*id].is_kept;
        let least =
            (id + 1..self.sent.len()).filter(behind).filter(|id| bound.confirmed.get(*id) == Some(&true)).count();
        let most = (id + 1..bound.published).filter(behind).count();
        if least >= LENGTH { (0, 0) } else { ((most < LENGTH && survives).into(), 1) }
    }

    fn check_queue(&self, bound: &Bound, at: Stamp, found: &[usize]) -> Result<(), Failure> {
        let name = &bound.name;
        for (id, known) in self.publisher.known.iter().enumerate() {
            let count = found.iter().filter(|other| **other == id).count();
            let (least, most) = self.expected(bound, at, id);
            let what = || format!("message {id} is in {name} {count} times of {least} to {most}: {known:?}, {bound:?}");
            if count < least {
                return wrong(Check::NothingLost, what());
            }
            if count > most {
                return wrong(Check::NoDuplicate, what());
            }
        }
        let is_certain = |id: &usize| *id >= bound.published || bound.confirmed.get(*id) == Some(&true);
        if !found.iter().copied().filter(is_certain).is_sorted() {
            return wrong(Check::Order, format!("{name}, {bound:?}: {found:?}"));
        }
        Ok(())
    }

    /// Checks the messages that a new queue gets after a crash: the last ones that the exchange kept.
    fn check_history(&self, at: Stamp, found: &[usize]) -> Result<(), Failure> {
        let kept: Vec<usize> = (0..self.sent.len()).filter(|id| self.sent[*id].is_kept).collect();
        let promised = kept.iter().rposition(|id| self.publisher.known[*id].is_promised(at)).map_or(0, |last| last + 1);
        let published = kept.partition_point(|id| self.publisher.known[*id].published <= at);
        // One of the messages that were published is the last one.
        let is_end = |end: usize| kept[end.saturating_sub(LENGTH)..end] == *found;
        if !(promised..=published).any(is_end) {
            return wrong(
                Check::NothingLost,
                format!("kept are {found:?}, and of {kept:?} {promised} are promised, {published} published"),
            );
        }
        Ok(())
    }
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let arguments = FieldTable::new().with("x-recent-history-length", LENGTH as i64);
    let client = &mut world.links[script.link].amqp091().client;
    client.declare_exchange(CHANNEL, EXCHANGE.as_bytes(), "x-recent-history", true, &arguments);
    script.reply(world, "exchange.declare-ok")?;
    let publisher = PipelinedPublisher::start(world)?;
    let (sent, bound) = (Vec::new(), Vec::new());
    let mut trace = Trace { range: disk.count()..Stamp::MAX, disk, publisher, sent, bound };
    while trace.bound.len() < BINDS {
        for _ in 0..world.random.below(BETWEEN) {
            trace.publish(world);
            for _ in 0..world.random.below(30) {
                trace.publisher.step(world)?;
            }
        }
        trace.bind(world, &script)?;
    }
    trace.publisher.rest(world)?;
    trace.range.end = trace.disk.count();
    judge(&trace, trace.range.end, world)?;
    Ok(trace)
}

/// Looks at all queues, and at the messages that another one gets.
fn judge(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let script = Script::start(world)?;
    for bound in trace.bound.iter().filter(|bound| bound.answered <= at) {
        let found = drain(world, &script, &bound.name)?;
        trace.check_queue(bound, at, &found)?;
    }
    declare_queue(world, &script, "late", true)?;
    ask_bind(world, &script, "late");
    script.reply(world, "queue.bind-ok")?;
    let found = drain(world, &script, "late")?;
    trace.check_history(at, &found)
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
fn a_bound_queue_has_the_last_messages_after_any_crash() {
    cuts::assert_survived(&[(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5)], cut);
}

#[test]
fn planted_bugs_of_recent_history_are_caught() {
    let bugs = [Bug::Broker(broker::Bug::BindBeforeHistory), Bug::Broker(broker::Bug::SkipStoredHistory)];
    cuts::assert_caught(&bugs, 1..5, |seed| cut(seed, 3));
}
