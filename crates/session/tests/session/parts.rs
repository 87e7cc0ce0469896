//! Ending something that has thousands of parts takes many turns, and is answered when all parts have ended.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::{RunState, Size};
use leveret_broker::registry::ChangeRequest;
use leveret_model::{Arguments, Command, DeclareQueue, Permit};
use leveret_queue::QueueState;
use leveret_strict_client::amqp10::SessionOptions;
use leveret_strict_client::amqp091::{Client, Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

const MANY: u64 = 500;
/// Budget of a turn, which can end ten consumers.
const SHARE: u32 = 400;
/// Most steps. A step of the stage has a read and a turn.
const STEP_MAX: u64 = 2 * (SHARE as u64 / 40 + 1);

fn stage() -> Stage {
    Stage::with(Settings { turn_work_max: SHARE, link_max: 1000, ..Settings::default() })
}

/// Ready messages of the queue, and its consumers.
fn counts(stage: &Stage, queue: &str) -> (u64, u64) {
    let snapshot = stage.broker.registry.snapshot_full();
    let (ready, consumers) = snapshot.queue("/", queue).expect("is declared").look(Size { used: None });
    (ready, consumers as u64)
}

/// A queue with this many messages and a client with as many consumers, each of which holds one.
fn with_consumers() -> (Stage, usize) {
    let mut stage = stage();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    client.qos(1, 1, false);
    for consumer in 0..MANY {
        client.consume(1, b"q", consumer.to_string().as_bytes(), Consume::default(), &FieldTable::new());
    }
    for _ in 0..MANY {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    assert_eq!(counts(&stage, "q"), (0, MANY));
    stage.links[link].told();
    (stage, link)
}

/// Runs steps, each of which ends few consumers, until the client is answered; by then all have ended.
fn ends_in_parts(stage: &mut Stage, link: usize, told: &Told) {
    let mut left = MANY;
    let mut steps = 0;
    loop {
        let moved = stage.disk_work() | stage.links[link].step(stage.now);
        let now = counts(stage, "q").1;
        assert!(left - now <= STEP_MAX, "a step ended {} consumers", left - now);
        steps += u64::from(now < left);
        left = now;
        if stage.links[link].told().contains(told) {
            assert_eq!(left, 0, "consumers that were left when it was told that all have ended");
            break;
        }
        assert!(moved, "it is told at last");
    }
    assert!(steps >= MANY / STEP_MAX, "{steps} steps");
    assert_eq!(counts(stage, "q"), (MANY, 0), "all messages are back");
}

#[test]
fn a_channel_closes_when_all_its_consumers_have_ended() {
    let (mut stage, link) = with_consumers();
    stage.links[link].client.close_channel(1);
    ends_in_parts(&mut stage, link, &Told::Event(Event::Reply { channel: 1, method: "channel.close-ok" }));
}

#[test]
fn a_connection_closes_when_all_its_consumers_have_ended() {
    let (mut stage, link) = with_consumers();
    stage.links[link].client.close("bye");
    ends_in_parts(&mut stage, link, &Told::Event(Event::ConnectionCloseOk));
}

#[test]
fn a_broken_socket_ends_its_consumers_in_parts() {
    let (mut stage, link) = with_consumers();
    let connection = &mut stage.links[link].connection;
    connection.disconnected(stage.now);
    let mut left = counts(&stage, "q").1;
    assert!(left >= MANY - STEP_MAX, "{left} consumers are left");
    while stage.links[link].connection.is_ending() {
        stage.links[link].connection.turn(stage.now);
        let now = counts(&stage, "q").1;
        assert!(left - now <= STEP_MAX, "a turn ended {} consumers", left - now);
        left = now;
    }
    assert_eq!(counts(&stage, "q"), (MANY, 0));
}

/// Runs steps, each of which settles few deliveries, until `ready` messages of the queue are ready. Later commands run
/// after all of them.
fn settled_in_parts(settle: impl FnOnce(&mut Client), ready: u64) {
    let (mut stage, link) = with_consumers();
    let client = &mut stage.links[link].client;
    settle(client);
    // This command is read when all are settled.
    client.declare_queue(1, b"later", QueueDeclare::default(), &FieldTable::new());
    let mut steps = 0;
    loop {
        stage.links[link].step(stage.now);
        steps += 1;
        let is_there = stage.broker.registry.snapshot_full().queue("/", "later").is_some();
        if is_there {
            break;
        }
        assert!(steps < 10 * MANY, "the frame after it is never read");
    }
    assert!(steps >= MANY / STEP_MAX, "{steps} steps");
    stage.links[link].client.close_channel(1);
    stage.settle();
    assert_eq!(counts(&stage, "q").0, ready);
}

#[test]
fn an_acknowledgement_of_many_consumers_is_done_in_parts() {
    settled_in_parts(|client| client.ack(1, MANY, true), 0);
}

#[test]
fn a_nack_of_many_consumers_is_done_in_parts() {
    settled_in_parts(|client| client.nack(1, MANY, true, true), MANY);
}

#[test]
fn acknowledgements_survive_a_broken_socket() {
    let (mut stage, link) = with_consumers();
    stage.links[link].client.ack(1, MANY, true);
    stage.links[link].step(stage.now);
    assert!(stage.links[link].connection.is_ending(), "some are left for the next turn");
    stage.links[link].connection.disconnected(stage.now);
    while stage.links[link].connection.is_ending() {
        stage.links[link].connection.turn(stage.now);
    }
    assert_eq!(counts(&stage, "q"), (0, 0), "none came back");
}

/// The connection's exclusive queues are deleted, too.
#[test]
fn exclusive_queues_are_gone_when_their_connection_closes() {
    let mut stage = stage();
    let link = stage.connect();
    for queue in 0..200 {
        let flags = QueueDeclare { exclusive: true, ..QueueDeclare::default() };
        stage.links[link].client.declare_queue(1, format!("own-{queue}").as_bytes(), flags, &FieldTable::new());
    }
    stage.settle();
    stage.links[link].client.close("bye");
    let closed = Told::Event(Event::ConnectionCloseOk);
    while !stage.links[link].told().contains(&closed) {
        stage.disk_work();
        assert!(stage.links[link].step(stage.now), "it is told at last");
    }
    assert_eq!(stage.broker.registry.snapshot_full().queues.len(), 0);
}

/// A large number of queues blocks neither the client that deletes them nor a core.
#[test]
fn the_queues_of_a_deleted_vhost_go_in_parts() {
    const QUEUES: u64 = 2000;
    let mut stage = stage();
    let registry = stage.broker.clone();
    let submit = |command| {
        let changed = registry.registry.change(ChangeRequest::new(Permit::system(), command), 0);
        assert!(changed.now().expect("at once").is_ok());
    };
    submit(Command::CreateVhost { name: "many".into() });
    for at in 0..QUEUES {
        submit(Command::DeclareQueue(DeclareQueue::durable(
            "many".into(),
            format!("q-{at}").into(),
            Arguments::default(),
        )));
    }
    stage.settle();
    let before = stage.broker.registry.snapshot_full();
    let left = || before.queues.values().filter(|queue| queue.look(RunState) != QueueState::Deleted).count() as u64;
    assert_eq!(left(), QUEUES);
    submit(Command::DeleteVhost { name: "many".into() });
    stage.broker.streams.announce();
    while !stage.broker.registry.snapshot_full().queues.is_empty() {
        assert!(stage.disk_work(), "it is durable at last");
    }
    assert!(left() > QUEUES / 2, "{} queues are left to their cores", left());
    let mut turns = 0;
    while stage.broker.has_deferred_work(0, stage.now) {
        let now = left();
        stage.broker.deferred_turn(0, stage.now);
        assert!(now - left() <= 256, "{} queues went in one turn", now - left());
        turns += 1;
    }
    assert_eq!(left(), 0);
    assert!(turns >= 4, "{turns} turns");
    stage.broker.registry.free_retired();
}

fn with_links() -> (Stage, Client10) {
    let mut stage = stage();
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    for _ in 0..MANY {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.begin(1, SessionOptions { handle_max: 1000, ..SessionOptions::default() });
    client.run(&mut stage);
    for handle in 0..MANY as u32 {
        client.client.attach_receiver(1, handle, &handle.to_string(), "/queues/q", false);
    }
    client.run(&mut stage);
    for handle in 0..MANY as u32 {
        client.client.grant(1, handle, 1, false);
    }
    client.run(&mut stage);
    assert_eq!(counts(&stage, "q"), (0, MANY));
    (stage, client)
}

fn links_end_in_parts(mut stage: Stage, mut client: Client10) {
    let mut left = MANY;
    while client.step(&mut stage) {
        let now = counts(&stage, "q").1;
        assert!(left - now <= STEP_MAX, "a step ended {} links", left - now);
        left = now;
    }
    assert_eq!(counts(&stage, "q"), (MANY, 0));
}

#[test]
fn a_session_ends_its_links_in_parts() {
    let (stage, mut client) = with_links();
    client.client.end(1, None);
    links_end_in_parts(stage, client);
}

#[test]
fn a_close_ends_its_links_in_parts() {
    let (stage, mut client) = with_links();
    client.client.end(CHANNEL, None);
    client.client.close(None);
    links_end_in_parts(stage, client);
}

#[test]
fn a_broken_socket_ends_its_links_in_parts() {
    let (stage, mut client) = with_links();
    client.connection.disconnected(stage.now);
    let mut left = MANY;
    while client.connection.is_ending() {
        let now = counts(&stage, "q").1;
        assert!(left - now <= STEP_MAX, "a turn ended {} links", left - now);
        left = now;
        client.connection.turn(stage.now);
    }
    assert_eq!(counts(&stage, "q"), (MANY, 0));
}

#[test]
fn a_disposition_of_many_links_is_done_in_parts() {
    let (mut stage, mut client) = with_links();
    let ids: Vec<_> = client
        .events
        .iter()
        .filter_map(|event| match event {
            leveret_strict_client::amqp10::Event::Delivered(delivery) => Some(delivery.delivery_id),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len() as u64, MANY);
    client.client.accept(1, ids[0], ids[ids.len() - 1]);
    let mut steps = 0;
    while client.step(&mut stage) {
        steps += 1;
    }
    assert!(steps >= MANY / STEP_MAX, "{steps} steps");
    client.client.end(1, None);
    client.run(&mut stage);
    assert_eq!(counts(&stage, "q"), (0, 0), "all were settled");
}

/// Two links that hold alternate messages of two queues; queue `one` is deleted.
#[test]
fn a_link_whose_queue_is_deleted_ends_in_parts() {
    let mut stage = stage();
    let link = stage.connect();
    for queue in [b"one", b"two"] {
        stage.links[link].client.declare_queue(1, queue, QueueDeclare::default(), &FieldTable::new());
    }
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    for (handle, queue) in [(0, "one"), (1, "two")] {
        client.client.attach_receiver(CHANNEL, handle, queue, &format!("/queues/{queue}"), false);
        client.run(&mut stage);
        client.client.grant(CHANNEL, handle, MANY as u32, false);
    }
    for _ in 0..MANY {
        for queue in [b"one", b"two"] {
            stage.links[link].client.publish(1, Publication::to_queue(queue, b"x"));
        }
        stage.settle();
        client.run(&mut stage);
    }
    assert_eq!((client.delivered(0), client.delivered(1)), (MANY as usize, MANY as usize));
    stage.links[link].client.delete_queue(1, b"one");
    stage.settle();
    let is_detached = |client: &Client10| client.refusal().is_some();
    let mut steps = 0;
    while !is_detached(&client) {
        client.step(&mut stage);
        steps += 1;
        assert!(steps < 10 * MANY, "it is told at last");
    }
    assert!(steps >= 2, "{steps} steps");
    assert_eq!(client.refusal().as_deref(), Some("amqp:resource-deleted"));
    client.client.end(CHANNEL, None);
    client.run(&mut stage);
    assert_eq!(counts(&stage, "two"), (MANY, 0), "what the other link held is back");
}
