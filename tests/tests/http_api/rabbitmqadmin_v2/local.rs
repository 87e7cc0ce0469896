//! Commands that need no node: the program's file of nodes has to lead it to ours.

use super::Effect;
use super::admin::Admin;

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("config_file add_node", add),
    ("config_file show_path", path),
    ("config_file show", show),
    ("config_file update_node", update),
    ("config_file delete_node", delete),
    ("shell completions", completions),
];

fn file(admin: &Admin) -> String {
    admin.home().join("nodes.toml").display().to_string()
}

/// The output of a command that finds the node in the file.
fn users_of(admin: &Admin, node: &str) -> Result<String, String> {
    admin.with(&["--config", &file(admin), "--node", node], "list users", &[])
}

fn add(admin: &Admin, command: &str) {
    let (host, port) = admin.http.authority.rsplit_once(':').expect("host:port");
    let (to, login) = (["--host", host, "--port", port], ["--username", "guest", "--password", "guest"]);
    let words = ["--node", "ours", "--scheme", "http", "--create-file-if-missing"];
    admin.with(&["--config", &file(admin)], command, &[&words[..], &to, &login].concat()).expect("is added");
    assert!(users_of(admin, "ours").expect("users").contains("guest"));
}

fn path(admin: &Admin, command: &str) {
    assert!(admin.with(&["--config", &file(admin)], command, &[]).expect("a path").contains(&file(admin)));
}

fn show(admin: &Admin, command: &str) {
    let shown = admin.with(&["--config", &file(admin)], command, &[]).expect("nodes");
    let (_, port) = admin.http.authority.rsplit_once(':').expect("host:port");
    assert!(shown.contains("ours") && shown.contains(port), "{shown}");
}

fn update(admin: &Admin, command: &str) {
    admin.with(&["--config", &file(admin)], command, &["--node", "ours", "--password", "wrong"]).expect("is updated");
    let refused = users_of(admin, "ours").expect_err("a wrong password");
    assert!(refused.to_lowercase().contains("401") || refused.contains("Not_Authorized"), "{refused}");
}

fn delete(admin: &Admin, command: &str) {
    admin.with(&["--config", &file(admin)], command, &["--node", "ours"]).expect("is deleted");
    users_of(admin, "ours").expect_err("no such node");
}

fn completions(admin: &Admin, command: &str) {
    assert!(admin.with(&[], command, &["--shell", "bash"]).expect("a script").contains("health_check"));
}
