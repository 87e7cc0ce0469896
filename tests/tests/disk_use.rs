//! Disk usage of a data directory: bounded by the live messages.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::data_directory::stored_files;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, method, publish};
use leveret_tests::{PATIENCE, conservation};

const MESSAGES: u64 = 3000;
/// One message in this many is not acknowledged.
const HELD: u64 = 50;
const BODY: usize = 1024;

/// Bytes of the segments in a data directory.
fn segment_bytes(directory: &Path) -> u64 {
    // It may be deleted while we look.
    let length = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    stored_files(directory).into_iter().map(|(path, _)| length(path)).sum()
}

fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(BODY, number as u8);
    body
}

#[test]
fn unacknowledged_messages_retain_no_more_than_their_own_space() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("debug.wal_file_bytes", "64KiB"));
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "held", true);
    wire.confirm_select(1);
    wire.send(&(0..MESSAGES).flat_map(|n| publish(1, "", "held", &body(n), true, true)).collect::<Vec<u8>>());
    wire.confirms(MESSAGES);
    // The oldest files of the log are retired after the confirms.
    let deadline = Instant::now() + PATIENCE;
    while segment_bytes(node.directory()) <= MESSAGES * BODY as u64 / 3 {
        assert!(Instant::now() < deadline, "{} bytes reached segments", segment_bytes(node.directory()));
        thread::sleep(Duration::from_millis(20));
    }
    wire.consume(1, "held", false);
    for number in 0..MESSAGES {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(number), "message {number}");
        if number % HELD != 0 {
            wire.ack(1, tag, false);
        }
    }
    let bound = 2 * (MESSAGES / HELD) * BODY as u64 + (16 << 10);
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A rewrite is counted once all of its old files are gone, so the directory may be within the bound before
        // the counter changes.
        let (bytes, rewritten) = (segment_bytes(node.directory()), node.count("leveret_segments_rewritten_total"));
        if bytes <= bound && rewritten > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{bytes} bytes of {bound}, {rewritten} segments rewritten");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(node.count("leveret_segments_reclaimed_bytes_total") > 0);
    assert!(node.count("leveret_segment_bytes") <= bound);
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "held", false);
    for number in (0..MESSAGES).step_by(HELD as usize) {
        let (tag, redelivered, received) = wire.delivery();
        assert!(received == body(number) && redelivered, "message {number}");
        wire.ack(1, tag, false);
    }
    assert!(wire.declare(1, "held", true).method() == Some(method::QUEUE_DECLARE_OK));
    drop(wire);
    conservation::check(&node.http());
}
