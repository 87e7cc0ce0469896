//! Power cuts after every change of the disk while messages with ids are published and consumed: whoever then sends all of them again
//! gets one copy of each, and none of what was confirmed.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body};
use leveret_sim::clock::Clock;
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "once";
const EXCHANGE: &str = "x";
const MESSAGES: u64 = 60;

/// The queue or exchange that drops duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Classic,
    Quorum,
    Exchange,
}

struct Trace {
    disk: Arc<SimDisk>,
    /// Number of changes that the disk had seen when the first message was published.
    ready: usize,
    /// The same when each message was confirmed.
    confirmed: Vec<usize>,
    end_ms: u64,
}

fn declare(world: &mut World, script: &Script, kind: Kind) -> Result<(), Failure> {
    let once = FieldTable::new().with("x-message-deduplication", true).with("x-cache-size", 1000);
    let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
    let quorum = if kind == Kind::Quorum { "quorum" } else { "classic" };
    let of_type = |table: FieldTable| table.with("x-queue-type", text(quorum));
    match kind {
        Kind::Classic | Kind::Quorum => script.declare(world, QUEUE, &of_type(once)),
        Kind::Exchange => {
            script.declare(world, QUEUE, &of_type(FieldTable::new()))?;
            let client = &mut world.links[script.link].amqp091().client;
            client.declare_exchange(CHANNEL, EXCHANGE.as_bytes(), "fanout", true, &once);
            script.reply(world, "exchange.declare-ok")?;
            let client = &mut world.links[script.link].amqp091().client;
            client.bind_queue(CHANNEL, QUEUE.as_bytes(), EXCHANGE.as_bytes(), b"", &FieldTable::new());
            script.reply(world, "queue.bind-ok")
        }
    }
}

fn confirms(world: &mut World, script: &Script) -> Result<(), Failure> {
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")
}

/// Publishes a message and waits for its confirm.
fn publish(world: &mut World, script: &Script, kind: Kind, id: u64) -> Result<(), Failure> {
    let headers = FieldTable::new().with("x-deduplication-header", id as i64).encoded();
    let mut properties = Vec::new();
    Properties { delivery_mode: Some(2), headers: Some(headers.as_table()), ..Properties::default() }
        .encode(&mut properties);
    let (exchange, key) = if kind == Kind::Exchange { (EXCHANGE, "") } else { ("", QUEUE) };
    let body = body(id, [20, 700, 5_000][(id % 3) as usize]);
    let client = &mut world.links[script.link].amqp091().client;
    let last = client.publish(CHANNEL, Publication::to(exchange.as_bytes(), key.as_bytes(), &body).with(&properties));
    script.until(world, |heard| match heard {
        Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
        _ => None,
    })
}

/// Lets the exchange move what waits in its queue.
fn settle(world: &mut World) -> Result<(), Failure> {
    for _ in 0..10 {
        world.clock.advance(20_000_000);
        for _ in 0..50 {
            world.step()?;
        }
    }
    Ok(())
}

fn drain(world: &mut World, script: &Script) -> Result<Vec<u64>, Failure> {
    settle(world)?;
    let found = script.drain(world, QUEUE)?;
    Ok(found.iter().filter_map(|received| body::id(&received.content.body)).collect())
}

/// Publishes messages, some again, and consumes some.
fn trace(seed: u64, kind: Kind) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    declare(world, &script, kind)?;
    confirms(world, &script)?;
    let (ready, mut confirmed) = (disk.count(), Vec::new());
    for id in 0..MESSAGES {
        publish(world, &script, kind, id)?;
        confirmed.push(disk.count());
        if world.random.below(3) == 0 {
            let again = world.random.below(id + 1);
            publish(world, &script, kind, again)?;
        }
        for _ in 0..world.random.below(3) {
            script.get(world, QUEUE, false)?;
        }
        world.clock.advance(10_000_000);
    }
    Ok(Trace { ready, confirmed, end_ms: world.clock.now().wall_ms, disk: disk.clone() })
}

/// Sends all again after a cut.
fn judge(trace: &Trace, kind: Kind, at: usize, moment: SimDisk, seed: u64) -> Result<(), Failure> {
    let (mut world, _) = World::start_at(Clock::at(trace.end_ms), Arc::new(moment), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let first = drain(world, &script)?;
    confirms(world, &script)?;
    for id in 0..MESSAGES {
        publish(world, &script, kind, id)?;
    }
    let second = drain(world, &script)?;
    let wrong = |text: String| Err(Failure::new(Check::Conservation, text));
    let there: BTreeSet<u64> = first.iter().chain(&second).copied().collect();
    if there.len() < first.len() + second.len() {
        return wrong(format!("a message is there twice: {first:?}, then {second:?}"));
    }
    for (id, confirmed) in (0..).zip(&trace.confirmed) {
        match *confirmed <= at {
            true if second.contains(&id) => return wrong(format!("message {id} was confirmed and isn't recognised")),
            false if !there.contains(&id) => return wrong(format!("message {id} wasn't confirmed and is dropped")),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn confirmed_messages_are_recognised_after_any_power_cut() {
    for (seed, kind) in [(1, Kind::Classic), (2, Kind::Quorum), (3, Kind::Exchange)] {
        let trace = trace(seed, kind).unwrap_or_else(|failure| panic!("{kind:?}: {failure}"));
        let mut cuts = 0;
        for (at, moment) in trace.disk.moments().enumerate().skip(trace.ready).filter(|(at, _)| at % 3 == 0) {
            cuts += 1;
            let judged = judge(&trace, kind, at, moment.crash(seed ^ at as u64), seed);
            judged.unwrap_or_else(|failure| panic!("{kind:?}, power cut after change {at}: {failure}"));
        }
        println!("{kind:?}: {cuts} power cuts");
        assert!(cuts > 30, "{kind:?}: {cuts} cuts");
    }
}
