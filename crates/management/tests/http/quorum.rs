//! The parts of answers that only quorum queues have.

use serde_json::{Value, json};

use crate::metrics::page;
use crate::stage::HttpStage;

#[test]
fn the_log_of_a_quorum_queue_has_positions() {
    let stage = HttpStage::new();
    for (name, kind) in [("q", "quorum"), ("c", "classic")] {
        let body = json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{name}"), &body).0, 201);
    }
    let status = || stage.ask("GET", "/api/queues/quorum/%2F/q/status", "");
    let positions = |answer: Value| {
        ["Last Log Index", "Last Written", "Last Applied", "Commit Index", "Snapshot Index", "Term"]
            .map(|key| answer[0][key].as_u64().expect("a number"))
    };
    assert_eq!(positions(status().1), [0, 0, 0, 0, 0, 1]);
    let message =
        json!({"routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {}}).to_string();
    for _ in 0..3 {
        assert_eq!(stage.ask("POST", "/api/exchanges/%2F/amq.default/publish", &message).1, json!({"routed": true}));
    }
    let take = json!({"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}).to_string();
    assert_eq!(stage.ask("POST", "/api/queues/%2F/q/get", &take).0, 200);
    assert_eq!(positions(status().1), [3, 3, 3, 3, 1, 1]);
    let failed = json!({"status": "failed", "reason": "classic_queue_not_supported"});
    assert_eq!(stage.ask("GET", "/api/queues/quorum/%2F/c/status", ""), (503, failed));

    for (path, prefix) in
        [("/metrics/per-object", "rabbitmq_"), ("/metrics/detailed?family=ra_metrics", "rabbitmq_detailed_")]
    {
        let text = page(&stage, path);
        let found: Vec<&str> = text.lines().filter(|line| line.contains("_raft_") && !line.starts_with('#')).collect();
        let labels = "{vhost=\"/\",queue=\"q\"}";
        let families =
            [("term", 1), ("commit_index", 3), ("last_applied", 3), ("last_written_index", 3), ("snapshot_index", 1)];
        assert_eq!(found, families.map(|(name, value)| format!("{prefix}raft_{name}{labels} {value}")));
    }
    stage.node.stop("test");
}

/// The answers of a RabbitMQ 4.3.6 that is alone, but for a node that isn't there in `grow`, which it answers with 500.
#[test]
fn the_only_member_stays() {
    let stage = HttpStage::new();
    for (name, kind) in [("q", "quorum"), ("c", "classic")] {
        let body = json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{name}"), &body).0, 201);
    }
    let node = stage.ask("GET", "/api/overview", "").1["node"].as_str().expect("a name").to_owned();
    let (here, other) = (json!({"node": node}).to_string(), json!({"node": "other@host"}).to_string());
    let grow = |strategy: &str| json!({"strategy": strategy, "vhost_pattern": ".*", "queue_pattern": ".*"}).to_string();
    for (method, path, body, code, reason) in [
        ("POST", "%2F/q/replicas/add", &*here, 204, ""),
        ("POST", "%2F/q/replicas/add", &other, 400, "Node is not a cluster member"),
        ("POST", "%2F/q/replicas/add", "{}", 400, "[{key_missing,node}]"),
        ("POST", "%2F/none/replicas/add", &here, 503, "not_found"),
        ("POST", "%2F/c/replicas/add", &here, 503, "classic_queue_not_supported"),
        ("DELETE", "%2F/q/replicas/delete", &here, 503, "last_node"),
        ("DELETE", "%2F/q/replicas/delete", &other, 400, "Node is not a cluster member"),
        ("DELETE", "%2F/c/replicas/delete", &here, 503, "classic_queue_not_supported"),
        ("DELETE", "%2F/none/replicas/delete", "{}", 404, "Not Found"),
        ("POST", &format!("replicas/on/{node}/grow"), &grow("all"), 204, ""),
        ("POST", &format!("replicas/on/{node}/grow"), &grow("odd"), 400, "strategy is 'odd', expected all or even"),
        (
            "POST",
            &format!("replicas/on/{node}/grow"),
            r#"{"strategy": "odd"}"#,
            400,
            "[{key_missing,vhost_pattern},{key_missing,queue_pattern}]",
        ),
        ("POST", "replicas/on/other@host/grow", &grow("all"), 404, "Not Found"),
        ("DELETE", &format!("replicas/on/{node}/shrink"), "", 202, ""),
        ("DELETE", "replicas/on/other@host/shrink", "", 404, "Not Found"),
    ] {
        let (status, answer) = stage.ask(method, &format!("/api/queues/quorum/{path}"), body);
        assert_eq!(
            (status, answer["reason"].as_str().unwrap_or("")),
            (code, reason),
            "{method} {path} {body}: {answer}"
        );
    }
    stage.node.stop("test");
}
