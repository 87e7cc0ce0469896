//! Power cuts after every change of the disk while a consumer defers messages and fetches some: a message whose deferral was answered is
//! found by its token, unless it was fetched since, and then it is ready. None is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp10::{DeliveryState, Role};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_sim::amqp10::script::{CHANNEL, Script};
use leveret_sim::amqp10::{Heard, Received, message};
use leveret_sim::amqp091::script::Script as Amqp091;
use leveret_sim::body;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp10::{Send, State};

const QUEUE: &str = "deferred";
const ADDRESS: &str = "/queues/deferred";
const SENDER: u32 = 0;
const RECEIVER: u32 = 1;
const MESSAGES: u64 = 40;
const LATER_MS: u64 = 4_000_000_000_000;

/// Number of changes that the disk had seen.
type Stamp = usize;

/// A message, by what the client knows.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    confirmed: Stamp,
    /// It may have been deferred from here on, if it ever was.
    asked: Option<Stamp>,
    /// Its deferral was answered.
    deferred: Option<Stamp>,
    /// It may have been fetched from here on.
    fetched: Option<Stamp>,
}

struct Trace {
    disk: Arc<SimDisk>,
    ready: Stamp,
    known: Vec<Known>,
}

fn token(id: u64) -> String {
    format!("token {}", id / 2)
}

fn fetch(world: &mut World, script: &Script, credit: u32, tokens: impl Iterator<Item = String>) {
    let properties = message::fetching(tokens);
    world.links[script.link].amqp10().client.grant_with(CHANNEL, RECEIVER, credit, properties.as_map());
}

fn next(world: &mut World, script: &mut Script) -> Result<(u64, Received), Failure> {
    let received = script.until(world, |heard| match heard {
        Heard::Delivered(received) => Some(received.clone()),
        Heard::Event(_) => None,
    })?;
    Ok((body::id(&received.content.body).expect("it is one of ours"), received))
}

/// Defers messages of which two each have the same token, and fetches some of them.
fn trace(seed: u64) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", FieldValue::LongString(b"quorum".to_vec()));
    Amqp091::start(world)?.declare(world, QUEUE, &arguments)?;
    let mut script = Script::start(world)?;
    script.sender(world, SENDER, ADDRESS)?;
    script.receiver(world, RECEIVER, ADDRESS)?;
    let mut trace = Trace { disk: disk.clone(), ready: disk.count(), known: Vec::new() };
    for id in 0..MESSAGES {
        let length = [20, 700, 5_000][world.random.below(3) as usize];
        let sent = script.send(world, SENDER, &message::encode(id, length, true, None), &Send::default())?;
        script.settled(world, Role::Receiver, sent)?;
        trace.known.push(Known { confirmed: disk.count(), ..Known::default() });
        let received = script.receive(world, RECEIVER)?;
        let added = message::deferral(LATER_MS, &token(id));
        let map = Some(added.as_map());
        let state =
            DeliveryState::Modified { delivery_failed: false, undeliverable_here: false, message_annotations: map };
        trace.known[id as usize].asked = Some(disk.count());
        let of = received.delivery_id;
        world.links[script.link].amqp10().client.dispose(CHANNEL, of, of, false, Some(state));
        assert!(matches!(script.settled(world, Role::Sender, of)?, Some(State::Modified { .. })));
        trace.known[id as usize].deferred = Some(disk.count());
        if id % 2 == 1 && world.random.below(3) == 0 {
            for known in &mut trace.known[id as usize - 1..] {
                known.fetched = Some(disk.count());
            }
            fetch(world, &script, 2, [token(id)].into_iter());
            let found = [next(world, &mut script)?.0, next(world, &mut script)?.0];
            assert_eq!(found, [id - 1, id], "the oldest one comes first");
        }
    }
    Ok(trace)
}

/// Checks one moment. Returns how many messages were found by a token.
fn judge(trace: &Trace, at: Stamp, moment: &SimDisk, seed: u64) -> Result<usize, String> {
    let failed = |failure: Failure| failure.to_string();
    let (mut world, _) = World::start(Arc::new(moment.crash(seed)), small_log(), seed).map_err(failed)?;
    let world = &mut world;
    let ready = Amqp091::start(world).map_err(failed)?.drain(world, QUEUE).map_err(failed)?;
    let ready: BTreeSet<u64> = ready.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let known = || (0..).zip(&trace.known);
    let expected = |known: &Known| known.deferred.is_some_and(|stamp| stamp <= at);
    let was_fetched = |known: &Known| known.fetched.is_some_and(|stamp| stamp <= at);
    let mut script = Script::start(world).map_err(failed)?;
    script.receiver(world, RECEIVER, ADDRESS).map_err(failed)?;
    fetch(world, &script, MESSAGES as u32, (0..MESSAGES).step_by(2).map(token));
    let mut found = BTreeSet::new();
    while let Ok((id, _)) = next(world, &mut script) {
        found.insert(id);
    }
    for (id, known) in known().filter(|(_, known)| known.confirmed <= at) {
        match (found.contains(&id), ready.contains(&id)) {
            (true, true) => return Err(format!("message {id} is there twice")),
            (false, false) => return Err(format!("message {id} is lost")),
            (false, true) if expected(known) && !was_fetched(known) => {
                return Err(format!("message {id} isn't found by its token: {known:?}"));
            }
            (true, false) if known.asked.is_none_or(|asked| asked > at) => {
                return Err(format!("message {id} is deferred too soon: {known:?}"));
            }
            _ => {}
        }
    }
    Ok(found.len())
}

#[test]
fn a_deferral_that_was_answered_survives_any_power_cut() {
    for seed in 1..=2 {
        let trace = trace(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let (mut cuts, mut found) = (0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            let judged = judge(&trace, at, &moment, seed << 32 | at as u64);
            found += judged.unwrap_or_else(|error| panic!("seed {seed}, power cut after change {at}: {error}"));
            cuts += 1;
        }
        assert!(cuts > 100 && found > 300, "seed {seed}: {cuts} power cuts, {found} messages found");
    }
}
