//! Ids that are given again, and ids of a member of a cluster.

use std::sync::Arc;

use leveret_amqp091::FieldTable;
use leveret_model::MemberNumber;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

const NAMES: [&str; 2] = ["transient", "durable"];

fn start(disk: &Arc<SimDisk>, seed: u64) -> Result<(World, Script), Failure> {
    let (mut world, _) = World::start(disk.clone(), small_log(), seed)?;
    let script = Script::start(&mut world)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    Ok((world, script))
}

/// Declares one of the queues, publishes persistent messages to it, and returns its id.
fn fill(world: &mut World, script: &Script, name: &str, messages: u64) -> Result<u64, Failure> {
    let client = &mut world.links[script.link].amqp091().client;
    let flags = QueueDeclare { durable: name == NAMES[1], ..QueueDeclare::default() };
    client.declare_queue(CHANNEL, name.as_bytes(), flags, &FieldTable::new());
    script.until(world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    let client = &mut world.links[script.link].amqp091().client;
    let sent = (0..messages).map(|id| {
        client.publish(
            CHANNEL,
            Publication::to_queue(name.as_bytes(), &body(id, 5_000)).with(&properties(id, true)).mandatory(),
        )
    });
    let last = sent.last().unwrap_or(0);
    script.until(world, |heard| match heard {
        Heard::Confirmed { last: confirmed, positive: true, .. } if confirmed >= last => Some(()),
        _ => None,
    })?;
    let snapshot = world.broker.registry.snapshot_full();
    Ok(snapshot.queue("/", name).expect("it was declared").info().id.0)
}

/// A queue that isn't logged leaves nothing behind that a queue with its id could take for its own.
#[test]
fn a_queue_with_the_id_of_a_lost_one_has_its_own_messages() {
    for seed in 0..8 {
        let run = || {
            let disk = Arc::new(SimDisk::new());
            let (mut world, script) = start(&disk, seed)?;
            let first = fill(&mut world, &script, NAMES[0], 40)?;
            let disk = Arc::new(disk.crash(seed));
            let (mut world, script) = start(&disk, seed)?;
            let second = fill(&mut world, &script, NAMES[1], 3)?;
            assert_eq!(first, second, "the id was given again");
            let disk = Arc::new(disk.crash(seed));
            let (mut world, script) = start(&disk, seed)?;
            assert!(world.broker.registry.snapshot_full().queue("/", NAMES[0]).is_none());
            assert_eq!(script.drain(&mut world, NAMES[1])?.len(), 3);
            Ok::<_, Failure>(())
        };
        run().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn connections_and_consumers_have_the_number_of_their_member() {
    for (seed, member) in [(0, 0), (4, 32_767)] {
        let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), seed).unwrap();
        let scripts = [(); 2].map(|()| Script::start(&mut world).unwrap());
        let mut clients: Vec<_> = world.broker.clients().into_iter().map(|client| client.id).collect();
        clients.sort_unstable();
        assert_eq!(clients.len(), scripts.len());
        assert!(clients.iter().all(|id| id.member() == MemberNumber(member) && id.counter() < 100), "{clients:?}");
        assert_eq!(MemberNumber::of_id(world.broker.fresh_id()), MemberNumber(member));
    }
}
