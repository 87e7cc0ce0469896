//! Policies and operator policies. Commands that change all of them see those of the vhost `/` that other rows made.

use serde_json::{Value, json};

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("list policies", lists),
    ("policies list", lists),
    ("policies list_in", lists),
    ("policies list_conflicting", lists_conflicting),
    ("policies list_conflicting_in", lists_conflicting),
    ("policies list_matching_object", lists_matching),
    ("policies update_definitions_of_all", updates_all),
    ("policies update_definitions_of_all_in", updates_all),
    ("policies delete_definition_keys_from_all", deletes_keys_of_all),
    ("policies delete_definition_keys_from_all_in", deletes_keys_of_all),
    ("declare policy", declares),
    ("policies declare", declares),
    ("policies declare_blanket", declares_blanket),
    ("policies declare_override", declares_override),
    ("policies patch", patches),
    ("policies update_definition", updates),
    ("policies delete_definition_keys", deletes_keys),
    ("policies delete", deletes),
    ("delete policy", deletes),
    ("list operator_policies", lists),
    ("operator_policies list", lists),
    ("operator_policies list_in", lists),
    ("operator_policies list_matching_object", lists_matching),
    ("operator_policies update_definitions_of_all_in", updates_all),
    ("operator_policies delete_definition_keys_from_all_in", deletes_keys_of_all),
    ("declare operator_policy", declares),
    ("operator_policies declare", declares),
    ("operator_policies patch", patches),
    ("operator_policies update_definition", updates),
    ("operator_policies delete_definition_keys", deletes_keys),
    ("operator_policies delete", deletes),
    ("delete operator_policy", deletes),
];

/// The path of the kind of policies that a command is about.
fn path(command: &str) -> &'static str {
    if command.contains("operator") { "operator-policies" } else { "policies" }
}

/// Makes a policy with the name of the command, for a queue with the same name.
fn made(admin: &Admin, command: &str) -> String {
    let name = name(command);
    admin.put(&format!("queues/%2F/{name}"), json!({}));
    let definition = json!({"max-length": 5, "expires": 3_600_000});
    let policy = json!({"pattern": format!("^{name}$"), "definition": definition, "apply-to": "queues", "priority": 2});
    admin.put(&format!("{}/%2F/{name}", path(command)), policy);
    name
}

fn definition(admin: &Admin, command: &str, name: &str) -> Value {
    admin.get(&format!("{}/%2F/{name}", path(command)))["definition"].clone()
}

fn effective(admin: &Admin, name: &str) -> Value {
    admin.get(&format!("queues/%2F/{name}"))["effective_policy_definition"].clone()
}

fn lists(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.lists(command, "", &[&name]);
}

fn lists_conflicting(admin: &Admin, command: &str) {
    let name = made(admin, command);
    let policy = json!({"pattern": "^other", "definition": {"max-length": 5}, "priority": 2});
    admin.put(&format!("policies/%2F/{name}-too"), policy);
    admin.lists(command, "", &[&name]);
}

fn lists_matching(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.lists(command, &format!("--name {name} --type queues"), &[&name]);
}

fn updates_all(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, "--definition-key max-length --new-value 3");
    assert_eq!(effective(admin, &name)["max-length"], 3);
}

fn deletes_keys_of_all(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, "--definition-keys max-length");
    assert_eq!(definition(admin, command, &name), json!({"expires": 3_600_000}));
}

fn declares(admin: &Admin, command: &str) {
    let name = name(command);
    admin.put(&format!("queues/%2F/{name}"), json!({}));
    let options =
        format!("--name {name} --pattern ^{name}$ --apply-to queues --priority 4 --definition {{\"max-length\":7}}");
    admin.run(command, &options);
    let expected = json!({
        "vhost": "/", "name": name, "pattern": format!("^{name}$"), "apply-to": "queues", "priority": 4,
        "definition": {"max-length": 7},
    });
    assert_eq!(admin.get(&format!("{}/%2F/{name}", path(command))), expected);
    assert_eq!(effective(admin, &name), json!({"max-length": 7}));
}

fn declares_blanket(admin: &Admin, command: &str) {
    let name = name(command);
    admin.run(command, &format!("--name {name} --apply-to queues --definition {{\"max-length\":9}}"));
    let policy = admin.get(&format!("policies/%2F/{name}"));
    assert_eq!((&policy["pattern"], &policy["definition"]), (&json!(".*"), &json!({"max-length": 9})));
    assert!(policy["priority"].as_i64().is_some_and(|priority| priority < 0), "{policy}");
}

fn declares_override(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, &format!("--name {name} --definition {{\"max-length\":1}}"));
    assert_eq!(effective(admin, &name)["max-length"], 1);
}

fn patches(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, &format!("--name {name} --definition {{\"max-length\":4}}"));
    assert_eq!(definition(admin, command, &name), json!({"max-length": 4, "expires": 3_600_000}));
}

fn updates(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, &format!("--name {name} --definition-key max-length --new-value 6"));
    assert_eq!(definition(admin, command, &name)["max-length"], 6);
}

fn deletes_keys(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, &format!("--name {name} --definition-keys expires"));
    assert_eq!(definition(admin, command, &name), json!({"max-length": 5}));
}

fn deletes(admin: &Admin, command: &str) {
    let name = made(admin, command);
    admin.run(command, &format!("--name {name}"));
    assert_eq!(admin.status(&format!("{}/%2F/{name}", path(command))), 404);
    assert_ne!(effective(admin, &name)["max-length"], 5);
}
