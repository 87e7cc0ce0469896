//! A completely full disk: publishers block and get the reason, consumers continue, a crash loses nothing, and
//! publishing continues once there is space.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, method, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::json;

/// Deadline for publishing to continue (R9).
const RESUMES_WITHIN: Duration = Duration::from_secs(5);
const DISK_BYTES: u64 = 24 << 20;
const BODY: usize = 1024;

fn options() -> Options {
    // Without the alarm for free space, so that only the log's state counts.
    Options::new().set("debug.wal_file_bytes", "256KiB").set("disk_free_limit.absolute", 0)
}

fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(BODY, number as u8);
    body
}

fn number(body: &[u8]) -> u64 {
    let number = u64::from_be_bytes(body[..8].try_into().expect("eight bytes"));
    assert!(*body == self::body(number), "message {number} isn't what was sent");
    number
}

fn publishes(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(|n| publish(1, "", "full", &body(n), true, true)).collect()
}

fn until(http: &Http, path: &str, wanted: &str) {
    until_any(http, path, &[wanted]);
}

fn until_any(http: &Http, path: &str, wanted: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = http.get(path).expect("an answer");
        if wanted.iter().any(|wanted| answer.body.contains(wanted)) {
            return;
        }
        assert!(Instant::now() < deadline, "{path}: none of {wanted:?} in {} {}", answer.status, answer.body);
        thread::sleep(Duration::from_millis(10));
    }
}

/// Reads up to connection.blocked and its reason. Returns the number of confirms before it.
fn confirmed_until_blocked(wire: &mut Wire) -> u64 {
    let mut confirmed = 0;
    loop {
        let frame = wire.next_frame().expect("a confirm or connection.blocked");
        let mut arguments = frame.arguments();
        if frame.method() == Some(method::CONNECTION_BLOCKED) {
            assert_eq!(arguments.short_string(), "low on disk");
            return confirmed;
        }
        assert_eq!(frame.method(), Some(method::BASIC_ACK), "{frame:?}");
        confirmed = confirmed.max(arguments.long_long());
    }
}

/// Consumes and acknowledges this many messages.
fn take(wire: &mut Wire, count: u64) -> BTreeSet<u64> {
    let mut taken = BTreeSet::new();
    for _ in 0..count {
        let (tag, _, body) = wire.delivery();
        taken.insert(number(&body));
        wire.ack(1, tag, false);
    }
    taken
}

/// Declares the queue, publishes the messages 0 to 2999, fills the disk, and publishes more, numbered from `late` on, until their
/// publisher is blocked. Returns the publishers, and how many of the late messages were confirmed.
fn filled(node: &Node, queue_type: &str, late: u64) -> ([Wire; 2], u64) {
    let body = json!({"durable": true, "arguments": {"x-queue-type": queue_type}});
    assert_eq!(node.http().put("/api/queues/%2F/full", &body).expect("an answer").status, 201);
    let publisher = || {
        let mut publisher = Wire::open(node.amqp());
        publisher.confirm_select(1);
        publisher
    };
    let mut first = publisher();
    first.send(&publishes(0..3000));
    first.confirms(3000);
    node.small_disk().fill(0);
    let mut second = publisher();
    second.send(&publishes(late..late + 800));
    until(&node.http(), "/api/health/checks/local-alarms", "disk space");
    // Only publishers are notified, and messages that the log accepted before may be confirmed.
    second.send(&publishes(late + 800..late + 801));
    let confirmed = confirmed_until_blocked(&mut second);
    ([first, second], confirmed)
}

#[test]
fn at_zero_bytes_consumers_go_on_and_a_crash_loses_nothing() {
    consumers_go_on("classic");
}

#[test]
fn at_zero_bytes_a_quorum_queue_loses_nothing() {
    consumers_go_on("quorum");
}

fn consumers_go_on(queue_type: &str) {
    if is_given() {
        return;
    }
    let Some(mut node) = Node::start_on_small_disk(options(), DISK_BYTES) else {
        return;
    };
    let (publishers, confirmed) = filled(&node, queue_type, 10_000);
    // Which of the three depends on the first obstacle. It is sent before the publish is blocked.
    let codes = ["\"alarm\"", "\"disk_full\"", "\"log_full\""];
    until_any(&node.http(), "/api/queues/%2F/full", &codes);
    node.small_disk().fill(0);

    let mut consumer = Wire::open(node.amqp());
    consumer.prefetch(1, 100);
    consumer.consume(1, "full", false);
    let mut taken = take(&mut consumer, 1000);
    assert_eq!(taken.len(), 1000);
    // All space that became free is filled again, except for the needs of a start.
    node.kill();
    node.small_disk().fill(512 << 10);
    node.restart();
    let mut consumer = Wire::open(node.amqp());
    consumer.prefetch(1, 100);
    consumer.consume(1, "full", false);
    taken.extend(take(&mut consumer, 500));

    node.small_disk().empty();
    let begin = Instant::now();
    let mut publisher = Wire::open(node.amqp());
    publisher.confirm_select(1);
    publisher.send(&publishes(20_000..20_100));
    let mut last = 0;
    while last < 100 {
        let frame = publisher.next_frame().expect("a confirm");
        // The alarm and its end may be reported first.
        if frame.method() == Some(method::BASIC_ACK) {
            last = last.max(frame.arguments().long_long());
        }
    }
    assert!(begin.elapsed() < RESUMES_WITHIN, "publishing went on after {:?}", begin.elapsed());

    let expected: BTreeSet<u64> = (0..3000).chain(10_000..10_000 + confirmed).chain(20_000..20_100).collect();
    while !expected.is_subset(&taken) {
        taken.extend(take(&mut consumer, 1));
    }
    drop((publishers, publisher, consumer));
    conservation::check(&node.http());
}

#[test]
fn a_stream_on_a_full_disk_keeps_what_was_confirmed() {
    if is_given() {
        return;
    }
    let Some(mut node) = Node::start_on_small_disk(options(), DISK_BYTES) else {
        return;
    };
    let (publishers, confirmed_late) = filled(&node, "stream", 3000);
    let confirmed = 3000 + confirmed_late;
    let read = |node: &Node| {
        let mut reader = Wire::open(node.amqp());
        reader.prefetch(1, 10_000);
        reader.consume_with(1, "full", false, &[("x-stream-offset", 0)]);
        for expected in 0..confirmed {
            assert_eq!(number(&reader.delivery().2), expected);
        }
    };
    read(&node);
    node.kill();
    node.small_disk().fill(512 << 10);
    node.restart();
    read(&node);
    node.small_disk().empty();
    let mut publisher = Wire::open(node.amqp());
    publisher.confirm_select(1);
    publisher.send(&publishes(20_000..20_001));
    while publisher.next_frame().expect("a confirm").method() != Some(method::BASIC_ACK) {}
    read(&node);
    drop((publishers, publisher));
    conservation::check(&node.http());
}

#[test]
fn publishers_block_before_the_disk_is_full_and_go_on_later() {
    if is_given() {
        return;
    }
    let options = options().set("disk_free_limit.absolute", "2MB");
    let Some(node) = Node::start_on_small_disk(options, DISK_BYTES) else {
        return;
    };
    let mut publisher = Wire::open(node.amqp());
    publisher.declare(1, "full", true);
    publisher.confirm_select(1);
    publisher.send(&publishes(0..10));
    publisher.confirms(10);
    node.small_disk().fill(1 << 20);
    until(&node.http(), "/api/health/checks/local-alarms", "disk space");
    publisher.send(&publishes(10..11));
    assert_eq!(confirmed_until_blocked(&mut publisher), 0);
    assert!(node.small_disk().free_bytes() >= 1 << 19, "the disk isn't full");
    node.small_disk().empty();
    let begin = Instant::now();
    assert!(publisher.next_method(method::CONNECTION_UNBLOCKED).is_ok());
    assert!(publisher.next_method(method::BASIC_ACK).is_ok());
    assert!(begin.elapsed() < RESUMES_WITHIN, "publishing went on after {:?}", begin.elapsed());
    drop(publisher);
    conservation::check(&node.http());
}
