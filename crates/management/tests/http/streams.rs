//! Streams and super streams in responses, and in metrics.

use leveret_amqp091::FieldTable;
use leveret_strict_client::amqp091::{Consume, Event, Publication};
use serde_json::{Value, json};

use crate::metrics::page;
use crate::stage::{Amqp, HttpStage};

const STREAM: &str = r#"{"durable": true, "arguments": {"x-queue-type": "stream"}}"#;

/// A stream `log` with this many messages.
fn filled(stage: &HttpStage, count: usize) -> Amqp {
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/log", STREAM).0, 201);
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    for _ in 0..count {
        amqp.client.publish(1, Publication::to_queue(b"log", b"four"));
        amqp.until(|event| matches!(event, Event::Confirmed { .. }));
    }
    amqp
}

/// Reads so many messages from the first one on, without acknowledging them.
fn read(amqp: &mut Amqp, prefetch: u16) {
    amqp.client.qos(1, prefetch, false);
    amqp.reply("basic.qos-ok");
    let arguments = FieldTable::new().with("x-stream-offset", "first");
    amqp.client.consume(1, b"log", b"reader", Consume::default(), &arguments);
    for _ in 0..prefetch {
        amqp.until(|event| matches!(event, Event::Delivered(_)));
    }
}

#[test]
fn a_stream_has_its_own_keys_and_lacks_those_of_queues() {
    let stage = HttpStage::new();
    let mut amqp = filled(&stage, 3);
    read(&mut amqp, 2);
    let (status, log) = stage.ask("GET", "/api/queues/%2F/log", "");
    assert_eq!(status, 200);
    let node = json!("leveret@localhost");
    for (key, expected) in [
        ("type", json!("stream")),
        ("leader", node.clone()),
        ("members", json!([node])),
        ("online", json!([node])),
        ("readers", json!({"leveret@localhost": 1})),
        ("messages", json!(3)),
        ("messages_ready", json!(3)),
        ("messages_unacknowledged", json!(0)),
        ("first_offset", json!(0)),
        ("next_offset", json!(3)),
        ("last_chunk_offset", json!(2)),
        ("segments", json!(1)),
        ("policy", Value::Null),
    ] {
        assert_eq!(log[key], expected, "{key}");
    }
    assert!(log["first_timestamp"].as_u64().expect("a time") > 1_600_000_000_000);
    assert_eq!(log["conservation"]["balanced"], true);
    for key in
        ["message_bytes", "messages_ram", "storage_version", "head_message_timestamp", "idle_since", "delivery_limit"]
    {
        assert!(log.get(key).is_none(), "{key}");
    }
    let consumer = &log["consumer_details"][0];
    assert_eq!((&consumer["unacknowledged"], &consumer["prefetch_count"]), (&json!(2), &json!(2)));
    assert_eq!(consumer["arguments"], json!({"x-stream-offset": "first"}));
    let (_, listed) = stage.ask("GET", "/api/queues?columns=name,segments,first_offset", "");
    assert_eq!(listed, json!([{"name": "log", "segments": 1, "first_offset": 0}]));
    let (_, plain) = stage.ask("GET", "/api/queues?disable_stats=true&enable_queue_totals=true", "");
    assert_eq!((&plain[0]["online"], &plain[0]["messages"]), (&json!(["leveret@localhost"]), &json!(3)));
    assert!(plain[0].get("delivery_limit").is_none());
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn lists_are_sorted_by_the_type_of_queues() {
    let stage = HttpStage::new();
    for (name, kind) in [("a", "stream"), ("b", "classic"), ("c", "quorum")] {
        let body = json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{name}"), &body).0, 201);
    }
    let (_, sorted) = stage.ask("GET", "/api/queues?sort=type&columns=name", "");
    assert_eq!(sorted, json!([{"name": "b"}, {"name": "c"}, {"name": "a"}]));
    stage.node.stop("test");
}

#[test]
fn requests_that_streams_do_not_have_are_refused() {
    let stage = HttpStage::new();
    let amqp = filled(&stage, 1);
    let bad = |reason: &str| (400, json!({"error": "bad_request", "reason": reason}));
    let get = json!({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}).to_string();
    assert_eq!(
        stage.ask("POST", "/api/queues/%2F/log/get", &get),
        bad("540 basic.get not supported by stream queues queue 'log' in vhost '/'")
    );
    assert_eq!(
        stage.ask("DELETE", "/api/queues/%2F/log/contents", ""),
        bad("queue.purge not supported by stream queues queue 'log' in vhost '/'")
    );
    let (status, answer) = stage.ask("GET", "/api/queues/quorum/%2F/log/status", "");
    assert_eq!((status, &answer["reason"]), (503, &json!("stream_queue_not_supported")));
    let (status, answer) = stage.ask("PUT", "/api/queues/%2F/no", &STREAM.replace("true", "false"));
    assert_eq!(
        (status, answer["reason"].as_str()),
        (400, Some("invalid property 'non-durable' for queue 'no' in vhost '/'"))
    );
    assert_eq!(
        stage.ask("PUT", "/api/queues/%2F/no", r#"{"node": "other@host"}"#),
        bad("Node other@host is not a cluster member")
    );
    // RabbitMQ ignores the condition.
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/log?if-empty=true", "").0, 400);
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/log", "").0, 204);
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn only_streams_have_tracking() {
    let stage = HttpStage::new();
    let mut amqp = filled(&stage, 1);
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", "{}").0, 201);
    let ask = |path: &str| stage.ask("GET", &format!("/api/stream/%2F/{path}"), "");
    assert_eq!(ask("log/tracking"), (200, json!({"offsets": {}, "writers": {}})));
    assert_eq!(ask("log/tracking?type=offset"), (200, json!({"offsets": {}})));
    assert_eq!(ask("log/tracking?type=writer"), (200, json!({"writers": {}})));
    assert_eq!((ask("q/tracking").0, ask("none/tracking").0), (503, 404));
    amqp.client.qos(1, 1, false);
    amqp.reply("basic.qos-ok");
    let arguments = FieldTable::new().with("x-stream-offset", "first").with("x-stream-automatic-offset-tracking", true);
    amqp.client.consume(1, b"log", b"reader", Consume::default(), &arguments);
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    amqp.client.ack(1, 1, false);
    amqp.client.cancel(1, b"reader");
    amqp.until(|event| matches!(event, Event::CancelOk { .. }));
    assert_eq!(ask("log/tracking?type=offset"), (200, json!({"offsets": {"reader": 0}})));
    // Only who may read the stream may know who reads it.
    assert_eq!(stage.ask("PUT", "/api/users/user", r#"{"password": "user", "tags": "monitoring"}"#).0, 204);
    let permit = |read: &str| json!({"configure": "", "write": "", "read": read}).to_string();
    let as_user = || stage.ask_as(Some("user:user"), "GET", "/api/stream/%2F/log/tracking", "").0;
    assert_eq!(stage.ask("PUT", "/api/permissions/%2F/user", &permit("^$")).0, 201);
    assert_eq!(as_user(), 401);
    assert_eq!(stage.ask("PUT", "/api/permissions/%2F/user", &permit("log")).0, 204);
    assert_eq!(as_user(), 200);
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn deliveries_and_lag_of_streams_are_in_the_metrics() {
    let stage = HttpStage::new();
    let mut amqp = filled(&stage, 5);
    read(&mut amqp, 3);
    amqp.client.ack(1, 2, true);
    for _ in 0..2 {
        amqp.until(|event| matches!(event, Event::Delivered(_)));
    }
    let sums = page(&stage, "/metrics");
    let has = |text: &str, sample: &str| assert!(text.lines().any(|line| line == sample), "{sample} in {text}");
    for (family, count) in [("delivered", 5), ("delivered_consume_manual_ack", 5), ("acknowledged", 2)] {
        for (queue_type, count) in [("stream", count), ("classic", 0), ("quorum", 0)] {
            let labels = format!("protocol=\"amqp091\",queue_type=\"rabbit_{queue_type}_queue\"");
            has(&sums, &format!("rabbitmq_global_messages_{family}_total{{{labels}}} {count}"));
        }
    }
    has(&sums, "rabbitmq_queue_messages_delivered_ack_total 5");
    has(&sums, "rabbitmq_stream_segments 1");
    has(&sums, "rabbitmq_stream_consumer_max_offset_lag 0");
    has(&sums, "rabbitmq_queue_messages_unacked 0");
    for _ in 0..3 {
        amqp.client.publish(1, Publication::to_queue(b"log", b"four"));
        amqp.until(|event| matches!(event, Event::Confirmed { .. }));
    }
    // The reader holds three and gets no more.
    let each = page(&stage, "/metrics/per-object");
    has(&each, "rabbitmq_stream_consumer_max_offset_lag{vhost=\"/\",queue=\"log\"} 3");
    has(&each, "rabbitmq_stream_segments{vhost=\"/\",queue=\"log\"} 1");
    let info = "queue_type=\"rabbit_stream_queue\",membership=\"leader\"";
    has(&each, &format!("rabbitmq_queue_info{{vhost=\"/\",queue=\"log\",{info}}} 1"));
    let detailed = page(&stage, "/metrics/detailed?family=stream_consumer_metrics&family=queue_metrics");
    has(&detailed, "rabbitmq_detailed_stream_consumer_max_offset_lag{vhost=\"/\",queue=\"log\"} 3");
    has(&detailed, "rabbitmq_detailed_stream_segments{vhost=\"/\",queue=\"log\"} 1");
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn a_super_stream_is_made_shown_and_deleted_as_one() {
    let stage = HttpStage::new();
    let path = "/api/stream/super-streams/%2F/sup";
    let body = json!({"partitions": 2, "arguments": {"max-age": "1h", "max-length-bytes": "1000000"}}).to_string();
    assert_eq!(stage.ask("PUT", path, &body), (204, json!("")));
    let arguments = json!({
        "x-max-age": "1h", "x-max-length-bytes": 1_000_000, "x-queue-leader-locator": "balanced", "x-queue-type": "stream",
    });
    let shown = json!({
        "name": "sup",
        "vhost": "/",
        "arguments": arguments,
        "partition_count": 2,
        "partitions": [
            {"name": "sup-0", "routing_key": "0", "order": 0},
            {"name": "sup-1", "routing_key": "1", "order": 1},
        ],
    });
    assert_eq!(stage.ask("GET", path, ""), (200, shown.clone()));
    for list in ["/api/stream/super-streams", "/api/stream/super-streams/%2F"] {
        assert_eq!(stage.ask("GET", list, ""), (200, json!([shown])), "{list}");
    }
    assert_eq!(stage.ask("GET", "/api/stream/super-streams/v", ""), (200, json!([])));
    let (_, exchange) = stage.ask("GET", "/api/exchanges/%2F/sup", "");
    assert_eq!((&exchange["type"], &exchange["durable"]), (&json!("direct"), &json!(true)));
    assert_eq!(exchange["arguments"], json!({"x-super-stream": true}));
    let (_, bindings) = stage.ask("GET", "/api/exchanges/%2F/sup/bindings/source", "");
    assert_eq!(bindings[1]["arguments"], json!({"x-stream-partition-order": 1}));
    let (_, stream) = stage.ask("GET", "/api/queues/%2F/sup-1", "");
    assert_eq!((&stream["type"], &stream["arguments"]), (&json!("stream"), &arguments));
    assert_eq!(stage.ask("DELETE", path, "").0, 204);
    for gone in ["/api/exchanges/%2F/sup", "/api/queues/%2F/sup-0", "/api/queues/%2F/sup-1", path] {
        assert_eq!(stage.ask("GET", gone, "").0, 404, "{gone}");
    }
    assert_eq!(stage.ask("DELETE", path, "").0, 404);
    assert_eq!(stage.ask("PUT", path, r#"{"binding-keys": " emea , apac,"}"#).0, 204);
    let (_, keyed) = stage.ask("GET", path, "");
    assert_eq!(
        (&keyed["partitions"][0]["name"], &keyed["partitions"][1]["routing_key"]),
        (&json!("sup-emea"), &json!("apac"))
    );
    stage.node.stop("test");
}

#[test]
fn a_super_stream_that_cannot_be_is_refused_whole() {
    let stage = HttpStage::new();
    for (name, body) in [("taken-1", "{}"), ("none", STREAM)] {
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{name}"), body).0, 201);
    }
    let rows = [
        ("sup", "{}", "Must specify partitions or binding keys"),
        ("sup", r#"{"partitions": 2, "binding-keys": "a"}"#, "Specify partitions or binding keys, not both"),
        ("sup", r#"{"partitions": 0}"#, "The partition number must be greater than 0"),
        ("sup", r#"{"partitions": -1}"#, "The partition number must be greater than 0"),
        ("sup", r#"{"partitions": "x"}"#, "The partitions must be a number"),
        ("sup", r#"{"partitions": 1001}"#, "The partition number must not exceed 1000"),
        ("sup", r#"{"binding-keys": " , "}"#, "The number of binding keys must be greater than 0"),
        ("sup", r#"{"binding-keys": "a, a"}"#, "The binding key 'a' is there twice"),
        ("sup", r#"{"binding-keys": 5}"#, "binding-keys is 5, expected a text"),
        ("sup", r#"{"partitions": 1, "node": "other@host"}"#, "Node other@host is not a cluster member"),
        ("sup", r#"{"partitions": 1, "arguments": {"age": 1}}"#, "unknown argument 'age' of a super stream"),
        (
            "sup",
            r#"{"partitions": 1, "arguments": {"max-length-bytes": "1gb"}}"#,
            "argument 'max-length-bytes' is '1gb'",
        ),
        ("sup", r#"{"partitions": 2, "arguments": {"max-age": "1x"}}"#, "invalid arg 'x-max-age'"),
        ("taken", r#"{"partitions": 3}"#, "there is already a queue named taken-1"),
        ("amq.direct", r#"{"partitions": 1}"#, "there is already an exchange named amq.direct"),
    ];
    for (name, body, reason) in rows {
        let (status, answer) = stage.ask("PUT", &format!("/api/stream/super-streams/%2F/{name}"), body);
        assert_eq!((status, &answer["error"]), (400, &json!("bad_request")), "{body}");
        assert!(answer["reason"].as_str().expect("a text").starts_with(reason), "{reason}: {}", answer["reason"]);
    }
    let (_, queues) = stage.ask("GET", "/api/queues?columns=name", "");
    assert_eq!(queues, json!([{"name": "none"}, {"name": "taken-1"}]), "nothing was made");
    let (status, answer) = stage.ask("DELETE", "/api/stream/super-streams/%2F/amq.direct", "");
    assert_eq!((status, answer["reason"].as_str().map(|text| text.contains("is no super stream"))), (400, Some(true)));
    stage.node.stop("test");
}

#[test]
fn a_super_stream_needs_permissions_for_all_of_its_parts() {
    let stage = HttpStage::new();
    let ask = |method: &str, name: &str| {
        let path = format!("/api/stream/super-streams/v/{name}");
        stage.ask_as(Some("user:user"), method, &path, r#"{"partitions": 1}"#).0
    };
    assert_eq!((ask("PUT", "x"), ask("PUT", "y")), (204, 401));
    assert_eq!(stage.ask("PUT", "/api/stream/super-streams/v/y", r#"{"partitions": 1}"#).0, 204);
    assert_eq!((ask("DELETE", "y"), ask("DELETE", "x")), (401, 204));
    assert_eq!(stage.ask("GET", "/api/queues/v/y-0", "").0, 200);
    stage.node.stop("test");
}

/// The properties of a message with a filter value, or without one.
fn properties(value: Option<&str>) -> Vec<u8> {
    let Some(value) = value else { return vec![0, 0] };
    let header =
        [&b"\x15x-stream-filter-value"[..], b"S", &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat();
    [&[0x20, 0][..], &(header.len() as u32).to_be_bytes(), &header].concat()
}

#[test]
fn a_stream_is_browsed_by_offset_time_and_filter() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/log", STREAM).0, 201);
    let mut amqp = Amqp::connect(stage.amqp);
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    for (value, body) in [(Some("a"), "zero"), (None, "one"), (Some("b"), "two"), (Some("a"), "three")] {
        amqp.client.publish(1, Publication::to_queue(b"log", body.as_bytes()).with(&properties(value)));
        amqp.until(|event| matches!(event, Event::Confirmed { .. }));
    }
    let browse = |query: &str| {
        let (status, found) = stage.ask("GET", &format!("/api/queues/%2F/log/browse{query}"), "");
        assert_eq!(status, 200, "{query}: {found}");
        let shown =
            |message: &Value| (message["offset"].as_u64().unwrap(), message["payload"].as_str().unwrap().to_owned());
        found.as_array().unwrap().iter().map(shown).collect::<Vec<_>>()
    };
    let all = [(0, "zero".to_owned()), (1, "one".to_owned()), (2, "two".to_owned()), (3, "three".to_owned())];
    for (query, expected) in [
        ("", &all[..]),
        ("?count=2", &all[..2]),
        ("?count=0", &[]),
        ("?offset=first&count=1", &all[..1]),
        ("?offset=2", &all[2..]),
        ("?offset=last", &all[3..]),
        ("?offset=next", &[]),
        ("?offset=9", &[]),
        ("?offset=-3&count=1", &all[1..2]),
        ("?offset=1h", &all),
        ("?timestamp=0", &all),
        ("?timestamp=4102444800000", &[]),
        ("?value=b", &all[2..3]),
        ("?value=c", &[]),
        ("?filter=properties.subject%20IS%20NULL&offset=3", &all[3..]),
        ("?filter=FALSE", &[]),
        ("?filter=header.priority%20%3D%204&value=a&offset=1", &all[3..]),
    ] {
        assert_eq!(browse(query), expected, "{query}");
    }
    for (query, said) in [
        ("?offset=First", "offset is 'First', expected first, last, next, a number, or an interval such as 10m"),
        ("?offset=1&timestamp=5", "offset and timestamp exclude each other"),
        ("?filter=a%20%3D", "filter: "),
        ("?timestamp=now", "not_integer"),
        ("?count=x", "not_integer"),
    ] {
        let (status, answer) = stage.ask("GET", &format!("/api/queues/%2F/log/browse{query}"), "");
        assert!(status == 400 && answer.to_string().contains(said), "{query}: {status} {answer}");
    }
    // Nothing was taken.
    assert_eq!(browse(""), all);
}
