//! Quorum queues with very many delayed messages, and with very many messages that pass an unacknowledged one. Lateness and
//! rates are printed for a reader to judge; memory, disk and bytes written have limits here.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::random::Random;
use leveret_tests::wire::{Wire, publish, publish_delayed, publish_expiring, publish_to_delayed_exchange};
use serde_json::json;

const QUEUE: &str = "quorum";
const MIB: u64 = 1 << 20;
/// Most unconfirmed publishes.
const WINDOW: u64 = 10_000;
/// Messages per acknowledgement.
const RUN: u64 = 500;

fn put(node: &Node, path: &str, body: &serde_json::Value) {
    assert_eq!(node.http().put(path, body).expect("an answer").status, 201);
}

fn start(options: Options) -> Node {
    start_with(options, json!({}))
}

/// A node with a quorum queue that has these arguments besides.
fn start_with(options: Options, mut arguments: serde_json::Value) -> Node {
    let node = Node::start(options);
    arguments["x-queue-type"] = "quorum".into();
    put(&node, &format!("/api/queues/%2F/{QUEUE}"), &json!({"durable": true, "arguments": arguments}));
    node
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn publish_all(node: &Node, count: u64, message: impl FnMut(u64) -> Vec<u8>) {
    let mut wire = Wire::open(node.amqp());
    wire.publish_all(count, WINDOW, message);
    wire.close();
}

/// Where messages wait for their times.
#[derive(Clone, Copy, PartialEq)]
enum Waiting {
    /// In a quorum queue, until their times of delivery.
    Delayed,
    /// In a quorum queue, until they expire and go to another one.
    Expiring,
    /// In a delayed exchange.
    InExchange,
}

impl Waiting {
    /// The queue that they are delivered from.
    fn target(self) -> &'static str {
        if self == Self::Expiring { "target" } else { QUEUE }
    }

    fn start(self) -> Node {
        if self == Self::Expiring {
            let dead_letter = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.target()});
            let node = start_with(Options::new(), dead_letter);
            let quorum = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
            put(&node, &format!("/api/queues/%2F/{}", self.target()), &quorum);
            return node;
        }
        let node = start(Options::new());
        if self == Self::InExchange {
            let arguments = json!({"x-delayed-type": "fanout"});
            let exchange = json!({"type": "x-delayed-message", "durable": true, "arguments": arguments});
            put(&node, "/api/exchanges/%2F/later", &exchange);
            let bound = node.http().post(&format!("/api/bindings/%2F/e/later/q/{QUEUE}"), &json!({}));
            assert_eq!(bound.expect("an answer").status, 201);
        }
        node
    }

    fn publish(self, body: &[u8], due: u64) -> Vec<u8> {
        let left = || due.saturating_sub(now_ms()).max(1);
        match self {
            Self::Delayed => publish_delayed(1, QUEUE, body, due),
            Self::Expiring => publish_expiring(1, QUEUE, body, left()),
            Self::InExchange => publish_to_delayed_exchange(1, "later", body, left()),
        }
    }
}

/// `count` messages that are due in random order, from `begin_ms` from now on for `span_ms`. Returns how many bytes of memory each of
/// them takes while all wait; `None` if some were due before the last one was published.
fn messages_come_in_time(waiting: Waiting, count: u64, begin_ms: u64, span_ms: u64) -> Option<f64> {
    let node = waiting.start();
    let before = node.resident_bytes();
    let begin = now_ms() + begin_ms;
    let mut random = Random::new(11);
    let started = Instant::now();
    publish_all(&node, count, |number| {
        let due = begin + random.below(usize::try_from(span_ms).expect("a time")) as u64;
        let body = [number.to_be_bytes(), due.to_be_bytes()].concat();
        waiting.publish(&body, due)
    });
    println!("{count} published in {:.1} s", started.elapsed().as_secs_f64());
    let mut resident = node.resident_bytes();
    // The allocator returns freed memory a moment later, while it is used.
    while resident > before + 8 * count && now_ms() + 2_000 < begin {
        node.http().get("/api/overview").expect("the node answers");
        resident = node.resident_bytes();
    }
    let all_wait = now_ms() < begin;
    let each = resident.saturating_sub(before) as f64 / count as f64;
    println!("{each:.2} bytes of resident memory each, {} MiB at most", node.resident_bytes_max() / MIB);

    let mut wire = Wire::open(node.amqp());
    wire.prefetch(1, 5_000);
    wire.consume(1, waiting.target(), false);
    wire.socket.set_read_timeout(Some(Duration::from_millis(begin_ms) + Duration::from_mins(1))).expect("a timeout");
    let (mut late, mut ticks) = (Vec::new(), 0);
    let mut seen = vec![false; usize::try_from(count).expect("a count")];
    for nth in 1..=count {
        let (tag, redelivered, body) = wire.delivery();
        if nth == 1 {
            ticks = node.cpu_ticks();
        }
        let now = now_ms();
        let number = u64::from_be_bytes(body[..8].try_into().expect("a number"));
        let due = u64::from_be_bytes(body[8..].try_into().expect("a time"));
        assert!(!redelivered && !std::mem::replace(&mut seen[number as usize], true), "{number} came twice");
        assert!(due <= now, "{number} came {} ms early", due - now);
        late.push(now - due);
        if nth % RUN == 0 || nth == count {
            wire.ack(1, tag, true);
        }
    }
    let micros = (node.cpu_ticks() - ticks) * 10_000 / count;
    wire.close();
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    println!("late: p50 {} ms, p99 {} ms, p99.9 {} ms, at most {} ms", at(0.5), at(0.99), at(0.999), at(1.0));
    println!("{} MiB resident at most, {micros} microseconds of processor time each", node.resident_bytes_max() / MIB);
    conservation::check(&node.http());
    all_wait.then_some(each)
}

#[test]
fn a_few_delayed_messages_come_once_and_not_early() {
    if !is_given() {
        messages_come_in_time(Waiting::Delayed, 5_000, 3_000, 1_000);
    }
}

#[test]
#[ignore = "ten million messages over ten minutes: make -C tests quorum-at-scale"]
fn ten_million_delayed_messages_over_ten_minutes() {
    let each = messages_come_in_time(Waiting::Delayed, 10_000_000, 240_000, 600_000).expect("all of them waited");
    assert!(each <= 8.0, "{each} bytes of memory each");
}

#[test]
#[ignore = "ten million messages over ten minutes: make -C tests quorum-at-scale"]
fn ten_million_expiring_messages_over_ten_minutes() {
    let each = messages_come_in_time(Waiting::Expiring, 10_000_000, 240_000, 600_000).expect("all of them waited");
    assert!(each <= 8.0, "{each} bytes of memory each");
}

#[test]
#[ignore = "a million messages over a minute: make -C tests quorum-at-scale"]
fn a_million_delayed_messages_over_a_minute() {
    messages_come_in_time(Waiting::Delayed, 1_000_000, 30_000, 60_000);
}

#[test]
#[ignore = "a million messages over a minute: make -C tests quorum-at-scale"]
fn a_million_expiring_messages_over_a_minute() {
    messages_come_in_time(Waiting::Expiring, 1_000_000, 30_000, 60_000);
}

#[test]
#[ignore = "a million messages over a minute: make -C tests quorum-at-scale"]
fn a_million_messages_in_a_delayed_exchange() {
    messages_come_in_time(Waiting::InExchange, 1_000_000, 30_000, 60_000);
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("the data directory").flatten();
    // A file may be deleted while the directory is read.
    let size = |entry: fs::DirEntry| match entry.path().is_dir() {
        true => bytes_below(&entry.path()),
        false => entry.metadata().map_or(0, |metadata| metadata.len()),
    };
    entries.map(size).sum()
}

/// Bytes that a process has written to files; sockets are written by other calls. What reaches the disk is counted in pages,
/// and a page that two small batches share is counted twice.
fn written(node: &Node) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", node.ports().pid)).expect("the process's counters");
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("wchar");
    line.parse().expect("a number")
}

/// `count` messages of 1 KiB pass one that stays unacknowledged. Returns how many times as much as their bodies was written.
fn messages_pass_an_unacknowledged_one(count: u64, options: Options, allowed_besides: u64) -> f64 {
    const BODY: usize = 1024;
    let node = start(options);
    let mut holder = Wire::open(node.amqp());
    publish_all(&node, 1, |_| publish(1, "", QUEUE, b"the one that stays", true, true));
    holder.prefetch(1, 1);
    holder.consume(1, QUEUE, false);
    assert_eq!(holder.delivery().2, b"the one that stays");

    let (before, started) = (written(&node), Instant::now());
    let address = node.amqp();
    let consumer = thread::spawn(move || {
        let mut wire = Wire::open(address);
        wire.prefetch(1, 5_000);
        wire.consume(1, QUEUE, false);
        for nth in 0..count {
            let (tag, _, body) = wire.delivery();
            assert_eq!(body[..8], nth.to_be_bytes(), "in order");
            if (nth + 1) % RUN == 0 || nth + 1 == count {
                wire.ack(1, tag, true);
            }
        }
        wire.close();
    });
    let mut on_disk = 0;
    let mut unmeasured = VecDeque::from([count / 4, count / 2, count * 3 / 4, count]);
    publish_all(&node, count, |number| {
        if unmeasured.front().is_some_and(|at| number + 1 >= *at) {
            unmeasured.pop_front();
            on_disk = on_disk.max(bytes_below(node.directory()));
        }
        let mut body = number.to_be_bytes().to_vec();
        body.resize(BODY, number as u8);
        publish(1, "", QUEUE, &body, false, true)
    });
    consumer.join().expect("the consumer");
    let payload = count * BODY as u64;
    let (took, written) = (started.elapsed().as_secs_f64(), written(&node) - before);
    let ratio = written as f64 / payload as f64;
    println!(
        "{} MiB in {took:.1} s; {} MiB on disk at most, {ratio:.3} times the bodies written",
        payload / MIB,
        on_disk / MIB
    );
    assert!(on_disk <= allowed_besides, "{on_disk} bytes on disk");
    drop(holder);
    ratio
}

#[test]
fn an_unacknowledged_message_holds_no_others_on_disk() {
    if !is_given() {
        let options = Options::new().set("debug.wal_file_bytes", "4MiB");
        messages_pass_an_unacknowledged_one(40_000, options, 64 * MIB);
    }
}

#[test]
#[ignore = "100 GiB: make -C tests quorum-at-scale"]
fn a_hundred_gigabytes_pass_an_unacknowledged_message() {
    let ratio = messages_pass_an_unacknowledged_one(100 << 20, Options::new(), 1 << 30);
    assert!(ratio <= 1.2, "{ratio} times the bodies written");
}
