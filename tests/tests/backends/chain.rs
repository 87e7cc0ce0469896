//! The order of backends, names that aren't there, and separate backends for HTTP.

use std::fs;

use leveret_tests::node::{Node, run};
use serde_json::json;

use crate::service::{Service, ServiceReply, free_port};
use crate::stage::{amqp10, amqp091, asking, asking_at, ctl, options, refused_declare, stream};

const REFUSED: &str =
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";

fn allow_robot(asked: &crate::service::ServiceRequest) -> ServiceReply {
    match (&*asked.path, asked.field("username"), asked.field("password")) {
        ("/user", "robot", "of-metal") => ServiceReply::Text("allow"),
        ("/user", ..) => ServiceReply::Text("deny who is that"),
        _ => ServiceReply::Text("allow"),
    }
}

#[test]
fn the_first_backend_that_accepts_decides() {
    let service = Service::start(allow_robot);
    let mut node = Node::start(asking(&service));
    amqp091(node.amqp(), "robot", "of-metal").expect("the service lets it in").close();
    amqp091(node.amqp(), "guest", "guest").expect("the node's own user, after the service").close();
    for (user, password) in [("robot", "guest"), ("guest", "of-metal"), ("nobody", "x")] {
        let refused = amqp091(node.amqp(), user, password).expect_err("is refused");
        assert_eq!(refused.reason(), Some((403, REFUSED.to_owned())), "{user}");
    }
    assert!(node.wait_for_line("backend http: denied by the service: who is that; backend internal"));
    assert!(!node.log().contains("of-metal"), "no password is in the log");
}

#[test]
fn an_empty_password_is_refused_without_asking() {
    let service = Service::start(|_| ServiceReply::Text("allow administrator"));
    let node = Node::start(asking(&service));
    assert!(amqp091(node.amqp(), "robot", "").is_err());
    assert_eq!(service.count("/user"), 0);
}

#[test]
fn a_backend_that_is_down_counts_as_a_refusal() {
    let port = free_port();
    let options = asking_at(port).set("auth_backends.1", "http").set("auth_backends.2", "internal");
    let mut node = Node::start(options);
    amqp091(node.amqp(), "guest", "guest").expect("the next one lets it in").close();
    assert!(amqp091(node.amqp(), "robot", "x").is_err());
    assert!(node.wait_for_line("backend http: cannot connect to 127.0.0.1"));
}

#[test]
fn one_backend_checks_and_others_grant() {
    let service = Service::start(|asked| match &*asked.path {
        "/user" if asked.field("password") == "right" => ServiceReply::Text("allow"),
        "/user" => ServiceReply::Text("deny"),
        _ => ServiceReply::Status(500, "nobody asks this"),
    });
    let options = asking_at(service.port)
        .set("auth_backends.1.authn", "rabbit_auth_backend_http")
        .set("auth_backends.1.authz", "internal");
    let mut node = Node::start(options);
    // The password is the service's, the permissions are those of the user of the node.
    let mut wire = amqp091(node.amqp(), "guest", "right").expect("is let in");
    wire.declare(1, "q", false);
    wire.close();
    assert!(amqp091(node.amqp(), "guest", "guest").is_err());
    assert!(amqp091(node.amqp(), "stranger", "right").is_err());
    assert!(node.wait_for_line("backend internal: user 'stranger' isn't there"));
    assert_eq!(node.http().as_user("guest", "right").get("/api/whoami").expect("an answer").status, 200);
    assert!(service.asked().iter().all(|asked| asked.path == "/user"));
}

#[test]
fn all_that_grant_have_to_agree() {
    let service = Service::start(|asked| match (&*asked.path, asked.field("name")) {
        ("/resource", name) if name.starts_with("secret") => ServiceReply::Text("deny"),
        ("/user", _) => ServiceReply::Status(500, "another one checks"),
        _ => ServiceReply::Text("allow"),
    });
    let options =
        asking_at(service.port).set("auth_backends.1.authn", "internal").set("auth_backends.1.authz", "internal dummy");
    let node = Node::start(options);
    amqp091(node.amqp(), "guest", "guest").expect("both agree").close();
    node.http().put("/api/users/limited", &json!({"password": "limited-1", "tags": ""})).expect("an answer");
    let limited = json!({"configure": "^mine", "write": "", "read": ""});
    node.http().put("/api/permissions/%2F/limited", &limited).expect("an answer");
    let mut wire = amqp091(node.amqp(), "limited", "limited-1").expect("is let in");
    wire.declare(1, "mine", false);
    let refused = refused_declare(&mut wire, 1, "other");
    assert_eq!(
        refused,
        (403, "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'limited'".to_owned())
    );
}

#[test]
fn http_has_backends_of_its_own() {
    let service = Service::start(|asked| match &*asked.path {
        "/user" if asked.field("username") == "admin" => ServiceReply::Text("allow administrator"),
        "/user" => ServiceReply::Text("deny"),
        _ => ServiceReply::Text("allow"),
    });
    let node = Node::start(asking_at(service.port).set("http_dispatch.auth_backends.1", "http"));
    amqp091(node.amqp(), "guest", "guest").expect("asks the node").close();
    assert!(amqp10(node.amqp(), "guest", "guest").is_some() && stream(&node, "guest", "guest").is_ok());
    assert!(amqp091(node.amqp(), "admin", "x").is_err(), "the service isn't asked for it");
    assert_eq!(node.http().get("/api/overview").expect("an answer").status, 401);
    let answer = node.http().as_user("admin", "x").get("/api/whoami").expect("an answer");
    assert_eq!((answer.status, &answer.json()["tags"]), (200, &json!(["administrator"])));
}

#[test]
fn users_from_this_machine_only_may_log_in_from_it() {
    let node = Node::start(options().set("auth_backends.1", "internal_loopback"));
    amqp091(node.amqp(), "guest", "guest").expect("is here").close();
    assert!(amqp091(node.amqp(), "guest", "wrong").is_err());
}

#[test]
fn a_name_that_is_not_there_stops_the_start() {
    let directory = leveret_tests::node::new_directory();
    let data = directory.path().display().to_string();
    for (key, name, text) in [
        ("auth_backends.2", "ldap", "the backend 'ldap' isn't built yet"),
        ("auth_backends.1", "rabbit_auth_backend_none", "there is no backend 'rabbit_auth_backend_none'"),
        ("http_dispatch.auth_backends.1", "kerberos", "there is no backend 'kerberos'"),
        ("auth_cache.cached_backend", "cache", "a cache can't be cached"),
        ("auth_http.user_path", "ftp://x", "expected a URL"),
        ("auth_oauth2.issuer", "http://x", "expected a URL that begins with https://"),
    ] {
        let (status, _, error) = run(&["server", "--data-dir", &data, "--set", &format!("{key}={name}")]);
        assert!(status != 0 && error.contains(text) && error.contains(key), "{error}");
    }
    let (status, _, error) = run(&["server", "--data-dir", &data, "--set", "auth_backends.1=oauth2"]);
    assert!(status != 0 && error.contains("auth_oauth2.resource_server_id isn't set"), "{error}");
    let file = directory.path().join("advanced.config");
    fs::write(&file, "[{rabbit, [{auth_backends, [rabbit_auth_backend_internal, {rabbit_auth_backend_ldap, x}]}]}].")
        .expect("is written");
    let (status, _, error) = run(&["server", "--data-dir", &data, "--advanced-config", &file.display().to_string()]);
    assert!(status != 0 && error.contains("rabbit_auth_backend_ldap"), "{error}");
}

#[test]
fn the_command_asks_the_chain() {
    let service = Service::start(allow_robot);
    let node = Node::start(asking(&service));
    let ask = |user: &str, password: &str| ctl(&node, &["authenticate_user", user, password]);
    let (status, text) = ask("robot", "of-metal");
    assert!(status == 0 && text.contains("Success"), "{text}");
    assert_eq!(ask("guest", "guest").0, 0);
    assert_eq!(ask("robot", "wrong-1").0, 65);
}
