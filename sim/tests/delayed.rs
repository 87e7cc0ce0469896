//! Power cuts after every change of the disk while returned messages are delayed, or published ones: none is ready before its time once
//! its delay was durable, and each is ready after it, whatever the checkpoints and the log have of it.
#![cfg(feature = "planted-bugs")]

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_queue::planted::{Bug, plant};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body};
use leveret_sim::clock::Clock;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "retries";
/// A second queue, which gets every published message as well: these are stored in the shared log.
const OTHER: &str = "copies";
/// Bound to both.
const EXCHANGE: &str = "amq.fanout";
const DELAY_MS: u64 = 4_000;
const MESSAGES: u64 = 80;
/// Properties with delivery mode 2.
const PERSISTENT: [u8; 3] = [0x10, 0, 2];

/// The messages that are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A consumer gave them back.
    Returned,
    /// Their publisher asked for it. They are in one queue.
    Published,
    /// Likewise. They are in two queues.
    Shared,
}

/// Number of changes that the disk had seen.
type Stamp = usize;

/// A delay of a message.
#[derive(Clone, Copy, Debug)]
struct Delay {
    id: u64,
    /// It isn't due before this wall time, in milliseconds.
    earliest_ms: u64,
    /// From this stamp on it was durable.
    durable: Stamp,
}

struct Trace {
    disk: Arc<SimDisk>,
    ready: Stamp,
    start_ms: u64,
    /// The stamps by which messages were confirmed, by number.
    confirmed: Vec<Stamp>,
    delays: Vec<Delay>,
    /// Disk changes and wall time, both ascending.
    times: Vec<(Stamp, u64)>,
}

fn declare(world: &mut World, script: &Script, kind: Kind) -> Result<(), Failure> {
    let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", text("quorum"));
    if kind == Kind::Returned {
        arguments.insert("x-delayed-retry-type", text("returned"));
        arguments.insert("x-delayed-retry-min", FieldValue::I32(DELAY_MS as i32));
    }
    script.declare(world, QUEUE, &arguments)?;
    script.declare(world, OTHER, &arguments)?;
    for queue in [QUEUE, OTHER] {
        let client = &mut world.links[script.link].amqp091().client;
        client.bind_queue(CHANNEL, queue.as_bytes(), EXCHANGE.as_bytes(), b"", &FieldTable::new());
        script.reply(world, "queue.bind-ok")?;
    }
    Ok(())
}

/// Advances wall time; the cores meanwhile do the work that is due.
fn pass(world: &mut World, ms: u64) -> Result<(), Failure> {
    let until = world.clock.nanos() + ms * 1_000_000;
    while world.clock.nanos() < until {
        let left = until - world.clock.nanos();
        world.clock.advance(left.min(50_000_000));
        for _ in 0..20 {
            world.step()?;
        }
    }
    Ok(())
}

/// Returns up to two messages. Each is delayed then: its id and time.
fn return_some(world: &mut World, script: &Script, delays: &[Delay]) -> Result<Vec<(u64, u64)>, Failure> {
    let mut returned = Vec::new();
    for _ in 0..world.random.below(3) {
        let Some(received) = script.get(world, QUEUE, true)? else { break };
        let found = body::id(&received.content.body).expect("it is one of ours");
        let now_ms = world.clock.now().wall_ms;
        let last = delays.iter().rfind(|delay| delay.id == found);
        assert!(last.is_none_or(|delay| delay.earliest_ms <= now_ms), "message {found} is ready too early");
        world.links[script.link].amqp091().client.nack(CHANNEL, received.tag, false, true);
        returned.push((found, now_ms + DELAY_MS));
    }
    Ok(returned)
}

/// Publishes messages, one after the other, and meanwhile delays some.
fn trace(seed: u64, kind: Kind) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let start_ms = world.clock.now().wall_ms;
    let script = Script::start(world)?;
    declare(world, &script, kind)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let (ready, mut times) = (disk.count(), Vec::new());
    let (mut confirmed, mut delays) = (Vec::new(), Vec::<Delay>::new());
    for id in 0..MESSAGES {
        let mut delayed = Vec::new();
        let mut properties = PERSISTENT.to_vec();
        if kind == Kind::Returned {
            delayed = return_some(world, &script, &delays)?;
        } else if world.random.below(3) > 0 {
            let due_ms = world.clock.now().wall_ms + DELAY_MS / 2 + world.random.below(4 * DELAY_MS);
            properties = body::timed_properties(2 * id, true, due_ms);
            delayed.push((id, due_ms));
        }
        let (exchange, key) = if kind == Kind::Shared { (EXCHANGE, "") } else { ("", QUEUE) };
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        let client = &mut world.links[script.link].amqp091().client;
        let last = client.publish(
            CHANNEL,
            Publication::to(exchange.as_bytes(), key.as_bytes(), &body(id, length)).with(&properties).mandatory(),
        );
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        confirmed.push(disk.count());
        // The delays are in the log before the message that was published after them.
        let durable = disk.count();
        delays.extend(delayed.into_iter().map(|(id, earliest_ms)| Delay { id, earliest_ms, durable }));
        if world.random.below(3) == 0 {
            let ms = world.random.below(700);
            pass(world, ms)?;
        }
        times.push((disk.count(), world.clock.now().wall_ms));
    }
    Ok(Trace { ready, disk: disk.clone(), start_ms, confirmed, delays, times })
}

fn drain(script: &Script, world: &mut World, queue: &str) -> Vec<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{failure}"));
    found.iter().filter_map(|received| body::id(&received.content.body)).collect()
}

/// Checks one moment. Returns how many messages were ready, and how many delayed.
fn judge(trace: &Trace, at: Stamp, moment: &SimDisk, seed: u64, queue: &str) -> Result<(usize, usize), String> {
    let wall_ms = trace.times.iter().rfind(|(stamp, _)| *stamp <= at).map_or(trace.start_ms, |(_, wall_ms)| *wall_ms);
    let started = World::start_at(Clock::at(wall_ms), Arc::new(moment.crash(seed)), small_log(), seed);
    let (mut world, _) = started.map_err(|failure| failure.to_string())?;
    let script = Script::start(&mut world).map_err(|failure| failure.to_string())?;
    let first = drain(&script, &mut world, queue);
    let now_ms = world.clock.now().wall_ms;
    for (id, confirmed) in (0..).zip(&trace.confirmed) {
        let last = trace.delays.iter().rfind(|delay| delay.id == id && delay.durable <= at);
        let waits = last.is_some_and(|delay| delay.earliest_ms > now_ms);
        if waits && *confirmed <= at && first.contains(&id) {
            return Err(format!("message {id} is ready, but delayed: {last:?}, now {now_ms}"));
        }
    }
    // Wall time may have been further than it is now when the last ones were delayed.
    let latest_ms = trace.times.last().map_or(trace.start_ms, |(_, wall_ms)| *wall_ms);
    pass(&mut world, latest_ms - wall_ms + 5 * DELAY_MS).map_err(|failure| failure.to_string())?;
    let later = drain(&script, &mut world, queue);
    let all: BTreeSet<u64> = first.iter().chain(&later).copied().collect();
    let lost = (0..).zip(&trace.confirmed).find(|(id, confirmed)| **confirmed <= at && !all.contains(id));
    match lost {
        Some((id, _)) => Err(format!("message {id} is lost")),
        None if all.len() < first.len() + later.len() => Err("a message came twice".to_owned()),
        None => Ok((first.len(), later.len())),
    }
}

/// Cuts the power after every change. Returns numbers of cuts, of ready and of delayed messages.
fn judge_all(seed: u64, kind: Kind) -> Result<(usize, usize, usize), String> {
    let trace = trace(seed, kind).map_err(|failure| failure.to_string())?;
    let mut sums = (0, 0, 0);
    for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
        let (first, later) =
            judge(&trace, at, &moment, seed << 32 | at as u64, if kind == Kind::Shared { OTHER } else { QUEUE })
                .map_err(|error| format!("seed {seed}, power cut after change {at}: {error}"))?;
        sums = (sums.0 + 1, sums.1 + first, sums.2 + later);
    }
    Ok(sums)
}

#[test]
fn a_delay_is_exact_after_any_power_cut() {
    for (seed, kind) in [(1, Kind::Returned), (2, Kind::Returned), (1, Kind::Published), (1, Kind::Shared)] {
        let (cuts, first, later) = judge_all(seed, kind).unwrap_or_else(|error| panic!("{error}"));
        println!("seed {seed}, {kind:?}: {cuts} power cuts, {first} messages ready, {later} delayed");
        assert!(cuts > 100 && first > 1_000 && later > 300, "{cuts} cuts, {first} ready, {later} delayed");
    }
}

#[test]
fn a_timer_that_a_crash_loses_is_noticed() {
    for kind in [Kind::Returned, Kind::Published, Kind::Shared] {
        plant(Some(Bug::LoseTimers));
        let judged = judge_all(1, kind);
        plant(None);
        let error = judged.expect_err("messages are ready too early after a restart");
        assert!(error.contains("is ready, but delayed"), "{error}");
    }
}
