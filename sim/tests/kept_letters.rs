//! Power cuts after every change of the disk while a queue keeps dead letters that no queue takes: none is lost, none is ready again
//! once it was durable that it waits, and each leaves once there is a queue for it.
#![cfg(feature = "planted-bugs")]

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_queue::planted::{Bug, plant};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "keeps";
/// The queue that takes the dead letters, once it is there.
const TARGET: &str = "takes";
const MESSAGES: u64 = 60;
/// Longest time until dead letters are tried again, and a little more.
const RETRY_MS: u64 = 31_000;
/// Properties with delivery mode 2.
const PERSISTENT: [u8; 3] = [0x10, 0, 2];

/// Number of changes that the disk had seen.
type Stamp = usize;

struct Trace {
    disk: Arc<SimDisk>,
    ready: Stamp,
    /// The stamps by which messages were confirmed, by number.
    confirmed: Vec<Stamp>,
    /// Rejected messages, and the stamps from which on it is durable that they wait.
    waiting: Vec<(u64, Stamp)>,
}

fn declare(world: &mut World, script: &Script, queue: &str, arguments: &[(&str, &str)]) -> Result<(), Failure> {
    let mut table = FieldTable::new();
    for (key, value) in arguments {
        table.insert(*key, FieldValue::LongString(value.as_bytes().to_vec()));
    }
    script.declare(world, queue, &table)
}

/// Advances time; the cores meanwhile do the work that is due.
fn pass(world: &mut World, ms: u64) -> Result<(), Failure> {
    let until = world.clock.nanos() + ms * 1_000_000;
    while world.clock.nanos() < until {
        let left = until - world.clock.nanos();
        world.clock.advance(left.min(250_000_000));
        for _ in 0..20 {
            world.step()?;
        }
    }
    Ok(())
}

/// Publishes messages, one after the other, and meanwhile rejects some.
fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let arguments = [
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", ""),
        ("x-dead-letter-routing-key", TARGET),
        ("x-dead-letter-strategy", "at-least-once"),
    ];
    declare(world, &script, QUEUE, &arguments)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let (ready, mut confirmed, mut waiting) = (disk.count(), Vec::new(), Vec::new());
    for id in 0..MESSAGES {
        let mut rejected = Vec::new();
        for _ in 0..world.random.below(3) {
            let Some(received) = script.get(world, QUEUE, true)? else { break };
            world.links[script.link].amqp091().client.nack(CHANNEL, received.tag, false, false);
            rejected.push(body::id(&received.content.body).expect("it is one of ours"));
        }
        // They are tried in vain.
        pass(world, 500)?;
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        let client = &mut world.links[script.link].amqp091().client;
        let last = client
            .publish(CHANNEL, Publication::to_queue(QUEUE.as_bytes(), &body(id, length)).with(&PERSISTENT).mandatory());
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        confirmed.push(disk.count());
        // Their records precede the message that was published after them.
        waiting.extend(rejected.into_iter().map(|id| (id, disk.count())));
    }
    Ok(Trace { ready, disk: disk.clone(), confirmed, waiting })
}

fn drain(script: &Script, world: &mut World, queue: &str) -> Vec<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{failure}"));
    found.iter().filter_map(|received| body::id(&received.content.body)).collect()
}

/// Checks one moment. Returns how many messages were ready, and how many left for the other queue.
fn judge(trace: &Trace, at: Stamp, moment: &SimDisk, seed: u64) -> Result<(usize, usize), String> {
    let started = World::start(Arc::new(moment.crash(seed)), small_log(), seed);
    let (mut world, _) = started.map_err(|failure| failure.to_string())?;
    let script = Script::start(&mut world).map_err(|failure| failure.to_string())?;
    let ready = drain(&script, &mut world, QUEUE);
    if let Some((id, durable)) = trace.waiting.iter().find(|(id, durable)| *durable <= at && ready.contains(id)) {
        return Err(format!("message {id} is ready again, but waits since change {durable}"));
    }
    let taken = declare(&mut world, &script, TARGET, &[]).and_then(|()| pass(&mut world, RETRY_MS));
    taken.map_err(|failure| failure.to_string())?;
    let moved = drain(&script, &mut world, TARGET);
    let all: BTreeSet<u64> = ready.iter().chain(&moved).copied().collect();
    let lost = (0..).zip(&trace.confirmed).find(|(id, confirmed)| **confirmed <= at && !all.contains(id));
    match lost {
        Some((id, _)) => Err(format!("message {id} is lost")),
        None if all.len() < ready.len() + moved.len() => Err("a message is there twice".to_owned()),
        None => Ok((ready.len(), moved.len())),
    }
}

/// Cuts the power after every change. Returns numbers of cuts, of ready messages and of moved ones.
fn judge_all(seed: u64) -> Result<(usize, usize, usize), String> {
    let trace = trace(seed).map_err(|failure| failure.to_string())?;
    let mut sums = (0, 0, 0);
    for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
        let (ready, moved) = judge(&trace, at, &moment, seed << 32 | at as u64)
            .map_err(|error| format!("seed {seed}, power cut after change {at}: {error}"))?;
        sums = (sums.0 + 1, sums.1 + ready, sums.2 + moved);
    }
    Ok(sums)
}

#[test]
fn kept_dead_letters_wait_after_any_power_cut() {
    let (cuts, ready, moved) = judge_all(1).unwrap_or_else(|error| panic!("{error}"));
    println!("{cuts} power cuts, {ready} messages ready, {moved} moved");
    assert!(cuts > 50 && ready > 300 && moved > 300, "{cuts} cuts, {ready} ready, {moved} moved");
}

#[test]
fn a_crash_that_forgets_them_is_noticed() {
    plant(Some(Bug::ForgetDying));
    let judged = judge_all(1);
    plant(None);
    let error = judged.expect_err("dead letters are ready again after a restart");
    assert!(error.contains("is ready again"), "{error}");
}
