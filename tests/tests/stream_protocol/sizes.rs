//! The sizes that streams are compared by: bytes of a short message in a segment, memory of a consumer, reads of the disk.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::data_directory::stored_files;
use leveret_tests::node::{Node, Options};
use leveret_tests::stream::{OffsetSpec, StreamClient};
use rustix::fs::{Advice, fadvise};

use super::{finish, node_with};

/// Consumers of one stream.
const CONSUMERS: u64 = 1_000;
/// Subscriptions of a connection, which has 256 ids.
const EACH: u8 = 250;
/// Most memory of a consumer beside its connection.
const CONSUMER_BYTES_MAX: u64 = 4 << 10;

/// A node whose messages are soon in segments.
fn small_node() -> Option<Node> {
    node_with(Options::new().set("debug.wal_file_bytes", 1 << 20))
}

/// How often these bytes occur in segments, and how long those are.
fn count_in_segments(node: &Node, wanted: &[u8]) -> (u64, u64) {
    let (mut count, mut bytes) = (0, 0);
    for (path, end) in stored_files(node.directory()) {
        // A file may be removed meanwhile.
        let Ok(content) = fs::read(path) else { continue };
        let content = &content[..content.len().min(end as usize)];
        count += content.windows(wanted.len()).filter(|window| *window == wanted).count() as u64;
        bytes += content.len() as u64;
    }
    (count, bytes)
}

/// Publishes messages with this body, and waits until this many are in segments. Returns how many there are, and the bytes of all
/// segments.
fn publish_into_segments(node: &Node, body: &[u8], (messages, frame): (u64, u64), in_segments: u64) -> (u64, u64) {
    let mut publisher = StreamClient::open(node.streams());
    publisher.create("s");
    publisher.publisher(1, "", "s");
    for first in (0..messages).step_by(frame as usize) {
        publisher.publish(1, (first..first + frame).map(|id| (id, body)));
        publisher.confirms();
    }
    publisher.close();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = count_in_segments(node, body);
        if found.0 >= in_segments {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_message_of_12_bytes_takes_21_bytes_of_a_segment() {
    let Some(node) = small_node() else { return };
    let (messages, bytes) = publish_into_segments(&node, b"twelve bytes", (400_000, 4_000), 200_000);
    let each = bytes as f64 / messages as f64;
    println!("{bytes} bytes of segments for {messages} messages of 12 bytes: {each:.3} each");
    assert!(each < 21.2, "{each}");
    finish(&node);
}

/// Connections with all subscriptions to the stream. None of them is granted anything.
fn subscribe_all(connections: &mut [StreamClient], start: OffsetSpec) {
    for connection in connections {
        (0..EACH).for_each(|id| connection.subscribe(id, "s", start, 0));
        connection.barrier();
    }
}

fn connections(node: &Node) -> Vec<StreamClient> {
    (0..CONSUMERS / u64::from(EACH)).map(|_| StreamClient::open(node.streams())).collect()
}

#[test]
fn a_consumer_takes_less_than_4_kib_beside_its_connection() {
    let Some(node) = small_node() else { return };
    let mut connections = connections(&node);
    connections[0].create("s");
    connections.iter_mut().for_each(StreamClient::barrier);
    let before = node.resident_bytes();
    subscribe_all(&mut connections, OffsetSpec::Next);
    let each = node.resident_bytes().saturating_sub(before) / CONSUMERS;
    println!("{each} bytes of memory for each of {CONSUMERS} consumers");
    assert!(each < CONSUMER_BYTES_MAX, "{each}");
    connections.into_iter().for_each(StreamClient::close);
    finish(&node);
}

/// Bytes that a process has caused to be read from disks.
fn read_from_disks(node: &Node) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", node.ports().pid)).expect("it is our child");
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).expect("the count");
    line.parse().expect("a number")
}

#[test]
fn the_disk_is_read_once_for_a_thousand_consumers() {
    /// Beside the messages: programs and libraries.
    const OTHERS_MAX: u64 = 2 << 20;
    let Some(mut node) = small_node() else { return };
    let (_, bytes) = publish_into_segments(&node, &[b'x'; 200], (20_000, 100), 6_000);
    // Nothing is in the node's memory, nor in the page cache.
    node.restart();
    for (path, _) in stored_files(node.directory()) {
        let file = fs::File::open(path).expect("nothing is removed any more");
        file.sync_all().expect("it can be synced");
        fadvise(&file, 0, None, Advice::DontNeed).expect("it can be advised");
    }
    let before = read_from_disks(&node);
    let mut connections = connections(&node);
    subscribe_all(&mut connections, OffsetSpec::First);
    // A chunk each at a time, so that all of them go through the stream together.
    const CHUNKS: u64 = 40;
    for chunk in 1..=CHUNKS {
        connections.iter_mut().for_each(|connection| (0..EACH).for_each(|id| connection.grant(id, 1)));
        for connection in &mut connections {
            connection
                .wait("a chunk each", |client| client.subscriptions.values().all(|known| known.received == chunk));
            connection.subscriptions.values_mut().for_each(|known| known.chunks.clear());
        }
    }
    let read = read_from_disks(&node) - before;
    let sent = CONSUMERS * CHUNKS * 100 * 200;
    println!("{read} bytes read from disks, of {bytes} in segments, for {sent} bytes of messages sent");
    assert!(read < bytes + OTHERS_MAX, "{read} bytes were read, and {bytes} are there");
    connections.into_iter().for_each(StreamClient::close);
    finish(&node);
}
