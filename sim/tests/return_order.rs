//! The order in which messages that came back are delivered, over several returns: first, in the order of their return, or in their
//! old places (`x-return-order`).
#![cfg(feature = "planted-bugs")]

use std::collections::VecDeque;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_queue::planted::{Bug, plant};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const QUEUE: &str = "returns";
const MESSAGES: u64 = 20;
const ROUNDS: u64 = 12;

fn start(seed: u64, order: &str) -> Result<(World, Script), Failure> {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), seed)?;
    let script = Script::start(&mut world)?;
    let text = |text: &str| FieldValue::LongString(text.as_bytes().to_vec());
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", text("quorum"));
    arguments.insert("x-return-order", text(order));
    script.declare(&mut world, QUEUE, &arguments)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    let mut last = 0;
    for id in 0..MESSAGES {
        let client = &mut world.links[script.link].amqp091().client;
        last = client.publish(
            CHANNEL,
            Publication::to_queue(QUEUE.as_bytes(), &body(id, 20)).with(&properties(id, true)).mandatory(),
        );
    }
    script.until(&mut world, |heard| match heard {
        Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
        _ => None,
    })?;
    Ok((world, script))
}

/// Takes some messages and returns them in another order, again and again.
fn judge(seed: u64, order: &str) -> Result<(), String> {
    let failed = |failure: Failure| failure.to_string();
    let (mut world, script) = start(seed, order).map_err(failed)?;
    let mut expected: VecDeque<u64> = (0..MESSAGES).collect();
    // How many of the first ones came back.
    let mut waiting = 0_usize;
    for round in 0..ROUNDS {
        let mut held = Vec::new();
        for _ in 0..1 + world.random.below(5) {
            let received = script.get(&mut world, QUEUE, true).map_err(failed)?.ok_or("none is ready")?;
            let id = body::id(&received.content.body).ok_or("it isn't one of ours")?;
            let next = expected.pop_front();
            waiting = waiting.saturating_sub(1);
            if next != Some(id) {
                return Err(format!("round {round}: message {id} is delivered, expected {next:?}"));
            }
            held.push((id, received.tag));
        }
        let mut back = Vec::new();
        while !held.is_empty() {
            let (id, tag) = held.swap_remove(world.random.below(held.len() as u64) as usize);
            world.links[script.link].amqp091().client.nack(CHANNEL, tag, false, true);
            back.push(id);
        }
        match order {
            "position" => {
                expected.extend(back);
                expected.make_contiguous().sort_unstable();
            }
            // Messages that came back earlier are before these, and nothing was published since.
            _ => {
                for id in back {
                    expected.insert(waiting, id);
                    waiting += 1;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn returned_messages_come_in_the_order_that_their_queue_has() {
    for seed in 1..10 {
        for order in ["returned", "position"] {
            judge(seed, order).unwrap_or_else(|error| panic!("seed {seed}, {order}: {error}"));
        }
    }
}

#[test]
fn a_wrong_order_of_returned_messages_is_noticed() {
    plant(Some(Bug::MisorderReturns));
    let judged = (1..4).find_map(|seed| judge(seed, "returned").err());
    plant(None);
    let error = judged.expect("three seeds return messages out of their order");
    assert!(error.contains("is delivered, expected"), "{error}");
}
