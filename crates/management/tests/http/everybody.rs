//! Calls every route without credentials, with a wrong password, with each tag and from another vhost.

use std::collections::HashMap;

use serde_json::Value;

use crate::stage::HttpStage;

/// Statuses recorded from RabbitMQ 4.3.6, one row for each request and one column for each user.
const RECORDED: &str = include_str!("../../../../tests/golden/http-access.tsv");

/// Rows with intended differences, and the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("connections/none", "RabbitMQ fails with 500 where the connection isn't there"),
    ("connections/none/channels", "the same"),
    ("connections/none/sessions", "the same"),
    ("channels/none", "the same"),
    ("shovels", "lists of what isn't built are empty; RabbitMQ had the plugin off"),
    ("federation-links", "the same"),
    ("stream/connections", "the same"),
    ("stream/publishers", "the same"),
    ("stream/consumers", "the same"),
    ("global-parameters/cluster_name", "it is set by the first PUT of cluster-name in both"),
];

/// The body of a request.
fn body(method: &str, path: &str) -> &'static str {
    match (method, path) {
        ("PUT", "cluster-name") => r#"{"name": "leveret@localhost"}"#,
        (_, "queues/quorum/v/q/replicas/add" | "queues/quorum/v/q/replicas/delete") => {
            r#"{"node": "leveret@localhost"}"#
        }
        ("PUT", "queues/v/q") => r#"{"durable": true}"#,
        ("POST", "queues/v/q/get") => r#"{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#,
        ("POST", "queues/v/q/actions") => r#"{"action": "sync"}"#,
        ("PUT", "exchanges/v/x") => r#"{"type": "topic", "durable": true}"#,
        ("POST", "exchanges/v/x/publish") => {
            r#"{"properties": {}, "routing_key": "none", "payload": "", "payload_encoding": "string"}"#
        }
        ("POST", "bindings/v/e/x/q/q" | "bindings/v/e/x/e/y") => r#"{"routing_key": "k", "arguments": {}}"#,
        ("PUT", "policies/v/p" | "operator-policies/v/p") => {
            r#"{"pattern": "^none$", "definition": {"max-length": 1}}"#
        }
        ("PUT", "users/extra") => r#"{"password": "x", "tags": ""}"#,
        ("POST", "users/bulk-delete") => r#"{"users": ["none"]}"#,
        ("PUT", "permissions/v/mgmt") => r#"{"configure": ".*", "write": ".*", "read": ".*"}"#,
        ("PUT", "topic-permissions/v/plain") => r#"{"exchange": "amq.topic", "write": ".*", "read": ".*"}"#,
        ("PUT", "vhost-limits/v/max-queues" | "user-limits/plain/max-channels") => r#"{"value": 1000}"#,
        ("PUT", "parameters/none/v/p" | "global-parameters/extra") => r#"{"value": 1}"#,
        ("PUT", _) | ("POST", _) => "{}",
        _ => "",
    }
}

fn scene(stage: &HttpStage) {
    let put = |path: &str, body: &str| {
        let (status, answer) = stage.ask("PUT", path, body);
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
    };
    put("/api/vhosts/w", "");
    let everything = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    for (name, tags, vhost) in [
        ("plain", "", Some("v")),
        ("mgmt", "management", Some("v")),
        ("other", "management", Some("w")),
        ("policy", "policymaker", Some("v")),
        ("mon", "monitoring", None),
        ("admin", "administrator", None),
        ("monv", "monitoring", Some("v")),
    ] {
        put(&format!("/api/users/{name}"), &format!(r#"{{"password": "{name}", "tags": "{tags}"}}"#));
        if let Some(vhost) = vhost {
            put(&format!("/api/permissions/{vhost}/{name}"), everything);
        }
    }
    put("/api/queues/v/q", r#"{"durable": true}"#);
    for exchange in ["x", "y"] {
        put(&format!("/api/exchanges/v/{exchange}"), r#"{"type": "topic", "durable": true}"#);
    }
    for destination in ["q/q", "e/y"] {
        let path = format!("/api/bindings/v/e/x/{destination}");
        assert_eq!(stage.ask("POST", &path, r#"{"routing_key": "k", "arguments": {}}"#).0, 201);
    }
}

fn credentials(user: &str) -> Option<String> {
    match user {
        "nobody" => None,
        "guest-wrong" => Some("guest:wrong".to_owned()),
        user => Some(format!("{user}:{user}")),
    }
}

#[test]
fn every_user_may_do_the_same_as_in_rabbitmq() {
    let stage = HttpStage::new();
    scene(&stage);
    let mut lines = RECORDED.lines();
    let users: Vec<&str> = lines.next().expect("a head").split('\t').skip(2).collect();
    let mut unused: HashMap<&str, &str> = DIFFERENT.iter().copied().collect();
    let mut wrong = Vec::new();
    for line in lines {
        let mut fields = line.split('\t');
        let (method, path) = (fields.next().expect("a method"), fields.next().expect("a path"));
        let target = format!("/api/{}", path.replace("NODE", "leveret%40localhost"));
        for (user, recorded) in users.iter().zip(fields) {
            let (status, _) = stage.ask_as(credentials(user).as_deref(), method, &target, body(method, path));
            if status.to_string() == recorded {
                continue;
            }
            match DIFFERENT.iter().find(|(different, _)| *different == path) {
                Some((different, _)) => {
                    unused.remove(different);
                    // A user refused by RabbitMQ is refused here too.
                    if recorded == "401" && !matches!(status, 401 | 404 | 501) {
                        wrong.push(format!("{method} {path} as {user}: {status}, recorded {recorded}"));
                    }
                }
                None => wrong.push(format!("{method} {path} as {user}: {status}, recorded {recorded}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
    unused.remove("global-parameters/cluster_name");
    assert!(unused.is_empty(), "no longer different: {unused:?}");
    stage.node.stop("test");
}

#[test]
fn every_route_authenticates_as_its_description_says() {
    let stage = HttpStage::new();
    scene(&stage);
    let (_, document) = stage.ask_as(None, "GET", "/api/openapi.json", "");
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let method = method.to_uppercase();
            let access = operation["x-access"].as_str().expect("an access");
            if path.ends_with("/maintenance") && method != "GET" {
                // It would lock out all later requests.
                continue;
            }
            // The objects don't exist: an authorised user gets 404, and nothing changes.
            let target = path.split('/').map(|word| match word {
                "{vhost}" => "v",
                "{user}" => "nobody-of-that-name",
                word if word.starts_with('{') => "none",
                word => word,
            });
            let target = target.collect::<Vec<_>>().join("/");
            let status = |user: &str| stage.ask_as(credentials(user).as_deref(), &method, &target, "").0;
            let turned_away = |user: &str| assert_eq!(status(user), 401, "{method} {target} as {user} ({access})");
            count += 1;
            if access == "anybody" {
                if path != "/api/login" {
                    assert_ne!(status("nobody"), 401, "{method} {target}");
                }
                continue;
            }
            ["nobody", "guest-wrong", "plain"].into_iter().for_each(turned_away);
            let tags: &[&str] = match access {
                "administrator" | "the user itself, or administrator" => &["mgmt", "policy", "mon"],
                "monitoring" | "the user itself, or monitoring" => &["mgmt", "policy"],
                "policymaker" => &["mgmt", "mon"],
                _ => &[],
            };
            tags.iter().copied().for_each(turned_away);
            if access.starts_with("management, with permissions") {
                assert_eq!(status("other"), 404, "{method} {target} from another vhost");
            }
        }
    }
    assert!(count > 120, "{count} routes");
    let unknown = |value: &Value| value["error"].as_str() == Some("Object Not Found");
    assert!(unknown(&stage.ask("GET", "/api/none", "").1));
    stage.node.stop("test");
}
