//! Definitions that RabbitMQ 3.8 to 4.3 exported.

use serde_json::{Value, json};

use crate::stage::HttpStage;

/// An export of 3.8 with what newer versions don't have any more, and with what this broker doesn't have.
fn earlier() -> Value {
    json!({
        "rabbit_version": "3.8.9",
        "rabbitmq_version": "3.8.9",
        "product_name": "RabbitMQ",
        "users": [{"name": "app", "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
                   "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "monitoring", "limits": {}}],
        "vhosts": [{"name": "/", "limits": [], "metadata": {"description": "", "default_queue_type": "undefined"}}],
        "permissions": [{"user": "app", "vhost": "/", "configure": "^(?!amq\\.).*", "write": ".*", "read": "^(?!amq\\.|dead).*"}],
        "topic_permissions": [{"user": "app", "vhost": "/", "exchange": "amq.topic", "write": "^(?!secret\\.)", "read": ".*"}],
        "parameters": [{"component": "operator_policy", "name": "most", "vhost": "/",
                        "value": {"pattern": "^(?!big)", "apply-to": "queues", "priority": 0, "definition": {"max-length": 7}}}],
        "global_parameters": [
            {"name": "cluster_name", "value": "old@host"},
            {"name": "mqtt_port_to_vhost_mapping", "value": {"1883": "/"}},
            {"name": "cluster_tags", "value": {"region": "eu"}},
        ],
        "policies": [
            {"vhost": "/", "name": "ha", "pattern": "^(?!amq\\.).*", "apply-to": "queues", "priority": 1,
             "definition": {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "message-ttl": 5000,
                            "queue-master-locator": "min-masters"}},
        ],
        "queues": [
            {"name": "mirrored", "vhost": "/", "durable": true, "auto_delete": false,
             "arguments": {"x-queue-master-locator": "min-masters", "x-ha-policy": "all", "x-queue-mode": "lazy"}},
            {"name": "transient", "vhost": "/", "durable": false, "auto_delete": false, "arguments": {}},
            {"name": "quorum", "vhost": "/", "durable": true, "auto_delete": false, "type": "quorum",
             "arguments": {"x-queue-type": "quorum"}},
        ],
        "exchanges": [{"name": "x", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false, "internal": false,
                       "arguments": {}}],
        "bindings": [
            {"source": "x", "vhost": "/", "destination": "mirrored", "destination_type": "queue", "routing_key": "a.#",
             "arguments": {}},
            {"source": "amq.direct", "vhost": "/", "destination": "amq.gen-of-a-connection", "destination_type": "queue",
             "routing_key": "k", "arguments": {}},
        ],
    })
}

fn import(stage: &HttpStage, query: &str, document: &Value) -> (u16, Value) {
    stage.ask("POST", &format!("/api/definitions{query}"), &document.to_string())
}

#[test]
fn an_export_of_an_earlier_version_is_imported_and_kept() {
    let stage = HttpStage::new();
    let document = earlier();
    let (status, preview) = import(&stage, "?dry_run=true", &document);
    assert_eq!((status, &preview["would_be_imported"]), (200, &json!(true)), "{preview}");
    for named in [
        "key 'ha-mode' of policies: 'ha' in vhost '/'",
        "key 'queue-master-locator' of policies: 'ha' in vhost '/'",
        "argument 'x-queue-master-locator' of queues: 'mirrored' in vhost '/'",
    ] {
        assert!(preview["without_effect"].as_array().expect("a list").contains(&json!(named)), "{named} in {preview}");
    }
    let left_out = preview["left_out"][0].as_str().expect("a binding");
    assert!(left_out.starts_with("binding from 'amq.direct' to 'amq.gen-of-a-connection' in vhost '/'"), "{left_out}");
    assert_eq!(stage.ask("GET", "/api/queues/%2F/mirrored", "").0, 404, "a dry run changes nothing");

    assert_eq!(import(&stage, "", &document).0, 204);
    let (_, exported) = stage.ask("GET", "/api/definitions", "");
    let find = |list: &str, name: &str| {
        let found = exported[list].as_array().expect("a list").iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {list}")).clone()
    };
    assert_eq!(find("policies", "ha")["definition"], document["policies"][0]["definition"]);
    assert_eq!(find("queues", "mirrored")["arguments"]["x-queue-master-locator"], "min-masters");
    assert_eq!(find("global_parameters", "mqtt_port_to_vhost_mapping")["value"], json!({"1883": "/"}));
    assert_eq!(find("queues", "transient")["durable"], json!(false));
    let effective = |queue: &str| stage.ask("GET", &format!("/api/queues/%2F/{queue}"), "").1;
    assert_eq!(effective("mirrored")["policy"], "ha");
    // Policies of mirrors never applied to quorum queues.
    assert!(effective("quorum").get("policy").is_none_or(Value::is_null));
    assert_eq!(effective("quorum")["operator_policy"], "most");
    // Only an import sets what has no effect, as in RabbitMQ 4.3.
    let policy = r#"{"pattern": "x", "definition": {"ha-mode": "all"}}"#;
    let (status, answer) = stage.ask("PUT", "/api/policies/%2F/other", policy);
    assert!(status == 400 && answer["reason"].as_str().expect("a reason").contains("ha-mode"), "{answer}");

    // The export is imported again, and changes nothing.
    let (_, preview) = import(&stage, "?dry_run=true", &exported);
    assert_eq!((&preview["would_be_imported"], &preview["changes"]), (&json!(true), &json!(0)), "{preview}");
    assert_eq!(import(&stage, "", &exported).0, 204);
    stage.node.stop("test");
}

#[test]
fn each_object_that_cannot_be_imported_is_skipped_by_name() {
    let stage = HttpStage::new();
    let queue = |name: &str, arguments: Value| json!({"name": name, "vhost": "/", "durable": true, "auto_delete": false, "arguments": arguments});
    let parts = json!({
        "parameters": [
            {"component": "shovel", "vhost": "/", "name": "moves", "value": {}},
            {"component": "federation-upstream", "vhost": "/", "name": "up", "value": {}},
            {"component": "anything", "vhost": "/", "name": "thing", "value": 5},
        ],
        "policies": [
            {"vhost": "/", "name": "federated", "pattern": "^f", "definition": {"federation-upstream-set": "all"}},
            {"vhost": "/", "name": "odd", "pattern": "^(", "definition": {"max-length": 5}},
            {"vhost": "/", "name": "unknown", "pattern": "^u", "definition": {"of-a-plugin": 5}},
        ],
        "users": [{"name": "app", "password_hash": "", "tags": ""}],
        "permissions": [{"user": "app", "vhost": "/", "configure": "[", "write": "", "read": ""}],
        "queues": [queue("odd-type", json!({"x-queue-type": "of-a-plugin"})), queue("wrong", json!({"x-max-length": "x"})),
                   queue("rest", json!({}))],
        "exchanges": [{"name": "odd", "vhost": "/", "type": "x-of-a-plugin", "durable": true, "arguments": {}}],
        "bindings": [{"source": "amq.direct", "vhost": "/", "destination": "wrong", "destination_type": "queue",
                      "routing_key": "", "arguments": {}}],
    });
    let (_, preview) = import(&stage, "?dry_run=true", &parts);
    assert_eq!(preview["would_be_imported"], json!(false));
    let all = [&preview["unsupported"], &preview["refused"], &preview["left_out"]];
    let named: Vec<&str> =
        all.iter().flat_map(|list| list.as_array().expect("a list")).filter_map(Value::as_str).collect();
    for object in [
        "shovel parameter 'moves' in vhost '/'",
        "federation-upstream parameter 'up' in vhost '/'",
        "anything parameter 'thing' in vhost '/'",
        "policy 'federated' in vhost '/'",
        "policy 'odd' in vhost '/'",
        "policy 'unknown' in vhost '/'",
        "permissions of user 'app' in vhost '/'",
        "queue 'odd-type' in vhost '/'",
        "queue 'wrong' in vhost '/'",
        "exchange of type x-of-a-plugin 'odd' in vhost '/'",
        "binding from 'amq.direct' to 'wrong' in vhost '/'",
    ] {
        assert_eq!(named.iter().filter(|line| line.starts_with(object)).count(), 1, "{object} in {named:#?}");
    }
    // Each of them stops an import by itself, and none stops one that skips them.
    for (list, objects) in parts.as_object().expect("an object") {
        for object in objects.as_array().expect("a list") {
            if [json!("rest"), json!("app")].contains(&object["name"]) || list == "bindings" {
                continue;
            }
            let mut document = json!({"users": parts["users"]});
            document[list] = json!([object]);
            let (status, answer) = import(&stage, "", &document);
            assert!([400, 501].contains(&status), "{object}: {status} {answer}");
        }
    }
    assert_eq!(import(&stage, "?skip_unsupported=true", &parts).0, 204);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/rest", "").0, 200);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/wrong", "").0, 404);
    assert_eq!(
        stage
            .ask("GET", "/api/permissions", "")
            .1
            .as_array()
            .expect("a list")
            .iter()
            .filter(|one| one["user"] == "app")
            .count(),
        0
    );
    stage.node.stop("test");
}

#[test]
fn an_import_that_changes_nothing_writes_nothing() {
    let stage = HttpStage::new();
    let mut document = earlier();
    let many = (0..500).map(|at| {
        json!({"name": format!("q{at}"), "vhost": "/", "durable": true, "auto_delete": false,
        "arguments": {"x-max-length": at}})
    });
    document["queues"].as_array_mut().expect("a list").extend(many);
    let bound = (0..500).map(|at| {
        json!({"source": "x", "vhost": "/", "destination": format!("q{at}"), "destination_type": "queue",
        "routing_key": format!("k\"{at}"), "arguments": {"n": at}})
    });
    document["bindings"].as_array_mut().expect("a list").extend(bound);
    assert_eq!(import(&stage, "", &document).0, 204);
    // Second copies of metadata are written later, by the log itself.
    let appended = || stage.node.handle().broker().commit.inspect(|log| log.appended_by_callers());
    let generation = || stage.node.handle().broker().registry.generation();
    let before = (appended(), generation());
    for _ in 0..2 {
        assert_eq!(import(&stage, "", &document).0, 204);
    }
    assert_eq!((appended(), generation()), before);
    // One more binding is found among those that exist.
    let more = json!({"source": "x", "vhost": "/", "destination": "q7", "destination_type": "queue", "routing_key": "k\"7",
        "arguments": {"n": 8}});
    document["bindings"].as_array_mut().expect("a list").insert(3, more);
    assert_eq!(import(&stage, "?dry_run=true", &document).1["changes"], json!(1), "the one without an end is none");
    assert_eq!(import(&stage, "", &document).0, 204);
    assert_eq!(stage.ask("GET", "/api/bindings/%2F/e/x/q/q7", "").1.as_array().map(Vec::len), Some(2));
    stage.node.stop("test");
}
