//! The power goes after every change of the disk while clients commit transactions over several queues: of each one
//! everything is there afterwards or nothing, and everything if it was answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::FieldTable;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::QueueDeclare;

const TARGETS: [&str; 3] = ["t0", "t1", "t2"];
const SOURCE: &str = "source";
const TRANSACTIONS: u64 = 60;

/// How many changes the disk had seen.
type Stamp = usize;

/// What the client knows of transaction n, which puts message n into every target and settles message n of the source.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    asked: Stamp,
    committed: Option<Stamp>,
    rolled_back: bool,
}

struct Trace {
    disk: Arc<SimDisk>,
    known: Vec<Known>,
    /// When the source was filled and all were declared.
    ready: Stamp,
}

fn publish(world: &mut World, link: usize, queue: &str, id: u64, length: usize) {
    let body = body(id, length);
    world.links[link].amqp091().client.publish(CHANNEL, b"", queue.as_bytes(), true, &properties(id, true), &body);
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    for queue in TARGETS.iter().chain(&[SOURCE, "other"]) {
        world.links[script.link].amqp091().client.declare_queue(CHANNEL, queue.as_bytes(), flags, &FieldTable::new());
        script.until(world, |heard| matches!(heard, leveret_sim::amqp091::Heard::Declared(..)).then_some(()))?;
    }
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(world, "tx.select-ok")?;
    for id in 0..TRANSACTIONS {
        publish(world, script.link, SOURCE, id, 50);
    }
    world.links[script.link].amqp091().client.tx_commit(CHANNEL);
    script.reply(world, "tx.commit-ok")?;
    let ready = disk.count();

    let other = Script::start(world)?;
    let mut known = Vec::new();
    for id in 0..TRANSACTIONS {
        let source = script.get(world, SOURCE, true)?.expect("the source is long enough");
        assert_eq!(body::id(&source.content.body), Some(id));
        // Others fill the log's buffer, so that batches end within groups.
        for _ in 0..world.random.below(4) {
            publish(world, other.link, "other", id, 9_000);
        }
        for queue in TARGETS {
            let length = [20, 2_000, 9_000, 30_000][world.random.below(4) as usize];
            publish(world, script.link, queue, id, length);
        }
        let client = &mut world.links[script.link].amqp091().client;
        client.ack(CHANNEL, source.tag, false);
        let mut know = Known { asked: disk.count(), ..Known::default() };
        if id % 8 == 7 {
            client.tx_rollback(CHANNEL);
            script.reply(world, "tx.rollback-ok")?;
            know.rolled_back = true;
            // As before the transaction.
            world.links[script.link].amqp091().client.nack(CHANNEL, source.tag, false, false);
            world.links[script.link].amqp091().client.tx_commit(CHANNEL);
            script.reply(world, "tx.commit-ok")?;
        } else {
            client.tx_commit(CHANNEL);
            script.reply(world, "tx.commit-ok")?;
            know.committed = Some(disk.count());
        }
        known.push(know);
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
    let targets = TARGETS.map(|queue| numbers(&script, &mut world, queue));
    let (mut there, mut away) = (0, 0);
    for (id, known) in (0..).zip(&trace.known) {
        let found = targets.each_ref().map(|target| target.contains(&id));
        assert!(found.iter().all(|is_there| *is_there == found[0]), "transaction {id} is there in part: {found:?}");
        if known.rolled_back || known.asked > at {
            assert!(!found[0], "transaction {id} was never committed, and is there");
            assert!(known.rolled_back || source.contains(&id), "message {id} of the source is gone");
            continue;
        }
        assert_eq!(source.contains(&id), !found[0], "of transaction {id} there is only half");
        if known.committed.is_some_and(|committed| committed <= at) {
            assert!(found[0], "transaction {id} was answered and is gone");
        }
        if found[0] { there += 1 } else { away += 1 }
    }
    (there, away)
}

#[test]
fn every_transaction_is_whole_or_away_after_any_power_cut() {
    for seed in [1, 2] {
        let trace = trace(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
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
