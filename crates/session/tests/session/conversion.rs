//! Queues that get another type or other arguments, with their messages, while clients use them.

use leveret_amqp091::FieldTable;
use leveret_broker::queue_handle::{SetAsideOf, Status};
use leveret_model::{Arguments, CommandOutcome, ConvertQueue, Permit, QueueType, Refused, Value};
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// Property flags and list of a persistent message, with a priority if it isn't 0.
fn properties(priority: u8) -> Vec<u8> {
    match priority {
        0 => vec![0b0001_0000, 0, 2],
        _ => vec![0b0001_1000, 0, 2, priority],
    }
}

/// A stage with a durable queue, and a client that has published messages with these bodies and priorities.
fn with_queue(arguments: &FieldTable, messages: &[(&str, u8)]) -> (Stage, usize) {
    let mut stage = Stage::new();
    let link = stage.connect();
    let declare = QueueDeclare { durable: true, ..QueueDeclare::default() };
    stage.links[link].client.declare_queue(1, b"q", declare, arguments);
    publish(&mut stage, link, messages);
    stage.settle();
    stage.links[link].told();
    (stage, link)
}

fn publish(stage: &mut Stage, link: usize, messages: &[(&str, u8)]) {
    for (body, priority) in messages {
        stage.links[link].client.publish(1, Publication::to_queue(b"q", body.as_bytes()).with(&properties(*priority)));
    }
}

/// Converts the queue; the change isn't durable yet.
fn convert(stage: &Stage, to: QueueType, arguments: Option<Arguments>) -> Result<CommandOutcome, Refused> {
    let (vhost, name) = ("/".into(), "q".into());
    let command = ConvertQueue { vhost, name, queue_type: Some(to), arguments, earlier: None };
    let now = stage.now.monotonic;
    let converted = stage.broker.registry.convert_queue(Permit::system(), command, false, now);
    Ok(converted.now().expect("answers come at once")?.expect("nothing is being moved").outcome)
}

/// Runs everything until no work is left, and publishes the change.
fn publish_change(stage: &mut Stage) {
    stage.settle();
    stage.settle();
}

fn delivered(stage: &mut Stage, link: usize) -> String {
    stage.settle();
    bodies(&stage.links[link].told())
}

fn bodies(told: &[Told]) -> String {
    let bodies = told.iter().filter_map(|told| match told {
        Told::Delivered { body, .. } => Some(body.as_str()),
        _ => None,
    });
    bodies.collect()
}

fn consume(stage: &mut Stage, link: usize, tag: &[u8]) {
    stage.links[link].client.consume(1, b"q", tag, Consume::default(), &FieldTable::new());
}

fn queue_type(stage: &Stage) -> QueueType {
    stage.broker.registry.snapshot().queue("/", "q").expect("it is there").info().queue_type()
}

#[test]
fn a_converted_queue_has_its_messages_in_their_order() {
    let (mut stage, link) = with_queue(&FieldTable::new(), &[("a", 0), ("b", 9), ("c", 0), ("d", 0)]);
    stage.links[link].client.qos(1, 2, false);
    consume(&mut stage, link, b"old");
    assert_eq!(delivered(&mut stage, link), "ab");
    assert_eq!(convert(&stage, QueueType::Quorum, None), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    let told = stage.links[link].told();
    let cancelled = |told: &Told| matches!(told, Told::Event(Event::ConsumerCancelled { .. }));
    assert_eq!(told.iter().filter(|told| cancelled(told)).count(), 1, "{told:?}");
    assert_eq!(queue_type(&stage), QueueType::Quorum);
    // Too late: it went back.
    stage.links[link].client.ack(1, 1, false);
    publish(&mut stage, link, &[("e", 0), ("f", 9)]);
    stage.settle();
    let other = stage.connect();
    consume(&mut stage, other, b"new");
    // Priorities count from the conversion on.
    assert_eq!(delivered(&mut stage, other), "fabcde");
    let status =
        stage.broker.registry.snapshot().queue("/", "q").expect("it is there").look(Status).expect("it is there");
    assert_eq!((status.ready, status.unacknowledged), (0, 6));
}

#[test]
fn deliveries_that_failed_stay_counted() {
    let (mut stage, link) = with_queue(&FieldTable::new(), &[("a", 0)]);
    for tag in 1..=3 {
        stage.links[link].client.get(1, b"q", false);
        stage.settle();
        stage.links[link].client.reject(1, tag, true);
        stage.settle();
    }
    let arguments = Arguments::from_iter([("x-delivery-limit", Value::Int(3))]);
    assert_eq!(convert(&stage, QueueType::Quorum, Some(arguments)), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    stage.links[link].client.get(1, b"q", false);
    stage.settle();
    stage.links[link].client.reject(1, 4, true);
    stage.settle();
    let queue = stage.broker.registry.snapshot().queue("/", "q").expect("it is there").clone();
    assert_eq!(queue.look(SetAsideOf(leveret_queue::SetAside::Parked)).0, 1, "the fourth failure is one too many");
    let refused = convert(&stage, QueueType::Classic, Some(Arguments::default())).expect_err("it is parked");
    assert!(refused.text.contains("it has 1 parked messages"), "{refused}");
}

#[test]
fn priorities_stay_if_the_new_queue_has_some() {
    let messages = [("a", 1), ("b", 0), ("c", 3), ("d", 1)];
    let priorities = |max| Arguments::from_iter([("x-max-priority", Value::Int(max))]);
    let (mut stage, link) = with_queue(&FieldTable::new().with("x-max-priority", 5), &messages);
    let refused = convert(&stage, QueueType::Classic, Some(Arguments::default())).expect_err("they would be lost");
    assert!(refused.text.contains("3 of its messages have a priority"), "{refused}");
    assert_eq!(convert(&stage, QueueType::Classic, Some(priorities(9))), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    assert_eq!(convert(&stage, QueueType::Quorum, Some(Arguments::default())), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    assert_eq!(convert(&stage, QueueType::Classic, Some(priorities(2))), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    consume(&mut stage, link, b"tag");
    assert_eq!(delivered(&mut stage, link), "cadb");
}

#[test]
fn a_publisher_goes_on_while_the_change_is_on_its_way_to_disk() {
    let (mut stage, link) = with_queue(&FieldTable::new(), &[("a", 0)]);
    stage.links[link].client.confirm_select(1);
    stage.settle();
    publish(&mut stage, link, &[("b", 0), ("c", 0)]);
    let now = stage.now;
    stage.links[link].step(now);
    assert_eq!(convert(&stage, QueueType::Quorum, None), Ok(CommandOutcome::Updated));
    assert_eq!(queue_type(&stage), QueueType::Classic, "it isn't published yet");
    publish(&mut stage, link, &[("d", 0), ("e", 0)]);
    stage.links[link].step(now);
    assert_eq!(stage.links[link].client.unconfirmed(1), 4);
    publish_change(&mut stage);
    assert_eq!(queue_type(&stage), QueueType::Quorum);
    assert_eq!(stage.links[link].client.unconfirmed(1), 0);
    publish(&mut stage, link, &[("f", 0)]);
    stage.settle();
    consume(&mut stage, link, b"tag");
    assert_eq!(delivered(&mut stage, link), "abcdef");
}

#[test]
fn transient_messages_stay_as_long_as_the_node_runs() {
    let (mut stage, link) = with_queue(&FieldTable::new(), &[("a", 0)]);
    for body in [b"b", b"c"] {
        stage.links[link].client.publish(1, Publication::to_queue(b"q", body));
    }
    stage.settle();
    assert_eq!(convert(&stage, QueueType::Quorum, None), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    publish(&mut stage, link, &[("d", 0)]);
    consume(&mut stage, link, b"tag");
    assert_eq!(delivered(&mut stage, link), "abcd");
}

#[test]
fn receivers_are_detached_and_senders_stay() {
    let (mut stage, _) = with_queue(&FieldTable::new(), &[("a", 0)]);
    let mut receiver = Client10::connect(&mut stage, "guest");
    receiver.client.attach_receiver(CHANNEL, 0, "receiver", "/queues/q", false);
    receiver.run(&mut stage);
    let mut sender = Client10::connect(&mut stage, "guest");
    sender.client.attach_sender(CHANNEL, 0, "sender", Some("/queues/q"));
    sender.run(&mut stage);
    assert_eq!(convert(&stage, QueueType::Quorum, None), Ok(CommandOutcome::Updated));
    publish_change(&mut stage);
    receiver.run(&mut stage);
    sender.run(&mut stage);
    assert_eq!(receiver.refusal().as_deref(), Some("amqp:resource-deleted"));
    assert_eq!(sender.refusal(), None);
}

#[test]
fn a_refused_conversion_changes_nothing() {
    let (mut stage, link) = with_queue(&FieldTable::new().with("x-queue-type", "quorum"), &[("a", 9)]);
    let refused = convert(&stage, QueueType::Classic, None).expect_err("it has a priority");
    assert!(refused.text.ends_with("give it that argument, or wait until they are consumed"), "{refused}");
    let refused = convert(&stage, QueueType::Stream, None).expect_err("not yet");
    assert!(refused.text.contains("streams can't be converted yet"), "{refused}");
    assert_eq!(convert(&stage, QueueType::Quorum, None), Ok(CommandOutcome::Exists));
    stage.settle();
    assert_eq!(queue_type(&stage), QueueType::Quorum);
    consume(&mut stage, link, b"tag");
    assert_eq!(delivered(&mut stage, link), "a");
}
