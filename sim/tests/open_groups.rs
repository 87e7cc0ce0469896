//! Groups of the log that stay open over several turns. A message behind one of an open group is confirmed only once it can be
//! seen, and the commit of a client that is gone takes effect as a whole.

use std::sync::Arc;

use leveret_amqp091::FieldTable;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::{Check, Failure};
use leveret_sim::world::{World, small_log};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

/// Number of queues that each transaction publishes to: several turns of a small budget.
const QUEUES: u64 = 12;
/// Number of clients that commit at once: two of them share a core.
const COMMITTERS: usize = 4;
const ROUNDS: u64 = 6;
/// Number of publishes of another client while transactions are committed.
const PROBES: u64 = 4;

fn name(queue: u64) -> String {
    format!("q-{queue}")
}

/// A world whose turns are short, with a client and the queues.
fn start(seed: u64) -> Result<(World, Script), Failure> {
    // Turns of even seeds are short.
    let (mut world, _) = World::start(Arc::new(SimDisk::new()), small_log(), 2 * seed)?;
    let script = Script::start(&mut world)?;
    for queue in 0..QUEUES {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let client = &mut world.links[script.link].amqp091().client;
        client.declare_queue(CHANNEL, name(queue).as_bytes(), flags, &FieldTable::new());
        script.until(&mut world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    }
    Ok((world, script))
}

fn committer(world: &mut World) -> Result<Script, Failure> {
    let script = Script::start(world)?;
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(world, "tx.select-ok")?;
    Ok(script)
}

/// Publishes a message to each queue in a transaction, the first with number `first`, and requests the commit.
fn request_commit(world: &mut World, script: &Script, first: u64) {
    let client = &mut world.links[script.link].amqp091().client;
    for queue in 0..QUEUES {
        let id = first + queue;
        client
            .publish(CHANNEL, Publication::to_queue(name(queue).as_bytes(), &body(id, 40)).with(&properties(id, true)));
    }
    client.tx_commit(CHANNEL);
}

/// Makes some steps, as many as the seed chooses.
fn pass(world: &mut World, most: u64) -> Result<(), Failure> {
    for _ in 0..world.random.below(most) {
        world.step()?;
    }
    Ok(())
}

/// Publishes to one of the queues, and takes messages from it when that is confirmed, until its own comes.
fn probe(world: &mut World, script: &Script, id: u64, seen: &mut Vec<u64>) -> Result<(), Failure> {
    let queue = name(world.random.below(QUEUES));
    let persistent = world.random.below(3) > 0;
    let client = &mut world.links[script.link].amqp091().client;
    client.publish(CHANNEL, Publication::to_queue(queue.as_bytes(), &body(id, 40)).with(&properties(id, persistent)));
    script.until(world, |heard| matches!(heard, Heard::Confirmed { positive: true, .. }).then_some(()))?;
    loop {
        let Some(received) = script.get(world, &queue, false)? else {
            return Err(Failure::new(
                Check::NothingLost,
                format!("message {id} was confirmed, and can't be seen in {queue}"),
            ));
        };
        let found = body::id(&received.content.body).expect("every message has its number");
        if found == id {
            return Ok(());
        }
        seen.push(found);
    }
}

/// Several clients commit at once while another one publishes behind their messages.
fn commit_and_probe(seed: u64) -> Result<(), Failure> {
    let (mut world, script) = start(seed)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    let committers: Vec<Script> = (0..COMMITTERS).map(|_| committer(&mut world)).collect::<Result<_, _>>()?;
    let mut next = 0;
    for _ in 0..ROUNDS {
        let (first, mut seen) = (next, Vec::new());
        for committer in &committers {
            request_commit(&mut world, committer, next);
            next += QUEUES;
        }
        let committed = first..next;
        for _ in 0..PROBES {
            pass(&mut world, 60)?;
            probe(&mut world, &script, next, &mut seen)?;
            next += 1;
        }
        for committer in &committers {
            committer.reply(&mut world, "tx.commit-ok")?;
        }
        for queue in 0..QUEUES {
            let found = script.drain(&mut world, &name(queue))?;
            seen.extend(found.iter().filter_map(|received| body::id(&received.content.body)));
        }
        seen.sort_unstable();
        assert_eq!(seen, committed.collect::<Vec<_>>(), "seed {seed}: messages of the transactions");
    }
    Ok(())
}

#[test]
fn a_message_behind_an_open_group_is_confirmed_when_it_is_seen() {
    for seed in 0..60 {
        commit_and_probe(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_confirm_before_the_group_is_caught() {
    use leveret_broker::planted::{Bug, plant};
    plant(Some(Bug::ConfirmBehindGroup));
    let caught = (0..60).find_map(|seed| commit_and_probe(seed).err().map(|failure| (seed, failure)));
    plant(None);
    let (seed, failure) = caught.expect("hidden");
    println!("seed {seed}: {failure}");
    assert!(failure.to_string().contains("can't be seen"), "seed {seed}: {failure}");
}

/// Clients vanish while they commit. Returns how many of their transactions took effect.
fn commit_and_vanish(seed: u64) -> Result<usize, Failure> {
    let (mut world, script) = start(seed)?;
    let committers: Vec<Script> = (0..COMMITTERS).map(|_| committer(&mut world)).collect::<Result<_, _>>()?;
    for (at, committer) in committers.iter().enumerate() {
        request_commit(&mut world, committer, at as u64 * QUEUES);
    }
    for committer in &committers {
        pass(&mut world, 80)?;
        world.disconnect(committer.link);
    }
    while world.step()? {}
    // Nothing is held back by a group that was left open.
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    let mut seen = Vec::new();
    probe(&mut world, &script, u64::MAX, &mut seen)?;
    for queue in 0..QUEUES {
        let found = script.drain(&mut world, &name(queue))?;
        seen.extend(found.iter().filter_map(|received| body::id(&received.content.body)));
    }
    let mut committed = 0;
    for first in (0..COMMITTERS as u64).map(|at| at * QUEUES) {
        let found = seen.iter().filter(|id| (first..first + QUEUES).contains(id)).count() as u64;
        assert!(found == 0 || found == QUEUES, "seed {seed}: {found} messages of a transaction");
        committed += usize::from(found > 0);
    }
    Ok(committed)
}

#[test]
fn the_commit_of_a_client_that_vanishes_is_whole() {
    let vanish = |seed| commit_and_vanish(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let committed: usize = (0..60).map(vanish).sum();
    println!("{committed} of {} took effect", 60 * COMMITTERS);
    assert!(committed > 0 && committed < 60 * COMMITTERS, "{committed}");
}
