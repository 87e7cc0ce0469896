//! A commit that takes several turns: nothing sees it half done, and its group is closed whatever becomes of its client.

use leveret_amqp10::message::write_value_raw;
use leveret_amqp10::performative::Attach;
use leveret_amqp10::transaction::{Coordinator, Declare, Discharge, TransactionRequest};
use leveret_amqp10::{DeliveryState, Role, Source, TargetArchetype};
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{Event as Event10, Send, State};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};
use leveret_broker::queue_handle::Size;

/// Budget of a turn, in which a dozen queues get a message.
const SHARE: u32 = 300;
const QUEUES: usize = 100;
/// Steps that a commit to all queues takes at least.
const STEPS_MIN: usize = QUEUES * 25 / (2 * SHARE as usize);
const COMMITTED: Told = Told::Event(Event::Reply { channel: 1, method: "tx.commit-ok" });

fn name(at: usize) -> String {
    format!("q-{at}")
}

/// A stage with durable queues, and their clients' short turns.
fn stage() -> Stage {
    let mut stage = Stage::with(Settings { turn_work_max: SHARE, ..Settings::default() });
    let link = stage.connect();
    for at in 0..QUEUES {
        let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
        stage.links[link].client.declare_queue(1, name(at).as_bytes(), flags, &FieldTable::new());
    }
    stage.settle();
    stage
}

/// A client that has a message for each queue in its transaction, and is about to commit.
fn committer(stage: &mut Stage) -> usize {
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.tx_select(1);
    for at in 0..QUEUES {
        client.publish(1, Publication::to_queue(name(at).as_bytes(), b"body").with(&[0x10, 0, 2]));
    }
    stage.settle();
    stage.links[link].told();
    link
}

/// Lets queues get what is durable: a turn applies a few of them, and nobody is woken for the next one here.
fn rest(stage: &mut Stage) {
    for _ in 0..QUEUES {
        stage.settle();
    }
}

fn ready(stage: &Stage, at: usize) -> u64 {
    stage.broker.registry.snapshot_full().queue("/", &name(at)).expect("it is declared").look(Size { used: None }).0
}

/// Publishes to the first queue; the confirm is due when the message is in it.
fn publish_to_first(stage: &mut Stage, link: usize, persistent: bool) {
    let mode = if persistent { 2 } else { 1 };
    stage.links[link].client.publish(1, Publication::to_queue(b"q-0", b"behind").with(&[0x10, 0, mode]));
}

fn confirms(stage: &mut Stage, link: usize) -> usize {
    let told = stage.links[link].told();
    told.iter().filter(|told| matches!(told, Told::Event(Event::Confirmed { positive: true, .. }))).count()
}

#[test]
fn a_commit_in_parts_delays_the_next_command() {
    let mut stage = stage();
    let link = committer(&mut stage);
    stage.links[link].client.tx_commit(1);
    stage.links[link].client.declare_queue(1, b"later", QueueDeclare::default(), &FieldTable::new());
    let mut steps = 0;
    while !stage.links[link].told().contains(&COMMITTED) {
        assert!(stage.broker.registry.snapshot_full().queue("/", "later").is_none(), "it is read after the commit");
        assert!(steps < 10 * QUEUES, "it is never answered");
        stage.links[link].step(stage.now);
        stage.disk_work();
        steps += 1;
    }
    assert!(steps >= STEPS_MIN, "{steps} steps");
    assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), QUEUES as u64);
    stage.settle();
    assert!(stage.broker.registry.snapshot_full().queue("/", "later").is_some());
}

#[test]
fn a_publish_behind_an_open_group_is_confirmed_when_it_is_seen() {
    for persistent in [true, false] {
        let mut stage = stage();
        let other = stage.connect();
        stage.links[other].client.confirm_select(1);
        stage.settle();
        let link = committer(&mut stage);
        stage.links[link].client.tx_commit(1);
        stage.links[link].step(stage.now);
        publish_to_first(&mut stage, other, persistent);
        for _ in 0..10 {
            stage.disk_work();
            stage.links[other].step(stage.now);
        }
        assert_eq!((confirms(&mut stage, other), ready(&stage, 0)), (0, 0), "its group is open");
        while stage.links[link].connection.is_ending() {
            stage.links[link].step(stage.now);
        }
        // The group is closed, and its last record isn't durable.
        stage.links[other].step(stage.now);
        assert_eq!((confirms(&mut stage, other), ready(&stage, 0)), (0, 0));
        rest(&mut stage);
        assert_eq!((confirms(&mut stage, other), ready(&stage, 0)), (1, 2));
    }
}

#[test]
fn a_client_that_vanishes_finishes_its_commit() {
    for steps in 0..STEPS_MIN {
        let mut stage = stage();
        let link = committer(&mut stage);
        stage.links[link].client.tx_commit(1);
        for _ in 0..steps {
            stage.links[link].step(stage.now);
        }
        stage.links[link].connection.disconnected(stage.now);
        while stage.links[link].connection.is_ending() {
            stage.links[link].connection.turn(stage.now);
        }
        rest(&mut stage);
        let found: u64 = (0..QUEUES).map(|at| ready(&stage, at)).sum();
        assert_eq!(found, if steps > 0 { QUEUES as u64 } else { 0 }, "after {steps} steps");
    }
}

/// As when the node stops: nothing else takes a turn while the client that waits is dropped.
#[test]
fn a_commit_in_line_ends_at_once_with_its_client() {
    let mut stage = stage();
    let [first, second] = [(); 2].map(|()| committer(&mut stage));
    [first, second].into_iter().for_each(|link| stage.links[link].client.tx_commit(1));
    stage.links[first].step(stage.now);
    stage.links[second].step(stage.now);
    stage.links[second].connection.disconnected(stage.now);
    let mut turns = 0;
    while stage.links[second].connection.is_ending() {
        stage.links[second].connection.turn(stage.now);
        turns += 1;
        assert!(turns < QUEUES, "it waits for the other one");
    }
    rest(&mut stage);
    assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), 2 * QUEUES as u64);
    assert!(stage.links[first].told().contains(&COMMITTED));
}

#[test]
fn commits_of_a_core_are_carried_out_one_after_the_other() {
    let mut stage = stage();
    let all = [(); 4].map(|()| committer(&mut stage));
    all.into_iter().for_each(|link| stage.links[link].client.tx_commit(1));
    let mut answered = Vec::new();
    let mut rounds = 0;
    while answered.len() < all.len() {
        rounds += 1;
        assert!(rounds < 100 * QUEUES, "{answered:?} are answered");
        stage.disk_work();
        for link in all {
            stage.links[link].step(stage.now);
            if stage.links[link].told().contains(&COMMITTED) {
                answered.push(link);
                // The queues have all messages of those before, and none of those after.
                let found: u64 = (0..QUEUES).map(|at| ready(&stage, at)).sum();
                assert!(found >= (answered.len() * QUEUES) as u64, "{found} messages");
            }
        }
    }
    assert_eq!(answered, all, "in the order in which they began");
}

/// Whether a small commit is answered while another one's group is open: it waits for no slot, but for the group.
#[test]
fn a_short_commit_does_not_wait_in_line() {
    let mut stage = stage();
    let long = committer(&mut stage);
    let short = stage.connect();
    stage.links[short].client.tx_select(1);
    stage.links[short].client.publish(1, Publication::to_queue(b"q-1", b"short").with(&[0x10, 0, 2]));
    stage.settle();
    stage.links[long].client.tx_commit(1);
    stage.links[long].step(stage.now);
    stage.links[short].client.tx_commit(1);
    stage.links[short].step(stage.now);
    assert!(stage.links[long].connection.is_ending() && !stage.links[short].connection.is_ending());
    rest(&mut stage);
    assert!(stage.links[short].told().contains(&COMMITTED));
    assert_eq!((ready(&stage, 1), ready(&stage, 2)), (2, 1));
}

/// Settlements of a commit are carried out in parts, too: every other delivery, so that they aren't one range.
#[test]
fn settlements_of_a_commit_are_carried_out_in_parts() {
    const MESSAGES: u64 = 1000;
    for requeue in [None, Some(false), Some(true)] {
        let mut stage = stage();
        let link = stage.connect();
        let client = &mut stage.links[link].client;
        (0..MESSAGES).for_each(|_| {
            client.publish(1, Publication::to_queue(b"q-0", b"body").with(&[0x10, 0, 2]));
        });
        stage.settle();
        let client = &mut stage.links[link].client;
        client.tx_select(1);
        client.consume(1, b"q-0", b"", Consume::default(), &FieldTable::new());
        stage.settle();
        let client = &mut stage.links[link].client;
        for tag in (1..=MESSAGES).step_by(2) {
            match requeue {
                None => client.ack(1, tag, false),
                Some(requeue) => client.nack(1, tag, false, requeue),
            }
        }
        stage.settle();
        stage.links[link].told();
        stage.links[link].client.tx_commit(1);
        let mut steps = 0;
        while !stage.links[link].told().contains(&COMMITTED) {
            stage.links[link].step(stage.now);
            stage.disk_work();
            steps += 1;
            assert!(steps < MESSAGES, "it is never answered");
        }
        assert!(steps > 4, "{steps} steps");
        stage.links[link].client.close_channel(1);
        stage.settle();
        let left = if requeue == Some(true) { MESSAGES } else { MESSAGES / 2 };
        assert_eq!(ready(&stage, 0), left, "{requeue:?}");
    }
}

/// The last queue of a commit stops while the first ones have their messages: these keep them, and the error says so.
#[test]
fn a_queue_that_stops_during_a_commit_is_named_as_the_reason() {
    let mut stage = stage();
    let link = committer(&mut stage);
    stage.links[link].client.tx_commit(1);
    stage.links[link].step(stage.now);
    assert!(stage.links[link].connection.is_ending(), "the commit goes on");
    fail_last(&stage);
    rest(&mut stage);
    let text = "PRECONDITION_FAILED - partial tx completion: a queue stopped while its messages were published";
    assert_eq!(stage.links[link].refusal(), Some((406, text.to_owned())));
    assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), QUEUES as u64 - 1);
}

fn fail_last(stage: &Stage) {
    let snapshot = stage.broker.registry.snapshot_full();
    snapshot.queue("/", &name(QUEUES - 1)).expect("it is declared").body_owner().fail("damaged".into());
}

/// A client of AMQP 1.0 with a coordinator and a sender of each queue's exchange.
fn coordinator(stage: &mut Stage) -> Client10 {
    let mut client = Client10::connect(stage, "guest");
    let control = Attach {
        name: "control",
        handle: 0,
        role: Role::Sender,
        source: Some(Source::default()),
        target: Some(TargetArchetype::Coordinator(Coordinator::default())),
        initial_delivery_count: Some(0),
        ..Attach::default()
    };
    client.client.attach(CHANNEL, &control);
    client.client.attach_sender(CHANNEL, 1, "sender", Some("/exchanges/amq.fanout"));
    client.run(stage);
    client
}

fn request(client: &mut Client10, request: &TransactionRequest<'_>) {
    let mut payload = Vec::new();
    write_value_raw(&mut payload, |out| request.encode(out));
    client.client.send(CHANNEL, 0, b"tag", &payload, &Send::default()).expect("there is credit");
}

/// The outcomes that the coordinator or an exchange sent.
fn outcomes(client: &mut Client10) -> Vec<State> {
    let outcome = |event| match event {
        Event10::Disposition { role: Role::Receiver, state, .. } => state,
        _ => None,
    };
    std::mem::take(&mut client.events).into_iter().filter_map(outcome).collect()
}

/// A client that has begun to commit a message to all queues.
fn discharging(stage: &mut Stage) -> Client10 {
    let link = stage.connect();
    for at in 0..QUEUES {
        let queue = name(at);
        stage.links[link].client.bind_queue(1, queue.as_bytes(), b"amq.fanout", b"", &FieldTable::new());
    }
    stage.settle();
    let mut client = coordinator(stage);
    request(&mut client, &TransactionRequest::Declare(Declare::default()));
    client.run(stage);
    let Some(State::Declared { txn_id }) = outcomes(&mut client).pop() else { panic!("declared expected") };
    let state = Some(DeliveryState::Transactional { txn_id: &txn_id, outcome: None });
    let options = Send { state, ..Send::default() };
    let mut message = Vec::new();
    leveret_amqp10::message::Header { durable: Some(true), ..Default::default() }.encode(&mut message);
    leveret_amqp10::message::write_data(&mut message, b"body");
    client.client.send(CHANNEL, 1, b"message", &message, &options).expect("there is credit");
    client.run(stage);
    outcomes(&mut client);
    request(&mut client, &TransactionRequest::Discharge(Discharge { txn_id: &txn_id, fail: false }));
    client.step(stage);
    client
}

#[test]
fn a_queue_that_stops_during_a_discharge_is_the_named_reason() {
    let mut stage = stage();
    let mut client = discharging(&mut stage);
    assert!(client.connection.is_ending(), "the commit goes on");
    fail_last(&stage);
    (0..QUEUES).for_each(|_| client.run(&mut stage));
    let outcomes = outcomes(&mut client);
    let [State::Rejected(Some(error))] = &outcomes[..] else { panic!("{outcomes:?}") };
    let text = "partial transaction completion: a queue stopped while its messages were published";
    assert_eq!((&*error.condition, &*error.description), ("amqp:transaction:rollback", text));
    rest(&mut stage);
    assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), QUEUES as u64 - 1);
}

#[test]
fn a_discharge_is_carried_out_in_parts() {
    for vanishes in [false, true] {
        let mut stage = stage();
        let mut client = discharging(&mut stage);
        let mut steps = 0;
        while client.connection.is_ending() {
            assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), 0, "half done");
            if vanishes && steps == 1 {
                client.connection.disconnected(stage.now);
            }
            match vanishes && steps >= 1 {
                true => client.connection.turn(stage.now),
                false => drop(client.step(&mut stage)),
            }
            steps += 1;
        }
        assert!(steps >= STEPS_MIN, "{steps} steps");
        if !vanishes {
            (0..QUEUES).for_each(|_| client.run(&mut stage));
        }
        rest(&mut stage);
        assert_eq!((0..QUEUES).map(|at| ready(&stage, at)).sum::<u64>(), QUEUES as u64);
        if !vanishes {
            assert_eq!(outcomes(&mut client), [State::Accepted]);
        }
    }
}
