//! Queues far larger than memory: the memory of a backlog, whether rates fall with its length, and the duration of a
//! start with it. Rates and times are printed for a reader to judge; memory has limits here.

use std::time::Instant;

use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::random::Random;
use leveret_tests::wire::{Wire, method, publish, publish_expiring};

const MIB: u64 = 1024 * 1024;
const QUEUE: &str = "long";
/// Most unconfirmed publishes.
const WINDOW: u64 = 10_000;
/// Messages per write and per acknowledgement.
const RUN: u64 = 500;

/// The messages that stay in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All messages, which are alike.
    Plain,
    /// All messages, each with a time to live of its own, of hours and days.
    RandomTtl,
    /// Every second one; the others are acknowledged.
    EverySecond,
}

/// A backlog and its limits.
#[derive(Clone, Copy)]
struct Backlog {
    kind: Kind,
    messages: u64,
    body_bytes: usize,
    /// Peak resident memory.
    resident_bytes_max: u64,
    /// Growth of resident memory per message that stays, measured between a tenth and all of them.
    kept_bytes_max: f64,
    /// Whether all of it is consumed in the end.
    drains: bool,
}

const SMALL: u64 = 200_000;

#[test]
fn a_backlog_is_taken_in_order_after_kill() {
    run(Backlog {
        kind: Kind::Plain,
        messages: SMALL,
        body_bytes: 12,
        resident_bytes_max: 100 * MIB,
        kept_bytes_max: f64::INFINITY,
        drains: true,
    });
}

#[test]
fn a_half_acknowledged_backlog_is_consumed_in_order_after_kill() {
    run(Backlog {
        kind: Kind::EverySecond,
        messages: SMALL,
        body_bytes: 12,
        resident_bytes_max: 120 * MIB,
        kept_bytes_max: f64::INFINITY,
        drains: true,
    });
}

#[test]
#[ignore = "ten million messages: make soak"]
fn ten_million_of_12_bytes() {
    run(Backlog {
        kind: Kind::Plain,
        messages: 10_000_000,
        body_bytes: 12,
        resident_bytes_max: 100 * MIB,
        kept_bytes_max: 2.1,
        drains: true,
    });
}

#[test]
#[ignore = "ten million messages of 1 KB, 12 GB of disk: make soak"]
fn ten_million_of_a_kilobyte() {
    run(Backlog {
        kind: Kind::Plain,
        messages: 10_000_000,
        body_bytes: 1_000,
        resident_bytes_max: 300 * MIB,
        kept_bytes_max: 2.1,
        drains: true,
    });
}

#[test]
#[ignore = "ten million messages: make soak"]
fn ten_million_with_their_own_times_to_live() {
    run(Backlog {
        kind: Kind::RandomTtl,
        messages: 10_000_000,
        body_bytes: 12,
        resident_bytes_max: 300 * MIB,
        kept_bytes_max: 16.8,
        drains: false,
    });
}

#[test]
#[ignore = "ten million messages: make soak"]
fn ten_million_of_which_every_second_is_acknowledged() {
    run(Backlog {
        kind: Kind::EverySecond,
        messages: 10_000_000,
        body_bytes: 12,
        // While a channel has nine million unacknowledged deliveries, each with its tag, queue and size.
        resident_bytes_max: 1_200 * MIB,
        kept_bytes_max: 0.53,
        drains: false,
    });
}

#[test]
#[ignore = "fifty million messages: make soak"]
fn a_start_with_fifty_million() {
    run(Backlog {
        kind: Kind::Plain,
        messages: 50_000_000,
        body_bytes: 12,
        resident_bytes_max: 200 * MIB,
        kept_bytes_max: 2.1,
        drains: false,
    });
}

/// A body unique to this number.
fn body(number: u64, length: usize) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(length, (number % 251) as u8);
    body
}

/// A node and its backlog.
struct Rig {
    node: Node,
    load: Backlog,
    random: Random,
    started: Instant,
}

fn run(load: Backlog) {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("unsettled_max_per_channel", 16_000_000));
    let mut rig = Rig { node, load, random: Random::new(5), started: Instant::now() };
    let mut wire = Wire::open(rig.node.amqp());
    wire.declare(1, QUEUE, true);
    drop(wire);
    let tenth = load.messages / 10;
    rig.publish(0..tenth);
    rig.settle_if_asked(0..tenth);
    let resident_at_tenth = rig.node.resident_bytes();
    for at in 1..10 {
        rig.publish(tenth * at..tenth * (at + 1));
    }
    rig.settle_if_asked(tenth..load.messages);
    let stay = load.messages as f64 * if load.kind == Kind::EverySecond { 0.5 } else { 1.0 };
    let kept_max = (0.9 * stay * load.kept_bytes_max) as u64;
    let resident = rig.node.resident_bytes_within(resident_at_tenth.saturating_add(kept_max));
    let grown = resident.saturating_sub(resident_at_tenth) as f64 / (0.9 * stay);
    println!("{grown:.2} bytes of memory for each message that stays, from a tenth to all of them");
    rig.check_peak("published");
    assert!(grown <= load.kept_bytes_max, "each message that stays costs {grown} bytes of memory");
    rig.restart(true);
    rig.restart(false);
    if load.drains {
        rig.drain();
        rig.check_peak("drained");
    }
    conservation::check(&rig.node.http());
}

impl Rig {
    fn say(&self, what: &str, count: u64, begin: Instant) {
        let took = begin.elapsed();
        println!(
            "{:6.1} s  {what}: {count} in {:.2} s, {:.0}/s; {} MiB resident, {} MiB at most",
            self.started.elapsed().as_secs_f64(),
            took.as_secs_f64(),
            count as f64 / took.as_secs_f64(),
            self.node.resident_bytes() / MIB,
            self.node.resident_bytes_max() / MIB
        );
    }

    fn check_peak(&self, when: &str) {
        let peak = self.node.resident_bytes_max();
        assert!(peak <= self.load.resident_bytes_max, "{when}: {peak} bytes resident at most");
    }

    fn publish(&mut self, numbers: std::ops::Range<u64>) {
        let begin = Instant::now();
        let mut wire = Wire::open(self.node.amqp());
        wire.confirm_select(1);
        let count = numbers.end - numbers.start;
        let (mut sent, mut confirmed) = (0, 0);
        while confirmed < count {
            if sent < count && sent - confirmed < WINDOW {
                let end = (sent + RUN).min(count);
                let bytes: Vec<u8> = (sent..end).flat_map(|at| self.message(numbers.start + at)).collect();
                wire.send(&bytes);
                sent = end;
                continue;
            }
            let ack = wire.next_method(method::BASIC_ACK).expect("a confirm");
            let mut arguments = ack.arguments();
            let (tag, multiple) = (arguments.long_long(), arguments.octet() & 1 == 1);
            assert!(multiple || tag == confirmed + 1, "confirm {tag} after {confirmed}");
            confirmed = tag;
        }
        wire.close();
        self.say("published", count, begin);
    }

    fn message(&mut self, number: u64) -> Vec<u8> {
        let body = body(number, self.load.body_bytes);
        match self.load.kind {
            Kind::RandomTtl => publish_expiring(1, QUEUE, &body, 7_200_000 + self.random.below(864_000_000) as u64),
            _ => publish(1, "", QUEUE, &body, true, true),
        }
    }

    /// Consumes everything ready, acknowledges every second one of `numbers` and requeues the others.
    fn settle_if_asked(&mut self, numbers: std::ops::Range<u64>) {
        if self.load.kind != Kind::EverySecond {
            return;
        }
        let begin = Instant::now();
        let mut wire = Wire::open(self.node.amqp());
        wire.consume(1, QUEUE, false);
        // Messages requeued before come first.
        for number in (0..numbers.start).step_by(2).chain(numbers.clone()) {
            let (tag, _, received) = wire.delivery();
            assert!(received == body(number, self.load.body_bytes), "{number} expected, {received:?} received");
            if number % 2 == 1 {
                wire.ack(1, tag, false);
            }
        }
        wire.close();
        while self.ready() < numbers.end / 2 {
            std::thread::yield_now();
        }
        // Acknowledgements are durable within 50 ms, or before later durable records: a kill undoes none of these.
        let mut wire = Wire::open(self.node.amqp());
        wire.declare(1, &format!("after-{}", numbers.end), true);
        wire.close();
        self.say("every second one acknowledged", numbers.end - numbers.start, begin);
    }

    fn restart(&mut self, kill: bool) {
        let stop = Instant::now();
        if kill {
            self.node.kill();
        } else {
            assert!(self.node.terminate().success());
        }
        let (stopped, begin) = (stop.elapsed(), Instant::now());
        self.node.restart();
        println!(
            "{:6.1} s  {}: stopped after {:.2} s, accepts {:.2} s later; {} MiB resident",
            self.started.elapsed().as_secs_f64(),
            if kill { "killed" } else { "terminated" },
            stopped.as_secs_f64(),
            begin.elapsed().as_secs_f64(),
            self.node.resident_bytes() / MIB
        );
    }

    fn drain(&mut self) {
        let step = if self.load.kind == Kind::EverySecond { 2 } else { 1 };
        let all: Vec<u64> = (0..self.load.messages).step_by(step).collect();
        let mut wire = Wire::open(self.node.amqp());
        wire.prefetch(1, 5_000);
        wire.consume(1, QUEUE, false);
        for tenth in all.chunks(all.len().div_ceil(10)) {
            let begin = Instant::now();
            for (at, number) in tenth.iter().enumerate() {
                let (tag, _, received) = wire.delivery();
                assert!(received == body(*number, self.load.body_bytes), "{number} expected, {received:?} received");
                if (at as u64 + 1).is_multiple_of(RUN) || at + 1 == tenth.len() {
                    wire.ack(1, tag, true);
                }
            }
            self.say("taken", tenth.len() as u64, begin);
        }
        wire.close();
        assert_eq!(self.ready(), 0, "more messages than were sent");
    }

    fn ready(&self) -> u64 {
        let mut wire = Wire::open(self.node.amqp());
        let declare_ok = wire.declare(1, QUEUE, true);
        wire.close();
        let mut arguments = declare_ok.arguments();
        let (_name, ready) = (arguments.short_string(), arguments.long());
        u64::from(ready)
    }
}
