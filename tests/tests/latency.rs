//! Latency of confirms of small durable messages while large ones are transferred as fast as the disk allows.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, method, publish};

/// Small messages per second, and the duration in seconds (environment variable `LEVERET_LATENCY_SECONDS`).
const RATE: u32 = 500;
const SECONDS: u32 = 60;
const LARGE_BYTES: usize = 16 << 20;

/// The upper bounds of the histogram of syncs in seconds, each with the number of syncs up to it.
fn syncs(node: &Node) -> Vec<(f64, u64)> {
    let text = node.prometheus().get("/metrics").expect("metrics").body;
    let buckets = text.lines().filter_map(|line| line.strip_prefix("leveret_sync_seconds_bucket{le=\""));
    let parse = |bucket: &str| {
        let (bound, count) = bucket.split_once("\"} ")?;
        Some((bound.parse().unwrap_or(f64::INFINITY), count.parse().ok()?))
    };
    buckets.filter_map(parse).collect()
}

/// The upper bound of this fraction of the syncs between two readings.
fn quantile(before: &[(f64, u64)], after: &[(f64, u64)], part: f64) -> f64 {
    let earlier = |bound: f64| before.iter().find(|(other, _)| *other == bound).map_or(0, |(_, count)| *count);
    let counts: Vec<(f64, u64)> = after.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
    let all = counts.last().map_or(0, |(_, count)| *count);
    let wanted = (all as f64 * part).ceil() as u64;
    counts.iter().find(|(_, count)| *count >= wanted).map_or(f64::INFINITY, |(bound, _)| *bound)
}

/// Latencies of confirms, counted from each message's due time.
fn confirms(node: &Node, messages: u32) -> Vec<Duration> {
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "small", true);
    wire.confirm_select(1);
    let mut writer = wire.socket.try_clone().expect("a second handle");
    let begin = Instant::now();
    let due = move |number: u32| begin + Duration::from_secs(1) * number / RATE;
    let sender = thread::spawn(move || {
        let message = publish(1, "", "small", b"twelve bytes", true, true);
        for number in 0..messages {
            thread::sleep(due(number).saturating_duration_since(Instant::now()));
            writer.write_all(&message).expect("write to the broker");
        }
    });
    let mut latencies = Vec::new();
    while latencies.len() < messages as usize {
        let ack = wire.next_method(method::BASIC_ACK).expect("a confirm");
        let mut arguments = ack.arguments();
        let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
        assert!(multiple || tag == latencies.len() as u64 + 1, "confirms come in order");
        let now = Instant::now();
        while (latencies.len() as u64) < tag {
            latencies.push(now - due(latencies.len() as u32));
        }
    }
    sender.join().expect("it sent all");
    latencies.sort_unstable();
    latencies
}

/// Publishes and consumes large messages until told to stop.
fn pass_large(address: SocketAddr, ends: &AtomicBool, passed: &AtomicU64) {
    let mut wire = Wire::open(address);
    wire.declare(1, "large", true);
    wire.confirm_select(1);
    let message = publish(1, "", "large", &vec![7; LARGE_BYTES], true, true);
    let mut consumer = Wire::open(address);
    consumer.consume(1, "large", false);
    while !ends.load(Ordering::Relaxed) {
        wire.send(&message);
        // One confirm per message, so the tags don't matter.
        wire.next_method(method::BASIC_ACK).expect("a confirm");
        let (tag, ..) = consumer.delivery();
        consumer.ack(1, tag, false);
        passed.fetch_add(1, Ordering::Relaxed);
    }
    wire.close();
    consumer.close();
}

fn measure(sync_delay_ms: f64) {
    let seconds = std::env::var("LEVERET_LATENCY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let node = Node::start(Options::new().set("debug.sync_delay_ms", sync_delay_ms));
    let at = |latencies: &[Duration], part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
    let alone = confirms(&node, RATE * seconds / 4);
    let (ends, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = syncs(&node);
    let beside = thread::scope(|scope| {
        let address = node.amqp();
        scope.spawn({
            let (ends, passed) = (&ends, &passed);
            move || pass_large(address, ends, passed)
        });
        let beside = confirms(&node, RATE * seconds);
        ends.store(true, Ordering::Relaxed);
        beside
    });
    let after = syncs(&node);
    let delay = sync_delay_ms / 1000.0;
    let [middle, sync] = [0.5, 0.99].map(|part| quantile(&before, &after, part) + delay);
    let (p50, p99, most) = (at(&beside, 0.5), at(&beside, 0.99), at(&beside, 1.0));
    println!(
        "sync delay {sync_delay_ms} ms: confirms alone p50 {:?}, p99 {:?}; beside {} large messages p50 {p50:?}, p99 {p99:?}, \
         max {most:?}; syncs p50 {middle:.4} s, p99 {sync:.4} s",
        at(&alone, 0.5),
        at(&alone, 0.99),
        passed.load(Ordering::Relaxed)
    );
    assert!(passed.load(Ordering::Relaxed) > 0, "no large message passed");
    let limit = Duration::from_secs_f64(4.0 * sync);
    assert!(p99 < limit, "p99 of the confirms is {p99:?}, four sync times are {limit:?}");
}

#[test]
#[ignore = "a minute, and of the machine's speed: make soak"]
fn small_messages_wait_at_most_four_syncs_beside_large_ones() {
    measure(0.0);
}

#[test]
#[ignore = "a minute, and of the machine's speed: make soak"]
fn small_messages_wait_at_most_four_slow_syncs_by_large_ones() {
    measure(5.9);
}
