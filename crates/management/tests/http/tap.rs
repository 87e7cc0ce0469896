//! Live taps of queues and exchanges.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::exchange::{Events, exchange, watched};
use crate::stage::{HttpStage, request};

const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
const USER: &str = "authorization: Basic dXNlcjp1c2Vy\r\n";
const QUEUE: &str = "/api/tap/queues/v/xq";

/// Opens a tap; it sees everything from now on.
fn tap(stage: &HttpStage, path: &str, user: &str) -> (Events, Value) {
    let mut events = watched(stage.http, path, user);
    let open = events.event();
    let options = open.strip_prefix("event: open\ndata: ").expect(&open);
    (events, serde_json::from_str(options).expect("JSON"))
}

fn publish(stage: &HttpStage, path: &str, key: &str, payload: &str) {
    let properties = json!({"content_type": "application/json", "headers": {"h": 5}});
    let body = json!({"properties": properties, "routing_key": key, "payload": payload, "payload_encoding": "string"});
    assert_eq!(stage.ask("POST", &format!("/api/exchanges/{path}/publish"), &body.to_string()).0, 200);
}

fn get(stage: &HttpStage, ackmode: &str) {
    let body = json!({"count": 1, "ackmode": ackmode, "encoding": "auto"}).to_string();
    assert_eq!(stage.ask("POST", "/api/queues/v/xq/get", &body).1.as_array().map(Vec::len), Some(1));
}

#[test]
fn a_queue_shows_messages_that_come_and_go() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/xq", "{}").0, 201);
    let (mut events, options) = tap(&stage, &format!("{QUEUE}?decode=true&body_bytes=9"), USER);
    assert_eq!(options, json!({"rate": 10, "body_bytes": 9}));
    publish(&stage, "v/amq.default", "xq", r#"{"a":1}"#);
    let put = events.data();
    assert_eq!((&put["seen"], &put["exchange"], &put["routing_key"]), (&json!("put"), &json!(""), &json!("xq")));
    assert_eq!(
        (&put["payload"], &put["payload_bytes"], &put["truncated"]),
        (&json!(r#"{"a":1}"#), &json!(7), &json!(false))
    );
    assert_eq!((&put["properties"]["headers"]["h"], &put["decoded"]["as"]), (&json!(5), &json!("json")));
    assert_eq!((&put["passed_over"], &put["queues"]), (&json!(0), &Value::Null));
    get(&stage, "ack_requeue_true");
    get(&stage, "ack_requeue_false");
    let [first, second] = [events.data(), events.data()];
    assert_eq!((&first["seen"], &first["redelivered"]), (&json!("delivered"), &json!(false)));
    assert_eq!((&second["seen"], &second["redelivered"]), (&json!("delivered"), &json!(true)));
    publish(&stage, "v/amq.default", "xq", r#"{"a":"ää"}"#);
    let cut = events.data();
    assert_eq!(
        (&cut["payload"], &cut["payload_bytes"], &cut["truncated"]),
        (&json!(r#"{"a":"ä"#), &json!(12), &json!(true))
    );
    assert_eq!((&cut["decoded"]["text"], &cut["decoded"]["truncated"]), (&json!(r#"{"a":"ä"#), &json!(true)));
    assert_eq!(cut["decoded"].get("error"), None);
    stage.node.stop("test");
}

#[test]
fn an_exchange_shows_what_is_published_to_it() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/xq", "{}").0, 201);
    let (mut events, _) = tap(&stage, "/api/tap/exchanges/v/amq.default", GUEST);
    publish(&stage, "v/amq.direct", "xq", "elsewhere");
    publish(&stage, "v/amq.default", "xq", "one");
    publish(&stage, "v/amq.default", "none", "two");
    let [one, two] = [events.data(), events.data()];
    assert_eq!((&one["seen"], &one["payload"], &one["queues"]), (&json!("published"), &json!("one"), &json!(1)));
    assert_eq!((&two["payload"], &two["queues"], &two["routing_key"]), (&json!("two"), &json!(0), &json!("none")));
    assert_eq!(two.get("decoded"), None);
    stage.node.stop("test");
}

#[test]
fn messages_above_the_rate_are_counted() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/xq", "{}").0, 201);
    let (mut events, options) = tap(&stage, &format!("{QUEUE}?rate=2&body_bytes=99999999"), USER);
    assert_eq!(options, json!({"rate": 2, "body_bytes": 16384}));
    (0..10).for_each(|_| publish(&stage, "v/amq.default", "xq", "x"));
    // Each is shown or counted, in the next message's event or in one of its own.
    let (mut shown, mut passed_over) = (0, 0);
    while shown + passed_over < 10 {
        let event = events.event();
        let counted = event.strip_prefix("event: passed_over\n").unwrap_or_else(|| {
            shown += 1;
            &event
        });
        let data: Value = serde_json::from_str(counted.strip_prefix("data: ").expect(&event)).expect("JSON");
        passed_over += data["passed_over"].as_u64().expect("a number");
    }
    assert!(shown >= 2 && shown + passed_over == 10, "{shown} are shown, {passed_over} aren't");
    assert_eq!(tap(&stage, &format!("{QUEUE}?rate=5000"), USER).1["rate"], 100);
    stage.node.stop("test");
}

#[test]
fn a_tap_ends_with_its_object_and_with_the_right_to_read() {
    let stage = HttpStage::new();
    let end = |mut events: Events| {
        let event = events.event();
        let data: Value = serde_json::from_str(event.strip_prefix("event: end\ndata: ").expect(&event)).expect("JSON");
        assert_eq!(events.rest(), "", "the stream closes");
        data
    };
    for path in ["/api/queues/v/xq", "/api/exchanges/v/xe"] {
        assert_eq!(stage.ask("PUT", path, r#"{"type": "topic"}"#).0, 201);
    }
    let (queue, _) = tap(&stage, QUEUE, USER);
    let (exchange, _) = tap(&stage, "/api/tap/exchanges/v/xe", USER);
    for path in ["/api/queues/v/xq", "/api/exchanges/v/xe"] {
        assert_eq!(stage.ask("DELETE", path, "").0, 204);
        // A new one of this name is another one.
        assert_eq!(stage.ask("PUT", path, r#"{"type": "topic"}"#).0, 201);
    }
    for (events, reason) in
        [(queue, "the queue 'xq' in vhost 'v' was deleted"), (exchange, "the exchange 'xe' in vhost 'v' was deleted")]
    {
        assert_eq!(end(events), json!({"error": "deleted", "reason": reason, "status": 404}));
    }
    let (events, _) = tap(&stage, QUEUE, USER);
    let body = r#"{"configure": "^x", "write": "^x", "read": "^$"}"#;
    assert_eq!(stage.ask("PUT", "/api/permissions/v/user", body).0, 204);
    let data = end(events);
    assert!(data["reason"].as_str().is_some_and(|text| text.contains("read access to queue 'xq'")), "{data}");
    let (events, _) = tap(&stage, QUEUE, GUEST);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v", "").0, 204);
    assert_eq!(end(events)["error"], "deleted");
    stage.node.stop("test");
}

#[test]
fn only_those_who_may_read_open_a_tap() {
    let stage = HttpStage::new();
    for (path, body) in [
        ("/api/queues/v/q", "{}"),
        ("/api/queues/v/xq", "{}"),
        ("/api/exchanges/v/e", r#"{"type": "topic"}"#),
        ("/api/exchanges/v/xe", r#"{"type": "topic"}"#),
    ] {
        assert_eq!(stage.ask("PUT", path, body).0, 201);
    }
    let status = |path: &str, user: &str| exchange(stage.http, "HEAD", &format!("/api/tap/{path}"), user, "").status;
    for (path, of_user, of_guest) in [
        ("queues/v/xq", 200, 200),
        ("queues/v/q", 401, 200),
        ("queues/v/none", 404, 404),
        ("queues/%2F/q", 404, 404),
        ("exchanges/v/xe", 200, 200),
        ("exchanges/v/e", 401, 200),
        ("exchanges/v/amq.default", 401, 200),
        ("exchanges/v/none", 404, 404),
        ("queues/v/xq?rate=fast", 400, 400),
        ("queues/v/xq?body_bytes=-1", 400, 400),
    ] {
        assert_eq!((status(path, USER), status(path, GUEST)), (of_user, of_guest), "{path}");
    }
    assert_eq!(status("queues/v/xq", ""), 401);
    assert_eq!(exchange(stage.http, "GET", "/api/watch?path=/api/tap/queues/v/xq", GUEST, "").status, 400);
    // Keys that the user may not read are as if they were passed over.
    let body = r#"{"exchange": "xe", "write": ".*", "read": "^a"}"#;
    assert_eq!(stage.ask("PUT", "/api/topic-permissions/v/user", body).0, 201);
    let (mut events, _) = tap(&stage, "/api/tap/exchanges/v/xe", USER);
    publish(&stage, "v/xe", "b", "hidden");
    publish(&stage, "v/xe", "a", "shown");
    let seen = events.data();
    assert_eq!((&seen["routing_key"], &seen["passed_over"]), (&json!("a"), &json!(1)));
    stage.node.stop("test");
}

#[test]
fn taps_have_a_limit_and_leave_nothing_behind() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/xq", "{}").0, 201);
    let handle = stage.node.handle();
    let taps = &handle.broker().taps;
    let own: Vec<_> = (0..4).map(|_| tap(&stage, QUEUE, USER)).collect();
    assert_eq!(exchange(stage.http, "GET", QUEUE, USER, "").status, 503);
    assert!(taps.watch_queues() && !taps.watch_exchanges() && taps.count() == 4);
    let (_, text) = request(stage.prometheus, "GET", "/metrics", "", "");
    assert!(text.lines().any(|line| line == "leveret_taps 4"), "{text}");
    let other = tap(&stage, "/api/tap/exchanges/v/amq.topic", GUEST);
    assert!(taps.watch_exchanges());
    drop((own, other));
    // The node notices the end of a connection on its own.
    let deadline = Instant::now() + Duration::from_secs(30);
    let left = || (taps.count(), taps.watch_queues(), taps.watch_exchanges());
    while left() != (0, false, false) {
        assert!(Instant::now() < deadline, "open taps, of queues, of exchanges: {:?}", left());
        std::thread::yield_now();
    }
    stage.node.stop("test");
}
