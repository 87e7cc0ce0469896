//! Policies and operator policies: what they change, who may change them, and what a change would do.

use serde_json::{Value, json};

use crate::stage::HttpStage;

fn put(stage: &HttpStage, path: &str, body: Value) -> u16 {
    let (status, answer) = stage.ask("PUT", &format!("/api/{path}"), &body.to_string());
    assert!(matches!(status, 201 | 204), "{path}: {status} {answer}");
    status
}

fn get(stage: &HttpStage, path: &str) -> Value {
    let (status, answer) = stage.ask("GET", &format!("/api/{path}"), "");
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn publish(stage: &HttpStage, exchange: &str, key: &str, count: u32) -> bool {
    let body = json!({"properties": {}, "routing_key": key, "payload": "x", "payload_encoding": "string"});
    let path = format!("/api/exchanges/%2F/{exchange}/publish");
    let mut routed = true;
    for _ in 0..count {
        let (status, answer) = stage.ask("POST", &path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        routed = answer["routed"] == true;
    }
    routed
}

#[test]
fn a_policy_changes_queues_at_once_and_is_listed() {
    let stage = HttpStage::new();
    put(&stage, "queues/%2F/orders", json!({"arguments": {"x-max-length": 4}}));
    put(&stage, "queues/%2F/other", json!({}));
    publish(&stage, "amq.default", "orders", 4);
    let policy =
        json!({"pattern": "^ord", "definition": {"max-length": 2, "message-ttl": 60000}, "apply-to": "queues"});
    assert_eq!(put(&stage, "policies/%2F/short", policy.clone()), 201);
    assert_eq!(put(&stage, "policies/%2F/short", policy), 204);
    let expected = json!({
        "vhost": "/", "name": "short", "pattern": "^ord", "apply-to": "queues", "priority": 0,
        "definition": {"max-length": 2, "message-ttl": 60000},
    });
    assert_eq!(get(&stage, "policies"), json!([expected]));
    assert_eq!(get(&stage, "policies/%2F"), json!([expected]));
    assert_eq!(get(&stage, "policies/%2F/short"), expected);
    let queue = get(&stage, "queues/%2F/orders");
    assert_eq!((&queue["messages"], &queue["policy"]), (&json!(2), &json!("short")));
    assert_eq!(queue["effective_policy_definition"], json!({"max-length": 2, "message-ttl": 60000}));
    let sources = json!({
        "max-length": {"value": 2, "source": "policy"},
        "message-ttl": {"value": 60000, "source": "policy"},
    });
    assert_eq!(queue["effective_arguments"], sources);
    assert_eq!(queue["arguments"]["x-max-length"], 4, "the declaration stays what it is");
    let limit = json!({"pattern": "", "definition": {"max-length": 1}, "apply-to": "queues"});
    put(&stage, "operator-policies/%2F/limit", limit);
    let queue = get(&stage, "queues/%2F/orders");
    assert_eq!((&queue["messages"], &queue["operator_policy"]), (&json!(1), &json!("limit")));
    assert_eq!(queue["effective_arguments"]["max-length"], json!({"value": 1, "source": "operator_policy"}));
    let listed = &get(&stage, "queues/%2F")[0];
    assert_eq!((&listed["policy"], &listed["operator_policy"]), (&json!("short"), &json!("limit")));
    let plain = &get(&stage, "queues/%2F?disable_stats=true")[0];
    assert_eq!((&plain["policy"], plain.get("operator_policy")), (&json!("short"), None));
    assert_eq!(get(&stage, "queues/%2F/other")["effective_policy_definition"], json!({"max-length": 1}));
    for path in ["operator-policies/%2F/limit", "policies/%2F/short"] {
        assert_eq!(stage.ask("DELETE", &format!("/api/{path}"), "").0, 204);
        assert_eq!(stage.ask("DELETE", &format!("/api/{path}"), "").0, 404);
    }
    publish(&stage, "amq.default", "orders", 4);
    let queue = get(&stage, "queues/%2F/orders");
    assert_eq!((&queue["messages"], &queue["policy"]), (&json!(4), &Value::Null));
    assert_eq!(queue["effective_arguments"], json!({"max-length": {"value": 4, "source": "argument"}}));
    stage.node.stop("test");
}

#[test]
fn a_policy_gives_an_exchange_its_alternate_one() {
    let stage = HttpStage::new();
    put(&stage, "exchanges/%2F/narrow", json!({"type": "direct"}));
    put(&stage, "exchanges/%2F/rest", json!({"type": "fanout"}));
    put(&stage, "queues/%2F/rest", json!({}));
    let (status, _) = stage.ask("POST", "/api/bindings/%2F/e/rest/q/rest", "{}");
    assert_eq!(status, 201);
    assert!(!publish(&stage, "narrow", "nobody", 1));
    let policy = json!({"pattern": "^narrow$", "definition": {"alternate-exchange": "rest"}, "apply-to": "exchanges"});
    put(&stage, "policies/%2F/rest", policy);
    assert!(publish(&stage, "narrow", "nobody", 1));
    assert_eq!(get(&stage, "exchanges/%2F/narrow")["policy"], "rest");
    assert_eq!(get(&stage, "exchanges/%2F/rest").get("policy"), None);
    assert_eq!(stage.ask("DELETE", "/api/policies/%2F/rest", "").0, 204);
    assert!(!publish(&stage, "narrow", "nobody", 1));
    stage.node.stop("test");
}

#[test]
fn an_invalid_policy_is_refused_by_each_wrong_value() {
    let stage = HttpStage::new();
    let refused = |path: &str, body: Value| {
        let (status, answer) = stage.ask("PUT", &format!("/api/{path}"), &body.to_string());
        assert_eq!((status, &answer["error"]), (400, &json!("bad_request")), "{answer}");
        answer["reason"].as_str().expect("a text").to_owned()
    };
    let text = refused("policies/%2F/p", json!({"pattern": "(", "definition": {"max-length": -1}, "priority": "x"}));
    assert!(text.starts_with("Validation failed\n\n-1 is not a valid maximum length\npattern should be "), "{text}");
    assert!(text.ends_with("\npriority should be a number, actually was <<\"x\">>\n"), "{text}");
    let text = refused("operator-policies/%2F/p", json!({"pattern": "", "definition": {"queue-mode": "lazy"}}));
    assert!(text.contains("[{<<\"queue-mode\">>,<<\"lazy\">>}] are not recognised policy settings"), "{text}");
    assert_eq!(refused("policies/%2F/p", json!({"pattern": ""})), "[{key_missing,definition}]");
    let body = json!({"pattern": "", "definition": {"max-length": 1}}).to_string();
    assert_eq!(stage.ask("PUT", "/api/policies/none/p", &body).0, 404);
    assert_eq!(stage.ask("PUT", "/api/parameters/policy/%2F/p", &body).0, 400);
    assert_eq!(get(&stage, "policies"), json!([]));
    stage.node.stop("test");
}

#[test]
fn policymakers_change_policies_of_their_vhosts_only() {
    let stage = HttpStage::new();
    put(&stage, "vhosts/other", json!({}));
    put(&stage, "users/maker", json!({"password": "maker", "tags": "policymaker"}));
    put(&stage, "users/manager", json!({"password": "manager", "tags": "management"}));
    for user in ["maker", "manager"] {
        let nothing = json!({"configure": "", "write": "", "read": ""});
        put(&stage, &format!("permissions/%2F/{user}"), nothing);
    }
    let body = json!({"pattern": "", "definition": {"max-length": 1}}).to_string();
    let ask = |user: &str, method: &str, path: &str| {
        stage.ask_as(Some(&format!("{user}:{user}")), method, &format!("/api/{path}"), &body).0
    };
    assert_eq!(ask("maker", "PUT", "policies/%2F/p"), 201);
    assert_eq!(ask("maker", "GET", "policies/%2F/p"), 200);
    assert_eq!(ask("maker", "PUT", "policies/other/p"), 401);
    assert_eq!(ask("maker", "PUT", "operator-policies/%2F/p"), 401);
    assert_eq!(ask("maker", "PUT", "parameters/operator_policy/%2F/p"), 401);
    assert_eq!(ask("manager", "PUT", "policies/%2F/p"), 401);
    assert_eq!(ask("manager", "GET", "policies/%2F"), 200);
    assert_eq!(ask("maker", "DELETE", "policies/%2F/p"), 204);
    stage.node.stop("test");
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let stage = HttpStage::new();
    put(&stage, "queues/%2F/a", json!({"arguments": {"x-max-length": 9}}));
    put(&stage, "queues/%2F/b", json!({"arguments": {"x-max-length": 2}}));
    put(&stage, "queues/%2F/c", json!({}));
    put(&stage, "policies/%2F/all", json!({"pattern": "^c", "definition": {"max-length": 7}, "apply-to": "queues"}));
    let policy = json!({"pattern": "^[ab]$", "definition": {"max-length": 5}});
    let (status, preview) = stage.ask("PUT", "/api/policies/%2F/p?dry_run=true", &policy.to_string());
    assert_eq!(status, 200, "{preview}");
    assert_eq!(preview["queues"], json!({"matched": 2, "changed": 2}));
    let nothing = json!({"before": null, "after": null});
    let expected = json!([
        {
            "queue": "a", "arguments": {"max-length": {"before": 9, "after": 5}},
            "policy": {"before": null, "after": "p"}, "operator_policy": nothing,
        },
        {"queue": "b", "arguments": {}, "policy": {"before": null, "after": "p"}, "operator_policy": nothing},
    ]);
    assert_eq!(preview["changes"], expected);
    assert_eq!(stage.ask("GET", "/api/policies/%2F/p", "").0, 404);
    let (_, preview) = stage.ask("DELETE", "/api/policies/%2F/all?dry_run=true", "");
    assert_eq!(preview["changes"][0]["arguments"], json!({"max-length": {"before": 7, "after": null}}));
    assert_eq!(get(&stage, "queues/%2F/c")["policy"], "all");
    let (status, _) = stage.ask("PUT", "/api/policies/%2F/p?dry_run=true", r#"{"pattern": "(", "definition": {}}"#);
    assert_eq!(status, 400);
    stage.node.stop("test");
}

#[test]
fn definitions_and_parameters_carry_policies() {
    let stage = HttpStage::new();
    put(&stage, "policies/%2F/p", json!({"pattern": "^q", "definition": {"expires": 1000}, "priority": 3}));
    let value = json!({"pattern": "", "definition": {"max-length": 5}, "apply-to": "queues", "priority": 0});
    put(&stage, "parameters/operator_policy/%2F/o", json!({"value": value}));
    let parameter = json!({"component": "operator_policy", "vhost": "/", "name": "o", "value": value});
    assert_eq!(get(&stage, "parameters"), json!([parameter]));
    assert_eq!(get(&stage, "parameters/operator_policy/%2F/o"), parameter);
    assert_eq!(get(&stage, "parameters/policy/%2F")[0]["name"], "p");
    let document = get(&stage, "definitions");
    assert_eq!(document["parameters"], json!([parameter]));
    assert_eq!(document["policies"], get(&stage, "policies"));
    let mut of_vhost = parameter.clone();
    of_vhost.as_object_mut().expect("an object").remove("vhost");
    assert_eq!(get(&stage, "definitions/%2F")["parameters"], json!([of_vhost]));
    let other = HttpStage::new();
    assert_eq!(other.ask("POST", "/api/definitions", &document.to_string()).0, 204);
    assert_eq!(get(&other, "policies"), get(&stage, "policies"));
    assert_eq!(get(&other, "operator-policies"), get(&stage, "operator-policies"));
    assert_eq!(other.ask("DELETE", "/api/parameters/operator_policy/%2F/o", "").0, 204);
    let wrong = json!({"policies": [{"vhost": "/", "name": "w", "pattern": "", "definition": {"nonsense": 1}}]});
    let (status, answer) = other.ask("POST", "/api/definitions", &wrong.to_string());
    assert_eq!(status, 400);
    let text = answer["reason"].as_str().expect("a text");
    assert!(text.contains("are not recognised policy settings") && text.contains("key: \"w\""), "{text}");
    let federated =
        json!({"policies": [{"vhost": "/", "name": "f", "pattern": "", "definition": {"federation-upstream": "u"}}]});
    let (status, answer) = other.ask("POST", "/api/definitions", &federated.to_string());
    assert_eq!(status, 501, "{answer}");
    assert_eq!(other.ask("POST", "/api/definitions?skip_unsupported=true", &federated.to_string()).0, 204);
    stage.node.stop("test");
    other.node.stop("test");
}

#[test]
fn policies_that_match_are_listed_by_precedence() {
    let stage = HttpStage::new();
    put(&stage, "queues/%2F/q", json!({}));
    for (name, priority, pattern) in [("low", 1, "q"), ("high", 5, "^q$"), ("none", 9, "^x")] {
        let policy = json!({"pattern": pattern, "definition": {"max-length": 5}, "priority": priority});
        put(&stage, &format!("policies/%2F/{name}"), policy);
    }
    let names = |path: &str| {
        let found = get(&stage, path);
        found.as_array().into_iter().flatten().map(|policy| policy["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("policies/%2F?queue=q"), ["high", "low"]);
    assert_eq!(names("policies/%2F?exchange=amq.direct"), ["low"], "its name has a q");
    assert_eq!(names("policies"), ["low", "high", "none"], "by priority");
    assert_eq!(stage.ask("GET", "/api/policies/%2F?queue=none", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn new_vhosts_get_the_operator_policies_of_the_configuration() {
    let stage = HttpStage::with_all(&[
        "default_policies.operator.small.vhost_pattern=^device",
        "default_policies.operator.small.queue_pattern=^q",
        "default_policies.operator.small.apply_to=queues",
        "default_policies.operator.small.max_length=3",
        "default_policies.operator.small.message_ttl=1h",
    ]);
    put(&stage, "vhosts/device-1", json!({}));
    put(&stage, "vhosts/other", json!({}));
    let expected = json!([{
        "vhost": "device-1", "name": "small", "pattern": "^q", "apply-to": "queues", "priority": 0,
        "definition": {"max-length": 3, "message-ttl": 3_600_000},
    }]);
    assert_eq!(get(&stage, "operator-policies"), expected);
    stage.node.stop("test");
}

/// Requests with the answers of RabbitMQ 4.3.6; `tests/golden/policies.py` recorded them.
const RECORDED: &str = include_str!("../../../../tests/golden/policies.json");

/// Rows whose answers differ on purpose, with the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("DELETE parameters/policy/golden-policies/first", "RabbitMQ fails with 500"),
    ("PUT policies/golden-policies/wrong-list", "RabbitMQ fails with 500"),
];

#[test]
fn answers_about_policies_are_those_of_rabbitmq() {
    let stage = HttpStage::new();
    let recorded: Value = serde_json::from_str(RECORDED).expect("is JSON");
    let rows = recorded["rows"].as_array().expect("a list");
    let (mut wrong, mut unneeded) = (Vec::new(), Vec::from(DIFFERENT));
    for row in rows {
        let text = |key: &str| row[key].as_str().expect("a text");
        let body = if row["body"].is_null() { String::new() } else { row["body"].to_string() };
        let (status, answer) = stage.ask(text("method"), &format!("/api/{}", text("path")), &body);
        let answer = if answer == "" { Value::Null } else { answer };
        if json!(status) == row["status"] && answer == row["answer"] {
            continue;
        }
        let request = format!("{} {}", text("method"), text("path"));
        let known = unneeded.len();
        unneeded.retain(|(known, _)| *known != request);
        if unneeded.len() == known {
            wrong.push(format!("{request}: {status} {answer} instead of {} {}", row["status"], row["answer"]));
        }
    }
    assert!(wrong.is_empty() && unneeded.is_empty(), "{}\nnot needed: {unneeded:?}", wrong.join("\n"));
    stage.node.stop("test");
}
