//! Dead letters with very many targets, which get them in several turns of a core, as one group.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::{QueueRef, Size};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::stage::{Stage, Told};

/// Budget of a turn, in which a dozen queues get a message.
const SHARE: u32 = 300;
/// Number of targets that a turn reaches at most.
const TURN_TARGETS: usize = SHARE as usize / 25;
const TARGETS: usize = 60;
const TURNS_MAX: usize = 1000;

fn name(at: usize) -> String {
    format!("q-{at}")
}

/// A stage with a client, this many queues at an exchange, and a queue `dying` that keeps no message and sends dead letters there.
/// All work that queues leave for their core waits.
fn stage(targets: usize, overflow: &str) -> (Stage, usize) {
    let mut stage = Stage::with(Settings { turn_work_max: SHARE, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    for at in 0..targets {
        client.declare_queue(1, name(at).as_bytes(), flags, &FieldTable::new());
        client.bind_queue(1, name(at).as_bytes(), b"amq.fanout", b"", &FieldTable::new());
    }
    let arguments = FieldTable::new().with("x-max-length", 0).with("x-dead-letter-exchange", "amq.fanout");
    client.declare_queue(1, b"dying", flags, &arguments.with("x-overflow", overflow));
    client.confirm_select(1);
    stage.settle();
    stage.links[link].told();
    stage.holds_answers = true;
    (stage, link)
}

fn publish(stage: &mut Stage, link: usize, queue: &str, count: usize) {
    for at in 0..count {
        let body = at.to_string();
        stage.links[link]
            .client
            .publish(1, Publication::to_queue(queue.as_bytes(), body.as_bytes()).with(&[0x10, 0, 2]));
    }
    rest(stage);
}

/// Lets queues get what is durable: a turn applies a few of them, and nobody is woken for the next one here.
fn rest(stage: &mut Stage) {
    for _ in 0..10 {
        stage.settle();
    }
}

fn queue(stage: &Stage, name: &str) -> QueueRef {
    stage.broker.registry.snapshot_full().queue("/", name).expect("it is declared").clone()
}

/// Ready messages of all targets.
fn ready(stage: &Stage, targets: usize) -> u64 {
    (0..targets).map(|at| queue(stage, &name(at)).look(Size { used: None }).0).sum()
}

/// Turns of the core until nothing is left, each followed by `between`.
fn turns(stage: &mut Stage, mut between: impl FnMut(&mut Stage)) -> usize {
    let mut turns = 0;
    while stage.broker.deferred_turn(0, stage.now) {
        between(stage);
        turns += 1;
        assert!(turns < TURNS_MAX, "it never ends");
    }
    turns + 1
}

/// Consumes all messages of a queue.
fn bodies(stage: &mut Stage, link: usize, queue: &str) -> Vec<String> {
    let flags = Consume { no_ack: true, exclusive: false };
    stage.links[link].client.consume(1, queue.as_bytes(), b"", flags, &FieldTable::new());
    rest(stage);
    let body = |told| match told {
        Told::Delivered { body, .. } => Some(body),
        Told::Event(_) => None,
    };
    stage.links[link].told().into_iter().filter_map(body).collect()
}

#[test]
fn a_dead_letter_reaches_many_targets_in_several_turns() {
    for overflow in ["drop-head", "reject-publish-dlx"] {
        let (mut stage, link) = stage(TARGETS, overflow);
        publish(&mut stage, link, "dying", 1);
        assert!(stage.broker.has_dead_letters());
        let count = turns(&mut stage, |stage| {
            assert_eq!(ready(stage, TARGETS), 0, "a part of it was moved");
            assert!(stage.broker.has_dead_letters(), "a clean stop doesn't wait for it");
        });
        // They are looked up before they get it.
        assert!(count >= 2 * TARGETS / (TURN_TARGETS + 1), "{overflow}: {count} turns");
        assert!(!stage.broker.has_dead_letters());
        rest(&mut stage);
        assert_eq!(ready(&stage, TARGETS), TARGETS as u64, "{overflow}");
    }
}

#[test]
fn a_publish_behind_a_dead_letter_is_confirmed_when_it_is_seen() {
    let (mut stage, link) = stage(TARGETS, "drop-head");
    publish(&mut stage, link, "dying", 1);
    let other = stage.connect();
    stage.links[other].client.confirm_select(1);
    stage.settle();
    stage.links[other].told();
    let confirmed = |stage: &mut Stage| {
        let told = stage.links[other].told();
        told.iter().any(|told| matches!(told, Told::Event(Event::Confirmed { positive: true, .. })))
    };
    let mut turn = 0;
    turns(&mut stage, |stage| {
        turn += 1;
        // By then all targets are found, and the first one has the dead letter.
        if turn == TARGETS / TURN_TARGETS + 2 {
            publish(stage, other, "q-0", 1);
        }
        assert!(!confirmed(stage));
    });
    rest(&mut stage);
    assert!(confirmed(&mut stage));
    assert_eq!(queue(&stage, "q-0").look(Size { used: None }).0, 2);
}

#[test]
fn a_turn_moves_as_many_messages_as_it_has_work_for() {
    const MESSAGES: usize = 100;
    const FEW: usize = 5;
    for overflow in ["drop-head", "reject-publish-dlx"] {
        let (mut stage, link) = stage(FEW, overflow);
        publish(&mut stage, link, "dying", MESSAGES);
        let count = turns(&mut stage, |_| {});
        assert!(count >= MESSAGES * FEW / (TURN_TARGETS + FEW), "{overflow}: {count} turns");
        rest(&mut stage);
        assert_eq!(ready(&stage, FEW), (MESSAGES * FEW) as u64, "{overflow}");
        let expected: Vec<_> = (0..MESSAGES).map(|at| at.to_string()).collect();
        assert_eq!(bodies(&mut stage, link, "q-4"), expected, "{overflow}");
        assert!(!stage.broker.has_dead_letters());
    }
}

/// The other targets get it, and it isn't lost: after a restart it dies again.
#[test]
fn a_dead_letter_stays_when_a_target_fails_between_two_turns() {
    let (mut stage, link) = stage(TARGETS, "drop-head");
    publish(&mut stage, link, "dying", 1);
    let mut turn = 0;
    turns(&mut stage, |stage| {
        turn += 1;
        if turn == TARGETS / TURN_TARGETS + 2 {
            queue(stage, &name(TARGETS - 1)).body_owner().fail("damaged".into());
        }
    });
    rest(&mut stage);
    assert_eq!(ready(&stage, TARGETS - 1), TARGETS as u64 - 1);
    assert!(stage.broker.has_dead_letters());
}

#[test]
fn a_target_that_failed_before_keeps_all_from_moving() {
    let (mut stage, link) = stage(TARGETS, "drop-head");
    publish(&mut stage, link, "dying", 1);
    queue(&stage, &name(TARGETS - 1)).body_owner().fail("damaged".into());
    turns(&mut stage, |_| {});
    rest(&mut stage);
    assert_eq!(ready(&stage, TARGETS - 1), 0);
    assert!(stage.broker.has_dead_letters());
}

#[test]
fn a_queue_that_is_deleted_finishes_its_move() {
    let (mut stage, link) = stage(TARGETS, "drop-head");
    publish(&mut stage, link, "dying", 1);
    let mut turn = 0;
    let deleted = Told::Event(Event::Removed { channel: 1, method: "queue.delete-ok", message_count: 0 });
    turns(&mut stage, |stage| {
        turn += 1;
        if turn == TARGETS / TURN_TARGETS + 2 {
            stage.links[link].client.delete_queue(1, b"dying");
            rest(stage);
        }
        assert!(!stage.links[link].told().contains(&deleted), "the group before it is open");
    });
    rest(&mut stage);
    turns(&mut stage, |_| {});
    assert_eq!(ready(&stage, TARGETS), TARGETS as u64);
    assert!(stage.links[link].told().contains(&deleted));
    assert!(!stage.broker.has_dead_letters());
}
