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
    assert_eq!(stage.ask("GET", "/api/queues/quorum/%2F/c/status", "").0, 503);

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
