//! Moves and copies of a queue's messages while the node runs.

use serde_json::{Value, json};

use crate::stage::{Amqp, HttpStage, patience};

fn declare(stage: &HttpStage, queue: &str, arguments: &Value) {
    let body = json!({"durable": true, "arguments": arguments}).to_string();
    assert_eq!(stage.ask("PUT", &format!("/api/queues/{queue}"), &body).0, 201, "{queue}");
}

fn publish(stage: &HttpStage, queue: &str, bodies: &[&str]) {
    for body in bodies {
        let message = json!({"properties": {"delivery_mode": 2, "message_id": body}, "routing_key": queue,
            "payload": body, "payload_encoding": "string"});
        let answer = stage.ask("POST", "/api/exchanges/%2F/amq.default/publish", &message.to_string());
        assert_eq!(answer, (200, json!({"routed": true})));
    }
}

fn begin(stage: &HttpStage, queue: &str, body: &Value) -> (u16, Value) {
    stage.ask("POST", &format!("/api/queues/%2F/{queue}/transfers"), &body.to_string())
}

/// Begins a transfer, and returns it when it has this state.
fn until(stage: &HttpStage, queue: &str, body: &Value, state: &str) -> Value {
    let (status, begun) = begin(stage, queue, body);
    assert_eq!(status, 201, "{begun}");
    reaches(stage, queue, &begun["id"], state)
}

fn reaches(stage: &HttpStage, queue: &str, id: &Value, state: &str) -> Value {
    patience(|| {
        let listed = stage.ask("GET", &format!("/api/queues/%2F/{queue}/transfers"), "").1;
        let found = listed.as_array().expect("a list").iter().find(|one| one["id"] == *id).cloned();
        let found = found.expect("it is listed");
        (found["state"] == state).then_some(found)
    })
}

/// Payloads of the ready messages; of a stream, all.
fn payloads(stage: &HttpStage, queue: &str) -> Vec<String> {
    let listed = stage.ask("GET", &format!("/api/queues/%2F/{queue}/browse?count=1000"), "").1;
    let text = |message: &Value| message["payload"].as_str().expect("a text").to_owned();
    listed.as_array().expect("a list").iter().map(text).collect()
}

#[test]
fn messages_move_and_are_copied_between_queues_of_every_type() {
    for stage in [HttpStage::new(), HttpStage::with_late_answers()] {
        for from in ["classic", "quorum", "stream"] {
            for to in ["classic", "quorum", "stream"] {
                let (source, target) = (format!("{from}-to-{to}"), format!("of-{from}-{to}"));
                declare(&stage, &format!("%2F/{source}"), &json!({"x-queue-type": from}));
                declare(&stage, &format!("%2F/{target}"), &json!({"x-queue-type": to}));
                publish(&stage, &source, &["a", "b", "c"]);
                let copied = until(&stage, &source, &json!({"to": target, "copy": true}), "done");
                assert_eq!((&copied["total"], &copied["done"]), (&json!(3), &json!(3)), "{copied}");
                assert_eq!((payloads(&stage, &source), payloads(&stage, &target)), (texts("abc"), texts("abc")));
                if from == "stream" {
                    let (status, answer) = begin(&stage, &source, &json!({"to": target}));
                    assert_eq!(status, 400, "{answer}");
                    assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains("Copy them")), "{answer}");
                    continue;
                }
                let moved = until(&stage, &source, &json!({"to": target}), "done");
                assert_eq!((&moved["total"], &moved["done"], &moved["to"]), (&json!(3), &json!(3), &json!(target)));
                assert_eq!((payloads(&stage, &source), payloads(&stage, &target)), (texts(""), texts("abcabc")));
                let shown = stage.ask("GET", &format!("/api/queues/%2F/{source}"), "").1;
                assert_eq!(shown["conservation"]["settled"], json!(3), "{shown}");
            }
        }
        stage.node.stop("test");
    }
}

fn texts(letters: &str) -> Vec<String> {
    letters.chars().map(|letter| letter.to_string()).collect()
}

#[test]
fn a_part_moves_by_number_and_through_an_exchange() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({}));
    declare(&stage, "%2F/one", &json!({}));
    declare(&stage, "%2F/other", &json!({}));
    for queue in ["one", "other"] {
        let path = format!("/api/bindings/%2F/e/amq.topic/q/{queue}");
        assert_eq!(stage.ask("POST", &path, r#"{"routing_key": "k.*"}"#).0, 201);
    }
    publish(&stage, "source", &["a", "b", "c", "d"]);
    let browsed = stage.ask("GET", "/api/queues/%2F/source/browse", "").1;
    let numbers: Vec<u64> = (0..4).map(|at| browsed[at]["number"].as_u64().expect("a number")).collect();
    let none = until(&stage, "source", &json!({"to": "one", "first": numbers[3] + 1}), "done");
    assert_eq!(none["total"], json!(0), "{none}");
    until(&stage, "source", &json!({"to": "one", "copy": true}), "done");
    let body = json!({"exchange": "amq.topic", "routing_key": "k.l", "first": numbers[1], "last": numbers[2]});
    let moved = until(&stage, "source", &body, "done");
    assert_eq!((&moved["total"], &moved["done"]), (&json!(2), &json!(2)), "{moved}");
    assert_eq!(payloads(&stage, "source"), ["a", "d"]);
    assert_eq!((payloads(&stage, "one"), payloads(&stage, "other")), (texts("abcdbc"), texts("bc")));
    let body = r#"{"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    let got = stage.ask("POST", "/api/queues/%2F/other/get", body).1;
    assert_eq!((&got[0]["exchange"], &got[0]["routing_key"]), (&json!("amq.topic"), &json!("k.l")));
    assert_eq!((&got[0]["redelivered"], &got[0]["properties"]["message_id"]), (&json!(false), &json!("b")));
    stage.node.stop("test");
}

#[test]
fn a_move_within_a_queue_ends_and_keeps_later_messages_out() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({}));
    publish(&stage, "source", &["a", "b"]);
    let moved = until(&stage, "source", &json!({"to": "source"}), "done");
    assert_eq!((&moved["done"], payloads(&stage, "source")), (&json!(2), texts("ab")));
    stage.node.stop("test");
}

#[test]
fn messages_that_a_consumer_gives_back_move_too() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({"x-queue-type": "quorum"}));
    declare(&stage, "%2F/target", &json!({}));
    publish(&stage, "source", &["a", "b", "c"]);
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.get(1, b"source", false);
    amqp.until(|event| matches!(event, leveret_strict_client::amqp091::Event::Got { .. }));
    until(&stage, "source", &json!({"to": "target"}), "done");
    assert_eq!(payloads(&stage, "target"), ["b", "c"], "what a consumer has stays its own");
    drop(amqp);
    patience(|| (payloads(&stage, "source") == ["a"]).then_some(()));
    until(&stage, "source", &json!({"to": "target"}), "done");
    assert_eq!(payloads(&stage, "target"), ["b", "c", "a"]);
    stage.node.stop("test");
}

#[test]
fn a_move_waits_while_its_target_refuses_and_can_be_cancelled() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({}));
    declare(&stage, "%2F/short", &json!({"x-max-length": 2, "x-overflow": "reject-publish"}));
    publish(&stage, "source", &["a", "b", "c", "d"]);
    let waiting = until(&stage, "source", &json!({"to": "short"}), "waiting");
    assert_eq!((&waiting["total"], &waiting["done"]), (&json!(4), &json!(2)), "{waiting}");
    let reason = waiting["reason"].as_str().expect("a reason");
    assert!(reason.contains("queue 'short' refuses it"), "{reason}");
    assert_eq!((payloads(&stage, "source"), payloads(&stage, "short")), (texts("cd"), texts("ab")));
    // There is room for one more, which then goes on by itself.
    let body = r#"{"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    assert_eq!(stage.ask("POST", "/api/queues/%2F/short/get", body).0, 200);
    patience(|| (payloads(&stage, "short") == ["b", "c"]).then_some(()));
    let path = format!("/api/queues/%2F/source/transfers/{}", waiting["id"]);
    assert_eq!(stage.ask("DELETE", &path, "").0, 204);
    let cancelled = reaches(&stage, "source", &waiting["id"], "cancelled");
    assert_eq!((&cancelled["done"], payloads(&stage, "source")), (&json!(3), texts("d")));
    assert_eq!(stage.ask("GET", "/api/transfers", "").1.as_array().map(Vec::len), Some(1));
    // A second time forgets it.
    assert_eq!((stage.ask("DELETE", &path, "").0, stage.ask("DELETE", &path, "").0), (204, 404));
    assert_eq!(stage.ask("GET", "/api/transfers", "").1, json!([]));
    stage.node.stop("test");
}

#[test]
fn a_transfer_ends_with_its_queue() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({}));
    declare(&stage, "%2F/short", &json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
    publish(&stage, "source", &["a", "b"]);
    let waiting = until(&stage, "source", &json!({"to": "short"}), "waiting");
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/source", "").0, 204);
    // Another queue of this name isn't touched.
    declare(&stage, "%2F/source", &json!({}));
    publish(&stage, "source", &["new"]);
    let stopped = reaches(&stage, "source", &waiting["id"], "stopped");
    assert_eq!(stopped["reason"], json!("the queue was deleted, or converted"));
    assert_eq!(payloads(&stage, "source"), ["new"]);
    stage.node.stop("test");
}

#[test]
fn a_wrong_transfer_says_why() {
    let stage = HttpStage::new();
    declare(&stage, "%2F/source", &json!({}));
    for (body, status, reason) in [
        (json!({}), 400, "neither to nor exchange: name the queue, or the exchange and routing_key"),
        (json!({"to": "none"}), 404, "no queue 'none' in vhost '/'"),
        (json!({"exchange": "none", "routing_key": ""}), 404, "no exchange 'none' in vhost '/'"),
        (json!({"to": "source", "first": 2, "last": 1}), 400, "first is 2 and last 1: the range is empty"),
    ] {
        let (found, answer) = begin(&stage, "source", &body);
        assert_eq!((found, answer["reason"].as_str()), (status, Some(reason)), "{body}");
    }
    assert_eq!(begin(&stage, "none", &json!({"to": "source"})).0, 404);
    stage.node.stop("test");
}

/// `user` may do anything with names that begin with x, in the vhost v.
#[test]
fn a_transfer_takes_read_on_the_queue_and_write_on_the_exchange() {
    let stage = HttpStage::new();
    for queue in ["v/xsource", "v/source", "v/xother"] {
        declare(&stage, queue, &json!({}));
    }
    assert_eq!(stage.ask("PUT", "/api/exchanges/v/xtopic", r#"{"type": "topic"}"#).0, 201);
    let as_user = |queue: &str, body: &str| {
        stage.ask_as(Some("user:user"), "POST", &format!("/api/queues/v/{queue}/transfers"), body)
    };
    assert_eq!(as_user("xsource", r#"{"exchange": "xtopic", "routing_key": "k"}"#).0, 201);
    for (queue, body, object) in [
        ("source", r#"{"to": "xother"}"#, "queue 'source'"),
        ("xsource", r#"{"to": "xother"}"#, "exchange 'amq.default'"),
        ("xsource", r#"{"exchange": "amq.topic", "routing_key": "k"}"#, "exchange 'amq.topic'"),
    ] {
        let (status, answer) = as_user(queue, body);
        assert_eq!(status, 401, "{queue} {body}: {answer}");
        assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains(object)), "{answer}");
    }
    // Only the vhosts that one may see are listed.
    declare(&stage, "%2F/source", &json!({}));
    assert_eq!(begin(&stage, "source", &json!({"to": "source"})).0, 201);
    let listed = stage.ask_as(Some("user:user"), "GET", "/api/transfers", "").1;
    let vhosts: Vec<&Value> = listed.as_array().expect("a list").iter().map(|one| &one["vhost"]).collect();
    assert_eq!(vhosts, [&json!("v")]);
    stage.node.stop("test");
}
