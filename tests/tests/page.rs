//! The page: served by the real binary, the ten staged cases of which it says why something is slow or stuck, each named by
//! `why` over HTTP with its cause, and live taps.

use std::thread;
use std::time::{Duration, Instant};

use leveret_strict_client::amqp10::{Options as ClientOptions, SessionOptions};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::http::{Events, Http};
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, method_frame, publish};
use leveret_tests::{PATIENCE, conservation};
use serde_json::{Value, json};

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

    /// A durable queue with this many messages.
    fn queue(&mut self, messages: u64) {
        self.wire.declare(1, "q", true);
        self.wire.confirm_select(1);
        for _ in 0..messages {
            self.wire.send(&publish(1, "", "q", b"message", true, true));
        }
        self.wire.confirms(messages);
    }

    fn http(&self) -> Http {
        self.node.http()
    }

    fn ends(self) {
        drop(self.wire);
        conservation::check(&self.node.http());
    }
}

/// Waits until the object shows `code`, and returns its place among the reasons, and its cause. Lists show the same as objects.
fn why(http: &Http, path: &str, code: &str) -> (usize, Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = http.get(path).expect("an answer").json();
        let object = json.get(0).unwrap_or(&json);
        let reasons = object["why"].as_array().cloned().unwrap_or_default();
        if let Some(at) = reasons.iter().position(|reason| reason["code"] == code) {
            let reason = &reasons[at];
            assert_eq!(reason["since"].is_null(), reason["seconds"].is_null(), "{reason}");
            assert!(reason["cause"]["kind"].is_string(), "{reason}");
            return (at, reason["cause"].clone());
        }
        assert!(Instant::now() < deadline, "{path}: no {code} in {object}");
        // The state results from events inside the node; over HTTP it can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
}

const QUEUE: &str = "/api/queues/%2F/q";
const QUEUES: &str = "/api/queues";
const CONSUMERS: &str = "/api/consumers";
const CONNECTIONS: &str = "/api/connections";

/// Asserts that the top reason of the queue is `code`, caused by its consumer, for the queue alone and in the list.
fn is_top(http: &Http, code: &str) -> Value {
    let (at, cause) = why(http, QUEUE, code);
    assert_eq!(at, 0, "{code} is the most important reason");
    why(http, QUEUES, code);
    assert_eq!(cause["kind"], "consumer", "{cause}");
    assert!(cause["connection"].as_str().is_some_and(|name| name.contains(" -> ")), "{cause}");
    assert_eq!(cause["user"], "guest");
    cause
}

#[test]
fn a_slow_consumer_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(20);
    stage.wire.prefetch(1, 5);
    stage.wire.consume(1, "q", false);
    (0..5).for_each(|_| drop(stage.wire.delivery()));
    let cause = is_top(&stage.http(), "slow_consumer");
    assert_eq!((&cause["prefetch_count"], &cause["unacknowledged"]), (&json!(5), &json!(5)));
    assert_eq!(cause["reason"], "credit");
    let (_, own) = why(&stage.http(), CONSUMERS, "slow_consumer");
    assert_eq!(own, json!({"kind": "client"}));
    stage.ends();
}

#[test]
fn a_prefetch_of_one_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(20);
    stage.wire.prefetch(1, 1);
    stage.wire.consume(1, "q", false);
    let (tag, ..) = stage.wire.delivery();
    stage.wire.ack(1, tag, false);
    stage.wire.delivery();
    let (at, cause) = why(&stage.http(), QUEUE, "small_prefetch");
    assert!(at <= 1, "only a consumer that is slow as well is more important");
    assert_eq!((&cause["kind"], &cause["prefetch_count"]), (&json!("consumer"), &json!(1)));
    why(&stage.http(), CONSUMERS, "small_prefetch");
    stage.ends();
}

#[test]
fn a_pile_of_unacknowledged_messages_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(1200);
    stage.wire.consume(1, "q", false);
    (0..1200).for_each(|_| drop(stage.wire.delivery()));
    let cause = is_top(&stage.http(), "unacknowledged");
    assert_eq!((&cause["prefetch_count"], &cause["unacknowledged"]), (&json!(0), &json!(1200)));
    why(&stage.http(), CONSUMERS, "unacknowledged");
    stage.ends();
}

#[test]
fn a_queue_without_consumers_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(1);
    assert_eq!(why(&stage.http(), QUEUE, "no_consumers"), (0, json!({"kind": "none"})));
    stage.ends();
}

#[test]
fn an_alarm_is_named_by_the_queue_and_the_connection() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new().with_alarms());
    stage.queue(1);
    stage.node.raise_alarms("memory");
    let deadline = Instant::now() + PATIENCE;
    while stage.http().get("/api/health/checks/alarms").expect("an answer").status != 503 {
        assert!(Instant::now() < deadline, "no alarm");
    }
    stage.wire.send(&publish(1, "", "q", b"2", true, true));
    let alarm = json!({"kind": "alarm", "resources": ["memory"]});
    assert_eq!(why(&stage.http(), QUEUE, "alarm"), (0, alarm.clone()));
    assert_eq!(why(&stage.http(), CONNECTIONS, "alarm"), (0, alarm));
    stage.node.raise_alarms("");
    stage.ends();
}

#[test]
fn a_slow_disk_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new().set("debug.sync_delay_ms", 1_000));
    stage.wire.declare(1, "q", true);
    let http = stage.http();
    let watcher = thread::spawn(move || why(&http, QUEUE, "sync"));
    while !watcher.is_finished() {
        stage.wire.send(&publish(1, "", "q", b"1", true, true));
        thread::sleep(Duration::from_millis(20));
    }
    let (_, cause) = watcher.join().expect("it is named");
    assert_eq!(cause["kind"], "disk");
    assert!(cause["sync_ms"].as_f64().is_some_and(|time| time > 300.0), "{cause}");
    stage.ends();
}

#[test]
fn a_window_that_is_shut_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(2);
    let narrow = SessionOptions { incoming_window: 1, widen: false, ..SessionOptions::default() };
    let mut receiver = Amqp10::open_with(stage.node.amqp(), ClientOptions::default(), narrow);
    receiver.receiver(0, "/queues/q", 10);
    receiver.receive(0);
    let cause = is_top(&stage.http(), "window");
    assert_eq!(cause["reason"], "window");
    why(&stage.http(), CONSUMERS, "window");
    drop(receiver);
    stage.ends();
}

#[test]
fn a_link_without_credit_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(2);
    let mut receiver = Amqp10::open(stage.node.amqp());
    receiver.receiver(0, "/queues/q", 1);
    receiver.receive(0);
    let cause = is_top(&stage.http(), "link_credit");
    assert_eq!(cause["link_credit"], 0);
    why(&stage.http(), CONSUMERS, "link_credit");
    drop(receiver);
    stage.ends();
}

#[test]
fn a_redelivery_loop_is_named() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(1);
    stage.wire.prefetch(1, 1);
    stage.wire.consume(1, "q", false);
    let http = stage.http();
    let watcher = thread::spawn(move || is_top(&http, "redelivery_loop"));
    while !watcher.is_finished() {
        let (tag, ..) = stage.wire.delivery();
        let mut arguments = Writer::new();
        // Bit 1: requeue.
        arguments.put_long_long(tag).put_octet(0b10);
        stage.wire.send(&method_frame(1, method::BASIC_NACK, &arguments));
    }
    let cause = watcher.join().expect("it is named");
    assert_eq!(cause["prefetch_count"], 1);
    stage.ends();
}

#[test]
fn a_length_limit_that_drops_is_named_with_its_policy() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    let policy = json!({"pattern": "^q$", "definition": {"max-length": 3}, "apply-to": "queues"});
    assert_eq!(stage.http().put("/api/policies/%2F/short", &policy).expect("an answer").status, 201);
    stage.queue(5);
    let http = stage.http();
    let watcher = thread::spawn(move || why(&http, QUEUE, "dropping"));
    while !watcher.is_finished() {
        stage.wire.send(&publish(1, "", "q", b"more", true, true));
        stage.wire.confirms(1);
        thread::sleep(Duration::from_millis(10));
    }
    let (at, mut cause) = watcher.join().expect("it is named");
    assert_eq!(at, 0);
    assert!(cause["dropped"].as_u64().is_some_and(|dropped| dropped >= 2), "{cause}");
    cause["dropped"] = json!(2);
    let expected = json!({
        "kind": "limit", "argument": "max-length", "value": 3, "source": "policy", "policy": "short", "dropped": 2,
    });
    assert_eq!(cause, expected);
    stage.ends();
}

#[test]
fn a_stream_that_forgets_its_oldest_messages_has_no_reason() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    let arguments = json!({
        "x-queue-type": "stream", "x-max-length-bytes": 400_000, "x-stream-max-segment-size-bytes": 100_000,
    });
    let http = stage.http();
    assert_eq!(http.put(QUEUE, &json!({"durable": true, "arguments": arguments})).expect("an answer").status, 201);
    stage.wire.confirm_select(1);
    let deadline = Instant::now() + PATIENCE;
    loop {
        for _ in 0..10 {
            stage.wire.send(&publish(1, "", "q", &[0; 20_000], true, true));
        }
        stage.wire.confirms(10);
        let queue = http.get(QUEUE).expect("an answer").json();
        let rate = &queue["message_stats"]["publish_details"]["rate"];
        if queue["conservation"]["dropped"].as_u64() > Some(0) && rate.as_f64() > Some(0.0) {
            assert_eq!(queue["why"], json!([]), "that is what it is for");
            break;
        }
        assert!(Instant::now() < deadline, "nothing is dropped: {queue}");
    }
    stage.ends();
}

#[test]
fn a_queue_whose_consumer_keeps_up_has_no_reason() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(10);
    stage.wire.consume(1, "q", false);
    for _ in 0..10 {
        let (tag, ..) = stage.wire.delivery();
        stage.wire.ack(1, tag, false);
    }
    let deadline = Instant::now() + PATIENCE;
    while stage.http().get(QUEUE).expect("the queue").json()["messages"] != 0 {
        assert!(Instant::now() < deadline, "messages stay");
    }
    let queue = stage.http().get(QUEUE).expect("the queue").json();
    assert_eq!(queue["why"], json!([]), "{queue}");
    assert_eq!(queue["consumer_details"][0]["why"], json!([]));
    stage.ends();
}

#[test]
fn the_page_is_served_below_the_prefix() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("management.path_prefix", "/rabbitmq/"));
    let nobody = node.http().as_user("", "");
    let get = |path: &str| nobody.get(path).expect("an answer");
    let page = get("/rabbitmq/");
    assert_eq!(page.status, 200);
    assert!(page.body.to_lowercase().starts_with("<!doctype html>"), "{}", page.body);
    // Both lead to the page, whose addresses are relative to its folder.
    assert_eq!((get("/").status, get("/rabbitmq").status), (301, 301));
    assert_eq!((get("/ui/x").status, get("/other").status), (404, 404));
    // Every file that the page names is there.
    for name in page.body.split(['"', '\'']).filter(|name| name.starts_with("ui/")) {
        assert_eq!(get(&format!("/rabbitmq/{name}")).status, 200, "{name}");
    }
}

#[test]
fn messages_are_shown_decoded_without_being_taken() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.queue(0);
    // {"a": 1} in MessagePack.
    for body in [&b"{\"a\": 1}"[..], b"\x81\xa1a\x01", b"\x00\xff"] {
        stage.wire.send(&publish(1, "", "q", body, true, true));
    }
    stage.wire.confirms(3);
    let shown = stage.http().get("/api/queues/%2F/q/browse?decode=true&truncate=2").expect("messages").json();
    let decoded: Vec<&Value> = shown.as_array().expect("a list").iter().map(|message| &message["decoded"]).collect();
    let view = |form: &str, text: &str| json!({"as": form, "through": [], "text": text, "truncated": false});
    assert_eq!(decoded, [&view("json", "{\"a\": 1}"), &view("msgpack", "{\"a\":1}"), &view("hex", "00ff")]);
    let plain = stage.http().get("/api/queues/%2F/q/browse").expect("messages").json();
    assert_eq!((&plain[0]["decoded"], &plain[0]["redelivered"]), (&Value::Null, &json!(false)));
    stage.ends();
}

#[test]
fn the_line_of_time_survives_a_clean_restart() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    assert!(node.terminate().success());
    node.restart();
    let http = node.http();
    let events = http.get("/api/events").expect("events").json();
    let kinds: Vec<&str> =
        events.as_array().expect("a list").iter().filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(kinds, ["node_started", "node_stopped", "node_started"]);
    let history = http.get("/api/history/node").expect("a history").json();
    assert!(!history["samples"].as_array().expect("a list").is_empty(), "{history}");
}

/// Opens a tap, which sees everything from now on.
fn tap(http: &Http, path: &str) -> Events {
    let mut events = http.events(&format!("/api/tap/{path}")).expect("a tap");
    assert_eq!(events.next_event().expect("its settings").0, "open");
    events
}

/// Reads a tap until it has accounted for this many messages. Returns those that it shows.
fn account(events: &mut Events, messages: u64) -> Vec<Value> {
    let (mut shown, mut passed_over) = (Vec::new(), 0);
    while shown.len() as u64 + passed_over < messages {
        let (event, data) = events.next_event().expect("an event");
        passed_over += data["passed_over"].as_u64().expect("a number");
        match event.as_str() {
            "" => shown.push(data),
            event => assert_eq!(event, "passed_over"),
        }
    }
    assert_eq!(shown.len() as u64 + passed_over, messages, "no message counts twice");
    shown
}

#[test]
fn a_tap_shows_some_messages_and_counts_all_others() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    stage.wire.declare(1, "q", true);
    stage.wire.confirm_select(1);
    let http = stage.http();
    let began = Instant::now();
    let mut of_queue = tap(&http, "queues/%2F/q?rate=5&body_bytes=4&decode=true");
    let mut of_exchange = tap(&http, "exchanges/%2F/amq.default?rate=5");
    assert_eq!(stage.node.metric("leveret_taps"), "2");
    const MESSAGES: u64 = 3000;
    for _ in 0..MESSAGES {
        stage.wire.send(&publish(1, "", "q", b"message", true, true));
    }
    stage.wire.confirms(MESSAGES);
    stage.wire.consume(1, "q", true);
    (0..MESSAGES).for_each(|_| drop(stage.wire.delivery()));
    let shown = account(&mut of_queue, 2 * MESSAGES);
    // Five at once, and five a second.
    let most = 5 + 5 * (began.elapsed().as_secs() as usize + 1);
    assert!((5..=most).contains(&shown.len()), "{} are shown", shown.len());
    for message in &shown {
        let body = ["payload", "payload_bytes", "truncated"].map(|key| message[key].clone());
        assert_eq!(body, [json!("mess"), json!(7), json!(true)]);
        assert_eq!(message["decoded"]["text"], "mess");
        assert!(message["seen"] == "put" || message["seen"] == "delivered", "{message}");
    }
    let shown = account(&mut of_exchange, MESSAGES);
    assert!(!shown.is_empty() && shown.len() <= most, "{} are shown", shown.len());
    assert!(shown.iter().all(|message| message["seen"] == "published" && message["queues"] == 1), "{shown:?}");
    drop((of_queue, of_exchange));
    let deadline = Instant::now() + PATIENCE;
    while stage.node.metric("leveret_taps") != "0" {
        assert!(Instant::now() < deadline, "taps stay open");
        // The node notices the end of a connection on its own; over HTTP it can only be polled.
        thread::sleep(Duration::from_millis(10));
    }
    stage.ends();
}

#[test]
fn a_tap_sees_dead_letters_large_bodies_and_streams() {
    if is_given() {
        return;
    }
    let mut stage = Stage::new(Options::new());
    let http = stage.http();
    let declare = |name: &str, arguments: Value| {
        let body = json!({"durable": true, "arguments": arguments});
        assert_eq!(http.put(&format!("/api/queues/%2F/{name}"), &body).expect("an answer").status, 201);
    };
    declare("dead", json!({}));
    declare("short", json!({"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}));
    declare("log", json!({"x-queue-type": "stream"}));
    stage.wire.confirm_select(1);
    let mut dead = tap(&http, "queues/%2F/dead");
    for body in [b"first".as_slice(), b"second"] {
        stage.wire.send(&publish(1, "", "short", body, true, true));
    }
    stage.wire.confirms(2);
    let letter = &account(&mut dead, 1)[0];
    assert_eq!((&letter["seen"], &letter["payload"]), (&json!("put"), &json!("first")));
    assert_eq!(letter["properties"]["headers"]["x-death"][0]["queue"], "short");

    let mut of_large = tap(&http, "queues/%2F/dead?body_bytes=10");
    let body = json!({
        "properties": {"delivery_mode": 2}, "routing_key": "dead", "payload": "x".repeat(300_000), "payload_encoding": "string",
    });
    assert_eq!(http.post("/api/exchanges/%2F/amq.default/publish", &body).expect("an answer").status, 200);
    let shown = &account(&mut of_large, 1)[0];
    assert_eq!((&shown["payload_bytes"], &shown["truncated"]), (&json!(300_000), &json!(true)));
    assert_eq!(shown["payload"], "xxxxxxxxxx");

    let mut of_stream = tap(&http, "queues/%2F/log");
    stage.wire.send(&publish(1, "", "log", b"event", true, true));
    stage.wire.confirms(1);
    assert_eq!(account(&mut of_stream, 1)[0]["payload"], "event");
    stage.wire.prefetch(1, 10);
    stage.wire.consume_with(1, "log", false, &[("x-stream-offset", 0)]);
    stage.wire.delivery();
    let delivered = &account(&mut of_stream, 1)[0];
    assert_eq!((&delivered["seen"], &delivered["payload"]), (&json!("delivered"), &json!("event")));
    stage.ends();
}
