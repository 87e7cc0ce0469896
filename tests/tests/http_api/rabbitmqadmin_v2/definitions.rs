use serde_json::{Value, json};

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("definitions export", export),
    ("export definitions", export),
    ("definitions export_from_vhost", export_from_vhost),
    ("definitions import", import),
    ("import definitions", import),
    ("definitions import_into_vhost", import_into_vhost),
    ("global_parameters set", set),
    ("global_parameters list", list),
    ("global_parameters clear", clear),
    ("parameters list_all", list_limits),
    ("parameters list", list_limits),
    ("parameters list_in", list_limits),
    ("list parameters", list_limits),
];

/// A vhost with an exchange bound to a queue, and a user with access to it.
fn scene(admin: &Admin, command: &str) -> String {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({"description": "scene"}));
    admin.put(&format!("exchanges/{vhost}/x"), json!({"type": "topic"}));
    admin.put(&format!("queues/{vhost}/q"), json!({"arguments": {"x-max-length": 7}}));
    admin.post(&format!("bindings/{vhost}/e/x/q/q"), json!({"routing_key": "a.#"}));
    admin.put(&format!("users/{vhost}"), json!({"password": "secret", "tags": "management"}));
    admin.put(&format!("permissions/{vhost}/{vhost}"), json!({"configure": "^a", "read": "^b", "write": "^c"}));
    vhost
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("the file")).expect("JSON")
}

/// The entry of a list with this value.
fn entry<'a>(document: &'a Value, list: &str, key: &str, value: &str) -> &'a Value {
    let found = document[list].as_array().and_then(|list| list.iter().find(|entry| entry[key] == value));
    found.unwrap_or_else(|| panic!("{list} has no {key} {value}: {document}"))
}

fn export(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    let file = admin.home().join("all.json");
    admin.run(command, &format!("--file {}", file.display()));
    let document = read(&file);
    assert_eq!(entry(&document, "queues", "vhost", &vhost)["arguments"]["x-max-length"], 7);
    assert_eq!(entry(&document, "bindings", "vhost", &vhost)["routing_key"], "a.#");
    assert_eq!(entry(&document, "permissions", "vhost", &vhost)["configure"], "^a");
    let exported = entry(&document, "users", "name", &vhost);
    assert_eq!(exported["password_hash"], admin.get(&format!("users/{vhost}"))["password_hash"]);
    let printed: Value = serde_json::from_str(&admin.run(command, "--stdout")).expect("JSON");
    assert_eq!(printed, document);
    // The program removes them itself; the document sent to it has to be in a form that it knows.
    admin.run(command, &format!("--file {} --transformations exclude_users,exclude_permissions", file.display()));
    let document = read(&file);
    assert_eq!((&document["users"], &document["permissions"]), (&json!([]), &json!([])));
    assert_eq!(entry(&document, "queues", "vhost", &vhost)["name"], "q");
}

fn export_from_vhost(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    let file = admin.home().join("one.json");
    admin.run(command, &format!("--vhost {vhost} --file {}", file.display()));
    let document = read(&file);
    assert_eq!(document["queues"].as_array().map(Vec::len), Some(1));
    assert_eq!(entry(&document, "queues", "name", "q")["arguments"]["x-max-length"], 7);
    assert_eq!(entry(&document, "bindings", "source", "x")["destination"], "q");
    assert!(document["queues"][0].get("vhost").is_none(), "{document}");
    let printed: Value = serde_json::from_str(&admin.run(command, &format!("--vhost {vhost} --stdout"))).expect("JSON");
    assert_eq!(printed, document);
}

fn import(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    let file = admin.home().join("import.json");
    admin.run("definitions export", &format!("--file {}", file.display()));
    for path in [format!("vhosts/{vhost}"), format!("users/{vhost}")] {
        assert_eq!(admin.http.delete(&format!("/api/{path}")).expect("an answer").status, 204);
    }
    admin.run(command, &format!("--file {}", file.display()));
    assert_eq!(admin.get(&format!("queues/{vhost}/q"))["arguments"]["x-max-length"], 7);
    assert_eq!(admin.get(&format!("bindings/{vhost}/e/x/q/q"))[0]["routing_key"], "a.#");
    assert_eq!(admin.get(&format!("vhosts/{vhost}"))["description"], "scene");
    let user = admin.http.as_user(&vhost, "secret");
    assert_eq!(user.get("/api/whoami").expect("an answer").status, 200);
    // Imported again unchanged.
    admin.run(command, &format!("--file {}", file.display()));
    let refused = json!({
        "vhosts": [{"name": "half"}],
        "parameters": [{"vhost": "half", "component": "shovel", "name": "p", "value": {}}],
    });
    std::fs::write(&file, refused.to_string()).expect("a file");
    admin.fails(command, &format!("--file {}", file.display()), "shovel");
    assert_eq!(admin.status("vhosts/half"), 404);
}

fn import_into_vhost(admin: &Admin, command: &str) {
    let vhost = scene(admin, command);
    let file = admin.home().join("into.json");
    admin.run("definitions export_from_vhost", &format!("--vhost {vhost} --file {}", file.display()));
    admin.put("vhosts/copy", json!({}));
    admin.run(command, &format!("--vhost copy --file {}", file.display()));
    assert_eq!(admin.get("queues/copy/q")["arguments"]["x-max-length"], 7);
    assert_eq!(admin.get("bindings/copy/e/x/q/q")[0]["routing_key"], "a.#");
}

fn set(admin: &Admin, command: &str) {
    admin.run(command, r#"--name set-by-program --value {"a":[1,2]}"#);
    assert_eq!(admin.get("global-parameters/set-by-program")["value"], json!({"a": [1, 2]}));
}

fn list(admin: &Admin, command: &str) {
    admin.put("global-parameters/listed", json!({"value": {"b": 3}}));
    admin.lists(command, "", &["listed", r#"{"b":3}"#]);
    assert!(admin.rows(command, "").iter().any(|row| row[0] == "internal_cluster_id"));
}

fn clear(admin: &Admin, command: &str) {
    admin.put("global-parameters/cleared", json!({"value": {"b": 3}}));
    admin.run(command, "--name cleared");
    assert_eq!(admin.status("global-parameters/cleared"), 404);
    admin.fails(command, "--name cleared", "404");
}

/// Limits of vhosts are shown among the parameters; there are no others.
fn list_limits(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.put(&format!("vhost-limits/{vhost}/max-queues"), json!({"value": 31}));
    let option = match command {
        "parameters list_all" => String::new(),
        "parameters list_in" => format!("--vhost {vhost} --component vhost-limits"),
        _ => format!("--vhost {vhost}"),
    };
    admin.lists(command, &option, &["limits", &vhost, "vhost-limits", "31"]);
}
