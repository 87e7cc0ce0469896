//! Large durable messages have files of their own: they survive kill -9, their files are removed with them, and other
//! clients don't wait for them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, publish};

const MIB: usize = 1024 * 1024;

fn body(number: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ number).collect()
}

/// The body files under a directory.
fn body_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(body_files(&path));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("body-")) {
            found.push(path);
        }
    }
    found
}

#[test]
fn large_messages_survive_and_their_files_go_with_them() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    let lengths = [256 * 1024 - 1, 256 * 1024, 12, 3 * MIB + 7, 16 * MIB, 12];
    for (number, length) in (0..).zip(lengths) {
        wire.send(&publish(1, "", "large", &body(number, length), true, true));
    }
    wire.confirms(lengths.len() as u64);
    assert_eq!(body_files(node.directory()).len(), 3);
    // A confirmed one is durable.
    wire.close();
    node.kill();
    node.restart();
    assert_eq!(body_files(node.directory()).len(), 3);
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "large", false);
    let mut last = 0;
    for (number, length) in (0..).zip(lengths) {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(number, length), "message {number} of {length} bytes differs");
        last = tag;
    }
    wire.ack(1, last, true);
    wire.close();
    let mut wire = Wire::open(node.amqp());
    wire.confirm_select(1);
    // The files are removed once the settles are durable, with the next confirms at the latest.
    wire.send(&publish(1, "", "large", b"small", true, true));
    wire.send(&publish(1, "", "large", &body(9, MIB), true, true));
    wire.confirms(2);
    let begin = Instant::now();
    while body_files(node.directory()).len() != 1 {
        assert!(begin.elapsed() < Duration::from_secs(20), "files are left: {:?}", body_files(node.directory()));
        std::thread::yield_now();
    }
    wire.close();
    conservation::check(&node.http());
}

#[test]
fn an_unconfirmed_large_message_leaves_no_file() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("debug.sync_delay_ms", 200));
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    let whole = publish(1, "", "large", &body(1, 2 * MIB), true, true);
    wire.send(&whole[..whole.len() - 100]);
    drop(wire);
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    wire.send(&whole);
    wire.confirms(1);
    assert_eq!(body_files(node.directory()).len(), 1);
    wire.close();
    conservation::check(&node.http());
}

#[test]
fn a_missing_file_stops_only_its_queue() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "large", true);
    wire.declare(1, "other", true);
    wire.confirm_select(1);
    wire.send(&publish(1, "", "large", &body(1, MIB), true, true));
    wire.send(&publish(1, "", "other", b"here", true, true));
    wire.confirms(2);
    wire.close();
    node.kill();
    for file in body_files(node.directory()) {
        std::fs::remove_file(file).expect("it was there");
    }
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "other", true);
    assert_eq!(wire.delivery().2, b"here");
    wire.close();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "large", false);
    let begin = Instant::now();
    loop {
        let queue = node.http().get("/api/queues/%2F/large").expect("an answer").json();
        if queue.to_string().contains("body-0000-") {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the reason doesn't name the file: {queue}");
    }
}
