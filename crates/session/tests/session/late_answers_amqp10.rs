//! Queues that answer later, as those of another node do: flows, ends of links and management over AMQP 1.0.

use leveret_amqp10::message::write_data;
use leveret_amqp10::value::{OwnedMap, OwnedValue};
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_broker::queue_handle::Size;
use leveret_model::{Command, DeleteQueue};
use leveret_strict_client::amqp10::{Client, Event, ManagementRequest, Send};
use leveret_strict_client::amqp091::QueueDeclare;

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;

const RECEIVER: u32 = 0;
const SENDER: u32 = 1;
const MANAGEMENT: u32 = 2;

/// A stage whose queues answer later, with the queues `a` and `b`; `a` is deleted with its last consumer. A client receives
/// from `a`, sends to `b` and can manage.
fn stage() -> (Stage, Client10) {
    let mut stage = Stage::with(Settings { answers_late: true, ..Settings::default() });
    let link = stage.connect();
    for (queue, auto_delete) in [(b"a", true), (b"b", false)] {
        let flags = QueueDeclare { auto_delete, ..QueueDeclare::default() };
        stage.links[link].client.declare_queue(1, queue, flags, &FieldTable::new());
    }
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.attach_receiver(CHANNEL, RECEIVER, "receiver", "/queues/a", false);
    client.client.attach_sender(CHANNEL, SENDER, "sender", Some("/queues/b"));
    client.client.attach_management(CHANNEL, MANAGEMENT);
    client.run(&mut stage);
    client.events.clear();
    stage.holds_answers = true;
    (stage, client)
}

fn answer(stage: &mut Stage, client: &mut Client10) {
    stage.holds_answers = false;
    client.run(stage);
    stage.settle();
    client.run(stage);
}

/// Publishes a message on the sending link, and returns whether it was read. Its outcome may come later.
fn sends(stage: &mut Stage, client: &mut Client10) -> bool {
    let before = stage.broker.totals().published;
    let mut message = Vec::new();
    write_data(&mut message, b"x");
    client.client.send(CHANNEL, SENDER, b"1", &message, &Send::default());
    client.run(stage);
    client.events.retain(|event| !matches!(event, Event::Disposition { .. }));
    stage.broker.totals().published > before
}

/// Publishes a message that is in its queue before answers are held.
fn has_sent(stage: &mut Stage, client: &mut Client10) {
    assert!(sends(stage, client));
    answer(stage, client);
    stage.holds_answers = true;
}

/// Credit and end of drain in the flows of the receiving link.
fn flows(client: &Client10) -> Vec<(u32, bool)> {
    let flow = |event: &Event| match event {
        Event::LinkFlow { handle: RECEIVER, credit, drained, .. } => Some((*credit, *drained)),
        _ => None,
    };
    client.events.iter().filter_map(flow).collect()
}

fn delete(stage: &mut Stage, queue: &str) {
    // At once, before anything else that was asked for.
    stage.command(Command::DeleteQueue(DeleteQueue {
        vhost: "/".into(),
        name: queue.into(),
        connection: None,
        id: None,
    }));
    stage.settle();
}

fn has_queue(stage: &Stage, queue: &str) -> bool {
    stage.broker.registry.snapshot().queue("/", queue).is_some()
}

#[test]
fn late_states_of_a_link_keep_the_order_of_its_flows() {
    let (mut stage, mut client) = stage();
    client.client.flow(CHANNEL, RECEIVER, 5, false, true);
    client.run(&mut stage);
    assert!(sends(&mut stage, &mut client), "other links go on");
    client.client.flow(CHANNEL, RECEIVER, 7, false, true);
    client.client.flow(CHANNEL, RECEIVER, 9, true, false);
    client.run(&mut stage);
    assert_eq!(flows(&client), []);
    answer(&mut stage, &mut client);
    assert_eq!(flows(&client), [(5, false), (7, false), (0, true)]);
}

#[test]
fn a_link_whose_queue_is_deleted_gets_no_late_state() {
    for drain in [false, true] {
        let (mut stage, mut client) = stage();
        client.client.flow(CHANNEL, RECEIVER, 5, drain, true);
        client.run(&mut stage);
        delete(&mut stage, "a");
        client.run(&mut stage);
        assert_eq!(client.refusal().as_deref(), Some("amqp:resource-deleted"));
        answer(&mut stage, &mut client);
        assert_eq!(flows(&client), []);
        assert!(sends(&mut stage, &mut client), "the session goes on");
    }
}

#[test]
fn a_session_that_ends_gets_no_late_state() {
    let (mut stage, mut client) = stage();
    client.client.flow(CHANNEL, RECEIVER, 5, false, true);
    client.run(&mut stage);
    client.client.end(CHANNEL, None);
    client.run(&mut stage);
    let has_ended = |client: &Client10| client.events.iter().any(|event| matches!(event, Event::Ended { .. }));
    assert!(!has_ended(&client), "the queue that is deleted with it has to be gone");
    answer(&mut stage, &mut client);
    assert!(has_ended(&client));
    assert_eq!(flows(&client), []);
    assert!(!has_queue(&stage, "a"));
}

#[test]
fn a_detach_is_answered_when_the_last_consumer_s_queue_is_gone() {
    let (mut stage, mut client) = stage();
    client.client.detach(CHANNEL, RECEIVER, true, None);
    client.run(&mut stage);
    let is_detached = |client: &Client10| client.events.iter().any(|event| matches!(event, Event::Detached { .. }));
    assert!(!is_detached(&client));
    answer(&mut stage, &mut client);
    assert!(is_detached(&client) && !has_queue(&stage, "a"));
}

#[test]
fn a_cut_connection_s_last_consumer_takes_its_queue_along() {
    for asks in [false, true] {
        let (mut stage, mut client) = stage();
        if asks {
            client.client.flow(CHANNEL, RECEIVER, 5, true, true);
            client.run(&mut stage);
        }
        client.connection.disconnected(stage.now);
        client.connection.turn(stage.now);
        assert!(client.connection.is_finished() && has_queue(&stage, "a"));
        stage.holds_answers = false;
        stage.settle();
        assert!(!has_queue(&stage, "a"));
    }
}

/// Sends requests: a purge, a declaration and a look at `b`.
fn request(stage: &mut Stage, client: &mut Client10) {
    let declaration = Client::queue_to_declare(false, false, false, OwnedMap::default());
    let requests = [
        ("DELETE", "/queues/b/messages", OwnedValue::Null),
        ("PUT", "/queues/b", declaration),
        ("GET", "/queues/b", OwnedValue::Null),
    ];
    for (id, (method, path, body)) in (1..).zip(requests) {
        client.client.request(CHANNEL, MANAGEMENT, &ManagementRequest { id, method, path, body: &body });
        client.run(stage);
    }
}

/// Number, status and number of messages of each response.
fn responses(client: &Client10) -> Vec<(u64, u16, Option<u64>)> {
    let shown = client.responses.iter().map(|one| (one.id, one.status, one.number("message_count")));
    shown.collect()
}

#[test]
fn late_responses_keep_the_order_of_their_requests() {
    let (mut stage, mut client) = stage();
    has_sent(&mut stage, &mut client);
    client.client.flow(CHANNEL, RECEIVER, 5, false, true);
    request(&mut stage, &mut client);
    assert_eq!(responses(&client), []);
    answer(&mut stage, &mut client);
    assert_eq!(responses(&client), [(1, 200, Some(1)), (2, 200, Some(0)), (3, 200, Some(0))]);
    assert_eq!(flows(&client), [(5, false)]);
}

#[test]
fn a_response_about_a_deleted_queue_is_that_of_one_that_is_gone() {
    let (mut stage, mut client) = stage();
    has_sent(&mut stage, &mut client);
    request(&mut stage, &mut client);
    delete(&mut stage, "b");
    answer(&mut stage, &mut client);
    assert_eq!(responses(&client), [(1, 200, Some(0)), (2, 201, Some(0)), (3, 200, Some(0))]);
}

#[test]
fn a_request_sees_what_those_before_it_changed() {
    for answers_late in [false, true] {
        let (mut stage, mut client) = stage();
        stage.holds_answers = answers_late;
        let declaration = || Client::queue_to_declare(false, false, false, OwnedMap::default());
        let requests = [
            ("PUT", "/queues/new", declaration()),
            ("GET", "/queues/new", OwnedValue::Null),
            ("DELETE", "/queues/new", OwnedValue::Null),
            ("GET", "/queues/new", OwnedValue::Null),
            ("PUT", "/queues/new", declaration()),
        ];
        for (id, (method, path, body)) in (1..).zip(requests) {
            client.client.request(CHANNEL, MANAGEMENT, &ManagementRequest { id, method, path, body: &body });
        }
        client.run(&mut stage);
        answer(&mut stage, &mut client);
        let statuses: Vec<u16> = client.responses.iter().map(|one| one.status).collect();
        assert_eq!(statuses, [201, 200, 200, 404, 201]);
    }
}

#[test]
fn a_cut_connection_s_requests_are_carried_out() {
    let (mut stage, mut client) = stage();
    has_sent(&mut stage, &mut client);
    request(&mut stage, &mut client);
    client.connection.disconnected(stage.now);
    client.connection.turn(stage.now);
    assert!(client.connection.is_finished());
    stage.holds_answers = false;
    stage.settle();
    let ready = stage.broker.registry.snapshot().queue("/", "b").map(|queue| queue.look(Size { used: None }).0);
    assert_eq!(ready, Some(0), "the purge had been asked for");
}
