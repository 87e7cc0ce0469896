//! Messages and waits in responses about queues.

use leveret_strict_client::amqp091::{Consume, Event, Publication, QueueDeclare};
use serde_json::{Value, json};

use crate::metrics;
use crate::stage::{Amqp, HttpStage};

fn reasons(waits: &Value) -> Vec<&str> {
    waits.as_array().unwrap().iter().map(|wait| wait["reason"].as_str().unwrap()).collect()
}

fn publish(amqp: &mut Amqp, count: usize) {
    for _ in 0..count {
        // Delivery mode 2.
        amqp.client.publish(1, Publication::to_queue(b"q", b"four").with(&[0x10, 0x00, 2]));
    }
    amqp.until(|event| matches!(event, Event::Confirmed { .. }));
}

#[test]
fn counts_waits_and_conservation() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let show = || stage.ask("GET", "/api/queues/%2F/q", "").1;
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    publish(&mut amqp, 1);
    publish(&mut amqp, 1);
    let queue = show();
    assert_eq!((&queue["messages_ready"], &queue["message_bytes"]), (&2.into(), &8.into()));
    assert_eq!(reasons(&queue["waits"]), ["no_consumers"]);
    assert!(queue["waits"][0]["since"].as_str().unwrap().ends_with("+00:00"));

    amqp.client.qos(1, 1, false);
    amqp.reply("basic.qos-ok");
    amqp.client.consume(1, b"q", b"tag", Consume::default(), &Default::default());
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    let queue = show();
    assert_eq!((&queue["messages_ready"], &queue["messages_unacknowledged"]), (&1.into(), &1.into()));
    assert_eq!(reasons(&queue["waits"]), ["consumers_busy"]);
    let consumer = &queue["consumer_details"][0];
    assert_eq!((&consumer["consumer_tag"], &consumer["prefetch_count"]), (&"tag".into(), &1.into()));
    assert_eq!(consumer["wait"]["reason"], "credit");
    assert_eq!(consumer["channel_details"]["number"], 1);
    assert_eq!(queue["consumers"], 1);

    amqp.client.ack(1, 1, false);
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    let queue = show();
    let conservation = &queue["conservation"];
    assert_eq!((&conservation["accepted"], &conservation["settled"]), (&2.into(), &1.into()));
    assert_eq!((&conservation["remaining"], &conservation["balanced"]), (&1.into(), &true.into()));
    assert_eq!(reasons(&queue["waits"]), ["unacknowledged"]);
    assert_eq!(queue["message_stats"]["publish"], 2);

    let overview = stage.ask("GET", "/api/overview", "").1;
    assert_eq!(overview["queue_totals"]["messages"], 1);
    assert_eq!(overview["object_totals"]["connections"], 1);
    assert_eq!(overview["message_stats"]["publish"], 2);

    let (status, body) = stage.ask("DELETE", "/api/queues/%2F/q?if-unused=true", "");
    assert_eq!((status, &body["reason"]), (400, &"queue 'q' in vhost '/' in use".into()));
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn purge_and_delete_if_empty() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": "true"}"#).0, 201);
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    publish(&mut amqp, 1);
    let (status, body) = stage.ask("DELETE", "/api/queues/%2F/q?if-empty=true", "");
    assert_eq!((status, &body["reason"]), (400, &"queue 'q' in vhost '/' not empty".into()));
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/q/contents", "").0, 204);
    let queue = stage.ask("GET", "/api/queues/%2F/q", "").1;
    assert_eq!((&queue["messages"], &queue["conservation"]["purged"]), (&0.into(), &1.into()));
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/q?if-empty=true", "").0, 204);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/q", "").0, 404);
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn an_exclusive_queue_can_only_be_used_by_its_connection() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    let flags = QueueDeclare { exclusive: true, ..Default::default() };
    amqp.client.declare_queue(1, b"mine", flags, &Default::default());
    amqp.until(|event| matches!(event, Event::QueueDeclared { .. }));
    assert_eq!(stage.ask("GET", "/api/queues/%2F/mine", "").1["exclusive"], true);
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/mine", "").0, 400);
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn pages_names_and_columns() {
    let stage = HttpStage::new();
    for name in ["a1", "a2", "b1"] {
        assert_eq!(stage.ask("PUT", &format!("/api/queues/v/{name}"), "").0, 201);
    }
    let ask = |query: &str| stage.ask("GET", &format!("/api/queues/v?{query}"), "");
    let (_, page) = ask("page=2&page_size=2");
    let counts = ["total_count", "filtered_count", "item_count", "page_count", "page"].map(|key| page[key].as_u64());
    assert_eq!(counts, [Some(3), Some(3), Some(1), Some(2), Some(2)]);
    assert_eq!(page["items"][0]["name"], "b1");
    assert_eq!(ask("page=1&name=A&use_regex=false").1["filtered_count"], 2);
    assert_eq!(ask("page=1&name=1$&use_regex=true").1["filtered_count"], 2);
    assert_eq!(ask("columns=name,vhost").1[0], serde_json::json!({"name": "a1", "vhost": "v"}));
    assert_eq!(ask("page=3&page_size=2").0, 400);
    assert_eq!(ask("page=1&page_size=501").0, 400);
    // An invalid pattern matches nothing, as in RabbitMQ.
    assert_eq!(ask("page=1&use_regex=true&name=%28").1["filtered_count"], 0);
    assert_eq!(ask("sort=name&sort_reverse=true").1[0]["name"], "b1");
    assert_eq!(ask("sort=messages&page=1&page_size=1").1["items"][0]["name"], "a1");
    stage.node.stop("test");
}

#[test]
fn the_timestamp_of_the_head_is_that_of_the_next_message() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let head = || stage.ask("GET", "/api/queues/%2F/q", "").1["head_message_timestamp"].clone();
    assert_eq!(head(), Value::Null);
    for timestamp in [1_700_000_001, 1_700_000_002] {
        let message = json!({
            "properties": {"timestamp": timestamp}, "routing_key": "q", "payload": "", "payload_encoding": "string",
        });
        let answer = stage.ask("POST", "/api/exchanges/%2F/amq.default/publish", &message.to_string());
        assert_eq!(answer.1, json!({"routed": true}));
    }
    assert_eq!(head(), 1_700_000_001);
    let sample = "rabbitmq_detailed_queue_head_message_timestamp{vhost=\"/\",queue=\"q\"} 1700000001";
    let page = metrics::page(&stage, "/metrics/detailed?family=queue_metrics");
    assert!(page.lines().any(|line| line == sample), "{page}");
    let get = r#"{"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    assert_eq!(stage.ask("POST", "/api/queues/%2F/q/get", get).0, 200);
    assert_eq!(head(), 1_700_000_002);
    stage.node.stop("test");
}

#[test]
fn a_vhost_may_accept_declarations_that_differ() {
    let stage = HttpStage::new();
    let declare = || stage.ask("PUT", "/api/queues/v/q", r#"{"durable": true, "arguments": {"x-max-length": 5}}"#).0;
    assert_eq!(stage.ask("PUT", "/api/queues/v/q", r#"{"durable": true}"#).0, 201);
    assert_eq!(declare(), 400);
    for rule in ["accept", "warn"] {
        let body = format!(r#"{{"redeclare_mismatch": "{rule}"}}"#);
        assert_eq!(stage.ask("PUT", "/api/vhosts/v", &body).0, 204);
        assert_eq!(declare(), 204, "{rule}");
        assert_eq!(stage.ask("GET", "/api/vhosts/v", "").1["metadata"]["redeclare_mismatch"], rule);
    }
    let (_, queue) = stage.ask("GET", "/api/queues/v/q", "");
    assert_eq!(queue["arguments"]["x-max-length"], Value::Null, "it stays as it is");
    let (status, answer) = stage.ask("PUT", "/api/vhosts/v", r#"{"redeclare_mismatch": "maybe"}"#);
    assert_eq!(
        (status, &answer["reason"]),
        (400, &"redeclare_mismatch is 'maybe'; expected accept, warn or reject".into())
    );
    assert_eq!(stage.ask("PUT", "/api/vhosts/v", r#"{"redeclare_mismatch": "reject"}"#).0, 204);
    assert_eq!(declare(), 400);
    stage.node.stop("test");
}

#[test]
fn deprecated_features_in_use_are_listed() {
    let stage = HttpStage::with_all(&["deprecated_features.permit.transient_nonexcl_queues = true"]);
    let names = |path: &str| {
        let (_, features) = stage.ask("GET", path, "");
        let name = |feature: &Value| format!("{} {}", feature["name"], feature["state"]).replace('"', "");
        features.as_array().expect("a list").iter().map(name).collect::<Vec<_>>()
    };
    assert!(names("/api/deprecated-features/used").is_empty());
    assert_eq!(stage.ask("PUT", "/api/queues/v/transient", r#"{"durable": false}"#).0, 201);
    assert_eq!(names("/api/deprecated-features/used"), ["transient_nonexcl_queues permitted"]);
    assert!(names("/api/deprecated-features").contains(&"global_qos permitted".to_owned()));
    stage.node.stop("test");
    let stage = HttpStage::with_all(&[
        "deprecated_features.permit.transient_nonexcl_queues = false",
        "deprecated_features.permit.global_qos = false",
    ]);
    let (status, answer) = stage.ask("PUT", "/api/queues/v/transient", r#"{"durable": false}"#);
    assert_eq!(status, 400);
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("Feature `transient_nonexcl_queues` is deprecated.\n"), "{reason}");
    let (_, features) = stage.ask("GET", "/api/deprecated-features", "");
    let denied = |name: &str| {
        let feature = features.as_array().expect("a list").iter().find(|feature| feature["name"] == name);
        feature.expect("it is listed")["state"] == "denied"
    };
    assert!(denied("global_qos") && denied("transient_nonexcl_queues"));
    stage.node.stop("test");
}
