use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare vhost_limit", set_of_vhost),
    ("vhost_limits declare", set_of_vhost),
    ("delete vhost_limit", lift_of_vhost),
    ("vhost_limits delete", lift_of_vhost),
    ("list vhost_limits", list_of_vhosts),
    ("vhost_limits list", list_of_vhosts),
    ("declare user_limit", set_of_user),
    ("user_limits declare", set_of_user),
    ("delete user_limit", lift_of_user),
    ("user_limits delete", lift_of_user),
    ("list user_limits", list_of_users),
    ("user_limits list", list_of_users),
    ("users limits", list_of_users),
];

/// The status of declaring a queue.
fn declares(admin: &Admin, vhost: &str, queue: &str) -> u16 {
    admin.http.put(&format!("/api/queues/{vhost}/{queue}"), &json!({})).expect("an answer").status
}

fn set_of_vhost(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.run(command, &format!("--vhost {vhost} --name max-queues --value 1"));
    assert_eq!(admin.get(&format!("vhost-limits/{vhost}"))[0]["value"], json!({"max-queues": 1}));
    assert_eq!((declares(admin, &vhost, "one"), declares(admin, &vhost, "two")), (201, 400));
}

fn lift_of_vhost(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.put(&format!("vhost-limits/{vhost}/max-queues"), json!({"value": 0}));
    assert_eq!(declares(admin, &vhost, "one"), 400);
    admin.run(command, &format!("--vhost {vhost} --name max-queues"));
    assert_eq!(admin.get(&format!("vhost-limits/{vhost}")), json!([]));
    assert_eq!(declares(admin, &vhost, "one"), 201);
    // As in RabbitMQ it is no error if there is none.
    admin.run(command, &format!("--vhost {vhost} --name max-queues"));
}

fn list_of_vhosts(admin: &Admin, command: &str) {
    let vhost = name(command);
    admin.put(&format!("vhosts/{vhost}"), json!({}));
    admin.put(&format!("vhost-limits/{vhost}/max-connections"), json!({"value": 17}));
    admin.lists(command, &format!("--vhost {vhost}"), &[&vhost, "max-connections:", "17"]);
}

fn set_of_user(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": ""}));
    admin.run(command, &format!("--username {user} --name max-channels --value 3"));
    assert_eq!(admin.get(&format!("user-limits/{user}"))[0]["value"], json!({"max-channels": 3}));
}

fn lift_of_user(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": ""}));
    admin.put(&format!("user-limits/{user}/max-connections"), json!({"value": 3}));
    admin.run(command, &format!("--username {user} --name max-connections"));
    assert_eq!(admin.get(&format!("user-limits/{user}")), json!([]));
}

fn list_of_users(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": ""}));
    admin.put(&format!("user-limits/{user}/max-channels"), json!({"value": 19}));
    admin.lists(command, "", &[&user, "max-channels:", "19"]);
    let of_one = admin.rows(command, &format!("--username {user}"));
    assert_eq!(of_one, [vec![user, "max-channels:".to_owned(), "19".to_owned()]]);
}
