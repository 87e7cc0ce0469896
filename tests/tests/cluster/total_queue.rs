//! A replicated queue of three processes under partitions, pauses and kills, after RabbitMQ's Jepsen tests: what was confirmed comes out.
//!
//! Publishers and consumers are at all nodes. The judge is that of a total queue: no confirmed message is lost, none comes that nobody sent,
//! and one that comes again says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use leveret_tests::PATIENCE;
use leveret_tests::link_proxy::LinkFaults;
use leveret_tests::random::Random;
use leveret_tests::wire::{Frame, Wire, Writer, method, method_frame, publish};
use serde_json::{Value, json};

use crate::Cluster;
use crate::partitions::started;
use crate::replicated::{known_leader, number};

/// The way in which nodes are kept apart, as RabbitMQ's tests name it.
#[derive(Clone, Copy, Debug)]
enum Partition {
    /// One node, always the same, and the others.
    Halves,
    /// One node, another one each time, and the others.
    RandomHalves,
    /// Two nodes don't reach each other, and the third one reaches both.
    MajoritiesRing,
    /// Nothing passes from one node to another one, in one direction.
    RandomNode,
}

/// The way in which messages are consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consuming {
    Asynchronous,
    Polling,
    Mixed,
}

#[derive(Clone, Copy, Debug)]
struct Configuration {
    partition: Partition,
    consuming: Consuming,
    /// Messages are consumed from a queue to which they come as dead letters.
    dead_letters: bool,
}

/// Messages that a publisher sends before it waits for their confirms.
const AT_ONCE: u32 = 10;
/// Confirms between two faults, and during one.
const CONFIRMS: usize = 150;

struct Load {
    queue: &'static str,
    addresses: Mutex<Vec<SocketAddr>>,
    sent: AtomicU32,
    confirmed: Mutex<BTreeSet<u32>>,
    /// How often each message came, flagged and not flagged.
    received: Mutex<BTreeMap<u32, [u32; 2]>>,
    publishing_is_over: AtomicBool,
    is_over: AtomicBool,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no client panics while it notes something")
}

impl Load {
    fn open(&self, at: usize) -> Wire {
        let address = locked(&self.addresses)[at];
        let wire = Wire::open(address);
        // A client that is to end looks so often.
        wire.set_patience(Duration::from_millis(500));
        wire
    }

    /// The next frame; `None` once the connection, or everything, is over.
    fn next(&self, wire: &mut Wire, over: &AtomicBool) -> Option<Frame> {
        loop {
            match wire.next_frame() {
                Ok(frame) => {
                    let closes = [method::CHANNEL_CLOSE, method::CONNECTION_CLOSE, method::BASIC_CANCEL];
                    return Some(frame).filter(|frame| !frame.method().is_some_and(|id| closes.contains(&id)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && !over.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }

    fn publish(&self, wire: &mut Wire) -> Option<()> {
        wire.confirm_select(1);
        let mut tag = 0;
        while !self.publishing_is_over.load(Ordering::Relaxed) {
            let first = self.sent.fetch_add(AT_ONCE, Ordering::Relaxed);
            let mut open: BTreeMap<u64, u32> = (tag + 1..).zip(first..first + AT_ONCE).collect();
            tag += u64::from(AT_ONCE);
            for number in open.values() {
                wire.send(&publish(1, "", "q", &number.to_be_bytes(), false, true));
            }
            while !open.is_empty() {
                let answer = self.next(wire, &self.is_over)?;
                let (mut arguments, id) = (answer.arguments(), answer.method());
                let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
                let answered: Vec<u64> =
                    open.keys().copied().filter(|of| *of == tag || multiple && *of < tag).collect();
                for tag in answered {
                    let number = open.remove(&tag).expect("it is open");
                    // Whether one is in the queue that was refused isn't known.
                    if id == Some(method::BASIC_ACK) {
                        locked(&self.confirmed).insert(number);
                    }
                }
            }
        }
        Some(())
    }

    /// Takes a message, after the method that announces it.
    fn take(&self, wire: &mut Wire, (tag, redelivered): (u64, bool)) -> Option<()> {
        let body = wire.content().ok()?;
        locked(&self.received).entry(number(&body)).or_default()[usize::from(!redelivered)] += 1;
        wire.ack(1, tag, false);
        Some(())
    }

    fn consume(&self, wire: &mut Wire) -> Option<()> {
        wire.prefetch(1, 20);
        wire.consume(1, self.queue, false);
        loop {
            let frame = self.next(wire, &self.is_over)?;
            let mut arguments = frame.arguments();
            let _consumer = arguments.short_string();
            self.take(wire, (arguments.long_long(), arguments.octet() & 1 == 1))?;
        }
    }

    fn poll(&self, wire: &mut Wire) -> Option<()> {
        let mut get = Writer::new();
        get.put_short(0).put_short_string(self.queue).put_octet(0);
        while !self.is_over.load(Ordering::Relaxed) {
            wire.send(&method_frame(1, method::BASIC_GET, &get));
            let frame = self.next(wire, &self.is_over)?;
            let mut arguments = frame.arguments();
            match frame.method() {
                Some(method::BASIC_GET_OK) => {
                    self.take(wire, (arguments.long_long(), arguments.octet() & 1 == 1))?;
                }
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        Some(())
    }

    /// Has a client work at a node until `over`, over one connection after the other: a node that is down, or stands still, ends them.
    fn work(&self, at: usize, over: &AtomicBool, client: impl Fn(&Self, &mut Wire) -> Option<()>) {
        while !over.load(Ordering::Relaxed) {
            let _ = catch_unwind(AssertUnwindSafe(|| client(self, &mut self.open(at))));
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn confirmed(&self) -> usize {
        locked(&self.confirmed).len()
    }

    fn wait_for_confirms(&self, count: usize) {
        let (until, deadline) = (self.confirmed() + count, Instant::now() + 2 * PATIENCE);
        while self.confirmed() < until {
            assert!(Instant::now() < deadline, "publishers wait for confirms");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until every confirmed message has come, and says of which that isn't so.
    fn lost(&self) -> Vec<u32> {
        let deadline = Instant::now() + 2 * PATIENCE;
        loop {
            let lost: Vec<u32> = {
                let received = locked(&self.received);
                locked(&self.confirmed).iter().copied().filter(|number| !received.contains_key(number)).collect()
            };
            if lost.is_empty() || Instant::now() > deadline {
                return lost;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Has clients end when it is dropped.
struct Over<'a>(&'a Load);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.publishing_is_over.store(true, Ordering::Relaxed);
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Partition {
    fn begin(self, faults: &LinkFaults, random: &mut Random) {
        let (at, other) = (random.below(3), 1 + random.below(2));
        let other = (at + other) % 3;
        match self {
            Self::Halves => faults.isolate(0, 0..3),
            Self::RandomHalves => faults.isolate(at, 0..3),
            Self::MajoritiesRing => faults.isolate(at, [other]),
            Self::RandomNode => faults.cut(at, other),
        }
    }
}

/// Partitions, each with a pause or a kill after it.
fn strike(times: usize, of: Configuration, (cluster, faults): (&mut Cluster, &LinkFaults), load: &Load, seed: u64) {
    let mut random = Random::new(seed);
    for time in 0..times {
        load.wait_for_confirms(CONFIRMS);
        of.partition.begin(faults, &mut random);
        // The majority goes on, maybe with another leader.
        load.wait_for_confirms(CONFIRMS);
        faults.heal();
        load.wait_for_confirms(CONFIRMS);
        let at = random.below(3);
        match time % 2 {
            0 => {
                cluster.nodes[at].kill();
                load.wait_for_confirms(CONFIRMS);
                cluster.nodes[at].restart();
                locked(&load.addresses)[at] = cluster.nodes[at].amqp();
            }
            _ => {
                cluster.nodes[at].pause();
                thread::sleep(Duration::from_millis(random.below(3000) as u64));
                cluster.nodes[at].resume();
            }
        }
    }
}

fn declare(cluster: &Cluster, name: &str, mut arguments: Value) {
    arguments["x-queue-type"] = "quorum".into();
    let body = json!({"durable": true, "arguments": arguments});
    let answer = cluster.nodes[0].http().put(&format!("/api/queues/%2F/{name}"), &body).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    for at in 0..3 {
        known_leader(cluster, at, name);
    }
}

fn run(of: Configuration, times: usize, seed: u64) {
    let faults = LinkFaults::default();
    let mut cluster = started(&faults);
    if of.dead_letters {
        declare(&cluster, "dead", json!({}));
        let arguments = json!({
            "x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
            "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
        });
        declare(&cluster, "q", arguments);
    } else {
        declare(&cluster, "q", json!({}));
    }
    let load = Load {
        queue: if of.dead_letters { "dead" } else { "q" },
        addresses: Mutex::new(cluster.nodes.iter().map(leveret_tests::node::Node::amqp).collect()),
        sent: AtomicU32::new(0),
        confirmed: Mutex::default(),
        received: Mutex::default(),
        publishing_is_over: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let lost = thread::scope(|scope| {
        // Clients end also if this panics.
        let over = Over(&load);
        let mut publishers = Vec::new();
        for at in 0..3 {
            let load = &load;
            publishers.push(scope.spawn(move || load.work(at, &load.publishing_is_over, Load::publish)));
            let polls = of.consuming == Consuming::Polling || of.consuming == Consuming::Mixed && at > 0;
            let consumes = of.consuming != Consuming::Polling;
            if polls {
                scope.spawn(move || load.work(at, &load.is_over, Load::poll));
            }
            if consumes {
                scope.spawn(move || load.work(at, &load.is_over, Load::consume));
            }
        }
        strike(times, of, (&mut cluster, &faults), &load, seed);
        load.publishing_is_over.store(true, Ordering::Relaxed);
        publishers.into_iter().for_each(|publisher| publisher.join().expect("it ends when it has its confirms"));
        let lost = load.lost();
        drop(over);
        lost
    });
    if !lost.is_empty() {
        for (at, node) in cluster.nodes.iter().enumerate() {
            let columns = "name,leader,messages_ready,messages_unacknowledged,members,online,state";
            let queues = node.http().get(&format!("/api/queues?columns={columns}")).expect("an answer");
            println!("node {at}: {}", queues.body);
        }
    }
    let (sent, confirmed) = (load.sent.into_inner(), load.confirmed.into_inner().expect("no client panics"));
    let received = load.received.into_inner().expect("no client panics");
    let again: u32 = received.values().map(|[flagged, first]| flagged + first - 1).sum();
    println!("{of:?}, seed {seed}: {sent} sent, {} confirmed, {} came, {again} again", confirmed.len(), received.len());
    assert_eq!(lost, [0; 0], "{of:?}, seed {seed}: confirmed, and lost");
    assert!(received.keys().all(|number| *number < sent), "{of:?}, seed {seed}: nobody sent these");
    // A message may be dead-lettered more than once, to be in the other queue at least once.
    if !of.dead_letters {
        let unflagged: Vec<_> = received.iter().filter(|(_, [_, first])| *first > 1).collect();
        assert!(unflagged.is_empty(), "{of:?}, seed {seed}: these came again without a flag: {unflagged:?}");
    }
}

#[test]
fn a_total_queue_loses_nothing_under_partitions_and_kills() {
    run(Configuration { partition: Partition::RandomHalves, consuming: Consuming::Mixed, dead_letters: false }, 2, 7);
}

#[test]
#[ignore = "takes minutes: make cluster-queues"]
fn total_queues_lose_nothing_in_any_configuration() {
    let times = std::env::var("LEVERET_QUEUE_FAULTS").map_or(10, |times| times.parse().expect("a number"));
    let seed = std::env::var("LEVERET_QUEUE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let only = std::env::var("LEVERET_QUEUE_ONLY").unwrap_or_default();
    let partitions = [Partition::Halves, Partition::RandomHalves, Partition::MajoritiesRing, Partition::RandomNode];
    for partition in partitions {
        for consuming in [Consuming::Asynchronous, Consuming::Polling, Consuming::Mixed] {
            for dead_letters in [false, true] {
                let of = Configuration { partition, consuming, dead_letters };
                if format!("{of:?}").contains(&only) {
                    run(of, times, seed);
                }
            }
        }
    }
}
