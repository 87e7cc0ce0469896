//! Power cuts after every change of the disk while parked messages are moved on: each is in the queue that parked it or in its
//! target, never in both and never in none, and in its target once the move was durable.
#![cfg(feature = "planted-bugs")]

mod moves;

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::SetAside;
use leveret_broker::queue_handle::{ParkedEnds, PeekAside, QueueRef};
use leveret_broker::transfer::{MoveStep, MovedStep, TransferTarget};
use leveret_queue::planted::{Bug, plant};
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};

use self::moves::{Stamp, Story, answer, drain, is_enough, judge_all, queue, read};

const PARKS: &str = "parks";
const TARGET: &str = "target";
const MESSAGES: u64 = 60;

/// Moves the parked messages that one read finds.
fn step(world: &mut World, story: &mut Story) -> Result<(), Failure> {
    let parks = queue(world, PARKS);
    let Some((lowest, highest)) = parks.look(ParkedEnds(0..=u64::MAX)) else { return Ok(()) };
    let read = read(world, &parks, lowest)?;
    let before = parked(&parks, story.first);
    story.asked(world, &before);
    let step = MoveStep { target: TransferTarget::Queue(TARGET.into()), range: lowest..=highest, read };
    let asked = world.broker.move_parked(&parks, step, world.clock.now());
    let MovedStep { moved, ticket, stopped, .. } = answer(world, asked)?;
    assert_eq!(stopped, None);
    let after = parked(&parks, story.first);
    story.moved(world, (&before, &after), (moved, ticket))
}

/// The parked messages. They were published one after the other, so that their numbers follow from the first one's.
fn parked(queue: &QueueRef, first: u64) -> BTreeSet<u64> {
    let all = PeekAside { which: SetAside::Parked, offset: 0, count: usize::MAX };
    queue.look(all).peeked.iter().map(|peeked| peeked.number - first).collect()
}

fn trace(seed: u64) -> Result<(Arc<SimDisk>, Stamp, Story), Failure> {
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
    let (ready, mut story) = (disk.count(), Story::default());
    for _ in 0..MESSAGES {
        story.publish(world, &script, PARKS)?;
        if world.random.below(4) > 0 {
            let received = script.get(world, PARKS, true)?.expect("one is ready");
            world.links[script.link].amqp091().client.reject(CHANNEL, received.tag, true);
        }
        if world.random.below(4) == 0 {
            step(world, &mut story)?;
        }
    }
    while world.step()? {}
    Ok((disk, ready, story))
}

fn judge(seed: u64) -> Result<(u64, u64, u64), String> {
    let (disk, ready, story) = trace(seed).map_err(|failure| failure.to_string())?;
    judge_all((&disk, ready), seed, |at, world, script| {
        let parked = parked(&queue(world, PARKS), story.first);
        // That it was parked may have been lost.
        let ready = drain(script, world, PARKS);
        assert!(parked.is_disjoint(&ready), "parked, and ready too");
        let there = drain(script, world, TARGET);
        story.judge(at, &parked.union(&ready).copied().collect(), &there)
    })
}

#[test]
fn a_parked_message_is_in_one_place_after_any_power_cut() {
    for seed in [1, 2] {
        is_enough(judge(seed).unwrap_or_else(|verdict| panic!("{verdict}")), "parked");
    }
}

#[test]
fn a_parked_message_that_is_lost_is_noticed() {
    plant(Some(Bug::LoseParked));
    let judged = judge(1);
    plant(None);
    let error = judged.expect_err("a message is neither parked nor ready");
    assert!(error.contains("is lost"), "{error}");
}
