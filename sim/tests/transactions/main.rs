//! Power cuts after every change of the disk while clients commit transactions over several queues: afterwards each
//! transaction is there as a whole or not at all, and as a whole if it was answered. For both protocols.

mod amqp091;
mod amqp10;
mod client;

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

use client::{Client, Fate};

/// The queues that transactions publish to.
pub(crate) const TARGETS: [&str; 3] = ["t0", "t1", "t2"];
/// The queue that transactions take from; messages rejected there go to `DEAD`.
pub(crate) const SOURCE: &str = "source";
pub(crate) const DEAD: &str = "dead";

const TRANSACTIONS: u64 = 60;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The client's knowledge of transaction n, which puts message n into every target and settles message n of the source.
#[derive(Clone, Copy, Debug)]
struct Known {
    asked: Stamp,
    committed: Option<Stamp>,
    /// The settlement; none if it was rolled back.
    fate: Option<Fate>,
}

struct Trace {
    disk: Arc<SimDisk>,
    known: Vec<Known>,
    /// The stamp at which the source was filled and everything was declared.
    ready: Stamp,
}

fn declare(world: &mut World, script: &Script, queue: &str) -> Result<(), Failure> {
    let mut arguments = FieldTable::new();
    if queue == SOURCE {
        let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
        arguments.insert("x-dead-letter-exchange", text(""));
        arguments.insert("x-dead-letter-routing-key", text(DEAD));
    }
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    world.links[script.link].amqp091().client.declare_queue(CHANNEL, queue.as_bytes(), flags, &arguments);
    script.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))
}

fn trace<C: Client>(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let other = Script::start(world)?;
    for queue in TARGETS.iter().chain(&[SOURCE, DEAD, "other"]) {
        declare(world, &other, queue)?;
    }
    let mut client = C::start(world)?;
    for id in 0..TRANSACTIONS {
        client.publish(world, SOURCE, id, 50)?;
    }
    client.commit(world, None)?;
    let ready = disk.count();
    let mut known = Vec::new();
    for id in 0..TRANSACTIONS {
        assert_eq!(client.take(world)?, id);
        // Other publishes fill the log's buffer, so that batches end within groups.
        for _ in 0..world.random.below(4) {
            let other = &mut world.links[other.link].amqp091().client;
            other.publish(
                CHANNEL,
                Publication::to_queue(b"other", &body(id, 9_000)).with(&properties(id, true)).mandatory(),
            );
        }
        for queue in TARGETS {
            let length = [20, 2_000, 9_000, 30_000][world.random.below(4) as usize];
            client.publish(world, queue, id, length)?;
        }
        let asked = disk.count();
        let fate = match id % 8 {
            7 => None,
            3 => Some(Fate::Rejected),
            _ => Some(Fate::Accepted),
        };
        if fate.is_some() {
            client.commit(world, fate)?;
        } else {
            client.roll_back(world)?;
        }
        known.push(Known { asked, committed: fate.map(|_| disk.count()), fate });
        other.drain(world, "other")?;
    }
    Ok(Trace { disk, known, ready })
}

/// The messages of a queue by their numbers.
fn numbers(script: &Script, world: &mut World, queue: &str) -> BTreeSet<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    let numbers: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{queue}: out of order, or twice: {numbers:?}");
    for received in &found {
        let id = body::id(&received.content.body).expect("it was counted");
        assert_eq!(received.content.body, body(id, received.content.body.len()), "{queue}: message {id} is damaged");
    }
    numbers.into_iter().collect()
}

fn judge(trace: &Trace, at: Stamp, crashed: SimDisk, seed: u64) -> (u64, u64) {
    let (mut world, _) =
        World::start(Arc::new(crashed), small_log(), seed).unwrap_or_else(|failure| panic!("{failure}"));
    let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
    let source = numbers(&script, &mut world, SOURCE);
    let dead = numbers(&script, &mut world, DEAD);
    let targets = TARGETS.map(|queue| numbers(&script, &mut world, queue));
    let (mut there, mut away) = (0, 0);
    for (id, known) in (0..).zip(&trace.known) {
        let found = targets.each_ref().map(|target| target.contains(&id));
        assert!(found.iter().all(|is_there| *is_there == found[0]), "transaction {id} is there in part: {found:?}");
        let (left, died) = (!source.contains(&id), dead.contains(&id));
        let Some(fate) = known.fate.filter(|_| known.asked <= at) else {
            assert!(!found[0] && !died, "transaction {id} was never committed, and is there");
            assert!(known.fate.is_none() || !left, "message {id} of the source is gone");
            continue;
        };
        match fate {
            Fate::Accepted => assert!(left == found[0] && !died, "of transaction {id} there is only half"),
            // The move follows as a step of its own.
            Fate::Rejected => {
                assert_eq!(left, died, "message {id} is nowhere, or at both places");
                assert!(found[0] || !died, "of transaction {id} there is only the rejection");
            }
        }
        if known.committed.is_some_and(|committed| committed <= at) {
            assert!(found[0] && left, "transaction {id} was answered and is gone");
        }
        if found[0] { there += 1 } else { away += 1 }
    }
    (there, away)
}

fn cut_everywhere<C: Client>() {
    for seed in [1, 2] {
        let trace = trace::<C>(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let (mut cuts, mut undecided) = (0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            cuts += 1;
            let crash_seed = seed << 32 | at as u64;
            let crashed = moment.crash(crash_seed);
            let judged = std::panic::catch_unwind(|| judge(&trace, at, crashed, crash_seed));
            let (_, away) = judged.unwrap_or_else(|_| panic!("seed {seed}, power cut after change {at}"));
            undecided += away;
        }
        println!("seed {seed}: {cuts} power cuts, {undecided} times a transaction asked for was away");
        assert!(cuts > 100 && undecided > 10, "{cuts} cuts, {undecided} away");
    }
}

#[test]
fn every_transaction_is_whole_or_absent_after_any_power_cut() {
    cut_everywhere::<amqp091::Amqp091>();
}

#[test]
fn every_amqp10_transaction_is_whole_or_absent_after_any_cut() {
    cut_everywhere::<amqp10::Amqp10>();
}
