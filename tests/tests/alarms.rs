//! Resource alarms at the wire: their causes, the notified and blocked connections, and their display over HTTP and
//! in metrics.

use std::fs::{self, File};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::amqp10::{Amqp10, CHANNEL};
use leveret_tests::broker::is_given;
use leveret_tests::cell;
use leveret_tests::http::{Answer, Http};
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, frame, method, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::json;

const ALARMS: &str = "/api/health/checks/alarms";
const LOCAL_ALARMS: &str = "/api/health/checks/local-alarms";

/// Polls until the response is as wanted: the state results from measurements inside the node.
fn until(http: &Http, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = http.get(path).expect("an answer");
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{path}: {} {}", answer.status, answer.body);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads connection.blocked and returns its reason.
fn blocked(wire: &mut Wire) -> String {
    let frame = wire.next_method(method::CONNECTION_BLOCKED).unwrap_or_else(|frame| panic!("{frame:?}"));
    frame.arguments().short_string()
}

#[test]
fn only_publishers_wait_until_the_last_alarm_clears() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().with_alarms());
    let http = node.http();
    assert_eq!(until(&http, ALARMS, |answer| answer.status == 200).json(), json!({"status": "ok"}));
    let mut publisher = Wire::open(node.amqp());
    publisher.declare(1, "q", true);
    publisher.confirm_select(1);
    publisher.send(&publish(1, "", "q", b"before", true, true));
    publisher.confirms(1);

    node.raise_alarms("memory disk");
    let failed = until(&http, ALARMS, |answer| answer.json()["alarms"].as_array().is_some_and(|all| all.len() == 2));
    assert_eq!(failed.status, 503);
    assert_eq!(failed.json()["status"], "failed");
    assert_eq!(failed.json()["reason"], "There are alarms in effect in the cluster");
    let name = &failed.json()["alarms"][0]["node"];
    let expected = json!([{"resource": "disk space", "node": name}, {"resource": "memory", "node": name}]);
    assert_eq!(failed.json()["alarms"], expected);
    let local = http.get(LOCAL_ALARMS).expect("an answer");
    assert_eq!((local.status, &local.json()["reason"]), (503, &json!("There are alarms in effect on the node")));
    assert_eq!(node.metric("rabbitmq_alarms_memory_used_watermark"), "1");
    assert_eq!(node.metric("rabbitmq_alarms_free_disk_space_watermark"), "1");

    publisher.send(&publish(1, "", "q", b"during", true, true));
    assert_eq!(blocked(&mut publisher), "low on disk & memory");
    assert_eq!(node.metric("leveret_connections_blocked"), "1");
    let queue = http.get("/api/queues/%2F/q").expect("the queue").json();
    assert!(queue.to_string().contains("\"alarm\""), "the queue shows why its publisher waits: {queue}");

    // A connection that opens during the alarm and doesn't publish.
    let mut consumer = Wire::open(node.amqp());
    consumer.declare(1, "other", true);
    consumer.consume(1, "q", false);
    let (tag, _, body) = consumer.delivery();
    assert_eq!(body, b"before");
    consumer.ack(1, tag, false);

    node.raise_alarms("disk");
    until(&http, ALARMS, |answer| answer.json()["alarms"].as_array().is_some_and(|all| all.len() == 1));
    assert_eq!(node.metric("leveret_connections_blocked"), "1", "one alarm is left");
    node.raise_alarms("");
    assert!(publisher.next_method(method::CONNECTION_UNBLOCKED).is_ok(), "connection.unblocked comes");
    let ack = publisher.next_method(method::BASIC_ACK).unwrap_or_else(|frame| panic!("{frame:?}"));
    assert_eq!(ack.arguments().long_long(), 2);
    let (tag, _, body) = consumer.delivery();
    assert_eq!(body, b"during");
    consumer.ack(1, tag, false);
    until(&http, LOCAL_ALARMS, |answer| answer.status == 200);
    assert_eq!(node.metric("leveret_connections_blocked"), "0");
    publisher.close();
    consumer.close();
    conservation::check(&http);
}

#[test]
fn queues_and_metrics_show_amqp10_publishers_in_an_alarm() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().with_alarms());
    let http = node.http();
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    let mut publisher = Amqp10::open(node.amqp());
    publisher.sender(0, "/queues/q");
    publisher.publish_accepted(0, b"before");
    // It has a link, but never published.
    let mut other = Amqp10::open(node.amqp());
    other.sender(0, "/queues/q");

    let shows_alarm = |answer: &Answer| answer.json().to_string().contains("\"alarm\"");
    node.raise_alarms("memory");
    until(&http, "/api/queues/%2F/q", shows_alarm);
    assert_eq!(node.metric("leveret_connections_blocked"), "1");
    node.raise_alarms("");
    until(&http, "/api/queues/%2F/q", |answer| !shows_alarm(answer));
    assert_eq!(node.metric("leveret_connections_blocked"), "0");
    publisher.wait_credit(CHANNEL, 0);
    publisher.publish_accepted(0, b"after");

    // A blocked connection that closes is no longer shown.
    node.raise_alarms("disk");
    until(&http, "/api/queues/%2F/q", shows_alarm);
    drop(publisher);
    until(&http, "/api/queues/%2F/q", |answer| !shows_alarm(answer));
    assert_eq!(node.metric("leveret_connections_blocked"), "0");
    other.close();
    wire.close();
}

/// Bytes of an unfinished message.
const PART: usize = 990_000;

/// Publishers with messages of a megabyte of which the last bytes are missing, in the queue `q`, so many that they raise the memory alarm.
fn unfinished(node: &Node, count: usize) -> Vec<Wire> {
    let mut wires: Vec<Wire> = (0..count).map(|_| Wire::open(node.amqp())).collect();
    let body = vec![b'x'; 1_000_000];
    // A frame of 100,000 bytes is a part of the body.
    let mut bytes = publish(1, "", "q", &[], false, false);
    bytes.truncate(bytes.len() - 23);
    let mut header = Writer::new();
    header.put_short(60).put_short(0).put_long_long(body.len() as u64).put_short(0x1000).put_octet(1);
    bytes.extend(frame(2, 1, header.bytes()));
    body.chunks(100_000).for_each(|part| bytes.extend(frame(3, 1, part)));
    bytes.truncate(PART);
    for wire in &mut wires {
        wire.socket.set_nonblocking(true).expect("a mode");
    }
    let mut sent = vec![0; count];
    let deadline = Instant::now() + PATIENCE;
    while node.http().get(ALARMS).expect("an answer").status == 200 {
        for (wire, sent) in wires.iter_mut().zip(&mut sent) {
            let end = bytes.len().min(*sent + 100_000);
            *sent += wire.socket.write(&bytes[*sent..end]).unwrap_or(0);
        }
        assert!(Instant::now() < deadline, "no alarm after {} bytes", sent.iter().sum::<usize>());
    }
    wires
}

/// A node whose memory alarm comes 60 MB above what it uses at its start, and its queue `q`.
fn node_with_little_memory() -> Node {
    let used = Node::start(Options::new()).resident_bytes();
    let node = Node::start(Options::new().set("vm_memory_high_watermark.absolute", used + 60_000_000));
    Wire::open(node.amqp()).declare(1, "q", true);
    node
}

/// Publishes a message, which is confirmed. What the clients that left held may raise the alarm for a moment more: until the
/// allocator has returned it, and while what they sent last is still read from their sockets.
fn publishes(node: &Node) {
    let mut publisher = Wire::open(node.amqp());
    publisher.confirm_select(1);
    publisher.send(&publish(1, "", "q", b"x", true, true));
    loop {
        let frame = publisher.next_frame().expect("a confirm");
        match frame.method() {
            Some(method::BASIC_ACK) => break,
            Some(method::CONNECTION_BLOCKED | method::CONNECTION_UNBLOCKED) => {}
            _ => panic!("a confirm expected: {frame:?}"),
        }
    }
    publisher.close();
}

#[test]
fn unfinished_messages_of_clients_that_left_end_with_them() {
    if is_given() {
        return;
    }
    let node = node_with_little_memory();
    let wires = unfinished(&node, 120);
    drop(wires);
    let gone = |answer: &Answer| answer.json()["object_totals"]["connections"] == 0;
    until(&node.http(), "/api/overview", gone);
    until(&node.http(), ALARMS, |answer| answer.status == 200);
    assert_eq!(node.count("leveret_connections_unfinished_closed_total"), 0, "they went by themselves");
    publishes(&node);
}

#[test]
fn unfinished_messages_that_keep_the_alarm_are_given_up() {
    if is_given() {
        return;
    }
    let mut node = node_with_little_memory();
    let mut wires = unfinished(&node, 120);
    // No client leaves, and none can finish.
    until(&node.http(), ALARMS, |answer| answer.status == 200);
    while node.count("leveret_connections_unfinished_closed_total") == 0 {
        // The memory had only just reached the limit, and fell below it by itself.
        wires.extend(unfinished(&node, 40));
        until(&node.http(), ALARMS, |answer| answer.status == 200);
    }
    let mut told = 0;
    for wire in &mut wires {
        wire.socket.set_nonblocking(false).expect("a mode");
        // The others are told nothing.
        wire.socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a read timeout");
        let Ok(mut frame) = wire.next_frame() else { continue };
        while matches!(frame.method(), Some(method::CONNECTION_BLOCKED | method::CONNECTION_UNBLOCKED)) {
            let Ok(next) = wire.next_frame() else { break };
            frame = next;
        }
        if let Some((code, text)) = frame.reason() {
            assert_eq!(code, 320);
            assert!(
                text.contains("CONNECTION_FORCED - unfinished messages and transactions of this connection hold"),
                "{text}"
            );
            told += 1;
            break;
        }
    }
    assert_eq!(told, 1, "a client is told why");
    drop(wires);
    until(&node.http(), "/api/overview", |answer| answer.json()["object_totals"]["connections"] == 0);
    until(&node.http(), ALARMS, |answer| answer.status == 200);
    publishes(&node);
    node.ask_to_stop();
    assert!(node.terminate_asked().success());
    assert!(node.log().contains("their unfinished messages keep the memory alarm raised"));
}

#[test]
fn an_alarm_is_logged_as_rabbitmq_does() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().with_alarms());
    node.raise_alarms("memory");
    until(&node.http(), ALARMS, |answer| answer.status == 503);
    node.raise_alarms("");
    until(&node.http(), ALARMS, |answer| answer.status == 200);
    node.ask_to_stop();
    assert!(node.terminate_asked().success());
    let log = node.log();
    for line in [
        "vm_memory_high_watermark set. Memory used:",
        "memory resource limit alarm set on",
        "*** Publishers will be blocked until this alarm clears ***",
        "memory resource limit alarm cleared",
    ] {
        assert!(log.contains(line), "no '{line}' in:\n{log}");
    }
}

#[test]
fn memory_above_the_watermark_raises_the_alarm_at_start() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("vm_memory_high_watermark.absolute", "1MB"));
    let answer = node.http().get(ALARMS).expect("an answer");
    assert_eq!((answer.status, &answer.json()["alarms"][0]["resource"]), (503, &json!("memory")));
    assert_eq!(node.metric("rabbitmq_resident_memory_limit_bytes"), "1000000");
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    wire.send(&publish(1, "", "q", b"x", true, true));
    assert_eq!(blocked(&mut wire), "low on memory");
}

#[test]
fn a_disk_that_fills_raises_the_alarm_and_space_clears_it() {
    if is_given() {
        return;
    }
    const FILE_BYTES: u64 = 2 << 30;
    let probe = tempfile::tempdir().expect("a directory");
    let free = || {
        let stat = rustix::fs::statvfs(probe.path()).expect("statvfs");
        stat.f_bavail * stat.f_frsize
    };
    // Half a log file of margin for what other programs write or free meanwhile.
    let limit = free() - FILE_BYTES / 2;
    let node = Node::start(Options::new().set("disk_free_limit.absolute", limit));
    let http = node.http();
    until(&http, ALARMS, |answer| answer.status == 200);
    let path = node.directory().join("ballast");
    let file = File::create(&path).expect("a file");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES).expect("room for the file");
    let failed = until(&http, ALARMS, |answer| answer.status == 503);
    assert_eq!(failed.json()["alarms"][0]["resource"], "disk space");
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    wire.send(&publish(1, "", "q", b"x", true, true));
    assert_eq!(blocked(&mut wire), "low on disk");
    drop(file);
    fs::remove_file(&path).expect("remove the file");
    assert!(wire.next_method(method::CONNECTION_UNBLOCKED).is_ok(), "connection.unblocked comes");
    wire.close();
}

#[test]
fn a_pika_client_is_notified_of_an_alarm() {
    cell::run_pika("client.py", "blocked", "connection.blocked and unblocked");
}

#[test]
fn max_connections_refuses_the_next_one_when_it_opens() {
    if is_given() {
        return;
    }
    for key in ["max_connections", "connection_max"] {
        let node = Node::start(Options::new().set(key, 1));
        let first = Wire::open(node.amqp());
        let tuning = leveret_tests::wire::Tuning { frame_max: 0, heartbeat: 0 };
        let refused = Wire::handshake_to(node.amqp(), tuning, "/").expect_err("one too many");
        let text = "NOT_ALLOWED - connection refused: node connection limit (1) is reached; raise max_connections";
        assert_eq!(refused.reason(), Some((530, text.to_owned())));
        first.close();
    }
}
