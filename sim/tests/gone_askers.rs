//! Clients that are cut off while the queue has yet to answer their get: the message returns to its place.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::FieldTable;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::Publication;

const MESSAGES: u64 = 30;

/// The ids of the messages that another client finds after each of some clients was cut off a few steps behind its get.
fn left(seed: u64) -> Result<BTreeSet<u64>, Failure> {
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), seed)?;
    let other = Script::start(&mut world)?;
    other.declare(&mut world, "q", &FieldTable::new())?;
    let client = &mut world.links[other.link].amqp091().client;
    client.confirm_select(CHANNEL);
    let mut last = 0;
    for id in 0..MESSAGES {
        last = client.publish(CHANNEL, Publication::to_queue(b"q", &body(id, 40)).with(&properties(id, true)));
    }
    other
        .until(&mut world, |heard| matches!(heard, Heard::Confirmed { last: tag, .. } if tag >= last).then_some(()))?;
    for steps in 0..MESSAGES {
        let asker = Script::start(&mut world)?;
        world.links[asker.link].amqp091().client.get(CHANNEL, b"q", false);
        for _ in 0..steps {
            world.step()?;
        }
        world.disconnect(asker.link);
    }
    while world.step()? {}
    let found = other.drain(&mut world, "q")?;
    Ok(found.iter().filter_map(|received| body::id(&received.content.body)).collect())
}

/// Queues answer later with every other pair of seeds.
#[test]
fn the_message_of_a_get_returns_if_its_asker_is_gone() {
    for seed in 0..8 {
        let found = left(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(found.len() as u64, MESSAGES, "seed {seed}: {found:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn an_answer_that_is_kept_for_a_gone_asker_is_caught() {
    use leveret_broker::planted::{Bug, plant};
    plant(Some(Bug::KeepAnswer));
    let found = (0..8).map(|seed| left(seed).expect("every request is answered").len() as u64).min();
    plant(None);
    assert!(found.is_some_and(|found| found < MESSAGES), "{found:?}");
}
