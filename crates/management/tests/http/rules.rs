//! Configured rules of the management API for bodies, names and passwords.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::stage::{HttpStage, request};

#[test]
fn an_undecodable_name_is_refused_on_every_route() {
    let stage = HttpStage::new();
    for (method, path) in [
        ("PUT", "/api/queues/%2F/u%ff"),
        ("DELETE", "/api/queues/%2F/u%fd"),
        ("PUT", "/api/queues/%2F/p%zz"),
        ("PUT", "/api/users/%ff"),
        ("PUT", "/api/vhosts/%2"),
        ("GET", "/api/nodes/%ff"),
        ("GET", "/api/queues?columns=%ff"),
        ("GET", "/api/exchanges?name=%zz&page=1"),
        ("GET", "/api/health/checks/protocol-listener/%ff"),
        ("POST", "/api/bindings/%2F/e/a%ff/q/b"),
        ("DELETE", "/api/queues/%2F/q?if-empty=%ff"),
    ] {
        let (status, answer) = stage.ask(method, path, "{\"password\": \"x\", \"tags\": \"\"}");
        assert_eq!((status, &answer["error"]), (400, &"bad_request".into()), "{method} {path}: {answer}");
    }
    assert_eq!(stage.ask("GET", "/api/queues", "").1, serde_json::json!([]));
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/p%25zz%C3%A4", "{}").0, 201);
    assert_eq!(stage.ask("GET", "/api/queues?columns=name", "").1, serde_json::json!([{"name": "p%zzä"}]));
    let (status, _) = request(stage.prometheus, "GET", "/metrics/detailed?family=%ff", "", "");
    assert_eq!(status, 400);
    stage.node.stop("test");
}

#[test]
fn line_ends_are_no_part_of_a_declared_name() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/a%0D%0Ab", "{}").0, 201);
    assert_eq!(stage.ask("PUT", "/api/exchanges/%2F/e%0Ax", "{\"type\": \"direct\"}").0, 201);
    assert_eq!(stage.ask("POST", "/api/bindings/%2F/e/e%0Ax/q/a%0Ab", "{}").0, 201);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/ab?columns=name", "").1["name"], "ab");
    assert_eq!(stage.ask("GET", "/api/bindings/%2F/e/ex/q/ab", "").1.as_array().map(Vec::len), Some(1));
    assert_eq!(stage.ask("DELETE", "/api/queues/%2F/a%0D%0Ab", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn a_body_is_no_longer_than_configured() {
    let stage = HttpStage::with_all(&["management.http.max_body_size=100", "management.http.max_definitions_size=200"]);
    let body = |length: usize| format!("{{\"arguments\": {{}}, \"x\": \"{}\"}}", "y".repeat(length));
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", &body(10)).0, 201);
    let (status, answer) = stage.ask("PUT", "/api/queues/%2F/r", &body(100));
    assert_eq!(status, 400);
    assert!(
        answer["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("size limit of 100 bytes (management.http.max_body_size"))
    );
    assert_eq!(stage.ask("POST", "/api/definitions", &body(100)).0, 204);
    assert_eq!(stage.ask("POST", "/api/definitions", &body(200)).0, 400);
    stage.node.stop("test");
}

/// Two bodies in progress exceed the limit: the second request is told to retry, and succeeds once the first is done.
#[test]
fn bodies_of_all_requests_have_a_limit() {
    let stage = HttpStage::with_all(&["management.http.max_bodies_size=1000"]);
    let body = format!("{{\"x\": \"{}\"}}", "y".repeat(400));
    let ask = || stage.ask("POST", "/api/definitions", &body);
    let mut first = TcpStream::connect(stage.http).expect("connects");
    write!(
        first,
        "POST /api/definitions HTTP/1.1\r\nhost: test\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\ncontent-length: 900\r\n\r\n\
         {}",
        "x".repeat(800)
    )
    .expect("is sent");
    // Only responses to other requests reveal that the node has read it.
    let refused = std::iter::repeat_with(ask).find(|(status, _)| *status != 204);
    let (status, answer) = refused.expect("it is read at last");
    assert_eq!(status, 503);
    let names_the_key = |reason: &str| reason.contains("management.http.max_bodies_size");
    assert!(answer["reason"].as_str().is_some_and(names_the_key), "{answer}");
    write!(first, "{}", "x".repeat(100)).expect("is sent");
    let mut status = [0; 12];
    first.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 400", "what it sent is no JSON");
    let accepted = std::iter::repeat_with(ask).find(|(status, _)| *status != 503);
    assert_eq!(accepted.map(|(status, _)| status), Some(204));
    stage.node.stop("test");
}

#[test]
fn a_body_of_small_values_is_refused_before_it_takes_memory() {
    let stage = HttpStage::new();
    let body = format!("{{\"x\": [{}0]}}", "0,".repeat(1 << 20));
    let (status, answer) = stage.ask("PUT", "/api/queues/%2F/q", &body);
    assert_eq!(status, 400);
    assert!(answer["reason"].as_str().is_some_and(|reason| reason.contains("bytes of memory")), "{answer}");
    // Definitions ignore unknown parts.
    assert_eq!(stage.ask("POST", "/api/definitions", &body).0, 204);
    stage.node.stop("test");
}

#[test]
fn no_password_is_accepted_if_basic_authentication_is_off() {
    let stage = HttpStage::with("management.disable_basic_auth=true");
    let (status, answer) = stage.ask("GET", "/api/whoami", "");
    assert_eq!(status, 401);
    assert!(
        answer["reason"].as_str().is_some_and(|reason| reason.contains("management.disable_basic_auth")),
        "{answer}"
    );
    assert_eq!(stage.ask_as(None, "GET", "/api/health/checks/is-in-service", "").0, 200);
    stage.node.stop("test");
}

#[test]
fn the_api_description_asks_for_a_password_if_configured() {
    let stage = HttpStage::with("management.require_auth_for_api_reference=true");
    assert_eq!(stage.ask_as(None, "GET", "/api/openapi.json", "").0, 401);
    assert_eq!(stage.ask("GET", "/api/openapi.json", "").0, 200);
    stage.node.stop("test");
}

#[test]
fn restrictions_refuse_even_administrators() {
    let stage = HttpStage::with_all(&[
        "management.restrictions.operator_policy_changes.disabled=true",
        "management.restrictions.quorum_queue_replica_operations.disabled=true",
    ]);
    for (method, path) in [
        ("PUT", "/api/operator-policies/%2F/p"),
        ("DELETE", "/api/operator-policies/%2F/p"),
        ("POST", "/api/queues/quorum/%2F/q/replicas/add"),
        ("DELETE", "/api/queues/quorum/%2F/q/replicas/delete"),
    ] {
        let (status, answer) = stage.ask(method, path, "{}");
        assert_eq!(status, 405, "{method} {path}");
        assert!(
            answer["reason"].as_str().is_some_and(|reason| reason.contains("management.restrictions.")),
            "{answer}"
        );
    }
    stage.node.stop("test");
}

#[test]
fn lists_of_streams_are_empty_where_there_are_none() {
    let stage = HttpStage::new();
    for kind in ["connections", "publishers", "consumers"] {
        for vhost in ["", "/%2F"] {
            assert_eq!(stage.ask("GET", &format!("/api/stream/{kind}{vhost}"), ""), (200, serde_json::json!([])));
        }
        assert_eq!(stage.ask("GET", &format!("/api/stream/{kind}/nope"), "").0, 404);
    }
    assert_eq!(stage.ask("GET", "/api/stream/connections/%2F/x/consumers", "").0, 404);
    stage.node.stop("test");
}
