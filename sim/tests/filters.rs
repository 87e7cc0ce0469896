//! Receivers with a filter, and messages whose bodies are in files of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp10::performative::Attach;
use leveret_amqp10::{OwnedValue, Role, Source, Target, TargetArchetype};
use leveret_amqp091::{FieldTable, FieldValue};
use leveret_sim::amqp10::script::{CHANNEL, Script};
use leveret_sim::amqp10::{Heard, message};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_sim::{amqp091, body};
use leveret_strict_client::amqp10::Send;

const QUEUE: &str = "q";
const MESSAGES: u64 = 6;
/// Bodies of this length are in files.
const LENGTH: usize = 8_000;

/// Publishes messages, every second one of them with a message-id.
fn publish(world: &mut World, queue_type: &str) -> Result<(), Failure> {
    let declarer = amqp091::script::Script::start(world)?;
    let mut arguments = FieldTable::new();
    arguments.insert("x-queue-type", FieldValue::LongString(queue_type.as_bytes().to_vec()));
    declarer.declare(world, QUEUE, &arguments)?;
    let mut script = Script::start(world)?;
    script.sender(world, 0, &format!("/queues/{QUEUE}"))?;
    for id in 0..MESSAGES {
        let sent = script.send(world, 0, &message::encode(id, LENGTH, true, None), &Send::default())?;
        script.settled(world, Role::Receiver, sent)?;
    }
    Ok(())
}

/// The messages with a message-id, as a receiver with a filter gets them.
fn with_id(world: &mut World) -> Result<BTreeSet<u64>, Failure> {
    let expression = OwnedValue::String("properties.message_id IS NOT NULL".into());
    let filter = message::described("sql-filter", "amqp:sql-filter", expression);
    let (mut script, address) = (Script::start(world)?, format!("/queues/{QUEUE}"));
    let attach = Attach {
        name: "filtering",
        handle: 0,
        role: Role::Receiver,
        source: Some(Source { address: Some(&address), filter: Some(filter.as_map()), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        ..Attach::default()
    };
    let client = &mut world.links[script.link].amqp10().client;
    client.attach(CHANNEL, &attach);
    client.grant(CHANNEL, 0, 10, false);
    let mut found = BTreeSet::new();
    script.until(world, |heard| {
        if let Heard::Delivered(received) = heard {
            found.extend(body::id(&received.content.body));
        }
        (found.len() as u64 == MESSAGES / 2).then_some(())
    })?;
    world.disconnect(script.link);
    while world.step()? {}
    Ok(found)
}

/// Whether messages are in memory as they were published, or as they were read for a consumer that needs no fields.
fn filter_sees_files(queue_type: &str, restarts: bool) -> Result<(), Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), small_log(), 1)?;
    publish(&mut world, queue_type)?;
    if restarts {
        drop(world);
        (world, _) = World::start(Arc::new(disk.crash(1)), small_log(), 1)?;
        let mut script = Script::start(&mut world)?;
        script.receiver(&mut world, 0, &format!("/queues/{QUEUE}"))?;
        let first = script.receive(&mut world, 0)?;
        assert_eq!(body::id(&first.content.body), Some(0));
    }
    assert_eq!(with_id(&mut world)?, BTreeSet::from([1, 3, 5]), "{queue_type}, after a restart: {restarts}");
    Ok(())
}

#[test]
fn a_filter_sees_the_fields_of_messages_in_files() {
    for queue_type in ["classic", "quorum"] {
        for restarts in [false, true] {
            filter_sees_files(queue_type, restarts).unwrap_or_else(|failure| panic!("{queue_type}: {failure}"));
        }
    }
}
