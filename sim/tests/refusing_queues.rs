//! Power cuts while consumers hold as many messages as a queue may have, and publishers filled it up again meanwhile: the queue is
//! longer than its limit then, and with `x-overflow` = `reject-publish` none of the messages that it accepted is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "refuses";
const LENGTH_MAX: i32 = 3;
const ROUNDS: usize = 12;

/// Number of changes that the disk had seen.
type Stamp = usize;

struct Trace {
    disk: Arc<SimDisk>,
    ready: Stamp,
    /// The stamps by which messages were confirmed, by number; none if they were refused.
    confirmed: Vec<Option<Stamp>>,
    /// Number and stamp of messages that were about to be acknowledged.
    acknowledged: Vec<(u64, Stamp)>,
}

/// Publishes a message. Returns whether it was accepted.
fn publish(world: &mut World, script: &Script, id: u64) -> Result<bool, Failure> {
    let client = &mut world.links[script.link].amqp091().client;
    let last = client.publish(
        CHANNEL,
        Publication::to_queue(QUEUE.as_bytes(), &body(id, 200)).with(&properties(id, true)).mandatory(),
    );
    script.until(world, |heard| match heard {
        Heard::Confirmed { last: confirmed, positive, .. } if confirmed >= last => Some(positive),
        _ => None,
    })
}

/// Fills the queue up, takes messages and fills it up again, again and again.
fn trace(seed: u64, queue_type: &str, overflow: &str) -> Result<Trace, Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", text(queue_type));
    arguments.insert("x-max-length", FieldValue::I32(LENGTH_MAX));
    arguments.insert("x-overflow", text(overflow));
    script.declare(world, QUEUE, &arguments)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let mut trace = Trace { ready: disk.count(), disk: disk.clone(), confirmed: Vec::new(), acknowledged: Vec::new() };
    let mut held = Vec::new();
    for _ in 0..ROUNDS {
        for length in 0.. {
            let accepted = publish(world, &script, trace.confirmed.len() as u64)?;
            trace.confirmed.push(accepted.then(|| disk.count()));
            if !accepted {
                break;
            }
            if length >= LENGTH_MAX {
                let text = format!("a queue of {LENGTH_MAX} messages confirmed another one, which it can't have");
                return Err(Failure::new(Check::NothingLost, text));
            }
        }
        while let Some(received) = script.get(world, QUEUE, true)? {
            let id = body::id(&received.content.body).expect("it is one of ours");
            held.push((id, received.tag));
        }
        if world.random.below(2) == 0 {
            let (id, tag) = held.swap_remove(world.random.below(held.len() as u64) as usize);
            trace.acknowledged.push((id, disk.count()));
            world.links[script.link].amqp091().client.ack(CHANNEL, tag, false);
        }
    }
    Ok(trace)
}

/// Restarts at one moment, and lets a message come back. Returns the number of messages that the queue has.
fn judge(trace: &Trace, at: Stamp, moment: &SimDisk, seed: u64) -> Result<usize, String> {
    let failed = |failure: Failure| failure.to_string();
    let (mut world, _) = World::start(Arc::new(moment.crash(seed)), small_log(), seed).map_err(failed)?;
    let script = Script::start(&mut world).map_err(failed)?;
    if let Some(first) = script.get(&mut world, QUEUE, true).map_err(failed)? {
        world.links[script.link].amqp091().client.nack(CHANNEL, first.tag, false, true);
    }
    let found = script.drain(&mut world, QUEUE).map_err(failed)?;
    let found: BTreeSet<u64> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
    let is_gone = |id: u64| trace.acknowledged.iter().any(|(gone, asked)| *gone == id && *asked <= at);
    let confirmed = (0..).zip(&trace.confirmed).filter(|(_, stamp)| stamp.is_some_and(|stamp| stamp <= at));
    match confirmed.map(|(id, _)| id).find(|id| !found.contains(id) && !is_gone(*id)) {
        Some(id) => Err(format!("message {id} was confirmed, and is lost: {found:?} are left")),
        None => Ok(found.len()),
    }
}

#[test]
fn a_refusing_queue_drops_nothing_after_a_power_cut() {
    let kinds = [("classic", "reject-publish"), ("classic", "reject-publish-dlx"), ("quorum", "reject-publish")];
    for (queue_type, overflow) in kinds {
        let trace = trace(1, queue_type, overflow).unwrap_or_else(|failure| panic!("{failure}"));
        let (mut cuts, mut longest) = (0, 0);
        for (at, moment) in trace.disk.moments().enumerate().filter(|(at, _)| *at >= trace.ready) {
            let found = judge(&trace, at, &moment, 1 << 32 | at as u64);
            let found = found.unwrap_or_else(|error| panic!("{queue_type}, {overflow}, change {at}: {error}"));
            (cuts, longest) = (cuts + 1, longest.max(found));
        }
        assert!(cuts > 40 && longest > 3 * LENGTH_MAX as usize, "{cuts} power cuts, at most {longest} messages");
    }
}

/// Queues answer later with every other pair of seeds, and say then what they refused.
#[test]
fn a_queue_that_answers_later_refuses_as_others_do() {
    for seed in 0..4 {
        let trace = trace(seed, "classic", "reject-publish").unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(trace.confirmed.iter().filter(|confirmed| confirmed.is_none()).count(), ROUNDS, "seed {seed}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_confirm_of_a_refused_publish_is_caught() {
    use leveret_broker::planted::{Bug, plant};
    plant(Some(Bug::ConfirmRefused));
    let caught = (0..4).find_map(|seed| trace(seed, "classic", "reject-publish").err());
    plant(None);
    let detail = caught.expect("every other pair of seeds answers later").detail;
    assert!(detail.contains("confirmed another one"), "{detail}");
}
