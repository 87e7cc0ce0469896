//! A message to very many queues is handed over in parts; its publisher is confirmed, and read again, when all have it.

use leveret_amqp10::message::{Header, write_data};
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{Event as Event10, Send, State};
use leveret_strict_client::amqp091::{Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::{Size, Status};

const QUEUES: usize = 300;
const SHARE: u32 = 100;
/// Queues that get a message in one turn, or whose messages become durable in one turn.
const TURN_QUEUES: usize = 5;
/// Most steps. A step of the stage has a read and a turn.
const STEP_MAX: usize = 2 * TURN_QUEUES;

fn stage(flags: QueueDeclare) -> Stage {
    let mut stage = Stage::with(Settings { turn_work_max: SHARE, ..Settings::default() });
    let link = stage.connect();
    for at in 0..QUEUES {
        let client = &mut stage.links[link].client;
        let queue = format!("q-{at}");
        client.declare_queue(1, queue.as_bytes(), flags, &FieldTable::new());
        client.bind_queue(1, queue.as_bytes(), b"amq.fanout", b"", &FieldTable::new());
        stage.settle();
    }
    stage
}

/// Number of queues that have this many messages, ready or on their way to the disk.
fn reached(stage: &Stage, messages: u64) -> usize {
    let snapshot = stage.broker.registry.snapshot_full();
    let has_them = |at: &usize| {
        let queue = snapshot.queue("/", &format!("q-{at}")).expect("is declared");
        let status = queue.look(Status).expect("it is there");
        status.ready + status.pending == messages
    };
    (0..QUEUES).filter(has_them).count()
}

/// Number of queues with a ready message.
fn ready(stage: &Stage) -> usize {
    let snapshot = stage.broker.registry.snapshot_full();
    (0..QUEUES)
        .filter(|at| snapshot.queue("/", &format!("q-{at}")).expect("is declared").look(Size { used: None }).0 == 1)
        .count()
}

/// Lets the publisher take steps until `step` says that it was answered. Each step hands the message to a few queues.
fn goes_in_parts(stage: &mut Stage, mut step: impl FnMut(&mut Stage) -> bool) {
    let (mut before, mut parts) = (0, 0);
    loop {
        let is_told = step(stage);
        let now = reached(stage, 1);
        assert!(now - before <= STEP_MAX, "a step handed it to {} queues", now - before);
        parts += usize::from(now > before);
        before = now;
        if is_told {
            break;
        }
    }
    assert_eq!(before, QUEUES, "queues that had it when the publisher was told");
    assert!(parts >= QUEUES / STEP_MAX, "{parts} parts");
}

/// A durable queue's messages become visible in parts, too.
#[test]
fn a_publish_is_confirmed_when_every_queue_has_it() {
    for (durable, properties) in [(false, &[0, 0][..]), (true, &[0x10, 0, 2])] {
        let mut stage = stage(QueueDeclare { durable, ..QueueDeclare::default() });
        let link = stage.connect();
        stage.links[link].client.confirm_select(1);
        stage.settle();
        stage.links[link].told();
        stage.links[link].client.publish(1, Publication::to(b"amq.fanout", b"", b"x").with(properties));
        goes_in_parts(&mut stage, |stage| {
            stage.disk_work();
            assert!(stage.links[link].step(stage.now) || durable, "it is told at last");
            stage.links[link].told().iter().any(|told| matches!(told, Told::Event(Event::Confirmed { .. })))
        });
        assert_eq!(ready(&stage), QUEUES, "queues whose consumers could have had it");
    }
}

#[test]
fn a_get_after_a_wide_publish_finds_the_message_in_every_queue() {
    let mut stage = stage(QueueDeclare::default());
    let link = stage.connect();
    stage.links[link].client.publish(1, Publication::to(b"amq.fanout", b"", b"x"));
    stage.links[link].client.get(1, format!("q-{}", QUEUES - 1).as_bytes(), true);
    stage.settle();
    let told = stage.links[link].told();
    assert!(told.iter().any(|told| matches!(told, Told::Event(Event::Got { .. }))), "{told:?}");
}

#[test]
fn a_broken_socket_takes_no_message_from_queues_that_are_left() {
    let mut stage = stage(QueueDeclare { durable: true, ..QueueDeclare::default() });
    let link = stage.connect();
    stage.links[link].client.publish(1, Publication::to(b"amq.fanout", b"", b"x").with(&[0x10, 0, 2]));
    stage.links[link].step(stage.now);
    assert!(reached(&stage, 1) < QUEUES, "some are left for the next turn");
    let connection = &mut stage.links[link].connection;
    connection.disconnected(stage.now);
    while connection.is_ending() {
        connection.turn(stage.now);
    }
    stage.settle();
    assert_eq!(ready(&stage), QUEUES);
}

fn sender(stage: &mut Stage) -> Client10 {
    let mut client = Client10::connect(stage, "guest");
    client.client.attach_sender(CHANNEL, 0, "sender", Some("/exchanges/amq.fanout"));
    client.run(stage);
    let mut message = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut message);
    write_data(&mut message, b"x");
    client.client.send(CHANNEL, 0, b"1", &message, &Send::default());
    client
}

#[test]
fn a_transfer_is_accepted_when_every_queue_has_it() {
    let mut stage = stage(QueueDeclare { durable: true, ..QueueDeclare::default() });
    let mut client = sender(&mut stage);
    goes_in_parts(&mut stage, |stage| {
        client.step(stage);
        client.events.iter().any(|event| matches!(event, Event10::Disposition { state: Some(State::Accepted), .. }))
    });
    assert_eq!(ready(&stage), QUEUES);
}

#[test]
fn a_close_behind_a_wide_transfer_leaves_it_in_every_queue() {
    let mut stage = stage(QueueDeclare { durable: true, ..QueueDeclare::default() });
    let mut client = sender(&mut stage);
    client.client.close(None);
    // The publisher is notified of durable messages without asking for a turn.
    for _ in 0..QUEUES {
        client.step(&mut stage);
    }
    assert_eq!(ready(&stage), QUEUES);
}

#[test]
fn a_broken_socket_takes_no_transfer_from_queues_that_are_left() {
    let mut stage = stage(QueueDeclare { durable: true, ..QueueDeclare::default() });
    let mut client = sender(&mut stage);
    client.step(&mut stage);
    assert!(reached(&stage, 1) < QUEUES, "some are left for the next turn");
    client.connection.disconnected(stage.now);
    while client.connection.is_ending() {
        client.connection.turn(stage.now);
    }
    stage.settle();
    assert_eq!(ready(&stage), QUEUES);
}
