//! The last hours of the node, and events on the line of time.

use serde_json::json;

use crate::stage::HttpStage;

#[test]
fn changes_of_policies_are_events() {
    let stage = HttpStage::new();
    let body = r#"{"pattern": "^x", "definition": {"max-length": 1}}"#;
    assert_eq!(stage.ask("PUT", "/api/policies/v/p", body).0, 201);
    assert_eq!(stage.ask("DELETE", "/api/policies/v/p", "").0, 204);
    let (_, events) = stage.ask("GET", "/api/events", "");
    let seen: Vec<_> =
        events.as_array().expect("a list").iter().map(|event| (&event["kind"], &event["what"])).collect();
    let what = json!("policy 'p' in vhost 'v'");
    assert_eq!(seen, [(&json!("policy_set"), &what), (&json!("policy_deleted"), &what)]);
    let at = events[1]["at"].as_u64().expect("a time");
    let (_, later) = stage.ask("GET", &format!("/api/events?from={}", at + 1), "");
    assert_eq!(later, json!([]));
    assert_eq!(stage.ask("GET", "/api/events?from=x", "").0, 400);
    stage.node.stop("test");
}

#[test]
fn the_node_and_queues_have_columns_and_samples() {
    let stage = HttpStage::new();
    let (_, node) = stage.ask("GET", "/api/history/node", "");
    assert_eq!((&node["step"], &node["columns"][2]), (&json!(60_000), &json!("connections")));
    let width = node["columns"].as_array().expect("a list").len();
    for sample in node["samples"].as_array().expect("a list") {
        assert_eq!(sample.as_array().map(Vec::len), Some(1 + width), "a time before the values: {sample}");
    }
    assert_eq!(stage.ask("PUT", "/api/queues/v/q", "{}").0, 201);
    let (_, queue) = stage.ask("GET", "/api/history/queues/v/q", "");
    assert_eq!((&queue["columns"][0], &queue["samples"]), (&json!("messages_ready"), &json!([])), "it is idle");
    assert_eq!(stage.ask("GET", "/api/history/queues/v/none", "").0, 404);
    stage.node.stop("test");
}
