//! Access rules.

use crate::stage::HttpStage;

#[test]
fn users_without_a_tag_are_kept_out() {
    let stage = HttpStage::new();
    let (status, body) = stage.ask_as(Some("plain:plain"), "GET", "/api/whoami", "");
    assert_eq!((status, &body["reason"]), (401, &"Not management user".into()));
    assert_eq!(stage.ask_as(Some("user:user"), "GET", "/api/whoami", "").0, 200);
    stage.node.stop("test");
}

#[test]
fn a_user_sees_only_its_own_vhosts() {
    let stage = HttpStage::new();
    for path in ["/api/queues/%2F/q", "/api/queues/v/x"] {
        assert_eq!(stage.ask("PUT", path, "").0, 201);
    }
    let as_user = |path: &str| stage.ask_as(Some("user:user"), "GET", path, "");
    let (_, all) = as_user("/api/queues");
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!(all[0]["name"], "x");
    assert_eq!(as_user("/api/queues/%2F").0, 404);
    assert_eq!(as_user("/api/queues/%2F/q").0, 404);
    assert_eq!(as_user("/api/overview").1["object_totals"]["queues"], 1);
    assert_eq!(stage.ask("GET", "/api/queues", "").1.as_array().map(Vec::len), Some(2));
    stage.node.stop("test");
}

#[test]
fn permissions_hold_as_over_amqp() {
    let stage = HttpStage::new();
    let as_user = |method: &str, path: &str| stage.ask_as(Some("user:user"), method, path, "");
    assert_eq!(as_user("PUT", "/api/queues/v/x").0, 201);
    let (status, body) = as_user("PUT", "/api/queues/v/y");
    assert_eq!((status, &body["error"]), (401, &"not_authorised".into()));
    assert!(body["reason"].as_str().is_some_and(|reason| reason.starts_with("Access refused.")), "{body}");
    assert_eq!(stage.ask("PUT", "/api/queues/v/y", "").0, 201);
    assert_eq!(as_user("DELETE", "/api/queues/v/y/contents").0, 401);
    assert_eq!(as_user("DELETE", "/api/queues/v/y").0, 401);
    assert_eq!(as_user("DELETE", "/api/queues/v/x").0, 204);
    assert_eq!(as_user("PUT", "/api/queues/none/x").1["reason"], "vhost_not_found");
    let message = r#"{"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}"#;
    let (status, body) = stage.ask_as(Some("user:user"), "POST", "/api/exchanges/v/amq.topic/publish", message);
    let reason = "403 ACCESS_REFUSED - write access to exchange 'amq.topic' in vhost 'v' refused for user 'user'";
    assert_eq!((status, &body["reason"]), (400, &reason.into()));
    // Probes without any permissions.
    assert_eq!(as_user("GET", "/api/aliveness-test/v").0, 200);
    stage.node.stop("test");
}

#[test]
fn every_known_route_requires_authentication() {
    let stage = HttpStage::new();
    for path in [
        "/api/overview",
        "/api/whoami",
        "/api/queues",
        "/api/queues/%2F",
        "/api/queues/%2F/q",
        "/api/health/checks/alarms",
        "/api/health/checks/virtual-hosts",
        "/api/health/checks/port-listener/1",
        "/api/health/checks/protocol-listener/amqp",
        "/api/health/checks/certificate-expiration/1/weeks",
        "/api/health/checks/node-is-quorum-critical",
        "/api/users",
    ] {
        assert_eq!(stage.ask_as(None, "GET", path, "").0, 401, "{path}");
        assert_eq!(stage.ask_as(Some("guest:wrong"), "GET", path, "").0, 401, "{path}");
        assert_eq!(stage.ask_as(Some("plain:plain"), "GET", path, "").0, 401, "{path}");
    }
    for (method, path) in [("PUT", "/api/queues/%2F/q"), ("DELETE", "/api/queues/%2F/q/contents")] {
        assert_eq!(stage.ask_as(None, method, path, "").0, 401, "{path}");
    }
    stage.node.stop("test");
}

#[test]
fn unsupported_and_missing_objects_have_errors_of_their_own() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("GET", "/api/shovels", ""), (200, serde_json::json!([])));
    assert_eq!(stage.ask("GET", "/api/policies/v/p", "").0, 404);
    let (status, body) = stage.ask("PUT", "/api/parameters/shovel/%2F/p", r#"{"value": {}}"#);
    assert_eq!((status, &body["error"]), (501, &"not_implemented".into()));
    assert!(body["reason"].as_str().is_some_and(|reason| reason.contains("shovel")), "{body}");
    assert_eq!(stage.ask("GET", "/api/nothing", "").0, 404);
    assert_eq!(stage.ask("GET", "/none", "").0, 404);
    stage.node.stop("test");
}
