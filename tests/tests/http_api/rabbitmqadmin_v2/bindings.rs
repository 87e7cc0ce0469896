use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare binding", bind),
    ("bindings declare", bind),
    ("exchanges bind", bind),
    ("delete binding", unbind),
    ("bindings delete", unbind),
    ("exchanges unbind", unbind),
    ("list bindings", list),
    ("bindings list", list),
];

/// A vhost with exchanges `x` and `y` and a queue `q`.
fn scene(admin: &Admin, command: &str) -> String {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.put(&format!("exchanges/{vhost}/x"), json!({"type": "topic"}));
    admin.put(&format!("exchanges/{vhost}/y"), json!({"type": "fanout"}));
    admin.put(&format!("queues/{vhost}/q"), json!({}));
    vhost
}

/// Whether a message to `x` reaches a queue.
fn routes(admin: &Admin, vhost: &str, key: &str) -> bool {
    let message = json!({"properties": {}, "routing_key": key, "payload": "x", "payload_encoding": "string"});
    admin.post(&format!("exchanges/{vhost}/x/publish"), message)["routed"] == true
}

fn bind(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    let queue = "--source x --destination-type queue --destination q --routing-key";
    assert!(!routes(admin, &vhost, "a.b"));
    admin.run(command, &format!("--vhost {vhost} {queue} a.#"));
    assert!(routes(admin, &vhost, "a.b") && !routes(admin, &vhost, "b"));
    admin.run(command, &format!(r#"--vhost {vhost} {queue} c --arguments {{"k":1}}"#));
    let bound = admin.get(&format!("bindings/{vhost}/e/x/q/q"));
    assert!(bound[1]["arguments"] == json!({"k": 1}) && bound[1]["routing_key"] == "c", "{bound}");
    let exchange = "--source x --destination-type exchange --destination y --routing-key b";
    admin.run(command, &format!("--vhost {vhost} {exchange}"));
    assert_eq!(admin.get(&format!("bindings/{vhost}/e/x/e/y"))[0]["routing_key"], "b");
    let none = "--source x --destination-type queue --destination none --routing-key b";
    admin.fails(command, &format!("--vhost {vhost} {none}"), "404");
}

fn unbind(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    for (path, body) in [
        ("q/q", json!({"routing_key": "a.#"})),
        ("q/q", json!({"routing_key": "b"})),
        ("q/q", json!({"routing_key": "c", "arguments": {"k": 1}})),
        ("e/y", json!({"routing_key": "b"})),
    ] {
        admin.post(&format!("bindings/{vhost}/e/x/{path}"), body);
    }
    let queue = format!("--vhost {vhost} --source x --destination-type queue --destination q --routing-key");
    admin.run(command, &format!("{queue} a.#"));
    assert!(!routes(admin, &vhost, "a.b") && routes(admin, &vhost, "b"));
    admin.fails(command, &format!("{queue} a.#"), "404");
    admin.run(command, &format!("{queue} a.# --idempotently"));
    admin.run(command, &format!(r#"{queue} c --arguments {{"k":1}}"#));
    let left = admin.get(&format!("bindings/{vhost}/e/x/q/q"));
    assert!(left.as_array().map(Vec::len) == Some(1) && left[0]["routing_key"] == "b", "{left}");
    admin.run(
        command,
        &format!("--vhost {vhost} --source x --destination-type exchange --destination y --routing-key b"),
    );
    assert_eq!(admin.get(&format!("bindings/{vhost}/e/x/e/y")), json!([]));
}

fn list(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    admin.post(&format!("bindings/{vhost}/e/x/q/q"), json!({"routing_key": "a.#"}));
    admin.post(&format!("bindings/{vhost}/e/x/e/y"), json!({"routing_key": "b"}));
    let rows = admin.rows(command, &format!("--vhost {vhost}"));
    let row = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let expected = [
        row(&[&vhost, "q", "queue", "q", "q"]),
        row(&[&vhost, "x", "q", "queue", "a.#", "a.%23"]),
        row(&[&vhost, "x", "y", "exchange", "b", "b"]),
    ];
    for row in expected {
        assert!(rows.contains(&row), "{row:?} isn't in {rows:?}");
    }
}
