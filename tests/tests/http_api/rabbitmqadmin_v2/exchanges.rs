use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare exchange", declare),
    ("exchanges declare", declare),
    ("delete exchange", delete),
    ("exchanges delete", delete),
    ("list exchanges", list),
    ("exchanges list", list),
];

fn declare(admin: &Admin, command: &str) {
    let exchange = name(command);
    let arguments = r#"{"alternate-exchange":"amq.fanout"}"#;
    admin.run(command, &format!("--name {exchange} --type topic --durable true --arguments {arguments}"));
    let made = admin.get(&format!("exchanges/%2F/{exchange}"));
    assert_eq!((&made["type"], &made["durable"]), (&json!("topic"), &json!(true)));
    assert_eq!(made["arguments"], json!({"alternate-exchange": "amq.fanout"}));
    admin.run(command, &format!("--name {exchange} --type topic --durable true --arguments {arguments}"));
    admin.fails(command, &format!("--name {exchange} --type fanout --durable true"), "inequivalent arg 'type'");
    admin.fails(command, &format!("--name {exchange}-2 --type nonsense"), "exchange type 'nonsense'");
}

fn delete(admin: &Admin, command: &str) {
    let exchange = name(command);
    admin.put(&format!("exchanges/%2F/{exchange}"), json!({"type": "fanout"}));
    admin.run(command, &format!("--name {exchange}"));
    assert_eq!(admin.status(&format!("exchanges/%2F/{exchange}")), 404);
    admin.fails(command, &format!("--name {exchange}"), "404");
    admin.run(command, &format!("--name {exchange} --idempotently"));
}

fn list(admin: &Admin, command: &str) {
    let exchange = name(command);
    admin.put(&format!("exchanges/%2F/{exchange}"), json!({"type": "headers", "auto_delete": true}));
    admin.lists(command, "", &["amq.topic", "/", "topic", "true", "false"]);
    admin.lists(command, "", &[&exchange, "/", "headers", "true"]);
    let (all, first) = (admin.rows(command, ""), admin.rows(command, "--page 1 --page-size 3"));
    assert_eq!(first, all[..3]);
    assert_eq!(admin.rows(command, "--page 2 --page-size 3"), all[3..6]);
}
