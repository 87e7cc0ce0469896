//! Management requests over AMQP 1.0 that remove messages or a binding, among what their connection does before and after them.

use leveret_amqp10::message::write_data;
use leveret_amqp10::value::{OwnedMap, OwnedValue};
use leveret_amqp091::FieldTable;
use leveret_broker::Settings;
use leveret_strict_client::amqp10::{Client, ManagementRequest, Send, SessionOptions};
use leveret_strict_client::amqp091::QueueDeclare;

use crate::client_amqp10::{CHANNEL, Client10};
use crate::stage::Stage;
use leveret_broker::queue_handle::Size;

const QUEUE: u32 = 0;
const EXCHANGE: u32 = 1;
const MANAGEMENT: u32 = 2;
/// Another session, which has a management link pair, too.
const OTHER: u16 = 1;
const PURGE: &str = "/queues/b/messages";
const BINDING: &str = "/bindings/src=amq.direct;dstq=b;key=key;args=";

/// A stage with the queue `b`, which is bound to `amq.direct`, and a client that sends to both and can manage on two sessions.
fn stage(answers_late: bool) -> (Stage, Client10) {
    let mut stage = Stage::with(Settings { answers_late, ..Settings::default() });
    let link = stage.connect();
    let client = &mut stage.links[link].client;
    client.declare_queue(1, b"b", QueueDeclare { durable: true, ..QueueDeclare::default() }, &FieldTable::new());
    client.bind_queue(1, b"b", b"amq.direct", b"key", &FieldTable::new());
    stage.settle();
    let mut client = Client10::connect(&mut stage, "guest");
    client.client.begin(OTHER, SessionOptions::default());
    client.run(&mut stage);
    client.client.attach_sender(CHANNEL, QUEUE, "queue", Some("/queues/b"));
    client.client.attach_sender(CHANNEL, EXCHANGE, "exchange", Some("/exchanges/amq.direct/key"));
    client.client.attach_management(CHANNEL, MANAGEMENT);
    client.client.attach_management(OTHER, MANAGEMENT);
    client.run(&mut stage);
    (stage, client)
}

fn send(client: &mut Client10, handle: u32) {
    let mut message = Vec::new();
    write_data(&mut message, b"x");
    client.client.send(CHANNEL, handle, b"1", &message, &Send { settled: true, ..Send::default() });
}

/// A request that changes something else, so that what comes after it waits.
fn declare(client: &mut Client10) {
    let declaration = Client::queue_to_declare(true, false, false, OwnedMap::default());
    client.client.request(
        CHANNEL,
        MANAGEMENT,
        &ManagementRequest { id: 1, method: "PUT", path: "/queues/new", body: &declaration },
    );
}

fn bind(client: &mut Client10, key: &str) {
    let mut binding = OwnedMap::default();
    binding.push("source", "amq.direct").push("destination_queue", "b").push("binding_key", key);
    client.client.request(
        CHANNEL,
        MANAGEMENT,
        &ManagementRequest { id: 1, method: "POST", path: "/bindings", body: &OwnedValue::Map(binding) },
    );
}

fn remove(client: &mut Client10, channel: u16, path: &str) {
    client.client.request(
        channel,
        MANAGEMENT,
        &ManagementRequest { id: 2, method: "DELETE", path, body: &OwnedValue::Null },
    );
}

/// Until nothing comes any more: what waits for the answer of a queue goes on when that is there.
fn run(stage: &mut Stage, client: &mut Client10) {
    let mut before = usize::MAX;
    while client.responses.len() != before {
        before = client.responses.len();
        for _ in 0..3 {
            client.run(stage);
            stage.settle();
        }
        client.run(stage);
    }
}

fn ready(stage: &Stage) -> Option<u64> {
    stage.broker.registry.snapshot().queue("/", "b").map(|queue| queue.look(Size { used: None }).0)
}

fn bindings(stage: &Stage) -> usize {
    let snapshot = stage.broker.registry.snapshot();
    let queue = snapshot.queue("/", "b").expect("it is declared").info().destination();
    snapshot.topology.bindings_of_destination("/", &queue).filter(|one| &*one.source == "amq.direct").count()
}

/// Number, status and number of messages of each response.
fn responses(client: &Client10) -> Vec<(u64, u16, Option<u64>)> {
    client.responses.iter().map(|one| (one.id, one.status, one.number("message_count"))).collect()
}

#[test]
fn a_purge_takes_what_was_sent_before_it_and_nothing_after_it() {
    for answers_late in [false, true] {
        for waits in [false, true] {
            let (mut stage, mut client) = stage(answers_late);
            send(&mut client, QUEUE);
            if waits {
                declare(&mut client);
            }
            remove(&mut client, OTHER, PURGE);
            send(&mut client, QUEUE);
            send(&mut client, EXCHANGE);
            run(&mut stage, &mut client);
            assert_eq!(responses(&client).last(), Some(&(2, 200, Some(1))), "late {answers_late}, waits {waits}");
            assert_eq!(ready(&stage), Some(2), "late {answers_late}, waits {waits}");
        }
    }
}

#[test]
fn a_message_sent_after_an_unbind_is_not_routed_by_the_binding() {
    for answers_late in [false, true] {
        for waits in [false, true] {
            let (mut stage, mut client) = stage(answers_late);
            send(&mut client, EXCHANGE);
            if waits {
                declare(&mut client);
            }
            remove(&mut client, OTHER, BINDING);
            send(&mut client, EXCHANGE);
            run(&mut stage, &mut client);
            assert_eq!(responses(&client).last(), Some(&(2, 204, None)), "late {answers_late}, waits {waits}");
            assert_eq!((ready(&stage), bindings(&stage)), (Some(1), 0), "late {answers_late}, waits {waits}");
        }
    }
}

#[test]
fn a_removal_waits_for_the_changes_before_it_whatever_its_query() {
    let (mut stage, mut client) = stage(false);
    declare(&mut client);
    remove(&mut client, CHANNEL, "/queues/new/messages?of=all");
    run(&mut stage, &mut client);
    assert_eq!(responses(&client)[1], (2, 200, Some(0)));
}

#[test]
fn a_cut_connection_s_removals_are_carried_out() {
    for answers_late in [false, true] {
        let (mut stage, mut client) = stage(answers_late);
        send(&mut client, QUEUE);
        run(&mut stage, &mut client);
        assert_eq!((ready(&stage), bindings(&stage)), (Some(1), 1));
        for (path, changes) in [(PURGE, declare as fn(&mut Client10)), (BINDING, |client| bind(client, "key"))] {
            let mut cut = Client10::connect(&mut stage, "guest");
            cut.client.begin(OTHER, SessionOptions::default());
            cut.client.attach_management(CHANNEL, MANAGEMENT);
            cut.client.attach_management(OTHER, MANAGEMENT);
            cut.run(&mut stage);
            changes(&mut cut);
            remove(&mut cut, OTHER, path);
            cut.read(&stage);
            cut.connection.disconnected(stage.now);
            cut.connection.turn(stage.now);
            assert!(cut.connection.is_finished());
            stage.settle();
        }
        assert_eq!((ready(&stage), bindings(&stage)), (Some(0), 0), "late {answers_late}");
    }
}

#[test]
fn an_unbind_finds_the_binding_of_the_request_before_it() {
    for cuts in [false, true] {
        let (mut stage, mut client) = stage(false);
        bind(&mut client, "other");
        remove(&mut client, CHANNEL, "/bindings/src=amq.direct;dstq=b;key=other;args=");
        client.read(&stage);
        if cuts {
            client.connection.disconnected(stage.now);
            client.connection.turn(stage.now);
        }
        stage.settle();
        if !cuts {
            client.client.close(None);
            client.run(&mut stage);
        }
        stage.settle();
        assert_eq!(bindings(&stage), 1, "cut {cuts}");
    }
}

#[test]
fn a_close_waits_for_the_removal_before_it() {
    let (mut stage, mut client) = stage(false);
    send(&mut client, QUEUE);
    declare(&mut client);
    remove(&mut client, CHANNEL, PURGE);
    client.client.close(None);
    run(&mut stage, &mut client);
    assert!(client.connection.is_finished());
    assert_eq!(ready(&stage), Some(0));
}
