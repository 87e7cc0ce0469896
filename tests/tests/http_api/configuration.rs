//! The configuration in the HTTP API, and settings for the API.

use leveret_tests::broker::is_given;
use leveret_tests::node::{Node, Options};
use serde_json::json;

#[test]
fn every_path_has_the_prefix() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("management.path_prefix", "/rabbitmq/"));
    let status = |path: &str| node.http().get(path).expect("an answer").status;
    assert_eq!(status("/rabbitmq/api/overview"), 200);
    assert_eq!(status("/rabbitmq/api/vhosts/%2F/"), 200);
    assert_eq!(status("/api/overview"), 404);
    assert_eq!(status("/rabbitmq/api/none"), 404);
}

#[test]
fn administrators_read_what_is_in_effect_without_passwords() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new().set("heartbeat", 17));
    let http = node.http();
    let put = http.put("/api/users/viewer", &json!({"password": "viewer-password", "tags": "monitoring"}));
    assert_eq!(put.expect("an answer").status, 201);
    let text = http.get("/api/config/effective").expect("an answer").body;
    assert!(text.lines().any(|line| line == "heartbeat = 17"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("# frame_max = ")), "{text}");
    let viewer = http.as_user("viewer", "viewer-password");
    assert_eq!(viewer.get("/api/config/effective").expect("an answer").status, 401);
}
