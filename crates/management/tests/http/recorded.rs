//! Status and body of responses as recorded from RabbitMQ.

use leveret_strict_client::amqp091::Event;
use serde_json::{Value, json};

use crate::stage::{Amqp, HttpStage};

macro_rules! recorded {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../../../../tests/golden/http/", $name, ".json"))).unwrap()
    };
}

/// Compares keys and types of `ours` where `theirs` has them.
fn compare(path: &str, ours: &Value, theirs: &Value, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                let path = format!("{path}.{key}");
                match ours.get(key) {
                    Some(have) => compare(&path, have, value, differences),
                    None => differences.push(path),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(have), Some(value)) = (ours.first(), theirs.first()) {
                compare(&format!("{path}[]"), have, value, differences);
            }
        }
        _ if std::mem::discriminant(ours) != std::mem::discriminant(theirs) => {
            differences.push(format!("{path}: {ours} instead of {theirs}"));
        }
        _ => {}
    }
}

#[test]
fn plain_answers_are_the_recorded_ones() {
    let stage = HttpStage::new();
    let is = |recorded: Value, (status, body): (u16, Value)| {
        assert_eq!((&recorded["status"], &recorded["body"]), (&status.into(), &body), "{}", recorded["request"]);
    };
    let get = |path: &str| stage.ask("GET", path, "");
    let put = "/api/queues/%2F/shapes-put";
    is(recorded!("whoami"), get("/api/whoami"));
    is(recorded!("unauthenticated"), stage.ask_as(None, "GET", "/api/overview", ""));
    is(recorded!("wrong-password"), stage.ask_as(Some("guest:none"), "GET", "/api/overview", ""));
    is(recorded!("none-route"), get("/api/shapes-none"));
    is(recorded!("none-queue"), get("/api/queues/%2F/shapes-none"));
    is(recorded!("none-vhost"), get("/api/queues/shapes-none"));
    is(recorded!("wrong-method"), stage.ask("POST", "/api/whoami", ""));
    is(recorded!("put-queue"), stage.ask("PUT", put, r#"{"durable": true}"#));
    is(recorded!("put-queue-again"), stage.ask("PUT", put, r#"{"durable": true}"#));
    is(recorded!("put-queue-inequivalent"), stage.ask("PUT", put, r#"{"durable": false}"#));
    let bad = "/api/queues/%2F/shapes-bad";
    let arguments = r#"{"arguments": {"x-max-length": "ten"}}"#;
    is(recorded!("put-queue-bad-argument"), stage.ask("PUT", bad, arguments));
    let arguments = r#"{"arguments": {"x-queue-type": "none"}}"#;
    is(recorded!("put-queue-bad-type"), stage.ask("PUT", bad, arguments));
    is(recorded!("not-json"), stage.ask("PUT", bad, "{"));
    is(recorded!("purge"), stage.ask("DELETE", "/api/queues/%2F/shapes-put/contents", ""));
    is(recorded!("delete-queue"), stage.ask("DELETE", put, ""));
    is(recorded!("delete-queue-again"), stage.ask("DELETE", put, ""));
    is(recorded!("health-alarms"), get("/api/health/checks/alarms"));
    is(recorded!("health-local-alarms"), get("/api/health/checks/local-alarms"));
    is(recorded!("health-in-service"), get("/api/health/checks/is-in-service"));
    is(recorded!("health-critical"), get("/api/health/checks/node-is-quorum-critical"));
    is(recorded!("health-certificates"), get("/api/health/checks/certificate-expiration/1/weeks"));
    is(recorded!("health-ready"), get("/api/health/checks/ready-to-serve-clients"));
    is(recorded!("health-virtual-hosts"), get("/api/health/checks/virtual-hosts"));
    stage.node.stop("test");
}

#[test]
fn listener_checks_have_the_recorded_shape() {
    let stage = HttpStage::new();
    let is = |recorded: Value, path: &str| {
        let (status, body) = stage.ask("GET", path, "");
        assert_eq!(recorded["status"], status, "{path}");
        let mut differences = Vec::new();
        compare("", &body, &recorded["body"], &mut differences);
        assert!(differences.is_empty(), "{path}: {differences:?}");
    };
    let port = stage.amqp.port();
    is(recorded!("health-port"), &format!("/api/health/checks/port-listener/{port}"));
    is(recorded!("health-port-none"), "/api/health/checks/port-listener/1");
    is(recorded!("health-protocol"), "/api/health/checks/protocol-listener/amqp");
    assert_eq!(stage.ask("GET", "/api/health/checks/protocol-listener/http/prometheus", "").0, 200);
    for spoken in ["AMQP0-9-1", "amqp10", "amqp1.0", "management", "amqp,http"] {
        assert_eq!(stage.ask("GET", &format!("/api/health/checks/protocol-listener/{spoken}"), "").0, 200, "{spoken}");
    }
    for (asked, missing) in [("mqtt", "mqtt"), ("amqps", "amqp/ssl"), ("amqp,mqtt", "mqtt"), ("no,amqp", "no")] {
        let (status, body) = stage.ask("GET", &format!("/api/health/checks/protocol-listener/{asked}"), "");
        assert_eq!((status, &body["missing"]), (503, &serde_json::json!([missing])), "{asked}");
    }
    assert_eq!(stage.ask("GET", "/api/health/checks/port-listener/abc", "").0, 400);
    stage.node.stop("test");
}

#[test]
fn a_full_node_fails_its_check_until_a_connection_is_closed() {
    let stage = HttpStage::with("max_connections=1");
    let check = || stage.ask("GET", "/api/health/checks/below-node-connection-limit", "");
    assert_eq!(check(), (200, json!({"status": "ok"})));
    let mut amqp = Amqp::connect(stage.amqp);
    let (status, body) = check();
    assert_eq!(
        (status, &body["status"], &body["reason"]),
        (503, &json!("failed"), &json!("node connection limit is reached"))
    );
    amqp.client.close("test");
    amqp.until(|event| matches!(event, Event::ConnectionCloseOk));
    while check().0 == 503 {
        std::thread::yield_now();
    }
    stage.node.stop("test");
}

#[test]
fn flags_of_unsupported_features_are_named() {
    let stage = HttpStage::new();
    let enable = |flag: &str| {
        let (status, answer) = stage.ask("PUT", &format!("/api/feature-flags/{flag}/enable"), "");
        (status, answer["error"].as_str().map(str::to_owned), answer["reason"].as_str().map(str::to_owned))
    };
    let of = |status, error: &str, reason: &str| (status, Some(error.to_owned()), Some(reason.to_owned()));
    assert_eq!(enable("message_containers"), (204, None, None));
    assert_eq!(enable("stream_queue"), (204, None, None));
    assert_eq!(enable("stream_single_active_consumer"), (204, None, None));
    assert_eq!(enable("rabbit_exchange_type_local_random"), (204, None, None));
    let reason = "feature flag 'restart_streams': streams of several members aren't built yet";
    assert_eq!(enable("restart_streams"), of(501, "not_implemented", reason));
    assert_eq!(enable("nonsense"), of(400, "bad_request", "unsupported"));
    stage.node.stop("test");
}

/// Keys of RabbitMQ's response that a queue doesn't have here: Erlang's internals.
const LACKING: &[&str] = &["garbage_collection", "reductions"];

#[test]
fn a_queue_has_the_recorded_keys() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let (_, ours) = stage.ask("GET", "/api/queues/%2F/q", "");
    let theirs = recorded!("queue");
    let mut differences = Vec::new();
    compare("", &ours, &theirs["body"], &mut differences);
    let expected = |path: &String| {
        let key = path.trim_start_matches('.');
        LACKING.contains(&key) || key.ends_with("_details") || key == "message_stats"
    };
    differences.retain(|path| !expected(path));
    assert!(differences.is_empty(), "{differences:?}");
    let lacking = |key: &&&str| ours.get(**key).is_some();
    assert_eq!(LACKING.iter().find(lacking), None, "no longer lacking");
    stage.node.stop("test");
}
