//! Limits and protection.

use crate::stage::{Amqp, Stage};

#[test]
fn a_full_vhost_takes_no_further_queue() {
    let stage = Stage::new();
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
    let stage = Stage::new();
    assert_eq!(stage.ask("POST", "/api/vhosts/v/deletion/protection", "").0, 204);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v", "").0, 412);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v/deletion/protection", "").0, 204);
    assert_eq!(stage.ask("DELETE", "/api/vhosts/v", "").0, 204);
    assert_eq!(stage.ask("GET", "/api/vhosts/v", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn protected_users_stay_as_they_are() {
    let stage = Stage::new();
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
    let stage = Stage::new();
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
