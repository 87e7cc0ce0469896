//! Which of the permissions to configure, write and read each route takes: every route of a vhost is called with each combination of
//! them. Tags, other vhosts and wrong passwords are in `everybody.rs`.

use std::collections::HashMap;

use crate::stage::HttpStage;

/// Routes of a vhost's objects that take permissions: method, path, body, and which of `crw` they take.
const TAKEN: &[(&str, &str, &str, &str)] = &[
    ("put", "/api/exchanges/{vhost}/{exchange}", r#"{"type": "topic", "durable": true}"#, "c"),
    ("delete", "/api/exchanges/{vhost}/{exchange}", "", "c"),
    (
        "post",
        "/api/exchanges/{vhost}/{exchange}/publish",
        r#"{"properties": {}, "routing_key": "none", "payload": "", "payload_encoding": "string"}"#,
        "w",
    ),
    ("put", "/api/queues/{vhost}/{queue}", QUORUM, "c"),
    ("delete", "/api/queues/{vhost}/{queue}", "", "c"),
    ("delete", "/api/queues/{vhost}/{queue}/contents", "", "r"),
    (
        "post",
        "/api/queues/{vhost}/{queue}/get",
        r#"{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#,
        "r",
    ),
    ("get", "/api/queues/{vhost}/{queue}/browse", "", "r"),
    ("get", "/api/queues/{vhost}/{queue}/parked", "", "r"),
    ("delete", "/api/queues/{vhost}/{queue}/parked", "", "r"),
    ("post", "/api/queues/{vhost}/{queue}/parked/move", r#"{"exchange": "x", "routing_key": "k"}"#, "rw"),
    ("get", "/api/queues/{vhost}/{queue}/delayed", "", "r"),
    ("delete", "/api/queues/{vhost}/{queue}/delayed", "", "r"),
    ("post", "/api/queues/{vhost}/{queue}/transfers", r#"{"exchange": "x", "routing_key": "k"}"#, "rw"),
    ("delete", "/api/queues/{vhost}/{queue}/transfers/{id}", "", "r"),
    ("post", "/api/queues/{vhost}/{queue}/convert", r#"{"type": "classic"}"#, "cr"),
    ("post", "/api/bindings/{vhost}/e/{source}/{kind}/{destination}", r#"{"routing_key": "k", "arguments": {}}"#, "rw"),
    ("delete", "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}", "", "rw"),
    ("put", "/api/stream/super-streams/{vhost}/{name}", r#"{"partitions": 1}"#, "crw"),
    ("delete", "/api/stream/super-streams/{vhost}/{name}", "", "c"),
];

/// Routes that change something and take no permission, because there is nothing that they could change.
const FREE: &[&str] = &["/api/stream/connections/{vhost}/{name}"];

const QUORUM: &str = r#"{"durable": true, "arguments": {"x-queue-type": "quorum"}}"#;

fn target(path: &str) -> String {
    let words = path.split('/').map(|word| match word {
        "{vhost}" => "v",
        "{exchange}" | "{source}" => "x",
        "{queue}" | "{destination}" => "q",
        "{kind}" => "q",
        "{props}" => "k",
        "{name}" => "s",
        word => word,
    });
    words.collect::<Vec<_>>().join("/")
}

/// The objects that are called on, as an administrator makes them.
fn make_objects(stage: &HttpStage) {
    for (method, path, body) in [
        ("PUT", "/api/exchanges/v/x", r#"{"type": "topic", "durable": true}"#),
        ("DELETE", "/api/queues/v/q", ""),
        ("PUT", "/api/queues/v/q", QUORUM),
        ("POST", "/api/bindings/v/e/x/q/q", r#"{"routing_key": "k", "arguments": {}}"#),
        ("PUT", "/api/stream/super-streams/v/s", r#"{"partitions": 1}"#),
    ] {
        stage.ask(method, path, body);
    }
}

#[test]
fn routes_take_the_permissions_of_the_matrix() {
    let stage = HttpStage::new();
    let combinations = ["", "c", "w", "r", "cw", "cr", "rw", "crw"];
    for granted in combinations {
        let pattern = |permission| if granted.contains(permission) { ".*" } else { "^$" };
        let user = format!("user-{granted}");
        let body = format!(r#"{{"password": "{user}", "tags": "management"}}"#);
        assert_eq!(stage.ask("PUT", &format!("/api/users/{user}"), &body).0, 201);
        let body =
            format!(r#"{{"configure": "{}", "write": "{}", "read": "{}"}}"#, pattern('c'), pattern('w'), pattern('r'));
        assert_eq!(stage.ask("PUT", &format!("/api/permissions/v/{user}"), &body).0, 201);
    }
    let mut wrong = Vec::new();
    for (method, path, body, needs) in TAKEN {
        for granted in combinations {
            make_objects(&stage);
            if *method == "put" && path.contains("super-streams") {
                stage.ask("DELETE", "/api/stream/super-streams/v/s", "");
            }
            let credentials = format!("user-{granted}:user-{granted}");
            let (status, answer) = stage.ask_as(Some(&credentials), &method.to_uppercase(), &target(path), body);
            let allowed = needs.chars().all(|need| granted.contains(need));
            // A publish is refused as its channel would be.
            let is_refused =
                status == 401 || answer["reason"].as_str().is_some_and(|text| text.contains("403 ACCESS_REFUSED"));
            if allowed == is_refused || status >= 500 {
                wrong.push(format!("{method} {path} with '{granted}': {status} {answer}, expected {allowed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    stage.node.stop("test");
}

#[test]
fn every_route_of_a_vhost_has_its_permissions_in_the_matrix() {
    let stage = HttpStage::new();
    let (_, document) = stage.ask_as(None, "GET", "/api/openapi.json", "");
    let mut unused: HashMap<(&str, &str), ()> = TAKEN.iter().map(|(method, path, ..)| ((*method, *path), ())).collect();
    let mut missing = Vec::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let access = operation["x-access"].as_str().expect("an access");
            let is_taken = unused.remove(&(method.as_str(), path.as_str())).is_some();
            let is_of_vhost = access.starts_with("management, with permissions in the virtual host");
            // Lists show what anybody with access to the vhost may see.
            if is_of_vhost && !is_taken && method != "get" && !FREE.contains(&path.as_str()) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "without an entry: {missing:?}");
    assert!(unused.is_empty(), "no routes any more: {:?}", unused.keys());
    stage.node.stop("test");
}
