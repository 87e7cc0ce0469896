//! Power cuts after every change of the disk while an operator moves ready messages to another queue: each is in its queue or in its
//! target, never in both and never in none, and in its target once the move was durable.
#![cfg(feature = "planted-bugs")]

mod moves;

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::planted::{Bug, plant};
use leveret_broker::queue_handle::{Peek, QueueRef, ReadyEnds};
use leveret_broker::transfer::{TransferStep, TransferTarget, TransferredStep};
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};

use self::moves::{Stamp, Story, answer, drain, is_enough, judge_all, queue, read};

const SOURCE: &str = "source";
const TARGET: &str = "target";
const MESSAGES: u64 = 60;

/// Moves some of the ready messages.
fn step(world: &mut World, story: &mut Story) -> Result<(), Failure> {
    let source = queue(world, SOURCE);
    let Some((lowest, highest, _)) = source.look(ReadyEnds(0..=u64::MAX)) else { return Ok(()) };
    let read = read(world, &source, lowest)?;
    let before = ready(&source, story.first);
    story.asked(world, &before);
    let most = 1 + world.random.below(8) as usize;
    let target = TransferTarget::Queue(TARGET.into());
    let step = TransferStep { target, copies: false, range: lowest..=highest, most, read };
    let asked = world.broker.transfer(&source, step, world.clock.now());
    let TransferredStep { done, ticket, stopped, .. } = answer(world, asked)?;
    assert_eq!(stopped, None);
    let after = ready(&source, story.first);
    story.moved(world, (&before, &after), (done, ticket))
}

/// The ready messages. They were published one after the other, so that their numbers follow from the first one's.
fn ready(queue: &QueueRef, first: u64) -> BTreeSet<u64> {
    queue.look(Peek { offset: 0, count: usize::MAX }).iter().map(|peeked| peeked.number - first).collect()
}

fn trace(seed: u64, queue_type: &str) -> Result<(Arc<SimDisk>, Stamp, Story), Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let world = &mut world;
    let script = Script::start(world)?;
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", FieldValue::LongString(queue_type.into()));
    for name in [TARGET, SOURCE] {
        script.declare(world, name, &arguments)?;
    }
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    let (ready, mut story) = (disk.count(), Story::default());
    for _ in 0..MESSAGES {
        story.publish(world, &script, SOURCE)?;
        if world.random.below(4) == 0 {
            step(world, &mut story)?;
        }
    }
    while world.step()? {}
    Ok((disk, ready, story))
}

fn judge(seed: u64, queue_type: &str) -> Result<(u64, u64, u64), String> {
    let (disk, ready, story) = trace(seed, queue_type).map_err(|failure| failure.to_string())?;
    judge_all((&disk, ready), seed, |at, world, script| {
        let (here, there) = (drain(script, world, SOURCE), drain(script, world, TARGET));
        story.judge(at, &here, &there)
    })
}

#[test]
fn a_moved_message_is_in_one_place_after_any_power_cut() {
    for (seed, queue_type) in [(1, "classic"), (2, "quorum")] {
        is_enough(judge(seed, queue_type).unwrap_or_else(|verdict| panic!("{verdict}")), queue_type);
    }
}

#[test]
fn a_message_that_comes_back_is_noticed() {
    plant(Some(Bug::ForgetMoved));
    let judged = judge(1, "classic");
    plant(None);
    let error = judged.expect_err("it is in both queues");
    assert!(error.contains("is in both places"), "{error}");
}
