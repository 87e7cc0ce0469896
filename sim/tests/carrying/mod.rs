//! A broker with a durable queue, and a client with a channel that gets confirms.

use std::sync::Arc;

use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::QueueDeclare;

pub(crate) const QUEUE: &str = "q";

pub(crate) fn start(disk: &Arc<SimDisk>, seed: u64) -> Result<(World, Script), Failure> {
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let script = Script::start(&mut world)?;
    let client = &mut world.links[script.link].amqp091().client;
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    client.declare_queue(CHANNEL, QUEUE.as_bytes(), flags, &Default::default());
    script.until(&mut world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    Ok((world, script))
}
