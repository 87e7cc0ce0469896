//! Data corrupted while the node was down: the affected queue stops, reports its losses, and can be purged and
//! deleted; all others continue.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::data_directory::stored_files;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Confirmed, Wire, Writer, method, method_frame, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::json;

const MESSAGES: u64 = 300;
/// Messages of each queue that are published at once.
const AT_ONCE: u64 = 8;

fn body(queue: &str, number: u64) -> Vec<u8> {
    let mut body = format!("{queue} {number:06} ").into_bytes();
    body.resize(1024, b'.');
    body
}

/// Files below a directory whose names begin with `prefix`.
fn files(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, prefix));
        } else if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(path);
        }
    }
    found
}

/// A stopped node with two queues of this type whose messages are in segments, and the file with a message of the first one:
/// a segment of its own if `copied`, or a log file that became a segment.
fn stopped_with_segments(queue_type: &str, copied: bool) -> (Node, PathBuf) {
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", "64KiB"));
    let mut wire = Wire::open(node.amqp());
    let arguments = json!({"x-queue-type": queue_type});
    for (queue, arguments) in [("hurt", &arguments), ("well", &arguments), ("short", &json!({"x-max-length": 1}))] {
        let body = json!({"durable": true, "arguments": arguments});
        assert_eq!(node.http().put(&format!("/api/queues/%2F/{queue}"), &body).expect("an answer").status, 201);
    }
    wire.confirm_select(1);
    // A file with many messages that are dead soon is copied.
    let others = if copied { 2 } else { 0 };
    let mut confirmed = Confirmed::default();
    // Several at once: if the log wrote each message by itself, what fills up its blocks could be more than is dead.
    for first in (0..MESSAGES).step_by(AT_ONCE as usize) {
        let numbers = first..(first + AT_ONCE).min(MESSAGES);
        let end = numbers.end;
        let queues = |number| {
            let queues = ["hurt", "well"].into_iter().chain(std::iter::repeat_n("short", others));
            queues.flat_map(move |queue| publish(1, "", queue, &body(queue, number), true, true))
        };
        wire.send(&numbers.flat_map(queues).collect::<Vec<u8>>());
        while confirmed.count() < end * (2 + others as u64) {
            confirmed.wait(&mut wire);
        }
    }
    drop(wire);
    node.terminate();
    let wanted = body("hurt", 20);
    let holds = |path: &PathBuf| fs::read(path).expect("a segment").windows(1024).any(|bytes| *bytes == wanted[..]);
    let mut stored = stored_files(node.directory()).into_iter().map(|(path, _)| path);
    let segment = stored.find(holds).expect("it reached a segment");
    let is_own = segment.file_name().expect("a name").to_string_lossy().starts_with("segment-");
    assert_eq!(is_own, copied, "{}", segment.display());
    (node, segment)
}

/// Flips a bit of message 20.
fn corrupt(segment: &Path) {
    let mut bytes = fs::read(segment).expect("the segment");
    let wanted = body("hurt", 20);
    let at = bytes.windows(1024).position(|found| *found == wanted[..]).expect("it is there");
    bytes[at + 500] ^= 1;
    fs::write(segment, bytes).expect("the segment is changed");
}

#[test]
fn a_corrupted_message_is_told_in_a_list_of_messages() {
    if is_given() {
        return;
    }
    let (mut node, segment) = stopped_with_segments("quorum", true);
    corrupt(&segment);
    node.restart();
    let answer = node.http().get("/api/queues/%2F/hurt/browse?count=40&truncate=30").expect("an answer");
    assert_eq!(answer.status, 200);
    let listed = answer.json();
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 40);
    for (number, message) in (0..).zip(listed) {
        let payload = message["payload"].as_str().unwrap_or_default();
        let error = message["error"].as_str().unwrap_or_default();
        match number {
            20 => assert!(error.contains("checksum is wrong"), "{message}"),
            _ => assert!(payload.starts_with(&format!("hurt {number:06} ")), "{message}"),
        }
    }
    assert_eq!(state(&node, "hurt").0, "running", "a look changes nothing");
}

/// Consumes from the first message.
fn consume(wire: &mut Wire, queue: &str, queue_type: &str) {
    wire.prefetch(1, 10_000);
    let from_the_first = [("x-stream-offset", 0)];
    wire.consume_with(1, queue, false, if queue_type == "stream" { &from_the_first } else { &[] });
}

fn take_all(node: &Node, queue: &str, queue_type: &str) {
    let mut wire = Wire::open(node.amqp());
    consume(&mut wire, queue, queue_type);
    for number in 0..MESSAGES {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(queue, number), "message {number} of {queue}");
        wire.ack(1, tag, false);
    }
    wire.close();
}

/// The queue's state, and the reason of its failure.
fn state(node: &Node, queue: &str) -> (String, String) {
    let json = node.http().get(&format!("/api/queues/%2F/{queue}")).expect("the queue").json();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let failure = json.pointer("/leveret/failure").or_else(|| json.get("failure"));
    (text(&json["state"]), failure.map(text).unwrap_or_default())
}

fn refused_consume(node: &Node, queue: &str) -> String {
    let mut wire = Wire::open(node.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(queue).put_short_string("").put_octet(0).put_empty_table();
    wire.send(&method_frame(1, method::BASIC_CONSUME, &arguments));
    let frame = wire.next_frame().expect("an answer");
    frame.reason().map(|(_, text)| text).unwrap_or_else(|| panic!("a refusal expected: {frame:?}"))
}

/// Asserts that a transaction leaves no message in the running queue either, and that acknowledged messages come
/// again.
fn transaction_is_refused_whole(node: &Node) {
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "beside", true);
    wire.send(&publish(1, "", "beside", b"taken before", true, true));
    wire.call(1, method::TX_SELECT, &Writer::new(), method::TX_SELECT_OK);
    wire.consume(1, "beside", false);
    let (tag, _, _) = wire.delivery();
    wire.ack(1, tag, false);
    wire.send(&publish(1, "", "beside", b"of the transaction", true, true));
    wire.send(&publish(1, "", "hurt", b"of the transaction", true, true));
    wire.send(&method_frame(1, method::TX_COMMIT, &Writer::new()));
    let closed = wire.next_frame().expect("an answer");
    let (code, text) = closed.reason().expect("the channel is closed");
    assert!(code == 406 && text.contains("queue 'hurt' in vhost '/' has stopped"), "{code} {text}");
    drop(wire);
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "beside", false);
    let (tag, redelivered, received) = wire.delivery();
    assert!(redelivered && received == b"taken before", "{received:?}");
    wire.ack(1, tag, true);
    let left = wire.declare(1, "beside", true);
    let mut arguments = left.arguments();
    let (_name, ready) = (arguments.short_string(), arguments.long());
    assert_eq!(ready, 0, "some of the transaction was carried out");
    wire.close();
}

#[test]
fn a_segment_without_its_index_stops_the_queue_of_its_messages() {
    if is_given() {
        return;
    }
    let (mut node, segment) = stopped_with_segments("classic", true);
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let mut bytes = fs::read(&segment).expect("the segment");
    let last = bytes.len() - 1;
    bytes[last] ^= 0x55;
    fs::write(&segment, bytes).expect("the segment is changed");
    node.restart();

    let (shown, failure) = state(&node, "hurt");
    assert_eq!(shown, "crashed");
    assert!(failure.contains(&name) && failure.contains("messages between the numbers"), "{failure}");
    assert_eq!(state(&node, "well").0, "running");
    assert_eq!(files(node.directory(), "damaged-segment-").len(), 0);
    assert!(segment.exists(), "it stays where it is");
    take_all(&node, "well", "classic");
    let refusal = refused_consume(&node, "hurt");
    assert!(refusal.contains("queue 'hurt' in vhost '/' has crashed") && refusal.contains(&name), "{refusal}");

    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    wire.send(&publish(1, "", "hurt", b"no", true, true));
    let refused = wire.next_method(method::BASIC_NACK);
    assert!(refused.is_ok(), "a publish to it isn't confirmed: {refused:?}");
    transaction_is_refused_whole(&node);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("hurt").put_octet(0);
    wire.call(1, method::QUEUE_PURGE, &arguments, method::QUEUE_PURGE_OK);
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("hurt").put_octet(0);
    wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
    wire.declare(1, "hurt", true);
    wire.send(&publish(1, "", "hurt", b"again", true, true));
    assert!(wire.next_method(method::BASIC_ACK).is_ok());
    wire.close();
    assert_eq!(state(&node, "hurt").0, "running");
    conservation::check(&node.http());
}

#[test]
fn a_corrupted_message_stops_its_queue_when_it_is_read() {
    is_found_when_it_is_read("classic", true);
    is_found_when_it_is_read("classic", false);
}

#[test]
fn a_corrupted_message_stops_its_quorum_queue() {
    is_found_when_it_is_read("quorum", false);
}

#[test]
fn a_corrupted_chunk_stops_its_stream_when_it_is_read() {
    is_found_when_it_is_read("stream", false);
}

fn is_found_when_it_is_read(queue_type: &str, copied: bool) {
    if is_given() {
        return;
    }
    let (mut node, segment) = stopped_with_segments(queue_type, copied);
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    corrupt(&segment);
    node.restart();

    assert_eq!(state(&node, "hurt").0, "running", "nobody has read it yet");
    let mut wire = Wire::open(node.amqp());
    consume(&mut wire, "hurt", queue_type);
    let deadline = Instant::now() + PATIENCE;
    while state(&node, "hurt").0 != "crashed" {
        assert!(Instant::now() < deadline, "nobody noticed");
        thread::sleep(Duration::from_millis(10));
    }
    drop(wire);
    let (shown, failure) = state(&node, "hurt");
    assert_eq!(shown, "crashed");
    assert!(failure.contains(&name) && failure.contains("checksum is wrong"), "{failure}");
    take_all(&node, "well", queue_type);
    let mut wire = Wire::open(node.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string("hurt").put_octet(0);
    wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
    wire.close();
    conservation::check(&node.http());
}
