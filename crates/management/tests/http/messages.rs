//! Publishing, getting and browsing messages over HTTP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{HttpStage, request};

fn publish(stage: &HttpStage, payload: &str) {
    let body = json!({
        "properties": {"delivery_mode": 2, "headers": {"a": 1, "b": ["c"]}, "content_type": "text/plain"},
        "routing_key": "q",
        "payload": payload,
        "payload_encoding": "string",
    });
    let (status, answer) = stage.ask("POST", "/api/exchanges/%2F/amq.default/publish", &body.to_string());
    assert_eq!((status, answer), (200, json!({"routed": true})));
}

fn payloads(answer: &Value) -> Vec<(&str, bool)> {
    let shown = |message: &Value| message["redelivered"].as_bool().expect("a flag");
    let list = answer.as_array().expect("a list").iter();
    list.map(|message| (message["payload"].as_str().expect("a text"), shown(message))).collect()
}

#[test]
fn browsing_changes_nothing_and_getting_does() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let large = "x".repeat(300_000);
    for payload in ["one", "two", &large] {
        publish(&stage, payload);
    }
    let browse = |query: &str| stage.ask("GET", &format!("/api/queues/%2F/q/browse{query}"), "").1;
    for _ in 0..2 {
        let seen = browse("");
        assert_eq!(payloads(&seen), [("one", false), ("two", false), (&*large, false)]);
        assert_eq!(seen[0]["properties"]["headers"], json!({"a": 1, "b": ["c"]}));
        assert_eq!(seen[2]["message_count"], 0);
    }
    assert_eq!(payloads(&browse("?offset=1&count=1")), [("two", false)]);
    assert_eq!(browse("?offset=2&truncate=5")[0]["payload"], "xxxxx");
    assert_eq!(browse("?offset=3"), json!([]));
    let get = |count: u32, mode: &str| {
        let body = json!({"count": count, "ackmode": mode, "encoding": "auto"}).to_string();
        stage.ask("POST", "/api/queues/%2F/q/get", &body).1
    };
    assert_eq!(payloads(&get(1, "ack_requeue_true")), [("one", false)]);
    assert_eq!(payloads(&browse("")), [("one", true), ("two", false), (&*large, false)]);
    assert_eq!(payloads(&get(2, "ack_requeue_false")), [("one", true), ("two", false)]);
    assert_eq!(payloads(&get(9, "reject_requeue_false")), [(&*large, false)]);
    let (_, queue) = stage.ask("GET", "/api/queues/%2F/q", "");
    assert_eq!((&queue["messages"], &queue["conservation"]["balanced"]), (&json!(0), &json!(true)));
    assert_eq!(queue["message_stats"]["publish"], 3);
    stage.node.stop("test");
}

#[test]
fn a_queue_that_answers_later_is_got_from_and_purged() {
    let stage = HttpStage::with_late_answers();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    ["one", "two", "three"].iter().for_each(|payload| publish(&stage, payload));
    let get = |mode: &str| {
        let body = json!({"count": 2, "ackmode": mode, "encoding": "auto"}).to_string();
        stage.ask("POST", "/api/queues/%2F/q/get", &body).1
    };
    assert_eq!(payloads(&get("ack_requeue_true")), [("one", false), ("two", false)]);
    assert_eq!(payloads(&get("ack_requeue_false")), [("one", true), ("two", true)]);
    let (_, browsed) = stage.ask("GET", "/api/queues/%2F/q/browse", "");
    assert_eq!((payloads(&browsed), &browsed[0]["message_count"]), (vec![("three", false)], &json!(0)));
    let (_, shown) = stage.ask("GET", "/api/queues/%2F/q", "");
    assert_eq!((&shown["messages"], &shown["conservation"]["settled"]), (&json!(1), &json!(2)));
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/q/contents", "").0, 204);
    assert_eq!(payloads(&get("ack_requeue_false")), []);
    stage.node.stop("test");
}

#[test]
fn queues_of_each_type_that_answer_later_are_shown() {
    let stage = HttpStage::with_late_answers();
    for (name, kind) in [("k", "quorum"), ("s", "stream")] {
        let body = json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{name}"), &body).0, 201);
        let (_, shown) = stage.ask("GET", &format!("/api/queues/%2F/{name}"), "");
        assert_eq!((&shown["type"], &shown["messages"]), (&json!(kind), &json!(0)));
    }
    let (_, members) = stage.ask("GET", "/api/queues/quorum/%2F/k/status", "");
    assert_eq!((&members[0]["Raft State"], &members[0]["Last Applied"]), (&json!("leader"), &json!(0)));
    assert_eq!(stage.ask("GET", "/api/queues/%2F/k/parked", "").1["total"], 0);
    let moved = stage.ask("POST", "/api/queues/%2F/k/parked/move", r#"{"to": "s"}"#).1;
    assert_eq!((&moved["moved"], &moved["parked"]), (&json!(0), &json!(0)));
    assert_eq!(stage.ask("GET", "/api/queues/%2F/s/browse", "").1, json!([]));
    assert_eq!(stage.ask("GET", "/api/stream/%2F/s/tracking", "").1, json!({"offsets": {}, "writers": {}}));
    stage.node.stop("test");
}

#[test]
fn a_message_without_a_queue_is_not_routed() {
    let stage = HttpStage::new();
    let body = r#"{"properties": {}, "routing_key": "none", "payload": "x", "payload_encoding": "string"}"#;
    let (status, answer) = stage.ask("POST", "/api/exchanges/%2F/amq.direct/publish", body);
    assert_eq!((status, answer), (200, json!({"routed": false})));
    stage.node.stop("test");
}

#[test]
fn messages_published_over_http_are_in_the_totals() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    publish(&stage, "one");
    let body = r#"{"properties": {}, "routing_key": "none", "payload": "x", "payload_encoding": "string"}"#;
    assert_eq!(stage.ask("POST", "/api/exchanges/%2F/amq.direct/publish", body).0, 200);
    for path in ["/api/overview", "/api/vhosts/%2F"] {
        let (_, shown) = stage.ask("GET", path, "");
        let stats = &shown["message_stats"];
        let counts = ["publish", "confirm", "return_unroutable"].map(|key| stats[key].as_u64());
        assert_eq!(counts, [Some(2), Some(2), Some(1)], "{path}: {stats}");
    }
    let (_, overview) = stage.ask("GET", "/api/overview", "");
    assert_eq!(overview["queue_totals"]["messages_ready"], 1);
    let (_, text) = request(stage.prometheus, "GET", "/metrics", "", "");
    for line in [
        "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} 2",
        "rabbitmq_global_messages_routed_total{protocol=\"amqp091\"} 1",
    ] {
        assert!(text.lines().any(|have| have == line), "no {line} in {text}");
    }
    stage.node.stop("test");
}

#[test]
fn work_on_the_disk_has_a_rate() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let rates = ["io_sync_count_details", "io_write_count_details", "io_write_bytes_details"];
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        publish(&stage, "one");
        let (_, nodes) = stage.ask("GET", "/api/nodes", "");
        if rates.iter().all(|rate| nodes[0][rate]["rate"].as_f64() > Some(0.0)) {
            assert!(nodes[0]["io_write_bytes"].as_u64() > nodes[0]["io_sync_count"].as_u64(), "{nodes}");
            break;
        }
        assert!(Instant::now() < deadline, "{nodes}");
    }
    stage.node.stop("test");
}
