use serde_json::json;

use super::Effect;
use super::admin::{Admin, name};

pub(super) const EFFECTS: &[(&str, Effect)] = &[
    ("declare user", declare),
    ("users declare", declare),
    ("passwords salt_and_hash", hash),
    ("delete user", delete),
    ("users delete", delete),
    ("list users", list),
    ("users list", list),
    ("declare permissions", permit),
    ("permissions declare", permit),
    ("delete permissions", revoke),
    ("permissions delete", revoke),
    ("list permissions", list_permissions),
    ("permissions list", list_permissions),
    ("users permissions", list_permissions),
    ("auth_attempts stats", logins),
];

/// The status of a request by this user.
fn asks(admin: &Admin, user: &str, password: &str) -> u16 {
    admin.http.as_user(user, password).get("/api/whoami").expect("an answer").status
}

fn declare(admin: &Admin, command: &str) {
    let user = name(command);
    admin.run(command, &format!("--name {user} --password secret --tags management,policymaker"));
    assert_eq!(admin.get(&format!("users/{user}"))["tags"], json!(["management", "policymaker"]));
    assert_eq!((asks(admin, &user, "secret"), asks(admin, &user, "wrong")), (200, 401));
}

fn hash(admin: &Admin, command: &str) {
    for (algorithm, user) in [("SHA256", "hashed-256"), ("SHA512", "hashed-512")] {
        let printed = admin.rows(command, &format!("secret --hashing-algorithm {algorithm}"));
        let hash = printed.iter().find(|row| row.starts_with(&["password".to_owned(), "hash".to_owned()]));
        let hash = &hash.unwrap_or_else(|| panic!("no hash: {printed:?}"))[2];
        let body = format!("rabbit_password_hashing_{}", algorithm.to_lowercase());
        admin.put(
            &format!("users/{user}"),
            json!({"password_hash": hash, "hashing_algorithm": body, "tags": "management"}),
        );
        assert_eq!((asks(admin, user, "secret"), asks(admin, user, "wrong")), (200, 401), "{algorithm}");
    }
    let hash = admin.get("users/hashed-256")["password_hash"].as_str().expect("a hash").to_owned();
    admin.run("declare user", &format!("--name by-hash --password-hash {hash} --tags management"));
    assert_eq!(asks(admin, "by-hash", "secret"), 200);
}

fn delete(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": "management"}));
    assert_eq!(asks(admin, &user, "secret"), 200);
    admin.run(command, &format!("--name {user}"));
    assert_eq!((admin.status(&format!("users/{user}")), asks(admin, &user, "secret")), (404, 401));
    admin.fails(command, &format!("--name {user}"), "404");
    admin.run(command, &format!("--name {user} --idempotently"));
}

fn list(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": "monitoring"}));
    admin.lists(command, "", &["guest", "administrator"]);
    admin.lists(command, "", &[&user, "monitoring"]);
    let first = admin.rows(command, "--page 1 --page-size 1");
    let second = admin.rows(command, "--page 2 --page-size 1");
    assert!(first.len() == 1 && second.len() == 1 && first != second, "{first:?} {second:?}");
}

fn permit(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": "management"}));
    let may = |queue: &str| {
        let http = admin.http.as_user(&user, "secret");
        http.put(&format!("/api/queues/%2F/{queue}"), &json!({})).expect("an answer").status
    };
    assert_eq!(may("mine"), 404, "the vhost is hidden");
    admin.run(command, &format!("--username {user} --configure ^mine --read .* --write ^$"));
    let made = admin.get(&format!("permissions/%2F/{user}"));
    assert_eq!((&made["configure"], &made["read"], &made["write"]), (&json!("^mine"), &json!(".*"), &json!("^$")));
    assert_eq!((may(&format!("mine-{user}")), may("other")), (201, 401));
    admin.fails(command, &format!("--username {user} --configure [ --read .* --write .*"), "400");
}

fn revoke(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": "management"}));
    admin.put(&format!("permissions/%2F/{user}"), json!({"configure": ".*", "read": ".*", "write": ".*"}));
    admin.run(command, &format!("--username {user}"));
    assert_eq!(admin.status(&format!("permissions/%2F/{user}")), 404);
    let http = admin.http.as_user(&user, "secret");
    assert_eq!(http.put("/api/queues/%2F/no", &json!({})).expect("an answer").status, 404);
    admin.fails(command, &format!("--username {user}"), "404");
    admin.run(command, &format!("--username {user} --idempotently"));
}

fn list_permissions(admin: &Admin, command: &str) {
    let user = name(command);
    admin.put(&format!("users/{user}"), json!({"password": "secret", "tags": ""}));
    admin.put(&format!("permissions/%2F/{user}"), json!({"configure": "^c", "read": "^r", "write": "^w"}));
    let row = [user.as_str(), "/", "^c", "^r", "^w"].map(str::to_owned);
    assert!(admin.rows(command, "").contains(&row.to_vec()), "{command}");
}

fn logins(admin: &Admin, command: &str) {
    let of_http = || {
        let rows = admin.rows(command, "--node NODE");
        let row = rows.iter().find(|row| row[0] == "http").unwrap_or_else(|| panic!("no row of http: {rows:?}"));
        row[1..4].iter().map(|number| number.parse().expect("a number")).collect::<Vec<u64>>()
    };
    let before = of_http();
    assert_eq!(asks(admin, "guest", "wrong"), 401);
    let after = of_http();
    assert!(after[1] > before[1] && after[2] > before[2], "{before:?} {after:?}");
    assert_eq!(after[0], after[1] + after[2]);
}
