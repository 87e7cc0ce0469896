//! The meaning of a confirm in queues of each durability: `synced` waits for the disk, `os` for the operating system,
//! `memory` for nothing. And the messages that each keeps when the node is killed.

use std::time::{Duration, Instant};

use leveret_amqp10::condition;
use leveret_amqp10::message::{Header, write_data};
use leveret_strict_client::amqp10::{Event, Send, State};
use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::{Value, json};

const DELAY: Duration = Duration::from_millis(200);

fn slow_disk() -> Options {
    Options::new().set("debug.sync_delay_ms", DELAY.as_millis())
}

fn declaration(name: &str, flags: u8, class: Option<&str>) -> Writer {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(name).put_octet(flags);
    match class {
        Some(class) => arguments.put_string_table(&[("x-durability", class)]),
        None => arguments.put_empty_table(),
    };
    arguments
}

const DURABLE: u8 = 0b10;

fn declare(wire: &mut Wire, name: &str, class: Option<&str>) {
    wire.call(1, method::QUEUE_DECLARE, &declaration(name, DURABLE, class), method::QUEUE_DECLARE_OK);
}

/// A refused declaration; the channel is reopened.
fn refused(wire: &mut Wire, arguments: &Writer) -> (u16, String) {
    wire.send(&method_frame(1, method::QUEUE_DECLARE, arguments));
    let frame = wire.next_method(method::QUEUE_DECLARE_OK).expect_err("it is refused");
    wire.send(&method_frame(1, method::CHANNEL_CLOSE_OK, &Writer::new()));
    wire.open_channel(1);
    frame.reason().expect("a reason")
}

fn queue(node: &Node, name: &str) -> Value {
    node.http().get(&format!("/api/queues/%2F/{name}")).expect("an answer").json()
}

/// Publishes a persistent message, and waits for its confirm.
fn confirm(wire: &mut Wire, exchange: &str, key: &str) {
    wire.send(&publish(1, exchange, key, b"confirmed", true, true));
    wire.next_method(method::BASIC_ACK).expect("a confirm");
}

/// A lower bound is no race: a confirm that arrives sooner can't have waited for the sync.
fn takes_a_sync(act: impl FnOnce()) {
    let begin = Instant::now();
    act();
    let elapsed = begin.elapsed();
    assert!(elapsed >= DELAY, "it took {elapsed:?}");
}

/// Publishes to the queue `synced` on channel 1 and then to another one on channel 2, in one batch of the log, and
/// asserts that the second is confirmed first.
fn overtakes_a_sync(wire: &mut Wire, key: &str) {
    let synced = publish(1, "", "synced", b"confirmed", true, true);
    wire.send(&[synced, publish(2, "", key, b"confirmed", true, true)].concat());
    assert_eq!(wire.next_method(method::BASIC_ACK).expect("a confirm").channel, 2, "{key} waits for the sync");
}

/// Opens channels 1 and 2 with confirms.
fn confirming(wire: &mut Wire) {
    wire.open_channel(2);
    wire.confirm_select(1);
    wire.confirm_select(2);
}

fn get(wire: &mut Wire, name: &str, wanted: method::Id) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(name).put_octet(0);
    wire.call(1, method::BASIC_GET, &arguments, wanted);
    if wanted == method::BASIC_GET_OK {
        assert_eq!(wire.content().expect("its content"), b"confirmed");
    }
}

#[test]
fn a_confirm_waits_for_the_durability_of_its_queue() {
    if is_given() {
        return;
    }
    let node = Node::start(slow_disk());
    let mut wire = Wire::open(node.amqp());
    for class in ["synced", "os", "memory"] {
        declare(&mut wire, class, Some(class));
        let mut bind = Writer::new();
        bind.put_short(0).put_short_string(class).put_short_string("amq.fanout").put_short_string("");
        bind.put_octet(0).put_empty_table();
        if class != "memory" {
            wire.call(1, method::QUEUE_BIND, &bind, method::QUEUE_BIND_OK);
        }
    }
    confirming(&mut wire);
    for class in ["memory", "os"] {
        overtakes_a_sync(&mut wire, class);
        assert_eq!(wire.next_method(method::BASIC_ACK).expect("a confirm").channel, 1);
        // Consumers can get it, and it is requeued in its place.
        get(&mut wire, class, method::BASIC_GET_OK);
        let mut requeue = Writer::new();
        requeue.put_long_long(0).put_octet(0b11);
        wire.send(&method_frame(1, method::BASIC_NACK, &requeue));
        get(&mut wire, class, method::BASIC_GET_OK);
    }
    takes_a_sync(|| confirm(&mut wire, "", "synced"));
    // Routed to both: the stronger guarantee applies.
    takes_a_sync(|| confirm(&mut wire, "amq.fanout", ""));
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn an_outcome_waits_for_the_durability_of_its_queue() {
    if is_given() {
        return;
    }
    let node = Node::start(slow_disk());
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "os", Some("os"));
    declare(&mut wire, "synced", None);
    let mut client = Amqp10::open(node.amqp());
    client.sender(0, "/queues/os");
    client.sender(1, "/queues/synced");
    client.receiver(2, "/queues/os", 10);
    let mut payload = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut payload);
    write_data(&mut payload, b"message");
    let mut send = |handle: u32, tag: &[u8]| client.client.send(CHANNEL, handle, tag, &payload, &Send::default());
    let (synced, os) = (send(1, b"synced").expect("credit"), send(0, b"os").expect("credit"));
    // Both in one batch of the log.
    client.flush();
    let first = client.wait("an outcome", |event| matches!(event, Event::Disposition { .. }));
    assert!(matches!(first.event, Event::Disposition { first, last, .. } if (first, last) == (os, os)), "{first:?}");
    assert_eq!(client.outcome(synced), State::Accepted);
    assert_eq!(client.receive(2).data(), b"message");
    client.close();
    conservation::check(&node.http());
}

#[test]
fn messages_that_only_have_to_be_written_share_a_sync() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "os", Some("os"));
    wire.confirm_select(1);
    let (before, begin) = (node.count("leveret_sync_seconds_count"), Instant::now());
    for _ in 0..300 {
        confirm(&mut wire, "", "os");
    }
    // One sync per 50 ms, however slow they are.
    let allowed = 2 + begin.elapsed().as_millis() as u64 / 50;
    let made = node.count("leveret_sync_seconds_count") - before;
    assert!(made <= allowed, "{made} syncs, {allowed} are enough");
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_transaction_waits_for_the_disk_in_any_queue() {
    if is_given() {
        return;
    }
    let node = Node::start(slow_disk());
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "os", Some("os"));
    wire.call(1, method::TX_SELECT, &Writer::new(), method::TX_SELECT_OK);
    wire.open_channel(2);
    wire.consume(2, "os", true);
    wire.send(&publish(1, "", "os", b"confirmed", true, true));
    // It isn't visible before that: the reply comes first.
    takes_a_sync(|| drop(wire.call(1, method::TX_COMMIT, &Writer::new(), method::TX_COMMIT_OK)));
    assert_eq!(wire.delivery().2, b"confirmed");
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn a_killed_node_keeps_written_messages_only() {
    if is_given() {
        return;
    }
    let mut node = Node::start(slow_disk());
    let mut wire = Wire::open(node.amqp());
    for class in ["synced", "os", "memory"] {
        declare(&mut wire, class, Some(class));
    }
    confirming(&mut wire);
    overtakes_a_sync(&mut wire, "memory");
    assert_eq!(wire.next_method(method::BASIC_ACK).expect("a confirm").channel, 1);
    overtakes_a_sync(&mut wire, "os");
    // The sync is in progress.
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    get(&mut wire, "os", method::BASIC_GET_OK);
    get(&mut wire, "os", method::BASIC_GET_EMPTY);
    get(&mut wire, "memory", method::BASIC_GET_EMPTY);
    assert_eq!(queue(&node, "memory")["durability"], json!("memory"));
    drop(wire);
    // A clean stop keeps no more of it, and reused numbers don't count as delivered.
    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    confirm(&mut wire, "", "memory");
    get(&mut wire, "memory", method::BASIC_GET_OK);
    assert!(node.terminate().success());
    node.restart();
    let mut wire = Wire::open(node.amqp());
    get(&mut wire, "memory", method::BASIC_GET_EMPTY);
    wire.confirm_select(1);
    confirm(&mut wire, "", "memory");
    wire.consume(1, "memory", false);
    let (_, redelivered, body) = wire.delivery();
    assert_eq!((redelivered, &*body), (false, &b"confirmed"[..]));
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn an_invalid_durability_is_refused() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let (code, text) = refused(&mut wire, &declaration("q", DURABLE, Some("disk")));
    assert_eq!(code, 406);
    let begin = "PRECONDITION_FAILED - invalid arg 'x-durability' for queue 'q' in vhost '/': ";
    assert_eq!(text, format!("{begin}\"expected synced, os or memory, got 'disk'\""));
    for flags in [0, DURABLE | 0b100] {
        let (code, text) = refused(&mut wire, &declaration("q", flags, Some("os")));
        assert_eq!(code, 406);
        assert!(text.starts_with(&format!("{begin}\"received 'os', but a queue that isn't durable")), "{text}");
    }
    declare(&mut wire, "q", Some("os"));
    declare(&mut wire, "q", Some("os"));
    for class in [None, Some("synced")] {
        let (code, text) = refused(&mut wire, &declaration("q", DURABLE, class));
        assert_eq!(code, 406);
        assert!(text.starts_with("PRECONDITION_FAILED - inequivalent arg 'x-durability' for queue 'q'"), "{text}");
    }
    let answer = node.http().put("/api/queues/%2F/h", &json!({"durable": true, "arguments": {"x-durability": "ram"}}));
    assert_eq!(answer.expect("an answer").status, 400);
    let mut client = Amqp10::open(node.amqp());
    client.client.attach_sender(0, 0, "nowhere", Some("/queues/h"));
    assert_eq!(client.error().condition, condition::NOT_FOUND.as_str());
    conservation::check(&node.http());
}

#[test]
fn confirms_of_written_messages_wake_no_thread_each() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "os", Some("os"));
    declare(&mut wire, "synced", Some("synced"));
    confirming(&mut wire);
    const CONFIRMS: u64 = 50;
    let mut sleeps_during = |key| {
        let before = node.sleeps_of("leveret-commit");
        (0..CONFIRMS).for_each(|_| confirm(&mut wire, "", key));
        node.sleeps_of("leveret-commit") - before
    };
    assert!(sleeps_during("synced") > CONFIRMS / 2, "each waits for a sync of its own");
    // The thread syncs every 50 ms, and writes for a while if the disk or the machine was slow.
    let deadline = Instant::now() + PATIENCE;
    while sleeps_during("os") > CONFIRMS / 5 {
        assert!(Instant::now() < deadline, "the commit thread writes for every confirm");
    }
    drop(wire);
    conservation::check(&node.http());
}

#[test]
fn the_default_durability_is_a_setting_and_is_shown() {
    if is_given() {
        return;
    }
    let mut node = Node::start(slow_disk().set("default_queue_durability", "os"));
    let mut wire = Wire::open(node.amqp());
    declare(&mut wire, "default", None);
    declare(&mut wire, "synced", Some("synced"));
    declare(&mut wire, "memory", Some("memory"));
    wire.declare(1, "transient", false);
    confirming(&mut wire);
    overtakes_a_sync(&mut wire, "default");
    wire.next_method(method::BASIC_ACK).expect("a confirm");
    confirm(&mut wire, "", "memory");
    for (name, class) in [("default", "os"), ("synced", "synced"), ("memory", "memory"), ("transient", "memory")] {
        assert_eq!(queue(&node, name)["durability"], json!(class), "{name}");
    }
    assert_eq!(queue(&node, "synced")["arguments"]["x-durability"], json!("synced"));
    assert_eq!(queue(&node, "default")["arguments"], json!({"x-queue-type": "classic"}));
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let text = overview["durability"].as_str().expect("a text").to_owned();
    assert!(text.starts_with("written ("), "{text}");
    let metrics = node.prometheus().get("/metrics").expect("metrics").body;
    for line in [
        "leveret_durability_queues{durability=\"os\"} 1",
        "leveret_durability_queues{durability=\"memory\"} 2",
        "leveret_durability_messages{durability=\"synced\"} 1",
        "leveret_durability_messages{durability=\"memory\"} 1",
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line} is missing in\n{metrics}");
    }
    assert!(node.log().contains("Durability  written"), "{}", node.log());
    drop(wire);
    node.kill();
    node.restart();
    conservation::check(&node.http());
    // The classes are logged at a start that finds such queues.
    for line in ["durability os in 1 queues: a power cut may take", "durability memory in 1 durable queues"] {
        assert!(node.wait_for_line(line), "{line}: {}", node.log());
    }
}
