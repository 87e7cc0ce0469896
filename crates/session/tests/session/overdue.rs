//! Deliveries that clients leave unsettled for longer than their consumer's timeout.

use std::sync::{Arc, Mutex};

use leveret_amqp10::performative::Attach;
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{DeliveryState, Role, Serial, Source, Target, TargetArchetype, Value};
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::{QueueRef, Status};
use leveret_broker::time::Nanos;
use leveret_queue::{ConsumerFlow, ConsumerId, ConsumerMode, ConsumerOptions, Link, Portion, Signal, Taken};
use leveret_strict_client::amqp10::{Event as Event10, Mechanism, Options as Options10, SessionOptions, State};
use leveret_strict_client::amqp091::{Consume, Event, Options, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// A stage whose quorum queue `q` with these arguments has this many messages, and the link of its publisher.
fn stage(arguments: &FieldTable, messages: usize) -> (Stage, usize) {
    stage_with(Settings::default(), arguments, messages)
}

fn stage_with(settings: Settings, arguments: &FieldTable, messages: usize) -> (Stage, usize) {
    let mut stage = Stage::with(settings);
    let link = stage.connect();
    let arguments = arguments.clone().with("x-queue-type", "quorum");
    let flags = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(1, b"q", flags, &arguments);
    for at in 0..messages {
        stage.links[link].client.publish(1, Publication::to_queue(b"q", format!("m{at}").as_bytes()));
    }
    stage.settle();
    (stage, link)
}

fn timeout(milliseconds: i64) -> FieldTable {
    FieldTable::new().with("x-consumer-timeout", milliseconds)
}

fn consume(stage: &mut Stage, link: usize, tag: &[u8], arguments: &FieldTable) {
    stage.links[link].client.consume(1, b"q", tag, Consume::default(), arguments);
    stage.settle();
}

/// Bodies that a client got since the last look, with the properties of each, and the tags of consumers that the broker ended.
fn got(stage: &mut Stage, link: usize) -> (Vec<String>, Vec<String>) {
    let (mut bodies, mut ended) = (Vec::new(), Vec::new());
    for told in stage.links[link].told() {
        match told {
            Told::Delivered { body, .. } => bodies.push(body),
            Told::Event(Event::ConsumerCancelled { consumer_tag, .. }) => {
                ended.push(String::from_utf8_lossy(&consumer_tag).into_owned());
            }
            Told::Event(_) => {}
        }
    }
    (bodies, ended)
}

/// Numbers of ready and unacknowledged messages, and of consumers.
fn counts(stage: &Stage) -> (u64, u64, usize) {
    let snapshot = stage.broker.registry.snapshot();
    let status = snapshot.queue("/", "q").expect("it is there").look(Status).expect("it is there");
    (status.ready, status.unacknowledged, status.consumers.len())
}

#[test]
fn a_consumer_that_does_not_acknowledge_is_cancelled() {
    let (mut stage, _) = stage(&FieldTable::new(), 3);
    let link = stage.connect();
    stage.links[link].client.qos(1, 2, false);
    consume(&mut stage, link, b"tag", &timeout(1000));
    assert_eq!(got(&mut stage, link), (vec!["m0".into(), "m1".into()], vec![]));
    stage.pass(2);
    assert_eq!(got(&mut stage, link), (vec![], vec!["tag".into()]));
    assert_eq!(counts(&stage), (3, 0, 0));
    // A late acknowledgement does no harm, and has no effect.
    stage.links[link].client.ack(1, 2, true);
    stage.settle();
    assert_eq!((stage.links[link].refusal(), counts(&stage)), (None, (3, 0, 0)));
    // The tag is free, and the messages come again.
    consume(&mut stage, link, b"tag", &FieldTable::new());
    assert_eq!(got(&mut stage, link).0, ["m0", "m1"]);
}

#[test]
fn a_message_is_not_taken_back_before_its_timeout() {
    let (mut stage, _) = stage(&FieldTable::new(), 1);
    let link = stage.connect();
    consume(&mut stage, link, b"tag", &timeout(3000));
    got(&mut stage, link);
    for _ in 0..29 {
        stage.now.monotonic += 100_000_000;
        stage.settle();
    }
    assert_eq!(counts(&stage), (0, 1, 1));
    stage.now.monotonic += 120_000_000;
    stage.settle();
    assert_eq!(counts(&stage), (1, 0, 0));
}

#[test]
fn only_old_deliveries_are_taken_back_and_younger_ones_follow() {
    let (mut stage, publisher) = stage(&FieldTable::new(), 1);
    let link = stage.connect();
    consume(&mut stage, link, b"tag", &timeout(2000));
    stage.pass(1);
    stage.links[publisher].client.publish(1, Publication::to_queue(b"q", b"second"));
    stage.settle();
    assert_eq!(got(&mut stage, link).0, ["m0", "second"]);
    stage.pass(1);
    stage.now.monotonic += 50_000_000;
    stage.settle();
    assert_eq!(got(&mut stage, link).1, ["tag"]);
    assert_eq!(counts(&stage), (1, 1, 0));
    stage.pass(1);
    assert_eq!((got(&mut stage, link), counts(&stage)), ((vec![], vec![]), (2, 0, 0)));
}

#[test]
fn a_client_that_knows_no_cancel_loses_its_channel() {
    let (mut stage, _) = stage(&FieldTable::new(), 1);
    let link = stage.connect_with(Options { properties: FieldTable::new(), ..Options::default() });
    consume(&mut stage, link, b"tag", &timeout(1000));
    stage.pass(2);
    let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms. This \
                timeout value can be configured, see consumers doc guide to learn more";
    assert_eq!(stage.links[link].refusal(), Some((406, text.to_owned())));
    assert_eq!(counts(&stage), (1, 0, 0));
}

#[test]
fn a_get_and_a_cancelled_consumer_time_out_too() {
    let (mut stage, _) = stage(&timeout(1000), 2);
    let link = stage.connect();
    stage.links[link].client.qos(1, 1, false);
    consume(&mut stage, link, b"tag", &FieldTable::new());
    stage.links[link].client.get(1, b"q", false);
    stage.links[link].client.cancel(1, b"tag");
    stage.settle();
    assert_eq!(counts(&stage), (0, 2, 0));
    stage.pass(2);
    assert_eq!(counts(&stage), (2, 0, 0));
    assert_eq!(stage.links[link].refusal(), None);
    stage.links[link].client.reject(1, 1, false);
    stage.settle();
    assert_eq!(counts(&stage), (2, 0, 0), "rejecting it now has no effect");
}

#[test]
fn the_channel_ends_without_returning_messages_twice() {
    let (mut stage, _) = stage(&FieldTable::new(), 2);
    let (link, other) = (stage.connect(), stage.connect());
    stage.links[link].client.qos(1, 1, false);
    consume(&mut stage, link, b"tag", &timeout(1000));
    stage.pass(2);
    consume(&mut stage, other, b"other", &FieldTable::new());
    assert_eq!(got(&mut stage, other).0, ["m0", "m1"]);
    stage.links[link].client.close_channel(1);
    stage.settle();
    assert_eq!(counts(&stage), (0, 2, 1));
    stage.links[other].client.ack(1, 2, true);
    stage.settle();
    assert_eq!(counts(&stage), (0, 0, 1));
}

#[test]
fn channels_and_sessions_that_end_leave_no_look() {
    let (mut stage, _) = stage(&FieldTable::new(), 1);
    let link = stage.connect();
    let without = stage.links[link].connection.next_deadline();
    consume(&mut stage, link, b"tag", &timeout(1000));
    assert_eq!(stage.links[link].connection.next_deadline(), Some(stage.now.monotonic + 500_000_000));
    stage.links[link].client.close_channel(1);
    stage.settle();
    assert_eq!(stage.links[link].connection.next_deadline(), without);

    let mut client = Client10::connect(&mut stage, "guest");
    let without = client.connection.next_deadline();
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 1);
    assert_eq!(client.connection.next_deadline(), Some(stage.now.monotonic + 500_000_000));
    client.client.end(CHANNEL, None);
    client.run(&mut stage);
    assert_eq!(client.connection.next_deadline(), without);
}

#[test]
fn deliveries_of_a_rolled_back_transaction_time_out() {
    let (mut stage, _) = stage(&FieldTable::new(), 1);
    let link = stage.connect();
    stage.links[link].client.tx_select(1);
    consume(&mut stage, link, b"tag", &timeout(1000));
    stage.links[link].client.ack(1, 1, false);
    stage.settle();
    stage.pass(2);
    assert_eq!(counts(&stage), (0, 1, 1), "it is in a transaction");
    stage.links[link].client.tx_rollback(1);
    stage.settle();
    stage.pass(1);
    assert_eq!(counts(&stage), (1, 0, 0));
}

#[test]
fn deliveries_time_out_while_a_commit_waits_for_the_log() {
    let (mut stage, _) = stage_with(Settings { turn_work_max: 100, ..Settings::default() }, &FieldTable::new(), 2);
    let (fillers, link) = (stage.fillers(), stage.connect());
    let client = &mut stage.links[link].client;
    client.tx_select(1);
    client.open_channel(2);
    for at in 0..100 {
        let (name, flags) = (format!("q-{at}"), QueueDeclare { durable: true, ..QueueDeclare::default() });
        client.declare_queue(1, name.as_bytes(), flags, &FieldTable::new());
        client.publish(1, Publication::to_queue(name.as_bytes(), b"m").with(&[0x10, 0, 2]));
    }
    client.qos(2, 1, false);
    client.consume(2, b"q", b"tag", Consume::default(), &timeout(1000));
    stage.settle();
    assert_eq!(counts(&stage), (1, 1, 1));
    // Its targets are checked in several turns, and meanwhile others use up the room.
    stage.links[link].client.tx_commit(1);
    stage.links[link].step(stage.now);
    stage.fill_log(fillers);
    for _ in 0..20 {
        stage.now.monotonic += 100_000_000;
        stage.links[link].step(stage.now);
    }
    assert!(
        stage.links[link].connection.is_ending() && !stage.links[link].connection.wants_turn(),
        "it waits for room"
    );
    assert_eq!(counts(&stage), (2, 0, 0));
    assert_eq!(got(&mut stage, link).1, ["tag"]);
}

#[test]
fn the_timeout_of_the_node_may_change_while_consumers_wait() {
    let (mut stage, _) =
        stage_with(Settings { consumer_timeout_ms: 4000, ..Settings::default() }, &FieldTable::new(), 1);
    let link = stage.connect();
    consume(&mut stage, link, b"tag", &FieldTable::new());
    stage.broker.set_consumer_timeout_ms(8000);
    stage.pass(7);
    assert_eq!(counts(&stage), (0, 1, 1), "it was prolonged");
    stage.pass(2);
    assert_eq!(counts(&stage), (1, 0, 0));
}

#[test]
fn classic_queues_have_no_timeout() {
    let mut stage = Stage::with(Settings { consumer_timeout_ms: 1000, ..Settings::default() });
    let link = stage.connect();
    stage.links[link].client.declare_queue(1, b"q", QueueDeclare::default(), &FieldTable::new());
    stage.links[link].client.publish(1, Publication::to_queue(b"q", b"m"));
    consume(&mut stage, link, b"tag", &FieldTable::new());
    stage.pass(5);
    assert_eq!(counts(&stage), (0, 1, 1));
}

/// A receiver with its own timeout, in milliseconds, and this credit.
fn receiver(stage: &mut Stage, client: &mut Client10, handle: u32, own: Value<'_>, credit: u32) {
    let properties = EncodedMap::new().with("rabbitmq:consumer-timeout", own);
    let name = handle.to_string();
    let attach = Attach {
        name: &name,
        handle,
        role: Role::Receiver,
        source: Some(Source { address: Some("/queues/q"), ..Source::default() }),
        target: Some(TargetArchetype::Target(Target::default())),
        properties: Some(properties.as_map()),
        ..Attach::default()
    };
    client.client.attach(CHANNEL, &attach);
    client.run(stage);
    if client.refusal().is_none() {
        client.client.grant(CHANNEL, handle, credit, false);
        client.run(stage);
    }
}

/// Advances the clock, with the client.
fn pass(stage: &mut Stage, client: &mut Client10, tenths: u64) {
    for _ in 0..tenths {
        stage.now.monotonic += 100_000_000;
        client.run(stage);
    }
}

/// First and last delivery of each outcome `released` that the client was sent.
fn released(client: &Client10) -> Vec<(u32, u32)> {
    let ids = |event: &Event10| match event {
        Event10::Disposition { first, last, state: Some(State::Released), .. } => Some((first.0, last.0)),
        _ => None,
    };
    client.events.iter().filter_map(ids).collect()
}

fn wait(stage: &Stage, consumer: usize) -> &'static str {
    let snapshot = stage.broker.registry.snapshot();
    snapshot.queue("/", "q").expect("it is there").look(Status).expect("it is there").consumers[consumer]
        .wait
        .reason
        .code()
}

#[test]
fn a_receiver_is_sent_released_and_waits_until_it_has_settled() {
    let (mut stage, _) = stage(&FieldTable::new(), 3);
    let mut client = Client10::connect(&mut stage, "guest");
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 2);
    client.client.grant(CHANNEL, 0, 5, false);
    client.run(&mut stage);
    assert_eq!(client.delivered(0), 3);
    pass(&mut stage, &mut client, 12);
    assert_eq!((released(&client), counts(&stage)), (vec![(0, 2)], (3, 0, 1)));
    assert_eq!(wait(&stage, 0), "overdue");
    client.client.accept(CHANNEL, Serial(0), Serial(1));
    client.run(&mut stage);
    assert_eq!((client.delivered(0), counts(&stage)), (3, (3, 0, 1)), "one is left, and accepting has no effect");
    client.client.dispose(CHANNEL, Serial(2), Serial(2), false, Some(DeliveryState::Accepted));
    client.run(&mut stage);
    assert_eq!(client.delivered(0), 6, "its link goes on");
    assert_eq!(released(&client), [(0, 2), (2, 2)], "it is told what became of that one");
    pass(&mut stage, &mut client, 12);
    assert_eq!(released(&client).last(), Some(&(3, 5)));
}

#[test]
fn messages_go_to_other_receivers_meanwhile() {
    let (mut stage, _) = stage(&FieldTable::new(), 2);
    let mut client = Client10::connect(&mut stage, "guest");
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 5);
    receiver(&mut stage, &mut client, 1, Value::Uint(60_000), 5);
    assert_eq!((client.delivered(0), client.delivered(1)), (2, 0));
    pass(&mut stage, &mut client, 12);
    assert_eq!((client.delivered(0), client.delivered(1)), (2, 2));
    client.client.accept(CHANNEL, Serial(0), Serial(1));
    client.client.accept(CHANNEL, Serial(2), Serial(3));
    client.run(&mut stage);
    assert_eq!(counts(&stage), (0, 0, 2));
}

#[test]
fn the_single_active_receiver_gives_way_when_it_is_overdue() {
    let (mut stage, _) = stage(&FieldTable::new().with("x-single-active-consumer", true), 2);
    let mut client = Client10::connect(&mut stage, "guest");
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 5);
    receiver(&mut stage, &mut client, 1, Value::Uint(60_000), 5);
    pass(&mut stage, &mut client, 12);
    assert_eq!((client.delivered(0), client.delivered(1)), (2, 2));
    let active = |handle: u32| {
        let told = client.events.iter().rev().find_map(|event| match event {
            Event10::LinkFlow { handle: of, active, .. } if *of == handle => *active,
            _ => None,
        });
        told.expect("it was told")
    };
    assert_eq!((active(0), active(1)), (false, true));
    client.client.accept(CHANNEL, Serial(0), Serial(1));
    client.run(&mut stage);
    assert_eq!(wait(&stage, 0), "inactive");
}

/// A consumer that takes all that it is given as soon as it may, as a connection on another core can.
struct Eager {
    queue: QueueRef,
    now: Nanos,
    /// First and last number of each run that it took.
    taken: Mutex<Vec<(u64, u64)>>,
}

impl Link for Eager {
    fn signal(&self, signal: Signal) {
        if let Signal::Scheduled(key) = signal {
            let mut taken = Vec::new();
            self.queue.take(ConsumerId(key), Portion { messages: 10, bytes: 1000 }, self.now, &mut taken);
            let run = |taken: &Taken| (taken.run().first, taken.run().last);
            self.taken.lock().expect("no panic").extend(taken.iter().map(run));
        }
    }
}

#[test]
fn the_successor_gets_what_was_taken_back_before_newer_messages() {
    let (mut stage, _) = stage(&FieldTable::new().with("x-single-active-consumer", true), 3);
    let mut client = Client10::connect(&mut stage, "guest");
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 2);
    let queue = stage.broker.registry.snapshot().queue("/", "q").expect("it is there").clone();
    let id = ConsumerId(1_000_000);
    let eager = Arc::new(Eager { queue: queue.clone(), now: stage.now.monotonic, taken: Mutex::default() });
    let options = ConsumerOptions {
        link: eager.clone(),
        key: id.0,
        tag: "eager".into(),
        channel: "".into(),
        automatic_ack: false,
        flow: ConsumerFlow::Prefetch(0),
        priority: 0,
        exclusive: false,
        mode: ConsumerMode::Move,
        filter: None,
        stream: None,
        timeout_ms: None,
        user: "guest".into(),
        arguments: Default::default(),
    };
    queue.consume(id, options, stage.now.monotonic).now().expect("it is here").expect("it isn't exclusive");
    pass(&mut stage, &mut client, 12);
    assert_eq!(counts(&stage), (0, 3, 2));
    let taken = eager.taken.lock().expect("no panic").clone();
    assert!(taken.is_sorted(), "{taken:?}");
}

/// A client with a receiver whose window takes ten frames of the ten messages that wait for it, each of which needs four.
fn narrow_receiver(stage: &mut Stage, publisher: usize) -> Client10 {
    for _ in 0..10 {
        stage.links[publisher].client.publish(1, Publication::to_queue(b"q", &[b'x'; 3000]));
    }
    stage.settle();
    let mechanism = Mechanism::Plain { user: "guest".into(), password: "secret".into() };
    let options = Options10 { mechanism, max_frame_size: 1024, ..Options10::default() };
    let mut client = Client10::dial(stage, options);
    client.client.begin(CHANNEL, SessionOptions { incoming_window: 10, widen: false, ..SessionOptions::default() });
    client.run(stage);
    receiver(stage, &mut client, 0, Value::Uint(1000), 10);
    client
}

#[test]
fn messages_that_wait_for_the_window_are_taken_back_too() {
    let (mut stage, publisher) = stage(&FieldTable::new(), 0);
    let mut client = narrow_receiver(&mut stage, publisher);
    assert_eq!((client.delivered(0), counts(&stage)), (2, (0, 10, 1)));
    pass(&mut stage, &mut client, 12);
    assert_eq!(counts(&stage), (10, 0, 1));
    let others = released(&client);
    // The window opens: the rest of one that was begun comes, and no other.
    client.client.set_window(CHANNEL, 1000, false);
    client.run(&mut stage);
    let begun = client.delivered(0);
    assert_eq!((others.last().map(|(_, last)| *last as usize + 1), counts(&stage)), (Some(begun), (10, 0, 1)));
    // The receiver has credit for the others still, and no more.
    client.client.accept(CHANNEL, Serial(0), Serial(begun as u32 - 1));
    client.run(&mut stage);
    assert_eq!(client.delivered(0), 10);
    assert_eq!(counts(&stage), (begun as u64, 10 - begun as u64, 1));
}

#[test]
fn a_detach_returns_only_what_the_receiver_has() {
    let (mut stage, _) = stage(&FieldTable::new(), 2);
    let mut client = Client10::connect(&mut stage, "guest");
    receiver(&mut stage, &mut client, 0, Value::Uint(1000), 5);
    pass(&mut stage, &mut client, 12);
    client.client.detach(CHANNEL, 0, true, None);
    client.run(&mut stage);
    assert_eq!(counts(&stage), (2, 0, 0));
}

#[test]
fn a_timeout_that_is_no_number_is_refused() {
    let (mut stage, _) = stage(&FieldTable::new(), 1);
    for own in [Value::String("soon"), Value::Int(-1)] {
        let mut client = Client10::connect(&mut stage, "guest");
        receiver(&mut stage, &mut client, 0, own, 1);
        assert_eq!(client.refusal().as_deref(), Some("amqp:invalid-field"));
    }
}
