use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare vhost", declare),
    ("vhosts declare", declare),
    ("delete vhost", delete),
    ("vhosts delete", delete),
    ("vhosts delete_multiple", delete_multiple),
    ("vhosts enable_deletion_protection", protect),
    ("vhosts disable_deletion_protection", unprotect),
    ("list vhosts", list),
    ("vhosts list", list),
];

fn declare(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.run(command, &format!("--name {vhost} --description tested --default-queue-type classic"));
    let made = admin.get(&format!("vhosts/{vhost}"));
    assert_eq!((&made["description"], &made["default_queue_type"]), (&json!("tested"), &json!("classic")));
    let traced = format!("{vhost}-traced");
    admin.run(command, &format!("--name {traced} --tracing"));
    assert_eq!(admin.get(&format!("vhosts/{traced}"))["tracing"], true);
    let streams = format!("{vhost}-streams");
    admin.run(command, &format!("--name {streams} --default-queue-type stream"));
    assert_eq!(admin.get(&format!("vhosts/{streams}"))["default_queue_type"], "stream");
}

fn delete(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.run(command, &format!("--name {vhost}"));
    assert_eq!(admin.status(&format!("vhosts/{vhost}")), 404);
    admin.fails(command, &format!("--name {vhost}"), "404");
    admin.run(command, &format!("--name {vhost} --idempotently"));
}

fn delete_multiple(admin: &Admin, command: &str) {
    for vhost in ["many-1", "many-2", "other-1"] {
        admin.put(&format!("vhosts/{vhost}"), json!({}));
    }
    admin.run(command, "--name-pattern ^many- --dry-run");
    assert_eq!((admin.status("vhosts/many-1"), admin.status("vhosts/many-2")), (200, 200));
    admin.run(command, "--name-pattern ^many- --approve");
    assert_eq!((admin.status("vhosts/many-1"), admin.status("vhosts/many-2")), (404, 404));
    assert_eq!(admin.status("vhosts/other-1"), 200);
}

fn protect(admin: &Admin, command: &str) {
    admin.put("vhosts/guarded", json!({}));
    admin.run(command, "--name guarded");
    assert_eq!(admin.get("vhosts/guarded")["protected_from_deletion"], true);
    admin.fails("delete vhost", "--name guarded", "protected from deletion");
    assert_eq!(admin.status("vhosts/guarded"), 200);
}

fn unprotect(admin: &Admin, command: &str) {
    admin.put("vhosts/released", json!({"protected_from_deletion": true}));
    admin.run(command, "--name released");
    assert_eq!(admin.get("vhosts/released")["protected_from_deletion"], false);
    admin.run("delete vhost", "--name released");
    assert_eq!(admin.status("vhosts/released"), 404);
}

fn list(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({"description": "listed"}));
    admin.lists(command, "", &["/", "Default", "virtual", "host", "classic", "false"]);
    admin.lists(command, "", &[&vhost, "listed", "classic", "false"]);
}
