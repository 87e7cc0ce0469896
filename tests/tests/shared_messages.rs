//! A message to many queues is stored on disk once, and each of the queues has it, also after kill -9.

use std::path::{Path, PathBuf};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, publish};

const MIB: u64 = 1024 * 1024;

/// The size of a fan-out, and its limits.
#[derive(Clone, Copy)]
struct FanOut {
    queues: u32,
    messages: u32,
    body_bytes: usize,
    disk_bytes_max: u64,
    resident_bytes_max: u64,
}

/// For ordinary runs: as copies it would be over 800 MiB in segments, in addition to the log and the reserve.
const SMALL: FanOut = FanOut {
    queues: 20,
    messages: 10_000,
    body_bytes: 4_000,
    disk_bytes_max: 480 * MIB,
    resident_bytes_max: 120 * MIB,
};

/// A hundred million messages.
const MILLION: FanOut = FanOut {
    queues: 100,
    messages: 1_000_000,
    body_bytes: 1_000,
    disk_bytes_max: 3_000 * MIB,
    resident_bytes_max: 300 * MIB,
};

#[test]
fn a_message_for_many_queues_is_stored_once() {
    fan_out(SMALL);
}

#[test]
#[ignore = "a hundred million messages: make soak"]
fn a_million_for_a_hundred_queues() {
    fan_out(MILLION);
}

fn queue(number: u32) -> String {
    format!("fan-{number}")
}

fn bind_fanout(wire: &mut Wire, exchange: &str, queues: &[String]) {
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(exchange).put_short_string("fanout").put_octet(0b10).put_empty_table();
    wire.call(1, method::EXCHANGE_DECLARE, &arguments, method::EXCHANGE_DECLARE_OK);
    for queue in queues {
        wire.declare(1, queue, true);
        let mut arguments = Writer::new();
        arguments.put_short(0).put_short_string(queue).put_short_string(exchange).put_short_string("");
        arguments.put_octet(0).put_empty_table();
        wire.call(1, method::QUEUE_BIND, &arguments, method::QUEUE_BIND_OK);
    }
}

/// A body unique to this number.
fn body(number: u32, length: usize) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(length, (number % 251) as u8);
    body
}

/// Publishes `messages` and waits for all confirms.
fn publish_all(wire: &mut Wire, size: FanOut) {
    let mut sent = 0;
    while sent < size.messages {
        let end = (sent + 200).min(size.messages);
        let bytes: Vec<u8> =
            (sent..end).flat_map(|number| publish(1, "all", "", &body(number, size.body_bytes), false, true)).collect();
        wire.send(&bytes);
        wire.confirms(u64::from(end - sent));
        sent = end;
    }
}

/// Consumes the messages of a queue, checks their order, and acknowledges them.
fn drain(node: &Node, queue: &str, numbers: std::ops::Range<u32>, length: usize) {
    let mut reader = Wire::open(node.amqp());
    reader.prefetch(1, 500);
    reader.consume(1, queue, false);
    let last = numbers.clone().count() - 1;
    for (at, number) in numbers.enumerate() {
        let (tag, _, received) = reader.delivery();
        assert!(received == body(number, length), "{queue}: {number} expected, {:?} received", received.get(..4));
        if at % 200 == 199 || at == last {
            reader.ack(1, tag, true);
        }
    }
    let declare_ok = reader.declare(1, queue, true);
    let mut arguments = declare_ok.arguments();
    let (_name, ready) = (arguments.short_string(), arguments.long());
    assert_eq!(ready, 0, "{queue} has more messages than were sent");
    reader.close();
}

/// Bytes of the files in a directory and in those below it.
fn disk_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let bytes =
        |path: PathBuf| if path.is_dir() { disk_bytes(&path) } else { path.metadata().map_or(0, |file| file.len()) };
    entries.map(bytes).sum()
}

fn fan_out(size: FanOut) {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let queues: Vec<String> = (0..size.queues).map(queue).collect();
    bind_fanout(&mut wire, "all", &queues);
    wire.confirm_select(1);
    publish_all(&mut wire, size);
    let (disk, resident) = (disk_bytes(node.directory()), node.resident_bytes_max());
    println!(
        "{} messages for {} queues: {} MiB of disk, {} MiB of memory at most",
        size.messages,
        size.queues,
        disk / MIB,
        resident / MIB
    );
    assert!(disk <= size.disk_bytes_max, "{} messages take {disk} bytes of disk", size.messages);
    assert!(resident <= size.resident_bytes_max, "{} messages take {resident} bytes of memory", size.messages);
    drain(&node, &queues[0], 0..size.messages, size.body_bytes);
    wire.close();
    node.kill();
    node.restart();
    for queue in queues.iter().skip(1).step_by(if size.queues > 20 { 30 } else { 1 }) {
        drain(&node, queue, 0..size.messages, size.body_bytes);
    }
    conservation::check(&node.http());
}

/// Copied and shared messages in one queue, large and small ones, some of them settled in one queue and not in the
/// others.
#[test]
fn shared_and_own_messages_of_a_queue_come_in_their_order() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    let queues: Vec<String> = (0..3).map(queue).collect();
    bind_fanout(&mut wire, "all", &queues);
    wire.confirm_select(1);
    let large = 20_000;
    for number in 0..90 {
        // To all three, large; to all three, small; to the first one only.
        let (exchange, key, length) = match number % 3 {
            0 => ("all", String::new(), large),
            1 => ("all", String::new(), 100),
            _ => ("", queue(0), large),
        };
        wire.send(&publish(1, exchange, &key, &body(number, length), false, true));
    }
    wire.confirms(90);
    wire.close();
    // Then nothing is in memory: everything is read from disk.
    node.kill();
    node.restart();
    let length = |number: u32| if number % 3 == 1 { 100 } else { large };
    let mut wire = Wire::open(node.amqp());
    wire.prefetch(1, 30);
    wire.consume(1, &queue(1), false);
    for number in (0..90).filter(|number| number % 3 != 2).take(30) {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(number, length(number)), "{number} expected, {:?} received", received.get(..4));
        // Every second one is settled in this queue, and stays in the others.
        if number % 2 == 0 {
            wire.ack(1, tag, false);
        }
    }
    wire.close();
    let mut wire = Wire::open(node.amqp());
    let mut arguments = Writer::new();
    arguments.put_short(0).put_short_string(&queue(2)).put_octet(0);
    wire.call(1, method::QUEUE_DELETE, &arguments, method::QUEUE_DELETE_OK);
    wire.close();
    node.kill();
    node.restart();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, &queue(0), false);
    for number in 0..90 {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(number, length(number)), "{number} expected, {:?} received", received.get(..4));
        wire.ack(1, tag, false);
    }
    wire.close();
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, &queue(1), false);
    let left = (0..90).filter(|number| number % 3 != 2).enumerate().filter(|(at, number)| *at >= 30 || number % 2 == 1);
    for (_, number) in left {
        let (tag, _, received) = wire.delivery();
        assert!(received == body(number, length(number)), "{number} expected, {:?} received", received.get(..4));
        wire.ack(1, tag, false);
    }
    wire.close();
    conservation::check(&node.http());
}
