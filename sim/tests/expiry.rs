//! Power cuts after every change of the disk while messages expire: none comes back whose expiry was durable, and none
//! leaves before its time, whatever the checkpoints and the log have of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::queue_handle::Status;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body};
use leveret_sim::clock::Clock;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

/// The queue whose messages have a TTL of their own, or none.
const OWN: &str = "own";
/// The queue whose messages have the queue's TTL.
const ALL: &str = "all";
const QUEUES: [&str; 2] = [OWN, ALL];
const ALL_TTL_MS: u64 = 4_000;
const MESSAGES: u64 = 120;
/// Longest delay, in milliseconds, until an expired message leaves.
const LATE_MS: u64 = 1_000;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The knowledge of message n of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    published: Stamp,
    confirmed: Stamp,
    /// It expires between these, in milliseconds of wall time; none if it never does.
    expires: Option<(u64, u64)>,
    /// The stamp by which its expiry was durable.
    gone: Option<Stamp>,
}

struct Trace {
    disk: Arc<SimDisk>,
    known: [Vec<Known>; 2],
    ready: Stamp,
    start_ms: u64,
    /// Disk changes and wall time, both ascending.
    times: Vec<(Stamp, u64)>,
}

/// Properties with delivery mode 2 and this TTL.
fn properties(ttl_ms: Option<u64>) -> Vec<u8> {
    const DELIVERY_MODE: u16 = 1 << 12;
    const EXPIRATION: u16 = 1 << 8;
    let Some(ttl_ms) = ttl_ms else {
        let [high, low] = DELIVERY_MODE.to_be_bytes();
        return vec![high, low, 2];
    };
    let [high, low] = (DELIVERY_MODE | EXPIRATION).to_be_bytes();
    let text = ttl_ms.to_string();
    let mut bytes = vec![high, low, 2, text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
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

impl Trace {
    fn note(&mut self, world: &World) {
        let stamp = self.disk.count();
        let now_ms = world.clock.now().wall_ms;
        self.times.push((stamp, now_ms));
        // Everything that was appended is durable, so the expiry of messages that were due long ago is durable, too.
        let (appended, durable) = world.broker.commit.inspect(|log| (log.appended(), log.durable()));
        if durable < appended {
            return;
        }
        for known in self.known.iter_mut().flatten() {
            if known.expires.is_some_and(|(_, latest)| latest + LATE_MS < now_ms) {
                known.gone.get_or_insert(stamp);
            }
        }
    }
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let start_ms = world.clock.now().wall_ms;
    let script = Script::start(world)?;
    script.declare(world, OWN, &FieldTable::new())?;
    let mut arguments = FieldTable::new();
    arguments.insert(b"x-message-ttl", FieldValue::I32(ALL_TTL_MS as i32));
    script.declare(world, ALL, &arguments)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let mut trace =
        Trace { ready: disk.count(), disk: disk.clone(), known: Default::default(), start_ms, times: Vec::new() };
    for id in 0..MESSAGES {
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        let own_ms = [None, Some(300), Some(2_500), Some(15_000)][world.random.below(4) as usize];
        let published = disk.count();
        let from_ms = world.clock.now().wall_ms;
        let mut last = 0;
        for (queue, ttl_ms) in [(OWN, own_ms), (ALL, None)] {
            let client = &mut world.links[script.link].amqp091().client;
            let properties = properties(ttl_ms);
            last = client.publish(
                CHANNEL,
                Publication::to_queue(queue.as_bytes(), &body(id, length)).with(&properties).mandatory(),
            );
        }
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        let until_ms = world.clock.now().wall_ms;
        for (known, ttl_ms) in trace.known.iter_mut().zip([own_ms, Some(ALL_TTL_MS)]) {
            let expires = ttl_ms.map(|ttl_ms| (from_ms + ttl_ms, until_ms + ttl_ms));
            known.push(Known { published, confirmed: disk.count(), expires, gone: None });
        }
        if world.random.below(3) == 0 {
            let ms = world.random.below(700);
            pass(world, ms)?;
        }
        trace.note(world);
    }
    Ok(trace)
}

fn numbers(script: &Script, world: &mut World, queue: &str) -> BTreeSet<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    let numbers: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{queue}: out of order, or twice: {numbers:?}");
    numbers.into_iter().collect()
}

/// The messages that a broker started at `wall_ms` still has of each queue, and the wall time after the last was taken.
fn survivors(crashed: SimDisk, wall_ms: u64, seed: u64) -> ([BTreeSet<u64>; 2], u64) {
    let started = World::start_at(Clock::at(wall_ms), Arc::new(crashed), small_log(), seed);
    let (mut world, _) = started.unwrap_or_else(|failure| panic!("{failure}"));
    let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
    let found = QUEUES.map(|queue| numbers(&script, &mut world, queue));
    for queue in QUEUES {
        let snapshot = world.broker.registry.snapshot_full();
        let Some(queue) = snapshot.queue("/", queue) else { continue };
        let status = queue.look(Status).expect("it is there");
        assert_eq!(status.conservation.accepted, status.conservation.gone() + status.ready + status.unacknowledged);
    }
    (found, world.clock.now().wall_ms)
}

/// Checks that long after their time all messages leave, even if no client asks for them.
fn all_leave_by_themselves(trace: &Trace, crashed: SimDisk, seed: u64) {
    let wall_ms = trace.times.last().map_or(trace.start_ms, |(_, wall_ms)| *wall_ms) + 60_000;
    let started = World::start_at(Clock::at(wall_ms), Arc::new(crashed), small_log(), seed);
    let (mut world, _) = started.unwrap_or_else(|failure| panic!("{failure}"));
    while world.step().unwrap_or_else(|failure| panic!("{failure}")) {}
    let ready = |queue: &str| {
        let snapshot = world.broker.registry.snapshot_full();
        snapshot.queue("/", queue).map_or(0, |queue| queue.look(Status).expect("it is there").ready)
    };
    let (own, all) = (ready(OWN), ready(ALL));
    assert_eq!(all, 0, "messages of {ALL} stay after their time");
    let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
    let found = numbers(&script, &mut world, OWN);
    assert_eq!(found.len() as u64, own, "messages of {OWN} stay after their time");
}

/// Checks one moment. Returns how many messages were there, and how many were missing because they had expired.
fn judge(trace: &Trace, at: Stamp, moment: &SimDisk, seed: u64) -> (u64, u64) {
    let wall_ms = trace.times.iter().find(|(stamp, _)| *stamp >= at).map_or(trace.start_ms, |(_, wall_ms)| *wall_ms);
    // One start is at the real time, and one with a clock that was set back, so that time hides no message that came
    // back.
    let (found, end_ms) = survivors(moment.crash(seed), wall_ms, seed);
    let (again, _) = survivors(moment.crash(seed), trace.start_ms, seed);
    all_leave_by_themselves(trace, moment.crash(seed), seed);
    let (mut there, mut gone) = (0, 0);
    for ((known, found), again) in trace.known.iter().zip(&found).zip(&again) {
        for (id, known) in (0..).zip(known) {
            let (here, again) = (found.contains(&id), again.contains(&id));
            assert!(known.published <= at || !here && !again, "message {id} was never published");
            let ended = known.gone.is_some_and(|gone| gone <= at);
            assert!(!ended || !here && !again, "message {id} came back although its end was durable");
            let over = known.expires.is_some_and(|(earliest, _)| earliest <= end_ms);
            assert!(known.confirmed > at || over || here, "message {id} left before its time");
            let late = known.expires.is_some_and(|(_, latest)| latest < wall_ms);
            assert!(!late || !here, "message {id} was delivered after its time");
            there += u64::from(here);
            gone += u64::from(ended);
        }
    }
    (there, gone)
}

#[test]
fn expiry_is_exact_after_any_power_cut() {
    for seed in [1, 2] {
        let trace = trace(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let (mut cuts, mut there, mut gone) = (0, 0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            cuts += 1;
            let crash_seed = seed << 32 | at as u64;
            let judged = std::panic::catch_unwind(|| judge(&trace, at, &moment, crash_seed));
            let (here, ended) = judged.unwrap_or_else(|_| panic!("seed {seed}, power cut after change {at}"));
            there += here;
            gone += ended;
        }
        println!("seed {seed}: {cuts} power cuts, {there} messages there, {gone} gone for good");
        assert!(cuts > 100 && there > 1_000 && gone > 1_000, "{cuts} cuts, {there} there, {gone} gone");
    }
}
