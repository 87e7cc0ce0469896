//! Staged waits: each shows its reason code and its beginning in `/api/queues/:vhost/:name`, for the queue or the
//! consumer that waits.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::amqp10::{Options as ClientOptions, SessionOptions};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::Value;

/// Objects with `reason` and `since`, anywhere in a queue's JSON.
fn waits(json: &Value) -> Vec<(String, Value)> {
    match json {
        Value::Array(list) => list.iter().flat_map(waits).collect(),
        Value::Object(map) => {
            let own = map
                .get("reason")
                .and_then(Value::as_str)
                .map(|reason| (reason.to_owned(), map.get("since").cloned().unwrap_or(Value::Null)));
            own.into_iter().chain(map.values().flat_map(waits)).collect()
        }
        _ => Vec::new(),
    }
}

/// Waits until the queue or one of its consumers shows `code`.
fn shows(http: &Http, queue: &str, code: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = http.get(&format!("/api/queues/%2F/{queue}")).expect("the queue").json();
        if let Some((_, since)) = waits(&json).into_iter().find(|(reason, _)| reason == code) {
            assert!(!since.is_null(), "{code} doesn't say since when: {json}");
            return;
        }
        assert!(Instant::now() < deadline, "no {code} in {json}");
        // The state results from events inside the node; over HTTP it can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
}

struct Stage {
    node: Node,
    wire: Wire,
}

impl Stage {
    fn new(options: Options) -> Self {
        let node = Node::start(options);
        let wire = Wire::open(node.amqp());
        Self { node, wire }
    }

    /// A durable queue with `bodies` in it.
    fn queue(&mut self, bodies: &[&[u8]]) {
        self.wire.declare(1, "q", true);
        if bodies.is_empty() {
            return;
        }
        self.wire.confirm_select(1);
        for body in bodies {
            self.wire.send(&publish(1, "", "q", body, true, true));
        }
        self.wire.confirms(bodies.len() as u64);
    }

    fn shows(self, code: &str) {
        shows(&self.node.http(), "q", code);
        drop(self.wire);
        conservation::check(&self.node.http());
    }
}

#[test]
fn empty_a_consumer_without_messages() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[]);
    stage.wire.consume(1, "q", false);
    stage.shows("empty");
}

#[test]
fn credit_a_prefetch_that_is_used_up() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1", b"2"]);
    stage.wire.prefetch(1, 1);
    stage.wire.consume(1, "q", false);
    stage.wire.delivery();
    stage.shows("credit");
}

#[test]
fn link_credit_a_receiver_that_grants_no_more() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1", b"2"]);
    let mut receiver = Amqp10::open(stage.node.amqp());
    receiver.receiver(0, "/queues/q", 1);
    receiver.receive(0);
    stage.shows("link_credit");
}

#[test]
fn window_a_session_that_takes_no_more_transfers() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1", b"2"]);
    let narrow = SessionOptions { incoming_window: 1, widen: false, ..SessionOptions::default() };
    let mut receiver = Amqp10::open_with(stage.node.amqp(), ClientOptions::default(), narrow);
    receiver.receiver(0, "/queues/q", 10);
    receiver.receive(0);
    stage.shows("window");
}

#[test]
fn room_a_socket_that_is_not_read() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[]);
    stage.wire.consume(1, "q", false);
    let mut publisher = Wire::open(stage.node.amqp());
    publisher.confirm_select(1);
    // More than fits into any socket buffer.
    for _ in 0..64 {
        publisher.send(&publish(1, "", "q", &vec![b'x'; 1024 * 1024], true, false));
    }
    publisher.confirms(64);
    stage.shows("room");
}

#[test]
fn no_consumers_messages_that_nobody_wants() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1"]);
    stage.shows("no_consumers");
}

#[test]
fn consumers_busy_nobody_can_take_more() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1", b"2"]);
    stage.wire.prefetch(1, 1);
    stage.wire.consume(1, "q", false);
    stage.wire.delivery();
    stage.shows("consumers_busy");
}

#[test]
fn unacknowledged_everything_is_out() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[b"1"]);
    stage.wire.consume(1, "q", false);
    stage.wire.delivery();
    stage.shows("unacknowledged");
}

#[test]
fn full_a_length_limit_that_refuses() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    let mut arguments = Writer::new();
    let mut table = Writer::new();
    table.put_short_string("x-max-length").put_octet(b'I').put_long(1);
    table.put_short_string("x-overflow").put_octet(b'S').put_long_string(b"reject-publish");
    arguments.put_short(0).put_short_string("q").put_octet(0b10).put_long_string(table.bytes());
    stage.wire.call(1, method::QUEUE_DECLARE, &arguments, method::QUEUE_DECLARE_OK);
    stage.wire.confirm_select(1);
    stage.wire.send(&publish(1, "", "q", b"1", true, true));
    stage.wire.confirms(1);
    stage.wire.send(&publish(1, "", "q", b"2", true, true));
    assert!(stage.wire.next_method(method::BASIC_NACK).is_ok(), "the second is refused");
    stage.shows("full");
}

#[test]
fn exclusive_consumer_holds_the_queue() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(&[]);
    let mut arguments = Writer::new();
    // Bit 2: exclusive.
    arguments.put_short(0).put_short_string("q").put_short_string("").put_octet(0b100).put_empty_table();
    stage.wire.call(1, method::BASIC_CONSUME, &arguments, method::BASIC_CONSUME_OK);
    stage.shows("exclusive_consumer");
}

#[test]
fn sync_messages_on_their_way_to_disk() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new().set("debug.sync_delay_ms", 3_000));
    stage.queue(&[]);
    stage.wire.send(&publish(1, "", "q", b"1", true, true));
    stage.shows("sync");
}

#[test]
fn log_full_the_write_ahead_buffers_hold_no_more() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new().set("debug.sync_delay_ms", 3_000));
    stage.queue(&[]);
    // Two buffers of 16 MiB, and 4 MiB undurable per connection: twelve connections fill them.
    let address = stage.node.amqp();
    let wires: Vec<_> = (0..12).map(|_| Wire::open(address)).collect();
    let publishers: Vec<_> = wires
        .into_iter()
        .map(|mut wire| {
            thread::spawn(move || {
                let bytes: Vec<u8> = (0..100).flat_map(|_| publish(1, "", "q", &[b'x'; 3_000], true, true)).collect();
                for _ in 0..40 {
                    use std::io::Write as _;
                    // The node stops reading when it is full, and is killed at the end of the test.
                    if wire.socket.write_all(&bytes).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    let code = "log_full";
    shows(&stage.node.http(), "q", code);
    drop(stage);
    for publisher in publishers {
        publisher.join().expect("a publisher");
    }
}

#[test]
fn failed_a_queue_whose_log_is_damaged() {
    if is_given() {
        return;
    }
    let marker = b"a body that stands once on the disk: 6f1d2c";
    let mut stage = Stage::new(Options::new());
    stage.queue(&[marker]);
    // With later records the damage isn't a torn tail.
    stage.queue(&[b"after", b"it"]);
    stage.node.kill();
    assert!(damage(stage.node.directory(), marker), "the body is nowhere on disk");
    stage.node.restart();
    shows(&stage.node.http(), "q", "failed");
}

/// Flips a bit in every file that contains `marker`.
fn damage(folder: &Path, marker: &[u8]) -> bool {
    let mut found = false;
    for entry in fs::read_dir(folder).expect("the data directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found |= damage(&path, marker);
            continue;
        }
        let Ok(mut bytes) = fs::read(&path) else { continue };
        if let Some(at) = bytes.windows(marker.len()).position(|window| window == marker) {
            bytes[at + 5] ^= 1;
            fs::write(&path, bytes).expect("damage the file");
            found = true;
        }
    }
    found
}

/// A consumer takes three quarters of what is published: the publisher's connection says that it is paced, and by which queue.
#[test]
fn pacing_a_publisher_that_is_a_little_faster() {
    if is_given() {
        return;
    }
    const PUBLISHED: usize = 400;
    let Stage { node, wire: mut publisher } = Stage::new(Options::new());
    let queue = serde_json::json!({"durable": true});
    assert_eq!(node.http().put("/api/queues/%2F/paced", &queue).expect("an answer").status, 201);
    let mut consumer = Wire::open(node.amqp());
    consumer.prefetch(1, 300);
    consumer.consume(1, "paced", false);
    let run = publish(1, "", "paced", b"x", false, true).repeat(PUBLISHED);
    let deadline = Instant::now() + PATIENCE;
    let cause = serde_json::json!({"kind": "queue", "vhost": "/", "name": "paced"});
    loop {
        for _ in 0..50 {
            publisher.send(&run);
            let mut last = 0;
            for _ in 0..PUBLISHED * 3 / 4 {
                last = consumer.delivery().0;
            }
            consumer.ack(1, last, true);
        }
        let connections = node.http().get("/api/connections").expect("an answer").json();
        let why = |connection: &Value| connection["why"].as_array().cloned().unwrap_or_default();
        let all: Vec<Value> = connections.as_array().expect("a list").iter().flat_map(why).collect();
        if let Some(found) = all.iter().find(|why| why["code"] == "pacing") {
            assert_eq!(found["cause"], cause, "{found}");
            break;
        }
        assert!(Instant::now() < deadline, "nobody is paced: {all:?}");
    }
    consumer.close();
    publisher.close();
    conservation::check(&node.http());
}
