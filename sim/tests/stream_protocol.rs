//! Power cuts after every change of the disk while clients of the stream protocol publish, break off, and send again what they don't
//! know to be there. Each message of a named publisher is in the stream once and in its place, however often it was sent; each
//! confirmed message is there; readers of both protocols see the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted as broker;
use leveret_log as log;
use leveret_queue::planted as queue;
use leveret_sim::amqp10::message;
use leveret_sim::amqp091;
use leveret_sim::amqp091::script::CHANNEL;
use leveret_sim::body::{self, body, properties};
use leveret_sim::clock::Clock;
use leveret_sim::cuts;
use leveret_sim::disk::SimDisk;
use leveret_sim::event_hash::EventHash;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::life;
use leveret_sim::planted::Bug;
use leveret_sim::random::Random;
use leveret_sim::stream_protocol::script::StreamScript;
use leveret_sim::streams::extent;
use leveret_sim::tally::Tally;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::{Consume, Publication};

const STREAM: &str = "orders";
/// The publisher whose connection breaks again and again.
const BROKEN: &str = "web";
/// A publisher beside it.
const STEADY: &str = "till";
const NAMED: [&str; 2] = [BROKEN, STEADY];
/// The name under which a consumer stores its place.
const READER: &str = "invoices";
const ROUNDS: u64 = 40;

/// Ids of the steady connection's publishers.
const STEADY_ID: u8 = 1;
const UNNAMED_ID: u8 = 2;
const BROKEN_ID: u8 = 0;

/// Time between records of an offset.
const OFFSETS_NS: u64 = 50_000_000;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The clients' knowledge of one message.
#[derive(Clone, Debug)]
struct Known {
    published: Stamp,
    /// `Stamp::MAX` until it is.
    confirmed: Stamp,
    /// Its named publisher and its number there.
    number: Option<(&'static str, u64)>,
    length: usize,
}

/// The clients' knowledge, and the disk.
struct Trace {
    disk: Arc<SimDisk>,
    /// By id.
    known: Vec<Known>,
    /// The offsets that were stored, when that was asked, and when a message was confirmed that was published behind the answer.
    offsets: Vec<(u64, Stamp, Stamp)>,
    ready: Stamp,
    now_ms: u64,
}

fn wrong<T>(detail: String) -> Result<T, Failure> {
    Err(Failure::new(Check::NothingLost, detail))
}

/// A message as AMQP 1.0 encodes it.
fn encoded(id: usize, length: usize) -> Vec<u8> {
    message::encode(id as u64, length, true, None)
}

/// The clients of a trace.
struct Clients {
    broken: StreamScript,
    steady: StreamScript,
    other: amqp091::script::Script,
    random: Random,
    known: Vec<Known>,
    /// The next number of each named publisher.
    next: BTreeMap<&'static str, u64>,
}

impl Clients {
    fn start(world: &mut World, seed: u64) -> Result<Self, Failure> {
        let (mut broken, mut steady) = (StreamScript::start(world)?, StreamScript::start(world)?);
        steady.create(world, STREAM, &[])?;
        steady.publisher(world, STEADY_ID, STEADY, STREAM)?;
        steady.publisher(world, UNNAMED_ID, "", STREAM)?;
        broken.publisher(world, BROKEN_ID, BROKEN, STREAM)?;
        let other = amqp091::script::Script::start(world)?;
        world.links[other.link].amqp091().client.confirm_select(CHANNEL);
        other.reply(world, "confirm.select-ok")?;
        let next = NAMED.into_iter().map(|name| (name, 1)).collect();
        Ok(Self { broken, steady, other, random: Random::new(seed), known: Vec::new(), next })
    }

    /// Notes messages that are about to be published; returns their ids.
    fn note(&mut self, world: &World, count: u64, name: Option<&'static str>) -> std::ops::Range<usize> {
        let first = self.known.len();
        for _ in 0..count {
            let number = name.map(|name| {
                let next = self.next.get_mut(name).expect("it is known");
                *next += 1;
                (name, *next - 1)
            });
            let length = [20, 300, 2_000][self.random.below(3) as usize];
            self.known.push(Known { published: world.disk.count(), confirmed: Stamp::MAX, number, length });
        }
        first..self.known.len()
    }

    fn messages(&self, ids: std::ops::Range<usize>) -> Vec<Vec<u8>> {
        ids.map(|id| encoded(id, self.known[id].length)).collect()
    }

    fn are_confirmed(&mut self, world: &World, ids: std::ops::Range<usize>) {
        let at = world.disk.count();
        self.known[ids].iter_mut().for_each(|known| known.confirmed = known.confirmed.min(at));
    }

    /// The steady connection publishes with a name and without one, and waits for its confirms.
    fn steady_round(&mut self, world: &mut World) -> Result<(), Failure> {
        // A publisher may leave out numbers.
        *self.next.get_mut(STEADY).expect("it is known") += self.random.below(3);
        let count = 1 + self.random.below(4);
        let named = self.note(world, count, Some(STEADY));
        let unnamed = self.note(world, count, None);
        let (first, messages) = (self.number(named.start), self.messages(named.clone()));
        let others = self.messages(unnamed.clone());
        let last = first + count - 1;
        // A message that it sends twice at once is confirmed twice, and isn't safe before it is on disk.
        let again = self.random.below(3) == 0;
        let asks = self.random.below(3) == 0;
        let end = world.links[self.steady.link].stream();
        end.publish(STEADY_ID, first, &messages);
        if again {
            end.publish(STEADY_ID, last, &messages[messages.len() - 1..]);
        }
        if asks {
            // Its messages came before the question.
            let told = self.steady.sequence(world, STEADY, STREAM)?;
            if told != last {
                return wrong(format!("{STEADY} is told {told} behind {last}"));
            }
        }
        world.links[self.steady.link].stream().publish(UNNAMED_ID, unnamed.start as u64, &others);
        self.steady.confirmed(world, STEADY_ID, last)?;
        self.are_confirmed(world, named);
        self.steady.confirmed(world, UNNAMED_ID, unnamed.end as u64 - 1)?;
        self.are_confirmed(world, unnamed);
        Ok(())
    }

    fn number(&self, id: usize) -> u64 {
        self.known[id].number.expect("it has a name").1
    }

    /// A message over AMQP 0-9-1.
    fn other_round(&mut self, world: &mut World) -> Result<(), Failure> {
        let ids = self.note(world, 1, None);
        let (id, length) = (ids.start as u64, self.known[ids.start].length);
        let client = &mut world.links[self.other.link].amqp091().client;
        let tag = client.publish(
            CHANNEL,
            Publication::to_queue(STREAM.as_bytes(), &body(id, length)).with(&properties(id, true)).mandatory(),
        );
        self.other.until(world, |heard| match heard {
            amqp091::Heard::Confirmed { last, positive: true, .. } if last >= tag => Some(()),
            _ => None,
        })?;
        self.are_confirmed(world, ids);
        Ok(())
    }

    /// A connection breaks behind its messages, wherever they are by then. Its client connects again and sends all that it doesn't know
    /// to be confirmed, or what is behind the number that the broker tells it.
    fn broken_round(&mut self, world: &mut World) -> Result<(), Failure> {
        let count = 1 + self.random.below(6);
        let ids = self.note(world, count, Some(BROKEN));
        let (first, messages) = (self.number(ids.start), self.messages(ids.clone()));
        world.links[self.broken.link].stream().publish(BROKEN_ID, first, &messages);
        for _ in 0..self.random.below(60) {
            world.step()?;
        }
        world.disconnect(self.broken.link);
        self.broken = StreamScript::start(world)?;
        self.broken.publisher(world, BROKEN_ID, BROKEN, STREAM)?;
        let last = first + count - 1;
        let mut from = first;
        if self.random.below(2) == 0 {
            from = 1 + self.broken.sequence(world, BROKEN, STREAM)?;
            if from < first || from > last + 1 {
                return wrong(format!("{BROKEN} is told {from} - 1, and {first} to {last} aren't confirmed"));
            }
        }
        if from <= last {
            let rest = &messages[(from - first) as usize..];
            world.links[self.broken.link].stream().publish(BROKEN_ID, from, rest);
            self.broken.confirmed(world, BROKEN_ID, last)?;
        }
        // A client doesn't send again what the broker told to be there.
        self.are_confirmed(world, ids);
        Ok(())
    }
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let mut clients = Clients::start(world, seed)?;
    let ready = disk.count();
    let mut offsets = Vec::new();
    for round in 0..ROUNDS {
        clients.broken_round(world)?;
        if round % 3 == 0 {
            clients.other_round(world)?;
        }
        let asked = disk.count();
        if round % 4 == 1 {
            let link = &mut world.links[clients.steady.link];
            link.stream().client.store_offset(READER, STREAM, round);
            match clients.steady.stored_offset(world, READER, STREAM)? {
                Some(found) if found == round => {}
                found => return wrong(format!("{READER} stored {round} and finds {found:?}")),
            }
            // Offsets are logged at most that often.
            let until = world.clock.nanos() + OFFSETS_NS;
            while world.clock.nanos() < until {
                world.step_until(until)?;
            }
        }
        clients.steady_round(world)?;
        if round % 4 == 1 {
            offsets.push((round, asked, disk.count()));
        }
    }
    let now_ms = world.clock.now().wall_ms;
    let (mut tally, mut hash) = (Tally::default(), EventHash::default());
    life::close_books(world, &mut tally, &mut hash);
    assert!(tally.count("retirements") > 0, "the trace crosses no retirement");
    Ok(Trace { disk, known: clients.known, offsets, ready, now_ms })
}

/// Offsets and ids of all messages, read over the stream protocol, and over AMQP 0-9-1 for comparison.
fn read_all(world: &mut World, trace: &Trace) -> Result<Vec<(u64, usize)>, Failure> {
    let Some((0, next, _)) = extent(world, STREAM) else {
        return wrong(format!("{STREAM} is there with {:?}", extent(world, STREAM)));
    };
    let count = next as usize;
    let mut script = StreamScript::start(world)?;
    let read = script.read(world, STREAM, count)?;
    world.disconnect(script.link);
    let mut found = Vec::with_capacity(count);
    for (offset, bytes) in read {
        let sections = Sections::parse(&bytes).expect("it is a message");
        let BodyRef::Data(data) = sections.body else { return wrong(format!("{offset} has another body")) };
        found.push((offset, id_of(trace, data.single().expect("it has one"))?));
    }
    if found.len() != count || !found.iter().zip(0..).all(|((offset, _), at)| *offset == at) {
        return wrong(format!("{count} messages are there, and read were {found:?}"));
    }
    let other = read_over_amqp091(world, trace, count)?;
    if other != found {
        return wrong(format!("over AMQP 0-9-1: {other:?}, over the stream protocol: {found:?}"));
    }
    Ok(found)
}

fn read_over_amqp091(world: &mut World, trace: &Trace, count: usize) -> Result<Vec<(u64, usize)>, Failure> {
    let mut found = Vec::new();
    if count == 0 {
        return Ok(found);
    }
    let script = amqp091::script::Script::start(world)?;
    let client = &mut world.links[script.link].amqp091().client;
    client.qos(CHANNEL, 1_000, false);
    let arguments = FieldTable::new().with(body::X_STREAM_OFFSET, FieldValue::LongString(b"first".to_vec()));
    client.consume(CHANNEL, STREAM.as_bytes(), b"reader", Consume::default(), &arguments);
    let mut result = Ok(());
    script.until(world, |heard| {
        if let amqp091::Heard::Delivered(received) = heard {
            match id_of(trace, &received.content.body) {
                Ok(id) => found.push((received.content.offset.expect("messages of streams have one"), id)),
                Err(failure) => result = Err(failure),
            }
        }
        (found.len() >= count || result.is_err()).then_some(())
    })?;
    world.disconnect(script.link);
    result.map(|()| found)
}

fn id_of(trace: &Trace, bytes: &[u8]) -> Result<usize, Failure> {
    let id = body::id(bytes).unwrap_or(u64::MAX) as usize;
    match trace.known.get(id) {
        Some(known) if bytes == body(id as u64, known.length) => Ok(id),
        known => wrong(format!("message {id} is damaged, of {known:?}")),
    }
}

/// Checks that no message is there twice, and those of each named publisher in the order of their numbers.
fn check_order(trace: &Trace, found: &[(u64, usize)]) -> Result<(), Failure> {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (offset, id) in found {
        if !ids.insert(*id) {
            return wrong(format!("message {id}, {:?}, is there again at {offset}", trace.known[*id]));
        }
        if let Some((name, number)) = trace.known[*id].number
            && last.insert(name, number).is_some_and(|last| last >= number)
        {
            return wrong(format!("{name}: {number} at {offset} is behind a later one"));
        }
    }
    Ok(())
}

/// Starts after a power cut, reads everything, lets the publishers send everything again, and judges both.
fn judge(trace: &Trace, at: Stamp, disk: SimDisk, seed: u64) -> Result<(), Failure> {
    let (mut world, _) = World::start_at(Clock::at(trace.now_ms), Arc::new(disk), small_log(), seed)?;
    let world = &mut world;
    let found = read_all(world, trace)?;
    check_order(trace, &found)?;
    let ids: BTreeSet<usize> = found.iter().map(|(_, id)| *id).collect();
    for (id, known) in trace.known.iter().enumerate() {
        let is_there = ids.contains(&id);
        if !is_there && known.confirmed <= at || is_there && known.published > at {
            return wrong(format!("message {id} is there: {is_there}, and was {known:?}"));
        }
    }
    judge_offset(trace, at, world)?;
    let mut script = StreamScript::start(world)?;
    for (publisher, name) in (0..).zip(NAMED) {
        let numbers = ids.iter().filter_map(|id| trace.known[*id].number).filter(|(of, _)| *of == name);
        let highest = numbers.map(|(_, number)| number).max().unwrap_or(0);
        let told = script.sequence(world, name, STREAM)?;
        if told != highest {
            return wrong(format!("{name} is told {told}, and {highest} is the highest of its numbers in the stream"));
        }
        script.publisher(world, publisher, name, STREAM)?;
        let mut last = 0;
        for (id, known) in trace.known.iter().enumerate() {
            let Some((_, number)) = known.number.filter(|(of, _)| *of == name) else { continue };
            world.links[script.link].stream().publish(publisher, number, &[encoded(id, known.length)]);
            last = number;
        }
        script.confirmed(world, publisher, last)?;
    }
    let found = read_all(world, trace)?;
    check_order(trace, &found)?;
    let ids: BTreeSet<usize> = found.iter().map(|(_, id)| *id).collect();
    match (0..).zip(&trace.known).find(|(id, known)| known.number.is_some() && !ids.contains(id)) {
        Some((id, known)) => wrong(format!("message {id}, {known:?}, was sent again and confirmed, and isn't there")),
        None => Ok(()),
    }
}

/// The stored offset is the last one before a confirmed message, or a later one.
fn judge_offset(trace: &Trace, at: Stamp, world: &mut World) -> Result<(), Failure> {
    let mut script = StreamScript::start(world)?;
    let found = script.stored_offset(world, READER, STREAM)?;
    world.disconnect(script.link);
    let least = trace.offsets.iter().filter(|(_, _, confirmed)| *confirmed <= at).map(|(offset, ..)| *offset).max();
    let most = trace.offsets.iter().filter(|(_, asked, _)| *asked <= at).map(|(offset, ..)| *offset).max();
    if found < least || found > most {
        return wrong(format!("{READER} finds {found:?}, and stored at least {least:?} and at most {most:?}"));
    }
    Ok(())
}

/// Cuts the power at every `every`th change of a trace; returns the number of cuts.
fn cut(seed: u64, every: usize) -> Result<usize, Failure> {
    let trace = trace(seed)?;
    cuts::cut(&trace.disk, trace.ready, (seed, every), |at, survived| judge(&trace, at, survived, seed))
}

#[test]
fn nothing_is_lost_or_doubled_after_a_cut_at_every_change() {
    let cuts = cut(1, 1).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{cuts} power cuts");
}

#[test]
fn nothing_is_lost_or_doubled_after_cuts_in_several_traces() {
    for seed in 2..8 {
        let cuts = cut(seed, 9).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed}: {cuts} power cuts");
    }
}

/// A member of a group that doesn't answer that it is active holds it up for a minute, as in RabbitMQ; then its connection is closed.
#[test]
fn a_group_goes_on_without_a_member_that_doesnt_answer() {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), 1).expect("a world");
    let world = &mut world;
    let mut run = || -> Result<(), Failure> {
        let mut members = [StreamScript::start(world)?, StreamScript::start(world)?];
        members[0].create(world, STREAM, &[])?;
        members[0].join(world, STREAM, READER)?;
        members[0].active(world)?;
        let told = world.clock.nanos();
        members[1].join(world, STREAM, READER)?;
        while world.clock.nanos() < told + 59 * SECOND {
            world.step_until(told + 59 * SECOND)?;
        }
        assert!(!world.links[members[0].link].has_ended(), "it has a minute");
        members[1].active(world)?;
        assert!(world.links[members[0].link].has_ended() && world.clock.nanos() < told + 61 * SECOND);
        Ok(())
    };
    run().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn planted_bugs_of_the_stream_protocol_are_caught() {
    let bugs = [
        Bug::Broker(broker::Bug::ConfirmChunkEarly),
        Bug::Broker(broker::Bug::ConfirmRepeatEarly),
        Bug::Queue(queue::Bug::ForgetSequences),
        Bug::Queue(queue::Bug::ForgetWriters),
        Bug::Log(log::Bug::SkipSync),
    ];
    cuts::assert_caught(&bugs, 0..8, |seed| cut(seed, 3));
}
