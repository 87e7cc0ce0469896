//! Power cuts after every change of the disk while parked messages are moved on: each is in the queue that parked it or in its
//! target, never in both and never in none, and in its target once the move was durable.
#![cfg(feature = "planted-bugs")]

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::SetAside;
use leveret_broker::move_parked::{MoveStep, MovedStep, ParkedTarget};
use leveret_broker::queue_handle::{QueueAnswer, QueueRef};
use leveret_queue::planted::{Bug, plant};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};

const PARKS: &str = "parks";
const TARGET: &str = "target";
const MESSAGES: u64 = 60;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// The client's knowledge of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    published: Stamp,
    confirmed: Stamp,
    /// A move of it began.
    asked: Option<Stamp>,
    /// Its move was durable.
    moved: Option<Stamp>,
}

struct Trace {
    disk: Arc<SimDisk>,
    known: Vec<Known>,
    ready: Stamp,
    /// The number of the first message in the queue that parks them.
    first: u64,
}

fn queue(world: &World, name: &str) -> QueueRef {
    world.broker.registry.snapshot_full().queue("/", name).expect("it was declared").clone()
}

/// Runs the world until an answer is there.
fn wait<T>(world: &mut World, answers: &mpsc::Receiver<T>) -> Result<T, Failure> {
    loop {
        if let Ok(answer) = answers.try_recv() {
            return Ok(answer);
        }
        assert!(world.step()?, "the answer never comes");
    }
}

/// Moves the parked messages that one read finds.
fn step(world: &mut World, first: u64, known: &mut [Known]) -> Result<(), Failure> {
    let parks = queue(world, PARKS);
    let Some((lowest, highest)) = parks.parked_ends(0..=u64::MAX) else { return Ok(()) };
    let (sender, read) = mpsc::channel();
    world.broker.read_directly(&parks, lowest, move |read| sender.send(read).expect("it is awaited"));
    let read = wait(world, &read)?.expect("the disk works");
    let before = parked(&parks, first);
    let asked = world.disk.count();
    before.iter().for_each(|id| known[*id as usize].asked = Some(asked));
    let step = MoveStep { target: ParkedTarget::Queue(TARGET.into()), range: lowest..=highest, read };
    let QueueAnswer::Later(later) = world.broker.move_parked(&parks, step, world.clock.now()) else {
        panic!("it is made in a turn of the core");
    };
    let (sender, answers) = mpsc::channel();
    later.then(move |answer| sender.send(answer).expect("it is awaited"));
    let MovedStep { moved, ticket, stopped, .. } = wait(world, &answers)?;
    assert_eq!(stopped, None);
    let gone: Vec<u64> = before.difference(&parked(&parks, first)).copied().collect();
    assert!(moved > 0 && gone.len() as u64 == moved, "{moved} moved, {gone:?} are gone");
    while !world.broker.streams.is_durable(ticket) {
        assert!(world.step()?, "it never becomes durable");
    }
    gone.iter().for_each(|id| known[*id as usize].moved = Some(world.disk.count()));
    Ok(())
}

/// The parked messages. They were published one after the other, so that their numbers follow from the first one's.
fn parked(queue: &QueueRef, first: u64) -> BTreeSet<u64> {
    queue.peek_set_aside(SetAside::Parked, 0, usize::MAX).iter().map(|peeked| peeked.number - first).collect()
}

fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", FieldValue::LongString(b"quorum".to_vec()));
    script.declare(world, TARGET, &arguments)?;
    arguments.insert("x-delivery-limit", FieldValue::I32(0));
    script.declare(world, PARKS, &arguments)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let ready = disk.count();
    let (mut known, mut first) = (Vec::new(), 0);
    for id in 0..MESSAGES {
        let mut know = Known { published: disk.count(), ..Known::default() };
        let length = [20, 700, 5_000, 12_000][world.random.below(4) as usize];
        let client = &mut world.links[script.link].amqp091().client;
        let last = client.publish(CHANNEL, b"", PARKS.as_bytes(), true, &properties(id, true), &body(id, length));
        script.until(world, |heard| match heard {
            Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
            _ => None,
        })?;
        know.confirmed = disk.count();
        known.push(know);
        if id == 0 {
            while queue(world, PARKS).counts().0 == 0 {
                assert!(world.step()?, "it is never ready");
            }
            first = queue(world, PARKS).peek(0, 1)[0].number;
        }
        if world.random.below(4) > 0 {
            let received = script.get(world, PARKS, true)?.expect("one is ready");
            world.links[script.link].amqp091().client.reject(CHANNEL, received.tag, true);
        }
        if world.random.below(4) == 0 {
            step(world, first, &mut known)?;
        }
    }
    while world.step()? {}
    Ok(Trace { disk, known, ready, first })
}

/// The messages of a queue that are ready.
fn drain(script: &Script, world: &mut World, queue: &str) -> BTreeSet<u64> {
    let found = script.drain(world, queue).unwrap_or_else(|failure| panic!("{queue}: {failure}"));
    let ids: Vec<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let set: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "{queue}: a message is there twice: {ids:?}");
    set
}

/// Checks one moment. Returns how many messages had moved, and how many that were to move hadn't.
fn judge(trace: &Trace, at: Stamp, crashed: SimDisk, seed: u64) -> (u64, u64) {
    let started = World::start(Arc::new(crashed), small_log(), seed);
    let (mut world, _) = started.unwrap_or_else(|failure| panic!("{failure}"));
    let script = Script::start(&mut world).unwrap_or_else(|failure| panic!("{failure}"));
    let parked = parked(&queue(&world, PARKS), trace.first);
    // That it was parked may have been lost.
    let ready = drain(&script, &mut world, PARKS);
    assert!(parked.is_disjoint(&ready), "parked, and ready too");
    let there = drain(&script, &mut world, TARGET);
    let (mut moved, mut not_yet) = (0, 0);
    for (id, known) in (0..).zip(&trace.known) {
        let here = parked.contains(&id) || ready.contains(&id);
        let there = there.contains(&id);
        assert!(!(here && there), "message {id} is in both places");
        assert!(known.confirmed > at || here || there, "message {id} is lost");
        assert!(known.published <= at || !here && !there, "message {id} was never published");
        let asked = known.asked.is_some_and(|asked| asked <= at);
        assert!(asked || !there, "message {id} moved without a request");
        let was_moved = known.moved.is_some_and(|moved| moved <= at);
        assert!(!was_moved || there, "message {id} has moved back");
        moved += u64::from(there);
        not_yet += u64::from(asked && !there);
    }
    (moved, not_yet)
}

#[test]
fn a_parked_message_is_in_one_place_after_any_power_cut() {
    for seed in [1, 2] {
        let trace = trace(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let (mut cuts, mut moved, mut not_yet) = (0, 0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            cuts += 1;
            let crash_seed = seed << 32 | at as u64;
            let crashed = moment.crash(crash_seed);
            let judged = std::panic::catch_unwind(|| judge(&trace, at, crashed, crash_seed));
            let (there, here) = judged.unwrap_or_else(|_| panic!("seed {seed}, power cut after change {at}"));
            (moved, not_yet) = (moved + there, not_yet + here);
        }
        println!("seed {seed}: {cuts} power cuts, {moved} times moved, {not_yet} times not yet");
        assert!(cuts > 100 && moved > 100 && not_yet > 10, "{cuts} cuts, {moved} moved, {not_yet} not yet");
    }
}

/// Judges every moment of a seed. The verdict is the first wrong one's.
fn judge_all(seed: u64) -> Result<(), String> {
    let trace = trace(seed).map_err(|failure| failure.to_string())?;
    for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
        let crash_seed = seed << 32 | at as u64;
        let crashed = moment.crash(crash_seed);
        let judged = std::panic::catch_unwind(|| judge(&trace, at, crashed, crash_seed));
        judged.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())?;
    }
    Ok(())
}

#[test]
fn a_parked_message_that_is_lost_is_noticed() {
    plant(Some(Bug::LoseParked));
    let judged = judge_all(1);
    plant(None);
    let error = judged.expect_err("a message is neither parked nor ready");
    assert!(error.contains("is lost"), "{error}");
}
