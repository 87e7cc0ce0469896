//! A node under far more load than it can forward: publishers at ten times their consumer's pace, consumers that
//! never acknowledge, and tens of thousands of queues, in a memory cgroup a quarter above the configured memory. The
//! node survives, stays within its memory, and another client is hardly affected. That client's latency is printed
//! for a reader to judge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::memory_cgroup::MemoryCgroup;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, declare_arguments, method, method_frame, publish};

const MIB: u64 = 1024 * 1024;

#[derive(Clone, Copy)]
struct Overload {
    idle_queues: u32,
    /// Round trips of the healthy client, first alone and then with all others.
    round_trips: u32,
    memory: u64,
    /// Messages per second of each of the four publishers; `None` for as fast as the node reads.
    pace: Option<u32>,
}

#[test]
fn overload_leaves_a_node_alive() {
    overload(Overload { idle_queues: 1_000, round_trips: 300, memory: 192 * MIB, pace: None });
}

#[test]
#[ignore = "fifty thousand queues: make soak"]
fn overload_leaves_a_node_with_fifty_thousand_queues_alive() {
    overload(Overload { idle_queues: 50_000, round_trips: 2_000, memory: 384 * MIB, pace: None });
}

#[test]
#[ignore = "fifty thousand queues: make soak"]
fn a_client_is_hardly_affected_by_overloading_publishers() {
    overload(Overload { idle_queues: 50_000, round_trips: 20_000, memory: 384 * MIB, pace: Some(5_000) });
}

/// Transient messages for a durable queue, more than the node may keep in memory.
#[test]
fn transient_messages_beyond_memory_wait_on_disk() {
    if is_given() {
        return;
    }
    let memory = 128 * MIB;
    let node = Node::start(Options::new().set("vm_memory_high_watermark.absolute", memory));
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "transient", true);
    wire.confirm_select(1);
    let count = 160_000_u32;
    let body = |number: u32| [&number.to_be_bytes()[..], &[7; 1_000]].concat();
    for run in (0..count).collect::<Vec<_>>().chunks(500) {
        let frames: Vec<u8> = run.iter().flat_map(|n| publish(1, "", "transient", &body(*n), true, false)).collect();
        wire.send(&frames);
        wire.confirms(u64::from(run[run.len() - 1] + 1));
    }
    let peak = node.resident_bytes_max();
    assert!(peak < memory, "{peak} bytes resident, publishers would wait from {memory} on");
    wire.prefetch(1, 1_000);
    wire.consume(1, "transient", false);
    for number in 0..count {
        let (tag, redelivered, received) = wire.delivery();
        assert!(!redelivered && received == body(number), "{number} expected, {:?} received", received.get(..4));
        if number % 500 == 499 {
            wire.ack(1, tag, true);
        }
    }
    wire.close();
    conservation::check(&node.http());
}

/// Stops the threads of a load when dropped.
struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn new() -> Self {
        Self { over: Arc::new(AtomicBool::new(false)), threads: Vec::new() }
    }

    fn run(&mut self, mut turn: impl FnMut() + Send + 'static) {
        let over = self.over.clone();
        self.threads.push(thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                turn();
            }
        }));
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the load goes on to its end"));
    }
}

fn overload(size: Overload) {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new().set("vm_memory_high_watermark.absolute", size.memory));
    let cgroup = MemoryCgroup::limit(node.ports().pid, size.memory * 5 / 4);
    declare_idle(&node, size.idle_queues);
    println!("{} queues: {} MiB resident", size.idle_queues, node.resident_bytes() / MIB);
    let mut wire = Wire::open(node.amqp());
    for queue in ["healthy", "busy", "stuck"] {
        wire.declare(1, queue, true);
    }
    let mut healthy = Healthy::new(&node);
    let quiet = healthy.round_trips(size.round_trips);
    let mut load = Load::new();
    let sent = Arc::new(AtomicU64::new(0));
    for (queue, durable) in [("busy", true), ("busy", false), ("stuck", true), ("stuck", false)] {
        publisher(&node, queue, durable, size.pace, &sent, &mut load);
    }
    let taken = Arc::new(AtomicU64::new(0));
    slow_consumer(&node, &sent, &taken, &mut load);
    let never: Vec<Wire> = (0..3)
        .map(|_| {
            let mut wire = Wire::open(node.amqp());
            wire.consume(1, "stuck", false);
            wire
        })
        .collect();
    let loaded = healthy.round_trips(size.round_trips);
    let (sent, taken) = (sent.load(Ordering::Relaxed), taken.load(Ordering::Relaxed));
    load.end();
    let peak = node.resident_bytes_max();
    println!("healthy client alone: {quiet}");
    println!("healthy client beside {sent} messages published and {taken} taken: {loaded}");
    println!("p99 is {:.1} times as long", loaded.p99.as_secs_f64() / quiet.p99.as_secs_f64());
    println!(
        "{} MiB resident at most of {} MiB; with pages of files {} MiB",
        peak / MIB,
        size.memory / MIB,
        cgroup.as_ref().and_then(MemoryCgroup::bytes_max).unwrap_or(0) / MIB
    );
    assert!(sent > 10 * taken, "{sent} published, {taken} taken: that is no overload");
    assert!(peak <= size.memory * 11 / 10, "{peak} bytes resident of {} that it may use", size.memory);
    drop((never, healthy, wire));
    conservation::check(&node.http());
    assert!(node.terminate().success(), "it was told to stop and does");
    drop(cgroup);
}

/// Declares queues over one connection, without waiting for each reply.
fn declare_idle(node: &Node, count: u32) {
    let mut wire = Wire::open(node.amqp());
    for chunk in (0..count).collect::<Vec<_>>().chunks(200) {
        let frames: Vec<u8> = chunk
            .iter()
            .flat_map(|number| {
                let arguments = declare_arguments(&format!("idle-{number}"), true);
                method_frame(1, method::QUEUE_DECLARE, &arguments)
            })
            .collect();
        wire.send(&frames);
        for _ in chunk {
            wire.next_method(method::QUEUE_DECLARE_OK).expect("declared");
        }
    }
    wire.close();
}

/// Publishes at its pace or as fast as the node reads, with at most 2,000 unconfirmed durable messages.
fn publisher(
    node: &Node,
    queue: &'static str,
    durable: bool,
    pace: Option<u32>,
    sent: &Arc<AtomicU64>,
    load: &mut Load,
) {
    let mut wire = Wire::open(node.amqp());
    if durable {
        wire.confirm_select(1);
    }
    wire.socket.set_write_timeout(Some(Duration::from_millis(50))).expect("a write timeout");
    let frames: Vec<u8> = (0..100).flat_map(|_| publish(1, "", queue, &[b'o'; 1_000], false, durable)).collect();
    let sent = sent.clone();
    let mut at = 0;
    let mut own = 0_u64;
    let mut confirmed = 0;
    let begin = Instant::now();
    load.run(move || {
        if let Some(pace) = pace {
            let due = Duration::from_secs_f64(own as f64 / f64::from(pace));
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        // A node that blocks its publishers reads nothing: the write stalls, and continues where it stopped.
        use std::io::Write;
        if let Ok(count) = wire.socket.write(&frames[at..]) {
            at += count;
        }
        if at == frames.len() {
            at = 0;
            own += 100;
            sent.fetch_add(100, Ordering::Relaxed);
        }
        while durable && own > confirmed + 2_000 {
            let Ok(frame) = wire.next_frame() else { return };
            if frame.method() == Some(method::BASIC_ACK) {
                confirmed = frame.arguments().long_long();
            }
        }
    });
}

/// Consumes one message in ten of those published.
fn slow_consumer(node: &Node, sent: &Arc<AtomicU64>, taken: &Arc<AtomicU64>, load: &mut Load) {
    let mut wire = Wire::open(node.amqp());
    wire.prefetch(1, 100);
    wire.consume(1, "busy", false);
    let (sent, taken) = (sent.clone(), taken.clone());
    load.run(move || {
        if (taken.load(Ordering::Relaxed) + 1) * 11 < sent.load(Ordering::Relaxed) {
            let (tag, _, _) = wire.delivery();
            wire.ack(1, tag, false);
            taken.fetch_add(1, Ordering::Relaxed);
        } else {
            // Its pace follows the publishers, which don't notify it.
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// A client that publishes a message, waits for its confirm and its delivery, and then sends the next.
struct Healthy {
    publisher: Wire,
    consumer: Wire,
}

/// Durations of round trips.
struct Times {
    median: Duration,
    p99: Duration,
    max: Duration,
}

impl std::fmt::Display for Times {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "median {:?}, p99 {:?}, max {:?}", self.median, self.p99, self.max)
    }
}

impl Healthy {
    fn new(node: &Node) -> Self {
        let mut publisher = Wire::open(node.amqp());
        publisher.confirm_select(1);
        let mut consumer = Wire::open(node.amqp());
        consumer.prefetch(1, 10);
        consumer.consume(1, "healthy", false);
        Self { publisher, consumer }
    }

    fn round_trips(&mut self, count: u32) -> Times {
        let mut times: Vec<Duration> = (0..count)
            .map(|number| {
                let body = number.to_be_bytes();
                let begin = Instant::now();
                self.publisher.send(&publish(1, "", "healthy", &body, true, true));
                self.publisher.next_method(method::BASIC_ACK).expect("a confirm");
                let (tag, _, received) = self.consumer.delivery();
                assert_eq!(received, body);
                self.consumer.ack(1, tag, false);
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Times { median: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}
