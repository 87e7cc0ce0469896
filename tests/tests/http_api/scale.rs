//! Duration of lists of 100,000 queues, and their effect on the latency of a concurrent flow of messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{BODY, HEADER, METHOD, Wire, publish};
use serde_json::json;

const QUEUES: u32 = 100_000;
/// Messages per second.
const RATE: u64 = 20_000;
const COLUMNS: [&str; 10] = [
    "name",
    "messages",
    "messages_ready",
    "consumers",
    "memory",
    "state",
    "message_bytes",
    "message_stats.publish",
    "message_stats.deliver_get_details.rate",
    "messages_details.rate",
];

/// Publishes and consumes at a fixed rate until told to stop. Returns the latencies in microseconds, sorted.
fn flow(node: &Node, stop: Arc<AtomicBool>) -> thread::JoinHandle<Vec<u64>> {
    let address = node.amqp();
    thread::spawn(move || {
        let mut consumer = Wire::open(address);
        consumer.declare(1, "flow", false);
        consumer.consume(1, "flow", true);
        let mut producer = Wire::open(address);
        let begun = Instant::now();
        let done = stop.clone();
        let sender = thread::spawn(move || {
            let mut sent = 0u64;
            while !done.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_micros() as u64 * RATE / 1_000_000;
                let mut bytes = Vec::new();
                for n in sent..due {
                    // The intended time.
                    let at = n * 1_000_000 / RATE;
                    bytes.extend(publish(1, "", "flow", &at.to_be_bytes(), false, false));
                }
                if bytes.is_empty() {
                    thread::sleep(Duration::from_micros(200));
                } else {
                    producer.send(&bytes);
                    sent = due;
                }
            }
            producer.send(&publish(1, "", "flow", &u64::MAX.to_be_bytes(), false, false));
            producer
        });
        let mut latencies = Vec::new();
        loop {
            let frame = consumer.next_frame().expect("a frame");
            match frame.kind {
                BODY => {
                    let at = u64::from_be_bytes(frame.payload[..8].try_into().expect("eight bytes"));
                    if at == u64::MAX {
                        break;
                    }
                    latencies.push((begun.elapsed().as_micros() as u64).saturating_sub(at));
                }
                METHOD | HEADER => {}
                other => panic!("a frame of type {other}"),
            }
        }
        drop(sender.join());
        latencies.sort_unstable();
        latencies
    })
}

/// Reads lists of up to 95 MB at low priority, so that the flow's threads only wait for the node.
fn at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let lowered = || {
        rustix::process::setpriority_process(None, 19).expect("one's own priority may be lowered");
        work()
    };
    thread::scope(|scope| scope.spawn(lowered).join().expect("the lists"))
}

fn p99_ms(latencies: &[u64]) -> f64 {
    latencies[latencies.len() * 99 / 100] as f64 / 1000.0
}

#[test]
#[ignore = "a measurement: prints times of lists of 100,000 queues, and what they cost"]
fn lists_of_100_000_queues() {
    let node = Node::start(Options::new());
    let queue = |n: u32| json!({"name": format!("queue-{n:06}"), "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let document = json!({"queues": (0..QUEUES).map(queue).collect::<Vec<_>>()});
    let answer = node.http().post("/api/definitions", &document).expect("an answer");
    assert_eq!(answer.status, 204, "{}", answer.body);

    let quiet = |seconds: u64| {
        let stop = Arc::new(AtomicBool::new(false));
        let flowing = flow(&node, stop.clone());
        thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        flowing.join().expect("the flow")
    };
    quiet(2);
    let before = quiet(10);
    node.forget_resident_bytes_max();
    let resident = node.resident_bytes();

    let http = node.http();
    let stop = Arc::new(AtomicBool::new(false));
    let flowing = flow(&node, stop.clone());
    let mut slowest = (0.0, "");
    for column in COLUMNS {
        let mut times = Vec::new();
        for _ in 0..5 {
            let path = format!("/api/queues?page=1&page_size=100&sort={column}&sort_reverse=true");
            times.push(at_low_priority(|| {
                let begun = Instant::now();
                let answer = http.get(&path).expect("an answer");
                let time = begun.elapsed().as_secs_f64() * 1000.0;
                assert_eq!(answer.json()["item_count"], 100);
                time
            }));
            thread::sleep(Duration::from_millis(100));
        }
        times.sort_by(f64::total_cmp);
        println!("page sorted by {column}: {:.1} ms (median of 5, {:.1} at most)", times[2], times[4]);
        if times[2] > slowest.0 {
            slowest = (times[2], column);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let paged = flowing.join().expect("the flow");
    let stop = Arc::new(AtomicBool::new(false));
    let flowing = flow(&node, stop.clone());
    at_low_priority(|| {
        let begun = Instant::now();
        let all = http.get("/api/queues").expect("an answer");
        println!("unpaged list: {:.2} s, {} MB", begun.elapsed().as_secs_f64(), all.body.len() / 1_000_000);
    });
    stop.store(true, Ordering::Relaxed);
    let unpaged = flowing.join().expect("the flow");
    println!("slowest column: {} with {:.1} ms", slowest.1, slowest.0);
    println!(
        "p99 of {RATE} messages/s: {:.2} ms without lists, {:.2} ms with pages, {:.2} ms with the unpaged list",
        p99_ms(&before),
        p99_ms(&paged),
        p99_ms(&unpaged)
    );
    let grown = node.resident_bytes_max().saturating_sub(resident) as f64 / 1e6;
    println!("resident memory: {:.0} MB before, {grown:.1} MB more at most", resident as f64 / 1e6);
}
