//! Consumers whose queue answers later, as one of another node does: over AMQP 0-9-1 and AMQP 1.0.

use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::Size;
use leveret_model::{Command, DeleteQueue};
use leveret_strict_client::amqp10::Event as Event10;
use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::{Stage, Told};

/// A stage whose queues answer later, and a client of AMQP 0-9-1. The queue `q` has three messages, and is deleted with its last
/// consumer.
fn stage() -> (Stage, usize) {
    let mut stage = Stage::with(Settings { answers_late: true, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.open_channel(2);
    client.declare_queue(1, b"q", QueueDeclare { auto_delete: true, ..QueueDeclare::default() }, &FieldTable::new());
    for _ in 0..3 {
        client.publish(1, Publication::to_queue(b"q", b"x"));
    }
    stage.settle();
    stage.links[link].told();
    stage.holds_answers = true;
    (stage, link)
}

fn consume(stage: &mut Stage, link: usize, channel: u16, exclusive: bool) {
    let flags = Consume { exclusive, ..Consume::default() };
    stage.links[link].client.consume(channel, b"q", b"tag", flags, &FieldTable::new());
    stage.settle();
}

fn answer(stage: &mut Stage) {
    stage.holds_answers = false;
    stage.settle();
}

fn told(stage: &mut Stage, link: usize) -> Vec<String> {
    let text = |told| match told {
        Told::Event(Event::ConsumeOk { channel, .. }) => format!("consumes on {channel}"),
        Told::Event(Event::ConsumerCancelled { .. }) => "cancelled".to_owned(),
        Told::Event(Event::ChannelClosed { reason, .. }) => format!("closed: {}", reason.code),
        Told::Event(Event::Reply { method, .. }) => method.to_owned(),
        Told::Delivered { .. } => "delivered".to_owned(),
        other => format!("{other:?}"),
    };
    stage.links[link].told().into_iter().map(text).collect()
}

fn counts(stage: &Stage) -> Option<(u64, usize)> {
    stage.broker.registry.snapshot().queue("/", "q").map(|queue| queue.look(Size { used: None }))
}

fn delete(stage: &mut Stage) {
    let command = DeleteQueue { vhost: "/".into(), name: "q".into(), connection: None, id: None };
    stage.command(Command::DeleteQueue(command));
    stage.settle();
}

#[test]
fn a_late_consumer_is_answered_before_its_first_message() {
    let (mut stage, link) = stage();
    consume(&mut stage, link, 1, false);
    stage.links[link].client.confirm_select(2);
    stage.links[link].client.confirm_select(1);
    stage.settle();
    assert_eq!(told(&mut stage, link), ["confirm.select-ok"], "its own channel waits, and the other goes on");
    answer(&mut stage);
    let mut all = told(&mut stage, link);
    assert_eq!(all.remove(0), "consumes on 1");
    all.retain(|told| told != "confirm.select-ok");
    assert_eq!(all, ["delivered"; 3]);
}

#[test]
fn a_late_consumer_is_refused_with_its_reason() {
    let (mut stage, link) = stage();
    consume(&mut stage, link, 1, false);
    consume(&mut stage, link, 2, true);
    answer(&mut stage);
    let all = told(&mut stage, link);
    assert_eq!(all.iter().filter(|told| *told != "delivered").collect::<Vec<_>>(), ["consumes on 1", "closed: 403"]);
    assert_eq!(counts(&stage), Some((0, 1)));
}

#[test]
fn a_late_consumer_of_a_cut_connection_is_gone() {
    let (mut stage, link) = stage();
    consume(&mut stage, link, 1, false);
    stage.links[link].connection.disconnected(stage.now);
    stage.settle();
    assert!(stage.links[link].connection.is_finished());
    answer(&mut stage);
    assert_eq!(counts(&stage), None, "it was the last consumer of a queue that is deleted with it");
}

#[test]
fn a_late_consumer_hears_of_a_deletion_behind_its_answer() {
    let (mut stage, link) = stage();
    consume(&mut stage, link, 1, false);
    // The queue has it, and its client doesn't know that yet.
    stage.holds_answers = false;
    stage.other_work();
    stage.holds_answers = true;
    assert_eq!(counts(&stage), Some((3, 1)));
    delete(&mut stage);
    answer(&mut stage);
    let all = told(&mut stage, link);
    assert_eq!(
        (all.first().map(String::as_str), all.last().map(String::as_str)),
        (Some("consumes on 1"), Some("cancelled"))
    );
}

#[test]
fn a_late_consumer_of_a_deleted_queue_is_refused() {
    let (mut stage, link) = stage();
    consume(&mut stage, link, 1, false);
    delete(&mut stage);
    answer(&mut stage);
    assert_eq!(told(&mut stage, link), ["closed: 404"]);
}

fn attach(stage: &mut Stage) -> Client10 {
    let mut client = Client10::connect(stage, "guest");
    client.client.attach_receiver(CHANNEL, 0, "receiver", "/queues/q", false);
    client.client.grant(CHANNEL, 0, 10, false);
    client.run(stage);
    client
}

fn is_attached(client: &Client10) -> bool {
    client.events.iter().any(|event| matches!(event, Event10::Attached { .. }))
}

#[test]
fn a_late_link_is_attached_once_its_queue_has_answered() {
    let (mut stage, _) = stage();
    let mut client = attach(&mut stage);
    assert!(!is_attached(&client));
    stage.holds_answers = false;
    client.run(&mut stage);
    stage.settle();
    client.run(&mut stage);
    assert!(is_attached(&client));
    assert_eq!((client.delivered(0), counts(&stage)), (3, Some((0, 1))));
}

#[test]
fn a_late_link_of_a_deleted_queue_is_refused() {
    let (mut stage, _) = stage();
    let mut client = attach(&mut stage);
    delete(&mut stage);
    stage.holds_answers = false;
    client.run(&mut stage);
    stage.settle();
    client.run(&mut stage);
    assert_eq!(client.refusal().as_deref(), Some("amqp:not-found"));
}

#[test]
fn a_late_link_of_a_cut_connection_leaves_no_consumer() {
    let (mut stage, _) = stage();
    let mut client = attach(&mut stage);
    client.connection.disconnected(stage.now);
    client.connection.turn(stage.now);
    assert!(client.connection.is_finished());
    answer(&mut stage);
    assert_eq!(counts(&stage), None, "it was the last consumer of a queue that is deleted with it");
}
