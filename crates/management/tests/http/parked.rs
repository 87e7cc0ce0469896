//! Parked messages that are moved on.

use leveret_strict_client::amqp091::{Event, Publication};
use serde_json::{Value, json};

use crate::stage::{Amqp, HttpStage};

const PARKS: &str = r#"{"x-queue-type": "quorum", "x-delivery-limit": 0}"#;

fn declare(stage: &HttpStage, queue: &str, arguments: &str) {
    let body = format!("{{\"durable\": true, \"arguments\": {arguments}}}");
    assert_eq!(stage.ask("PUT", &format!("/api/queues/{queue}"), &body).0, 201, "{queue}");
}

/// Parks messages with these bodies in a queue of the vhost `/` that allows no failed delivery.
fn park(amqp: &mut Amqp, queue: &str, bodies: &[&str]) {
    for body in bodies {
        amqp.client.publish(1, Publication::to_queue(queue.as_bytes(), body.as_bytes()).with(&[0x10, 0, 2]));
        amqp.until(|event| matches!(event, Event::Confirmed { .. }));
        fail(amqp, queue);
    }
}

/// Gets a message and rejects it, so that it counts as failed.
fn fail(amqp: &mut Amqp, queue: &str) {
    amqp.client.get(1, queue.as_bytes(), false);
    let mut tag = 0;
    amqp.until_seen(|event| match event {
        Event::Got { delivery, .. } => {
            tag = delivery.delivery_tag;
            true
        }
        _ => false,
    });
    amqp.client.reject(1, tag, true);
    // The answer to a later method says that the rejection was carried out.
    amqp.client.get(1, b"nothing", false);
    amqp.until(|event| matches!(event, Event::GetEmpty { .. }));
}

fn connect(stage: &HttpStage) -> Amqp {
    declare(stage, "%2F/nothing", "{}");
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    amqp
}

fn move_parked(stage: &HttpStage, queue: &str, body: &str) -> (u16, Value) {
    stage.ask("POST", &format!("/api/queues/%2F/{queue}/parked/move"), body)
}

/// Numbers, or payloads, of the parked messages.
fn parked(stage: &HttpStage, queue: &str, key: &str) -> Vec<Value> {
    let listed = stage.ask("GET", &format!("/api/queues/%2F/{queue}/parked"), "").1;
    listed["messages"].as_array().expect("a list").iter().map(|message| message[key].clone()).collect()
}

/// Takes all ready messages of a queue; each with exchange, routing key, payload and number of failed deliveries.
fn taken(stage: &HttpStage, queue: &str) -> Vec<Value> {
    let body = r#"{"count": 100, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    let (status, got) = stage.ask("POST", &format!("/api/queues/%2F/{queue}/get"), body);
    assert_eq!(status, 200, "{got}");
    let shown = |message: &Value| {
        let count = message["properties"]["headers"]["x-delivery-count"].clone();
        json!([message["exchange"], message["routing_key"], message["payload"], count])
    };
    got.as_array().expect("a list").iter().map(shown).collect()
}

#[test]
fn parked_messages_go_back_to_another_queue_or_to_an_exchange() {
    for stage in [HttpStage::new(), HttpStage::with_late_answers()] {
        let mut amqp = connect(&stage);
        declare(&stage, "%2F/parks", PARKS);
        declare(&stage, "%2F/other", "{}");
        park(&mut amqp, "parks", &["one", "two", "three", "four"]);
        let numbers = parked(&stage, "parks", "number");
        assert_eq!(numbers.len(), 4);
        // Back: the failed deliveries are counted anew.
        let body = json!({"last": numbers[0]}).to_string();
        assert_eq!(move_parked(&stage, "parks", &body), (200, json!({"moved": 1, "parked": 3})));
        assert_eq!(taken(&stage, "parks"), [json!(["", "parks", "one", null])]);
        // To another queue.
        let body = json!({"to": "other", "first": numbers[1], "last": numbers[1]}).to_string();
        assert_eq!(move_parked(&stage, "parks", &body), (200, json!({"moved": 1, "parked": 2})));
        assert_eq!(taken(&stage, "other"), [json!(["", "parks", "two", null])]);
        // Through an exchange.
        assert_eq!(stage.ask("POST", "/api/bindings/%2F/e/amq.topic/q/other", r#"{"routing_key": "a.*"}"#).0, 201);
        let body = r#"{"exchange": "amq.topic", "routing_key": "a.b"}"#;
        assert_eq!(move_parked(&stage, "parks", body), (200, json!({"moved": 2, "parked": 0})));
        let expected = ["three", "four"].map(|payload| json!(["amq.topic", "a.b", payload, null]));
        assert_eq!(taken(&stage, "other"), expected);
        assert_eq!(move_parked(&stage, "parks", ""), (200, json!({"moved": 0, "parked": 0})));
        let shown = stage.ask("GET", "/api/queues/%2F/parks", "").1;
        assert_eq!((&shown["parked"], &shown["parked_bytes"], &shown["messages"]), (&json!(0), &json!(0), &json!(0)));
        assert_eq!((&shown["conservation"]["parked"], &shown["conservation"]["accepted"]), (&json!(0), &json!(5)));
        drop(amqp);
        stage.node.stop("test");
    }
}

#[test]
fn a_message_parks_again_after_its_deliveries() {
    let stage = HttpStage::new();
    let mut amqp = connect(&stage);
    declare(&stage, "%2F/parks", PARKS);
    park(&mut amqp, "parks", &["poison"]);
    let before = parked(&stage, "parks", "number");
    assert_eq!(move_parked(&stage, "parks", "").1, json!({"moved": 1, "parked": 0}));
    fail(&mut amqp, "parks");
    let after = parked(&stage, "parks", "number");
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn messages_stay_parked_when_their_target_refuses_them() {
    let stage = HttpStage::new();
    let mut amqp = connect(&stage);
    declare(&stage, "%2F/parks", PARKS);
    declare(&stage, "%2F/dead", "{}");
    // The refused ones aren't dead-lettered: they would be in two places.
    let short = r#"{"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead"}"#;
    declare(&stage, "%2F/short", short);
    park(&mut amqp, "parks", &["one", "two", "three"]);
    let numbers = parked(&stage, "parks", "number");
    let (status, answer) = move_parked(&stage, "parks", r#"{"to": "short"}"#);
    assert_eq!((status, &answer["moved"], &answer["parked"]), (200, &json!(2), &json!(1)));
    assert_eq!(answer["stopped_at"], numbers[2]);
    assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains("queue 'short' refuses it")), "{answer}");
    assert_eq!(parked(&stage, "parks", "payload"), ["three"]);
    let (status, answer) = move_parked(&stage, "parks", r#"{"exchange": "amq.direct", "routing_key": "none"}"#);
    assert_eq!((status, &answer["moved"], &answer["stopped_at"]), (200, &json!(0), &numbers[2]));
    assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains("leads it to no queue")), "{answer}");
    assert_eq!(parked(&stage, "parks", "payload"), ["three"]);
    assert_eq!((taken(&stage, "dead").len(), taken(&stage, "short").len()), (0, 2));
    // The rest can be moved as before.
    assert_eq!(move_parked(&stage, "parks", r#"{"to": "short"}"#).1, json!({"moved": 1, "parked": 0}));
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn a_wrong_request_to_move_says_why() {
    let stage = HttpStage::new();
    let mut amqp = connect(&stage);
    declare(&stage, "%2F/parks", PARKS);
    park(&mut amqp, "parks", &["one"]);
    for (body, status, reason) in [
        (r#"{"to": "none"}"#, 404, "no queue 'none' in vhost '/'"),
        (r#"{"exchange": "none", "routing_key": ""}"#, 404, "no exchange 'none' in vhost '/'"),
        (r#"{"exchange": "amq.topic"}"#, 400, "[{key_missing,routing_key}]"),
        (r#"{"routing_key": "k"}"#, 400, "routing_key without an exchange: name the exchange, or a queue in to"),
        (
            r#"{"to": "parks", "exchange": "", "routing_key": "k"}"#,
            400,
            "both to and exchange: messages go to a queue or through an exchange",
        ),
        (r#"{"first": 2, "last": 1}"#, 400, "first is 2 and last 1: the range is empty"),
    ] {
        let (found, answer) = move_parked(&stage, "parks", body);
        assert_eq!((found, answer["reason"].as_str()), (status, Some(reason)), "{body}");
    }
    assert_eq!(move_parked(&stage, "none", "").0, 404);
    assert_eq!(parked(&stage, "parks", "payload"), ["one"]);
    drop(amqp);
    stage.node.stop("test");
}

/// `user` may do anything with names that begin with x, in the vhost v.
#[test]
fn moving_takes_read_on_the_queue_and_write_on_the_exchange() {
    let stage = HttpStage::new();
    for queue in ["v/xparks", "v/parks", "v/xother"] {
        declare(&stage, queue, PARKS);
    }
    assert_eq!(stage.ask("PUT", "/api/exchanges/v/xtopic", r#"{"type": "topic"}"#).0, 201);
    let as_user = |queue: &str, body: &str| {
        stage.ask_as(Some("user:user"), "POST", &format!("/api/queues/v/{queue}/parked/move"), body)
    };
    assert_eq!(as_user("xparks", "").0, 200, "back takes read only");
    assert_eq!(as_user("xparks", r#"{"to": "xparks"}"#).0, 200);
    assert_eq!(as_user("xparks", r#"{"exchange": "xtopic", "routing_key": "k"}"#).0, 200);
    for (queue, body, object) in [
        ("parks", "", "queue 'parks'"),
        ("xparks", r#"{"to": "xother"}"#, "exchange 'amq.default'"),
        ("xparks", r#"{"exchange": "amq.topic", "routing_key": "k"}"#, "exchange 'amq.topic'"),
    ] {
        let (status, answer) = as_user(queue, body);
        assert_eq!(status, 401, "{queue} {body}: {answer}");
        assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains(object)), "{answer}");
    }
    stage.node.stop("test");
}
