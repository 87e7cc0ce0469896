//! A commit stream that makes no progress, or leaves: all that doesn't need it goes on.

use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue};
use leveret_broker::notices::EVENT_EXCHANGE;
#[cfg(feature = "planted-bugs")]
use leveret_broker::planted::{self, Bug};
use leveret_broker::streams::StoreId;
use leveret_broker::ticket::StreamId;
use leveret_log::Options;
use leveret_model::{Arguments, Command, DeclareExchange, Queue};
use leveret_sim::amqp091::Heard;
use leveret_sim::amqp091::script::{CHANNEL, Script};
use leveret_sim::body::{self, body, properties};
use leveret_sim::disk::SimDisk;
use leveret_sim::failure::Failure;
use leveret_sim::world::{Logs, World, small_log};
use leveret_strict_client::amqp091::Publication;

const OTHER: StreamId = StreamId(1);
const SECOND: u64 = 1_000_000_000;
/// Time without progress, in nanoseconds.
const STALLED: u64 = 60 * SECOND;
/// Messages that fill the log of the stream that stands still.
const TOO_MANY: u64 = 200;
const BODY_BYTES: usize = 1000;
/// Messages that fill the files of a log several times.
const ALONE: u64 = 2_000;

/// Queues whose name begins with `still` are in the stream that stands still.
fn placing(queue: &Queue) -> StreamId {
    if queue.name.starts_with("still") { OTHER } else { StreamId::LOCAL }
}

fn start(seed: u64) -> Result<World, Failure> {
    let options = vec![small_log(), Options { wal_id: 1, ..small_log() }];
    Ok(World::start(Arc::new(SimDisk::new()), Logs { options, placing }, seed)?.0)
}

fn arguments(pairs: &[(&[u8], FieldValue)]) -> FieldTable {
    let mut arguments = FieldTable::new();
    for (key, value) in pairs {
        arguments.insert(key, value.clone());
    }
    arguments
}

fn dead_letters_to(queue: &str) -> Vec<(&'static [u8], FieldValue)> {
    let key = FieldValue::LongString(queue.as_bytes().to_vec());
    vec![(&b"x-dead-letter-exchange"[..], FieldValue::LongString(Vec::new())), (&b"x-dead-letter-routing-key"[..], key)]
}

fn publish(world: &mut World, script: &Script, queue: &str, id: u64, bytes: usize) -> u64 {
    let client = &mut world.links[script.link].amqp091().client;
    client.publish(
        CHANNEL,
        Publication::to_queue(queue.as_bytes(), &body(id, bytes)).with(&properties(id, true)).mandatory(),
    )
}

fn confirming(world: &mut World) -> Result<Script, Failure> {
    let script = Script::start(world)?;
    world.links[script.link].amqp091().client.confirm_select(CHANNEL);
    script.reply(world, "confirm.select-ok")?;
    Ok(script)
}

/// Publishes a message and waits until it is confirmed.
fn confirmed(world: &mut World, script: &Script, queue: &str, id: u64) -> Result<(), Failure> {
    let tag = publish(world, script, queue, id, 40);
    script.until(world, |heard| match heard {
        Heard::Confirmed { last, positive, .. } if last >= tag => {
            assert!(positive);
            Some(())
        }
        _ => None,
    })
}

/// Takes a message out of a queue once it comes, and no later than after this time. Returns its id.
fn comes(world: &mut World, script: &Script, queue: &str, within: u64) -> Result<u64, Failure> {
    let limit = world.clock.nanos() + within;
    loop {
        if let Some(received) = script.get(world, queue, false)? {
            return Ok(body::id(&received.content.body).expect("it is one of ours"));
        }
        assert!(world.clock.nanos() < limit, "nothing came to {queue} in {within} ns");
        let next = world.clock.nanos() + SECOND / 10;
        while world.step_until(next)? {}
    }
}

/// Fills the stream that stands still, from a client of its own.
fn fill(world: &mut World, script: &Script) -> Result<(), Failure> {
    for id in 0..TOO_MANY {
        publish(world, script, "still", 1_000_000 + id, BODY_BYTES);
    }
    let soon = world.clock.nanos() + SECOND;
    while world.step_until(soon)? {}
    assert!(!world.broker.streams.has_room(OTHER), "its log is full");
    assert!(world.broker.streams.has_room(StreamId::LOCAL));
    Ok(())
}

fn others_go_on(seed: u64) -> Result<(), Failure> {
    let mut world = start(seed)?;
    let (still, others, events) = (confirming(&mut world)?, confirming(&mut world)?, Script::start(&mut world)?);
    let transactions = Script::start(&mut world)?;
    others.declare(&mut world, "dead", &FieldTable::new())?;
    others.declare(&mut world, "plain", &arguments(&dead_letters_to("dead")))?;
    let mut brief = dead_letters_to("dead");
    brief.push((b"x-message-ttl", FieldValue::I32(500)));
    others.declare(&mut world, "brief", &arguments(&brief))?;
    others.declare(&mut world, "still", &arguments(&dead_letters_to("dead")))?;
    // Messages die here towards the stream that stands still, and in it by a timer.
    others.declare(&mut world, "to-still", &arguments(&dead_letters_to("still")))?;
    brief[1].1 = FieldValue::LongString(b"still".to_vec());
    others.declare(&mut world, "still-brief", &arguments(&brief))?;
    world.links[transactions.link].amqp091().client.tx_select(CHANNEL);
    transactions.reply(&mut world, "tx.select-ok")?;
    let exchange = DeclareExchange {
        vhost: "/".into(),
        name: EVENT_EXCHANGE.into(),
        kind: "topic".into(),
        durable: true,
        auto_delete: false,
        internal: true,
        arguments: Arguments::default(),
    };
    let now = world.clock.now();
    world.broker.bootstrap(vec![Command::DeclareExchange(exchange)], now).expect("the broker declares it");
    for queue in ["events", "still-events"] {
        events.declare(&mut world, queue, &FieldTable::new())?;
        let client = &mut world.links[events.link].amqp091().client;
        client.bind_queue(CHANNEL, queue.as_bytes(), EVENT_EXCHANGE.as_bytes(), b"queue.created", &FieldTable::new());
        events.reply(&mut world, "queue.bind-ok")?;
    }
    // In the stream that stands still a timer is due, and dead letters go there.
    confirmed(&mut world, &others, "still-brief", 7)?;
    confirmed(&mut world, &others, "to-still", 8)?;

    world.still = Some(StoreId(1));
    fill(&mut world, &still)?;
    let received = others.get(&mut world, "to-still", true)?.expect("it was confirmed");
    world.links[others.link].amqp091().client.nack(CHANNEL, received.tag, false, false);

    let end = world.clock.nanos() + STALLED;
    let mut id = 0;
    while world.clock.nanos() < end {
        id += 10;
        confirmed(&mut world, &others, "plain", id)?;
        let received = others.get(&mut world, "plain", true)?.expect("it was confirmed");
        world.links[others.link].amqp091().client.nack(CHANNEL, received.tag, false, false);
        assert_eq!(comes(&mut world, &others, "dead", SECOND)?, id, "a dead letter");
        confirmed(&mut world, &others, "brief", id + 1)?;
        assert_eq!(comes(&mut world, &others, "dead", 2 * SECOND)?, id + 1, "a timer");
        publish(&mut world, &transactions, "dead", id + 2, 40);
        world.links[transactions.link].amqp091().client.tx_commit(CHANNEL);
        transactions.reply(&mut world, "tx.commit-ok")?;
        assert_eq!(comes(&mut world, &others, "dead", SECOND)?, id + 2, "a transaction");
        others.declare(&mut world, &format!("made-{id}"), &FieldTable::new())?;
        let limit = world.clock.nanos() + SECOND;
        while events.get(&mut world, "events", false)?.is_none() {
            assert!(world.clock.nanos() < limit, "no event came");
            let next = world.clock.nanos() + SECOND / 10;
            while world.step_until(next)? {}
        }
        let next = world.clock.nanos() + 5 * SECOND;
        while world.step_until(next)? {}
    }
    assert!(world.broker.has_dead_letters(), "they wait for the stream");

    // Then what waited for the stream comes, and nothing of it is missing.
    world.still = None;
    let mut came = Vec::new();
    for _ in 0..TOO_MANY + 2 {
        came.push(comes(&mut world, &others, "still", 60 * SECOND)?);
    }
    let (published, mut dead): (Vec<_>, Vec<_>) = came.into_iter().partition(|id| *id >= 1_000_000);
    assert!(published.is_sorted() && published.len() as u64 == TOO_MANY);
    dead.sort_unstable();
    assert_eq!(dead, [7, 8]);
    while world.step()? {}
    assert!(!world.broker.has_dead_letters());
    Ok(())
}

#[test]
fn a_stream_that_stands_still_stops_nothing_else() {
    for seed in 0..6 {
        others_go_on(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// A stream leaves while confirms, a transaction and a dead letter wait for it. Returns whether the publish that was on its way there
/// was confirmed.
fn leaves(seed: u64) -> Result<bool, Failure> {
    let mut world = start(seed)?;
    let (still, others) = (confirming(&mut world)?, confirming(&mut world)?);
    for queue in ["still", "plain"] {
        others.declare(&mut world, queue, &FieldTable::new())?;
    }
    world.still = Some(StoreId(1));
    let tags = [1, 2, 3].map(|id| publish(&mut world, &still, "still", id, 40));
    confirmed(&mut world, &others, "plain", 4)?;
    let later = world.clock.nanos() + SECOND;
    while world.step_until(later)? {}

    world.broker.streams.leave(OTHER);
    let mut answered = Vec::new();
    still.until(&mut world, |heard| {
        if let Heard::Confirmed { first, last, positive, .. } = heard {
            answered.extend((first..=last).map(|tag| (tag, positive)));
        }
        (answered.len() == tags.len()).then_some(())
    })?;
    assert_eq!(answered.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), tags, "in order");
    // Its connection goes on, as others do.
    confirmed(&mut world, &still, "plain", 5)?;
    confirmed(&mut world, &others, "plain", 6)?;
    Ok(answered.iter().any(|(_, positive)| *positive))
}

#[test]
fn a_stream_that_leaves_refuses_what_waits_for_it() {
    for seed in 0..20 {
        let confirmed = leaves(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert!(!confirmed, "seed {seed}: it may be lost");
    }
}

#[test]
#[cfg(feature = "planted-bugs")]
fn confirming_what_a_stream_left_with_is_noticed() {
    planted::plant(Some(Bug::ConfirmGone));
    let noticed = (0..20).any(|seed| leaves(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}")));
    planted::plant(None);
    assert!(noticed);
}

#[test]
fn a_commit_to_a_stream_that_leaves_is_not_answered_as_done() {
    for seed in 0..20 {
        commit_to_one_that_leaves(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

fn commit_to_one_that_leaves(seed: u64) -> Result<(), Failure> {
    let mut world = start(seed)?;
    let script = Script::start(&mut world)?;
    for queue in ["still", "plain"] {
        script.declare(&mut world, queue, &FieldTable::new())?;
    }
    world.links[script.link].amqp091().client.tx_select(CHANNEL);
    script.reply(&mut world, "tx.select-ok")?;
    world.still = Some(StoreId(1));
    for queue in ["still", "plain"] {
        publish(&mut world, &script, queue, 1, 40);
    }
    world.links[script.link].amqp091().client.tx_commit(CHANNEL);
    let later = world.clock.nanos() + SECOND;
    while world.step_until(later)? {}
    world.broker.streams.leave(OTHER);
    for _ in 0..10_000 {
        for heard in world.links[script.link].amqp091().heard() {
            match heard {
                Heard::ChannelClosed(_, reason) => {
                    assert!(reason.text.contains("partial tx completion"), "{}", reason.text);
                    return Ok(());
                }
                Heard::Reply(_, reply) => panic!("{reply}"),
                _ => {}
            }
        }
        if !world.step()? {
            break;
        }
    }
    panic!("the commit was never answered")
}

/// A publisher that is alone with the log publishes until the disk is full, and goes on when there is space again: nothing more
/// becomes durable meanwhile that could wake it. Returns how many of its messages were confirmed.
fn publishes_alone(seed: u64) -> Result<u64, Failure> {
    let disk = Arc::new(SimDisk::new());
    let mut world = World::start(disk.clone(), small_log(), seed)?.0;
    let publisher = confirming(&mut world)?;
    publisher.declare(&mut world, "plain", &FieldTable::new())?;
    disk.limit_space(Some(disk.used() + ALONE * BODY_BYTES as u64 / 2));
    for id in 0..ALONE {
        publish(&mut world, &publisher, "plain", id, BODY_BYTES);
    }
    let mut confirmed = 0;
    for _ in 0..2 {
        let end = world.clock.nanos() + STALLED;
        while confirmed < ALONE && world.step_until(end)? {
            for heard in world.links[publisher.link].amqp091().heard() {
                if let Heard::Confirmed { last, positive: true, .. } = heard {
                    confirmed = last;
                }
            }
        }
        assert!(confirmed < ALONE || !disk.has_space_limit(), "seed {seed}: the disk was full");
        disk.limit_space(None);
    }
    Ok(confirmed)
}

#[test]
fn a_lone_publisher_goes_on_when_there_is_space() {
    for seed in 0..8 {
        let confirmed = publishes_alone(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!(confirmed, ALONE, "seed {seed}");
    }
}
