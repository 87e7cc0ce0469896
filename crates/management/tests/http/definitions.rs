//! Export and import of definitions.

use serde_json::{Value, json};

use crate::exchange::exchange;
use crate::stage::HttpStage;

/// An export of RabbitMQ 4.3.6.
const EXPORT: &str = include_str!("../../../../tests/golden/http/definitions.json");

fn exported() -> Value {
    serde_json::from_str::<Value>(EXPORT).expect("is JSON")["body"].clone()
}

#[test]
fn unsupported_objects_are_named_and_nothing_is_imported() {
    let stage = HttpStage::new();
    let mut document = exported();
    let shovel = json!({"component": "shovel", "vhost": "/", "name": "moves", "value": {}});
    document["parameters"].as_array_mut().expect("a list").push(shovel);
    let (status, answer) = stage.ask("POST", "/api/definitions", &document.to_string());
    assert_eq!((status, answer["error"].as_str()), (501, Some("not_implemented")));
    let reason = answer["reason"].as_str().expect("a reason");
    for named in ["shovel parameter 'moves' in vhost '/'", "skip_unsupported=true"] {
        assert!(reason.contains(named), "{named} in {reason}");
    }
    assert_eq!(stage.ask("GET", "/api/users/shapes", "").0, 404);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/shapes-c", "").0, 404);
    stage.node.stop("test");
}

#[test]
fn quorum_queues_and_default_types_are_imported_and_exported() {
    let stage = HttpStage::new();
    let of_type = json!({"x-queue-type": "quorum"});
    let queue = |name: &str, vhost: &str, extra: Value| {
        let mut queue = json!({"name": name, "vhost": vhost, "durable": true, "auto_delete": false});
        queue.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        queue
    };
    let document = json!({
        "vhosts": [{"name": "v", "metadata": {"default_queue_type": "quorum"}}],
        "queues": [
            queue("by-argument", "/", json!({"arguments": of_type})),
            queue("by-type", "/", json!({"type": "quorum", "arguments": {}})),
            queue("by-default", "v", json!({"arguments": {}})),
            queue("classic", "v", json!({"type": "classic", "arguments": {}})),
        ],
    });
    let import = || stage.ask("POST", "/api/definitions", &document.to_string());
    assert_eq!(import().0, 204);
    let (_, exported) = stage.ask("GET", "/api/definitions", "");
    let found = |name: &str| {
        let queues = exported["queues"].as_array().expect("a list");
        let queue = queues.iter().find(|queue| queue["name"] == name).expect("the queue");
        (queue["type"].clone(), queue["arguments"].clone())
    };
    for name in ["by-argument", "by-type", "by-default"] {
        assert_eq!(found(name), (json!("quorum"), of_type.clone()), "{name}");
    }
    assert_eq!(found("classic"), (json!("classic"), json!({"x-queue-type": "classic"})));
    let vhosts = exported["vhosts"].as_array().expect("a list");
    let vhost = vhosts.iter().find(|vhost| vhost["name"] == "v").expect("the vhost");
    assert_eq!(vhost["metadata"]["default_queue_type"], "quorum");
    assert_eq!(import().0, 204);
    stage.node.stop("test");
}

#[test]
fn streams_are_imported_and_exported() {
    let stage = HttpStage::new();
    let document = json!({
        "vhosts": [{"name": "v", "metadata": {"default_queue_type": "stream"}}],
        "queues": [
            {"name": "log", "vhost": "/", "durable": true, "auto_delete": false,
             "arguments": {"x-queue-type": "stream", "x-max-age": "1h", "x-queue-leader-locator": "balanced"}},
            {"name": "by-type", "vhost": "/", "type": "stream", "durable": true, "auto_delete": false, "arguments": {}},
            {"name": "by-default", "vhost": "v", "durable": true, "auto_delete": false, "arguments": {}},
        ],
        "exchanges": [{"name": "sup", "vhost": "/", "type": "direct", "durable": true, "auto_delete": false,
                       "internal": false, "arguments": {"x-super-stream": true}}],
        "bindings": [{"source": "sup", "vhost": "/", "destination": "log", "destination_type": "queue",
                      "routing_key": "0", "arguments": {"x-stream-partition-order": 0}}],
    });
    let import = || stage.ask("POST", "/api/definitions", &document.to_string());
    assert_eq!(import(), (204, json!("")));
    let (_, exported) = stage.ask("GET", "/api/definitions", "");
    let queues = exported["queues"].as_array().expect("a list");
    let found = |name: &str| queues.iter().find(|queue| queue["name"] == name).expect("the stream");
    for name in ["log", "by-type", "by-default"] {
        assert_eq!((&found(name)["type"], &found(name)["durable"]), (&json!("stream"), &json!(true)), "{name}");
        assert_eq!(found(name)["arguments"]["x-queue-type"], "stream", "{name}");
    }
    assert_eq!(found("log")["arguments"], document["queues"][0]["arguments"]);
    assert_eq!(exported["exchanges"], document["exchanges"]);
    assert_eq!(exported["bindings"], document["bindings"]);
    assert_eq!(import().0, 204);
    stage.node.stop("test");
}

#[test]
fn an_export_of_rabbitmq_loads_and_comes_out_again() {
    let stage = HttpStage::new();
    let import = || stage.ask("POST", "/api/definitions?skip_unsupported=true", &exported().to_string());
    assert_eq!(import().0, 204);
    let (_, user) = stage.ask("GET", "/api/users/shapes", "");
    let theirs = exported();
    let known = theirs["users"].as_array().expect("users").iter().find(|user| user["name"] == "shapes");
    assert_eq!(Some(&user), known, "with its hash and limits");
    let (_, again) = stage.ask("GET", "/api/definitions", "");
    for kind in ["queues", "bindings"] {
        let entries = |document: &Value| {
            let mut texts: Vec<String> =
                document[kind].as_array().expect("a list").iter().map(ToString::to_string).collect();
            texts.sort();
            texts
        };
        assert_eq!(entries(&again), entries(&theirs), "{kind}");
    }
    let (_, limits) = stage.ask("GET", "/api/vhost-limits/shapes", "");
    assert_eq!(limits, json!([{"vhost": "shapes", "value": {"max-queues": 100}}]));
    // An unchanged import changes nothing.
    let (_, before) = stage.node.handle().broker().registry.model_snapshot();
    assert_eq!(import().0, 204);
    let (_, after) = stage.node.handle().broker().registry.model_snapshot();
    assert_eq!(before, after);
    stage.node.stop("test");
}

/// Forms of 3.x: tags as text, limits as a list, unset metadata, a hash without its algorithm, lazy queues.
#[test]
fn an_export_of_an_older_rabbitmq_loads() {
    let stage = HttpStage::new();
    let export = |version: &str| {
        json!({
            "rabbit_version": version,
            "users": [{"name": "old", "password_hash": "hashed", "tags": "administrator,policymaker"}],
            "vhosts": [{"name": "old", "metadata": null, "limits": [{"name": "max-queues", "value": 9}]}],
            "permissions": [{"user": "old", "vhost": "old", "configure": ".*", "write": ".*", "read": ".*"}],
            "topic_permissions": [],
            "parameters": [
                {"component": "vhost-limits", "vhost": "old", "name": "limits", "value": {"max-connections": 7}},
            ],
            "global_parameters": [{"name": "cluster_name", "value": "rabbit@old"}],
            "policies": [],
            "queues": [{
                "name": "lazy", "vhost": "old", "durable": true, "auto_delete": false,
                "arguments": {"x-queue-mode": "lazy", "x-max-length": 10},
            }],
            "exchanges": [{
                "name": "logs", "vhost": "old", "type": "topic", "durable": true, "auto_delete": false,
                "internal": false, "arguments": {},
            }],
            "bindings": [{
                "source": "logs", "vhost": "old", "destination": "lazy", "destination_type": "queue",
                "routing_key": "a.#", "arguments": {},
            }],
        })
    };
    for (version, algorithm) in
        [("3.5.8", "rabbit_password_hashing_md5"), ("3.12.14", "rabbit_password_hashing_sha256")]
    {
        let mut document = export(version);
        // An MD5 or SHA-256 hash of an unknown password, of the right length.
        let hash = if version.starts_with("3.5") { "A".repeat(26) + "==" } else { "A".repeat(48) };
        document["users"][0]["password_hash"] = json!(hash);
        let (status, answer) = stage.ask("POST", "/api/definitions", &document.to_string());
        assert_eq!((status, answer), (204, json!("")), "{version}");
        let (_, user) = stage.ask("GET", "/api/users/old", "");
        assert_eq!(
            (&user["tags"], &user["hashing_algorithm"]),
            (&json!(["administrator", "policymaker"]), &json!(algorithm))
        );
    }
    let (_, limits) = stage.ask("GET", "/api/vhost-limits/old", "");
    assert_eq!(limits, json!([{"vhost": "old", "value": {"max-queues": 9, "max-connections": 7}}]));
    let (_, queue) = stage.ask("GET", "/api/queues/old/lazy", "");
    let arguments = &queue["arguments"];
    assert_eq!((&arguments["x-queue-mode"], &arguments["x-max-length"]), (&json!("lazy"), &json!(10)));
    let (_, bindings) = stage.ask("GET", "/api/bindings/old/e/logs/q/lazy", "");
    assert_eq!(bindings[0]["routing_key"], "a.#");
    stage.node.stop("test");
}

#[test]
fn invalid_definitions_change_nothing() {
    let stage = HttpStage::new();
    let refused = |document: Value, wanted: &str| {
        let (status, answer) = stage.ask("POST", "/api/definitions", &document.to_string());
        assert_eq!(status, 400, "{answer}");
        assert!(answer["reason"].as_str().expect("a reason").contains(wanted), "{answer}");
        assert_eq!(stage.ask("GET", "/api/queues/v/first", "").0, 404);
    };
    let queue = |vhost: &str, arguments: Value| {
        json!({"queues": [
            {"name": "first", "vhost": "v", "durable": true, "arguments": {}},
            {"name": "second", "vhost": vhost, "durable": true, "arguments": arguments},
        ]})
    };
    refused(queue("none", json!({})), "Please create virtual host \"none\" prior to importing definitions.");
    refused(queue("v", json!({"x-max-length": "many"})), "invalid arg 'x-max-length'");
    let reason = "failed_to_parse_json: expected an object with lists of objects, got a list";
    assert_eq!(stage.ask("POST", "/api/definitions", "[]").1["reason"], reason);
    assert_eq!(stage.ask("POST", "/api/definitions/none", "{}").0, 404);
    stage.node.stop("test");
}

#[test]
fn many_objects_are_one_import_and_the_second_changes_nothing() {
    const QUEUES: usize = 5_000;
    let stage = HttpStage::new();
    let queue =
        |n| json!({"name": format!("q{n}"), "vhost": "v", "durable": true, "auto_delete": false, "arguments": {}});
    let binding = |n| {
        json!({"source": "amq.topic", "vhost": "v", "destination": format!("q{n}"), "destination_type": "queue",
            "routing_key": format!("key.{n}"), "arguments": {}})
    };
    let document = json!({
        "queues": (0..QUEUES).map(queue).collect::<Vec<_>>(),
        "bindings": (0..QUEUES).map(binding).collect::<Vec<_>>(),
    })
    .to_string();
    let position = || stage.node.handle().broker().registry.model_snapshot().1;
    assert_eq!(stage.ask("POST", "/api/definitions", &document).0, 204);
    let imported = position();
    let (_, page) = stage.ask("GET", "/api/queues/v?page=1&page_size=1", "");
    assert_eq!(page["total_count"], QUEUES);
    let (_, bindings) = stage.ask("GET", "/api/bindings/v/e/amq.topic/q/q4999", "");
    assert_eq!(bindings[0]["routing_key"], "key.4999");
    assert_eq!(stage.ask("POST", "/api/definitions", &document).0, 204);
    assert_eq!(position(), imported);
    stage.node.stop("test");
}

/// The same bytes are known by their digest as long as nothing else changes; each change in between is undone by the next import.
#[test]
fn the_same_import_brings_back_what_changed_in_between() {
    let stage = HttpStage::new();
    let queue = |at: usize| json!({"name": format!("q{at}"), "vhost": "own", "arguments": {}});
    let document = json!({
        "vhosts": [{"name": "own"}],
        "permissions": [{"user": "guest", "vhost": "own", "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": (0..3).map(queue).collect::<Vec<_>>(),
        "bindings": [{"source": "amq.topic", "vhost": "own", "destination": "q1", "routing_key": "a.#", "arguments": {}}],
        "policies": [{"vhost": "own", "name": "p", "pattern": "^q", "definition": {"max-length": 5}}],
    });
    let import = |path: &str| assert_eq!(stage.ask("POST", path, &document.to_string()).0, 204);
    let exported = || stage.ask("GET", "/api/definitions", "").1;
    import("/api/definitions");
    let first = exported();
    (0..2).for_each(|_| import("/api/definitions"));
    assert_eq!(exported(), first);
    for (method, path, body) in [
        ("DELETE", "/api/queues/own/q2", ""),
        ("DELETE", "/api/queues/own/q1", ""),
        ("PUT", "/api/policies/own/p", r#"{"pattern":"^r","definition":{"max-length":5}}"#),
        ("DELETE", "/api/vhosts/own", ""),
    ] {
        assert!(stage.ask(method, path, body).0 < 300, "{method} {path}");
        assert_ne!(exported(), first, "{method} {path}");
        // The first brings them back, the second finds nothing to do.
        (0..2).for_each(|_| import("/api/definitions"));
        assert_eq!(exported(), first, "{method} {path}");
    }
    // Into another vhost they are another import.
    assert_eq!(stage.ask("PUT", "/api/vhosts/w", "").0, 201);
    import("/api/definitions");
    import("/api/definitions/w");
    assert_eq!(stage.ask("GET", "/api/queues/w/q0", "").0, 200);
    // A user who may not import is refused, known or not.
    assert_eq!(stage.ask_as(None, "POST", "/api/definitions", &document.to_string()).0, 401);
    stage.node.stop("test");
}

/// So many objects, in another order than an export has them, are told by their digests.
#[test]
fn an_import_in_another_order_brings_back_what_changed() {
    const QUEUES: usize = 200;
    let stage = HttpStage::new();
    let document = |order: &[usize]| {
        let queue = |at: &usize| json!({"name": format!("q{at}"), "vhost": "own", "arguments": {}});
        let binding = |at: &usize| {
            json!({"source": "amq.headers", "vhost": "own", "destination": format!("q{at}"), "routing_key": "k",
                "arguments": {"x-match": "all", "number": at}})
        };
        json!({
            "vhosts": [{"name": "own"}],
            "permissions": [{"user": "guest", "vhost": "own", "configure": ".*", "write": ".*", "read": ".*"}],
            "queues": order.iter().map(queue).collect::<Vec<_>>(),
            "bindings": order.iter().map(binding).collect::<Vec<_>>(),
        })
        .to_string()
    };
    let order: Vec<usize> = (0..QUEUES).collect();
    let other: Vec<usize> = (0..QUEUES).map(|at| (at * 77 + 5) % QUEUES).collect();
    let import = |order: &[usize]| assert_eq!(stage.ask("POST", "/api/definitions", &document(order)).0, 204);
    let exported = || stage.ask("GET", "/api/definitions", "").1;
    let position = || stage.node.handle().broker().registry.model_snapshot().1;
    import(&order);
    let (first, written) = (exported(), position());
    import(&other);
    assert_eq!((exported(), position()), (first.clone(), written), "the same objects are no change");
    let bindings = "/api/bindings/own/e/amq.headers/q";
    let (_, bound) = stage.ask("GET", &format!("{bindings}/q9"), "");
    let key = bound[0]["properties_key"].as_str().expect("a key");
    let named_another = r#"{"routing_key": "k", "arguments": {"x-match": "all", "number": "8"}}"#;
    for (method, path, body, comes_back) in [
        ("DELETE", "/api/queues/own/q7".to_owned(), "", true),
        ("DELETE", format!("{bindings}/q9/{key}"), "", true),
        ("POST", format!("{bindings}/q8"), named_another, false),
    ] {
        assert!(stage.ask(method, &path, body).0 < 300, "{method} {path}");
        let changed = exported();
        assert_ne!(changed, first, "{method} {path}");
        let wanted = if comes_back { &first } else { &changed };
        for order in [&other, &order, &other] {
            import(order);
            assert_eq!(exported(), *wanted, "{method} {path}");
        }
    }
    stage.node.stop("test");
}

#[test]
fn one_vhosts_definitions_go_into_another() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/v/q", r#"{"durable": true}"#).0, 201);
    assert_eq!(stage.ask("PUT", "/api/exchanges/v/x", r#"{"type": "topic"}"#).0, 201);
    assert_eq!(stage.ask("POST", "/api/bindings/v/e/x/q/q", r#"{"routing_key": "a.*"}"#).0, 201);
    let (_, exported) = stage.ask("GET", "/api/definitions/v", "");
    assert_eq!(stage.ask("PUT", "/api/vhosts/copy", "").0, 201);
    assert_eq!(stage.ask("POST", "/api/definitions/copy", &exported.to_string()).0, 204);
    let (_, bindings) = stage.ask("GET", "/api/bindings/copy/e/x/q/q", "");
    assert_eq!(bindings[0]["properties_key"], "a.%2A");
    stage.node.stop("test");
}

#[test]
fn a_value_of_a_wrong_type_refuses_the_whole_document() {
    let stage = HttpStage::new();
    let good = r#"{"name": "good", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}"#;
    for (wrong, path) in [
        (r#"{"name": "q", "vhost": "/", "arguments": "x"}"#, "queues[1].arguments (line 2, column 42)"),
        (r#"{"name": "q", "vhost": "/", "arguments": null}"#, "queues[1].arguments (line 2, column 42)"),
        (r#"{"name": "q", "vhost": 5}"#, "queues[1].vhost (line 2, column 24)"),
        (r#"{"name": "q"}"#, "queues[1].vhost is missing (line 2, column 1)"),
        (r#"{"name": ["q"], "vhost": "/"}"#, "queues[1].name (line 2, column 10)"),
        (r#"{"name": "q", "vhost": "/", "durable": 1}"#, "queues[1].durable (line 2, column 40)"),
        (r#""q""#, "queues[1] (line 2, column 1)"),
        (r#"{"name": "", "vhost": "nope"}"#, "Please create virtual host \"nope\" prior to importing definitions."),
    ] {
        let (status, answer) = stage.ask("POST", "/api/definitions", &format!("{{\"queues\": [{good},\n{wrong}]}}"));
        assert_eq!(status, 400, "{wrong}");
        let reason = answer["reason"].as_str().expect("a reason");
        assert!(reason.contains(path), "{wrong}: {reason}");
    }
    let (status, answer) = stage.ask("POST", "/api/definitions", "{\"users\": [\n{\"name\": \"a\",}]}");
    assert_eq!(
        (status, &answer["reason"]),
        (400, &"failed_to_parse_json: key must be a string at line 2 column 14".into())
    );
    assert_eq!(stage.ask("GET", "/api/queues", "").1, json!([]), "nothing was made");
    // As in RabbitMQ: an unknown list is ignored, and an empty body is an empty document.
    assert_eq!(stage.ask("POST", "/api/definitions", r#"{"gadgets": [1]}"#).0, 204);
    assert_eq!(stage.ask("POST", "/api/definitions", "").0, 204);
    stage.node.stop("test");
}

#[test]
fn objects_of_one_vhost_need_not_name_it() {
    let stage = HttpStage::new();
    let document = r#"{"queues": [{"name": "q", "durable": true}], "exchanges": [{"name": "x", "type": "fanout"}],
        "bindings": [{"source": "x", "destination": "q"}]}"#;
    assert_eq!(stage.ask("POST", "/api/definitions", document).0, 400);
    assert_eq!(stage.ask("POST", "/api/definitions/v", document).0, 204);
    assert_eq!(stage.ask("GET", "/api/bindings/v/e/x/q/q", "").1.as_array().map(Vec::len), Some(1));
    let (status, answer) = stage.ask("POST", "/api/definitions/v", r#"{"queues": ["q"]}"#);
    assert_eq!(status, 400);
    assert!(answer["reason"].as_str().is_some_and(|reason| reason.starts_with("queues[0] (line 1, column 13)")));
    stage.node.stop("test");
}

#[test]
fn transient_objects_are_exported_and_come_back() {
    let stage = HttpStage::new();
    for (path, body) in [
        ("queues/%2F/transient", r#"{"durable": false}"#),
        ("queues/%2F/passing", r#"{"auto_delete": true}"#),
        ("exchanges/%2F/transient", r#"{"type": "topic", "durable": false}"#),
        ("exchanges/%2F/passing", r#"{"type": "topic", "auto_delete": true}"#),
    ] {
        assert_eq!(stage.ask("PUT", &format!("/api/{path}"), body).0, 201, "{path}");
    }
    assert_eq!(stage.ask("POST", "/api/bindings/%2F/e/transient/q/transient", r#"{"routing_key": "k"}"#).0, 201);
    let (_, exported) = stage.ask("GET", "/api/definitions", "");
    let names = |kind: &str| -> Vec<String> {
        let list = exported[kind].as_array().expect("a list").iter();
        let mut names: Vec<String> = list.map(|each| format!("{} {}", each["name"], each["durable"])).collect();
        names.sort();
        names
    };
    assert_eq!(names("queues"), ["\"passing\" true", "\"transient\" false"]);
    assert_eq!(names("exchanges"), ["\"passing\" true", "\"transient\" false"]);
    assert_eq!(exported["bindings"].as_array().map(Vec::len), Some(1));
    for queue in ["transient", "passing"] {
        assert_eq!(stage.ask("DELETE", &format!("/api/queues/%2F/{queue}"), "").0, 204);
    }
    assert_eq!(stage.ask("POST", "/api/definitions", &exported.to_string()).0, 204);
    assert_eq!(stage.ask("GET", "/api/queues/%2F/transient", "").1["durable"], false);
    stage.node.stop("test");
}

#[test]
fn a_vhost_whose_limits_were_cleared_stays_in_their_list() {
    let stage = HttpStage::new();
    assert_eq!(stage.ask("PUT", "/api/vhost-limits/v/max-queues", r#"{"value": 5}"#).0, 204);
    assert_eq!(stage.ask("DELETE", "/api/vhost-limits/v/max-queues", "").0, 204);
    // The response of RabbitMQ 4.3.6.
    assert_eq!(stage.ask("GET", "/api/vhost-limits", "").1, json!([{"vhost": "v", "value": {}}]));
    assert_eq!(stage.ask("GET", "/api/vhost-limits/v", "").1, json!([]));
    stage.node.stop("test");
}

#[test]
fn an_export_that_the_client_has_is_not_sent_again() {
    let stage = HttpStage::new();
    for path in ["/api/definitions", "/api/definitions/%2F"] {
        let export = |tag: &str| {
            let headers = format!("authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n{tag}");
            let answer = exchange(stage.http, "GET", path, &headers, "");
            (answer.status, answer.header("etag").expect("a tag").to_owned(), answer.body.is_empty())
        };
        let (status, tag, is_empty) = export("");
        assert_eq!((status, is_empty), (200, false));
        assert_eq!(export(&format!("if-none-match: {tag}\r\n")), (304, tag.clone(), true));
        assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
        let (status, changed, is_empty) = export(&format!("if-none-match: {tag}\r\n"));
        assert_eq!((status, is_empty), (200, false));
        assert_ne!(changed, tag);
        assert_eq!(stage.ask("DELETE", "/api/queues/%2F/q", "").0, 204);
    }
    assert_eq!(stage.ask("GET", "/api/definitions/none", "").0, 404);
    stage.node.stop("test");
}
