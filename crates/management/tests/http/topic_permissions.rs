//! `/api/topic-permissions`, with RabbitMQ's answers.

use serde_json::json;

use crate::stage::HttpStage;

const PATH: &str = "/api/topic-permissions/v/user";

#[test]
fn they_are_set_shown_and_cleared_as_in_rabbitmq() {
    let stage = HttpStage::new();
    let get = |path: &str| stage.ask("GET", path, "");
    let put = |path: &str, body: &str| stage.ask("PUT", path, body);
    let missing = (404, json!({"error": "Object Not Found", "reason": "Not Found"}));
    let empty = json!("");
    assert_eq!(get("/api/topic-permissions"), (200, json!([])));
    assert_eq!(get(PATH), missing);
    assert_eq!(stage.ask("DELETE", PATH, ""), missing);
    let body = r#"{"exchange": "amq.topic", "write": "^a", "read": "^{username}"}"#;
    assert_eq!(put(PATH, body), (201, empty.clone()));
    assert_eq!(put(PATH, body), (204, empty.clone()));
    let all = json!([
        {"user": "user", "vhost": "v", "exchange": "amq.topic", "write": "^a", "read": "^{username}"}
    ]);
    let places =
        [PATH, "/api/topic-permissions", "/api/vhosts/v/topic-permissions", "/api/users/user/topic-permissions"];
    for path in places {
        assert_eq!(get(path), (200, all.clone()), "{path}");
    }
    assert_eq!(get("/api/vhosts/%2F/topic-permissions"), (200, json!([])));
    assert_eq!(get("/api/vhosts/none/topic-permissions"), missing);
    assert_eq!(get("/api/users/none/topic-permissions"), missing);
    assert_eq!(stage.ask("DELETE", PATH, ""), (204, empty));
    assert_eq!(get(PATH), missing);
}

#[test]
fn invalid_bodies_are_refused_in_rabbitmqs_words() {
    let stage = HttpStage::new();
    let refused = |path: &str, body: &str| {
        let (status, answer) = stage.ask("PUT", path, body);
        assert_eq!((status, &answer["error"]), (400, &json!("bad_request")), "{answer}");
        answer["reason"].clone()
    };
    let body = r#"{"exchange": "amq.topic", "write": "^a", "read": ""}"#;
    assert_eq!(refused("/api/topic-permissions/none/user", body), "vhost_or_user_not_found");
    assert_eq!(refused("/api/topic-permissions/v/none", body), "vhost_or_user_not_found");
    let other = r#"{"exchange": "other", "write": "^a", "read": ""}"#;
    assert_eq!(refused(PATH, other), json!(["no_such_exchange", "other"]));
    assert_eq!(refused(PATH, r#"{"exchange": "amq.topic", "write": ""}"#), "[{key_missing,read}]");
    assert_eq!(refused(PATH, r#"{"exchange": "amq.topic"}"#), "[{key_missing,write},{key_missing,read}]");
    assert_eq!(refused(PATH, "{"), "not_json");
    let malformed = refused(PATH, r#"{"exchange": "amq.topic", "write": "[", "read": ""}"#);
    assert!(malformed.as_str().is_some_and(|text| text.contains("invalid write pattern '['")), "{malformed}");
}

#[test]
fn only_administrators_have_access_to_topic_permissions() {
    let stage = HttpStage::new();
    let not_allowed = (401, json!({"error": "not_authorised", "reason": "Not administrator user"}));
    let body = r#"{"exchange": "amq.topic", "write": "^a", "read": ""}"#;
    for (method, path, body) in [
        ("GET", "/api/topic-permissions", ""),
        ("GET", PATH, ""),
        ("PUT", PATH, body),
        ("DELETE", PATH, ""),
        ("GET", "/api/vhosts/v/topic-permissions", ""),
        ("GET", "/api/users/user/topic-permissions", ""),
    ] {
        assert_eq!(stage.ask_as(Some("user:user"), method, path, body), not_allowed, "{method} {path}");
    }
}
