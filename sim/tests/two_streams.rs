//! A broker with two logs, each a commit stream, and clients that publish to queues of both.

use std::collections::BTreeSet;
use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::streams::StoreId;
use leveret_broker::ticket::StreamId;
use leveret_log::Options;
use leveret_model::Queue;
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::event_hash::EventHash;
use leveret_sim::failure::Failure;
use leveret_sim::ledger::Ledger;
use leveret_sim::life;
use leveret_sim::random::Random;
use leveret_sim::tally::Tally;
use leveret_sim::workload::Peers;
use leveret_sim::world::{Logs, World, small_log};
use leveret_strict_client::amqp091::{Publication, QueueDeclare};

const OTHER: StreamId = StreamId(1);
const OTHER_STORE: StoreId = StoreId(1);
const OPERATIONS: usize = 400;
const PEERS: Peers = Peers { amqp091: 3, amqp10: 0, streams: 0 };
/// One in this many moments of a trace has a power cut.
const SAMPLE: usize = 7;

/// Spreads the queues of an owner over both streams. Its dead-letter queue is in the stream of the queue that the dead
/// letters come from.
fn placing(queue: &Queue) -> StreamId {
    let is_there = ["-1", "-dead", "-os"].iter().any(|end| queue.name.ends_with(end));
    if is_there { OTHER } else { StreamId::LOCAL }
}

fn logs() -> Logs {
    Logs { options: vec![small_log(), Options { wal_id: 1, ..small_log() }], placing }
}

/// Runs clients, cuts the power at moments of their work, and checks that all promises are kept.
fn work_and_cut(seed: u64) -> Result<(Tally, usize), Failure> {
    let disk = Arc::new(SimDisk::new());
    let mut ledger = Ledger::default();
    let (mut tally, mut hash) = (Tally::default(), EventHash::default());
    let (mut world, _) = World::start(disk.clone(), logs(), seed)?;
    life::run(&mut world, &mut ledger, PEERS, OPERATIONS)?;
    ledger.heard_everything();
    life::close_books(&mut world, &mut tally, &mut hash);
    let mut cuts = 0;
    for (at, moment) in disk.moments().enumerate().skip(seed as usize % SAMPLE).step_by(SAMPLE) {
        let survived = Arc::new(moment.crash(seed ^ at as u64));
        let judged = life::recover_and_judge(survived, logs(), &ledger, at, seed, &mut tally);
        let (mut world, _) =
            judged.map_err(|failure| Failure::new(failure.check, format!("power cut after change {at}: {failure}")))?;
        life::close_books(&mut world, &mut tally, &mut hash);
        cuts += 1;
    }
    Ok((tally, cuts))
}

#[test]
fn queues_of_two_streams_keep_what_was_promised_in_each() {
    let (mut all, mut cuts) = (Tally::default(), 0);
    for seed in 0..24 {
        let (tally, some) = work_and_cut(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        all.merge(&tally);
        cuts += some;
    }
    println!("{cuts} power cuts\n{all}");
    for name in ["confirms", "fan-outs", "retirements", "small writes"] {
        assert!(all.count(name) > 0, "there were no {name}");
    }
}

/// Publishes alternately to queues of both streams; a publish to both is the last. Returns the tags by stream.
fn publish(world: &mut World, script: &Script, random: &mut Random, count: u64) -> [BTreeSet<u64>; 2] {
    let mut tags = [BTreeSet::new(), BTreeSet::new()];
    for id in 0..count {
        let stream = random.below(2) as usize;
        let queue: &[u8] = [b"q-0", b"q-1"][stream];
        let client = &mut world.links[script.link].amqp091().client;
        tags[stream].insert(
            client
                .publish(CHANNEL, Publication::to_queue(queue, &body(id, 40)).with(&properties(id, true)).mandatory()),
        );
    }
    tags
}

/// Waits until `count` publishes are confirmed; returns their tags in the order of the confirms.
fn confirmed(world: &mut World, script: &Script, count: usize) -> Result<Vec<u64>, Failure> {
    let mut tags = Vec::new();
    script.until(world, |heard| {
        if let Heard::Confirmed { first, last, positive: true, .. } = heard {
            tags.extend(first..=last);
        }
        (tags.len() >= count).then_some(())
    })?;
    Ok(tags)
}

fn stands_still(still: StoreId, seed: u64) -> Result<(), Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk, logs(), seed)?;
    let script = Script::start(&mut world)?;
    for queue in ["q-0", "q-1"] {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let client = &mut world.links[script.link].amqp091().client;
        client.declare_queue(CHANNEL, queue.as_bytes(), flags, &Default::default());
        script.until(&mut world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    }
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;

    world.still = Some(still);
    let [stopped, moving] = [usize::from(still.0), 1 - usize::from(still.0)];
    let mut random = Random::new(seed);
    let tags = publish(&mut world, &script, &mut random, 60);
    let heard = confirmed(&mut world, &script, tags[moving].len())?;
    assert_eq!(heard, tags[moving].iter().copied().collect::<Vec<_>>(), "all of the stream that moves, in order");

    world.still = None;
    let heard = confirmed(&mut world, &script, tags[stopped].len())?;
    assert_eq!(heard, tags[stopped].iter().copied().collect::<Vec<_>>(), "those of the other one, in order");
    for (queue, tags) in ["q-0", "q-1"].into_iter().zip(&tags) {
        let found = script.drain(&mut world, queue)?;
        let ids: Vec<_> = found.iter().filter_map(|received| body::id(&received.content.body)).collect();
        assert_eq!(ids.len(), tags.len());
        assert!(ids.is_sorted());
    }
    Ok(())
}

#[test]
fn a_stalled_stream_delays_no_confirm_of_the_other() {
    for seed in 0..20 {
        for still in [StoreId::FIRST, OTHER_STORE] {
            stands_still(still, seed).unwrap_or_else(|failure| panic!("seed {seed}, {still:?}: {failure}"));
        }
    }
}

/// Rejects messages whose dead letters go to a queue of the other stream. Returns the disk, and the number of changes
/// that it had seen when the last message was confirmed.
fn reject_to_the_other(count: u64, seed: u64) -> Result<(Arc<SimDisk>, usize), Failure> {
    let disk = Arc::new(SimDisk::new());
    let (mut world, _) = World::start(disk.clone(), logs(), seed)?;
    let script = Script::start(&mut world)?;
    let mut arguments = FieldTable::new();
    arguments.insert(b"x-dead-letter-exchange", FieldValue::LongString(Vec::new()));
    arguments.insert(b"x-dead-letter-routing-key", FieldValue::LongString(b"q-1".to_vec()));
    for (queue, arguments) in [("q-0", &arguments), ("q-1", &FieldTable::new())] {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        let client = &mut world.links[script.link].amqp091().client;
        client.declare_queue(CHANNEL, queue.as_bytes(), flags, arguments);
        script.until(&mut world, |heard| matches!(heard, Heard::Declared(..)).then_some(()))?;
    }
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(&mut world, "confirm.select-ok")?;
    for id in 0..count {
        let client = &mut world.links[script.link].amqp091().client;
        client.publish(CHANNEL, Publication::to_queue(b"q-0", &body(id, 40)).with(&properties(id, true)).mandatory());
    }
    confirmed(&mut world, &script, count as usize)?;
    let confirmed = disk.count();
    world.still = Some(OTHER_STORE);
    for _ in 0..count {
        let received = script.get(&mut world, "q-0", true)?.expect("it was confirmed");
        world.links[script.link].amqp091().client.nack(CHANNEL, received.tag, false, false);
    }
    while world.step()? {}
    assert!(world.broker.has_dead_letters(), "they leave their queue when the other stream has them");
    assert!(script.get(&mut world, "q-1", false)?.is_none());
    world.still = None;
    while world.step()? {}
    assert!(!world.broker.has_dead_letters());
    Ok((disk, confirmed))
}

fn drained(world: &mut World) -> Result<Vec<u64>, Failure> {
    let script = Script::start(world)?;
    let mut ids = Vec::new();
    for queue in ["q-0", "q-1"] {
        let found = script.drain(world, queue)?;
        ids.extend(found.iter().filter_map(|received| body::id(&received.content.body)));
    }
    Ok(ids)
}

#[test]
fn dead_letters_for_another_stream_are_never_lost() {
    const COUNT: u64 = 12;
    for seed in 0..4 {
        let (disk, confirmed) = reject_to_the_other(COUNT, seed).unwrap_or_else(|failure| panic!("{seed}: {failure}"));
        let mut twice = 0;
        for (at, moment) in disk.moments().enumerate().skip(confirmed) {
            let survived = Arc::new(moment.crash(seed ^ at as u64));
            let found = World::start(survived, logs(), seed).and_then(|(mut world, _)| drained(&mut world));
            let found = found.unwrap_or_else(|failure| panic!("seed {seed}, power cut after change {at}: {failure}"));
            let ids: BTreeSet<u64> = found.iter().copied().collect();
            assert_eq!(ids.len() as u64, COUNT, "seed {seed}, power cut after change {at}");
            twice += usize::from(found.len() > ids.len());
        }
        println!("seed {seed}: in both queues after {twice} of {} power cuts", disk.count() - confirmed);
    }
}
