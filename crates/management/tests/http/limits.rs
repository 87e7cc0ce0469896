//! Limits, and protection from deletion.

use leveret_strict_client::amqp091::Event;
use serde_json::json;

use crate::stage::{Amqp, HttpStage, request};

#[test]
fn a_full_vhost_takes_no_further_queue() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/vhost-limits/v/max-queues", r#"{"value": 1}"#).0, 204);
    assert_eq!(stage.ask("PUT", "/api/queues/v/a", "").0, 201);
    let (status, answer) = stage.ask("PUT", "/api/queues/v/b", "");
    assert_eq!(
        (status, answer["reason"].as_str()),
        (400, Some("cannot declare queue 'b': queue limit in vhost 'v' (1) is reached"))
    );
    assert_eq!(stage.ask("DELETE", "/api/vhost-limits/v/max-queues", "").0, 204);
    assert_eq!(stage.ask("PUT", "/api/queues/v/b", "").0, 201);
    stage.node.stop("test");
}

#[test]
fn a_protected_vhost_stays_until_its_protection_is_lifted() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("POST", "/api/vhosts/v/deletion/protection", "").0, 204);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v", "").0, 412);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v/deletion/protection", "").0, 204);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v", "").0, 204);
    assert_eq!(stage.ask("GET", "/api/vhosts/v", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn protected_users_stay_as_they_are() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/users/p", r#"{"password": "x", "tags": "protected"}"#).0, 201);
    for (method, body) in [("PUT", r#"{"password": "y", "tags": ""}"#), ("DELETE", "")] {
        let (status, answer) = stage.ask(method, "/api/users/p", body);
        assert_eq!(status, 400);
        assert_eq!(answer["reason"], "Protected users cannot be modified via the HTTP API");
    }
    stage.node.stop("test");
}

#[test]
fn connections_are_listed_counted_and_closed() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    let (_, list) = stage.ask("GET", "/api/connections", "");
    let name = list[0]["name"].as_str().expect("a name").to_owned();
    assert_eq!((list[0]["protocol"].as_str(), list[0]["channels"].as_u64()), (Some("AMQP 0-9-1"), Some(1)));
    let (_, channels) = stage.ask("GET", "/api/channels?page=1&sort=number", "");
    assert_eq!(channels["items"][0]["name"], format!("{name} (1)"));
    let quoted = name.replace(' ', "%20").replace('>', "%3E");
    assert_eq!(stage.ask("DELETE", &format!("/api/connections/{quoted}"), "").0, 204);
    amqp.until(|event| format!("{event:?}").contains("Closed via management plugin"));
    stage.node.stop("test");
}

#[test]
fn a_client_gets_the_reason_for_closing_its_connection() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    let (_, list) = stage.ask("GET", "/api/connections", "");
    let name = list[0]["name"].as_str().expect("a name").replace(' ', "%20").replace('>', "%3E");
    let headers = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nx-reason: maintenance at noon\r\n";
    assert_eq!(request(stage.http, "DELETE", &format!("/api/connections/{name}"), headers, "").0, 204);
    let mut told = None;
    amqp.until_seen(|event| match event {
        Event::ConnectionClosed(reason) => {
            told = Some((reason.code, reason.text.clone()));
            true
        }
        _ => false,
    });
    assert_eq!(told, Some((320, "CONNECTION_FORCED - maintenance at noon".to_owned())));
    stage.node.stop("test");
}

#[test]
fn a_node_has_a_limit_of_vhosts() {
    // There are two vhosts already.
    let stage = HttpStage::with("vhost_max=3");
    assert_eq!(stage.ask("PUT", "/api/vhosts/third", "").0, 201);
    let (status, answer) = stage.ask("PUT", "/api/vhosts/fourth", "");
    let reason = answer["reason"].as_str().expect("a reason");
    assert_eq!((status, answer["error"].as_str()), (400, Some("bad_request")));
    assert!(reason.starts_with("cannot create vhost 'fourth': vhost limit of 3 is reached"), "{reason}");
    assert_eq!(stage.ask("PUT", "/api/vhosts/third", r#"{"description": "x"}"#).0, 204, "it is there");
    assert_eq!(stage.ask("DELETE", "/api/vhosts/third", "").0, 204);
    assert_eq!(stage.ask("PUT", "/api/vhosts/fourth", "").0, 201);
    stage.node.stop("test");
}

#[test]
fn new_vhosts_get_the_configured_limits_and_users() {
    let stage = HttpStage::with_all(&[
        "default_limits.vhosts.1.pattern=^dev",
        "default_limits.vhosts.1.max_queues=1",
        "default_users.robot.vhost_pattern=^dev",
        "default_users.robot.password=secret",
        "default_users.robot.tags=management, policymaker",
        "default_users.robot.configure=^x",
    ]);
    assert_eq!(stage.ask("GET", "/api/users/robot", "").0, 404);
    let definitions = r#"{"users": [], "vhosts": [{"name": "dev-2"}], "queues": []}"#;
    assert_eq!(stage.ask("PUT", "/api/vhosts/dev-1", "").0, 201);
    assert_eq!(stage.ask("POST", "/api/definitions", definitions).0, 204);
    for vhost in ["dev-1", "dev-2"] {
        let (_, limits) = stage.ask("GET", &format!("/api/vhost-limits/{vhost}"), "");
        assert_eq!(limits, json!([{"vhost": vhost, "value": {"max-queues": 1}}]));
        let (_, permission) = stage.ask("GET", &format!("/api/permissions/{vhost}/robot"), "");
        let expected = json!({"user": "robot", "vhost": vhost, "configure": "^x", "write": ".*", "read": ".*"});
        assert_eq!(permission, expected);
    }
    let (status, robot) = stage.ask_as(Some("robot:secret"), "GET", "/api/whoami", "");
    assert_eq!((status, &robot["tags"]), (200, &json!(["management", "policymaker"])));
    assert_eq!(stage.ask("PUT", "/api/vhosts/other", "").0, 201);
    assert_eq!(stage.ask("GET", "/api/permissions/other/robot", "").0, 404);
    assert_eq!(stage.ask("GET", "/api/vhost-limits/other", "").1, json!([]));
    stage.node.stop("test");
}
