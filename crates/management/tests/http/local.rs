//! The local socket: an administrator without a password, and additional routes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use leveret_management::{local, serve_local};

use crate::stage::HttpStage;

/// Routes of the local socket only.
const ROUTES: [(&str, &str); 9] = [
    ("GET", "/local/node"),
    ("POST", "/local/stop"),
    ("POST", "/local/listeners/suspend"),
    ("POST", "/local/listeners/resume"),
    ("POST", "/local/authenticate"),
    ("PUT", "/local/alarm-limits/memory"),
    ("PUT", "/local/alarm-limits/disk"),
    ("PUT", "/local/log-level"),
    ("POST", "/local/connections/close"),
];

#[test]
fn over_tcp_its_routes_do_not_exist() {
    let stage = HttpStage::new();
    for (method, path) in ROUTES {
        for credentials in [None, Some("guest:guest")] {
            let (status, body) = stage.ask_as(credentials, method, path, "{}");
            assert_eq!((status, &body["error"]), (404, &"Object Not Found".into()), "{method} {path}");
        }
    }
    // Over TCP, administrators need a password too.
    assert_eq!(stage.ask_as(None, "GET", "/api/users", "").0, 401);
    stage.node.stop("test");
}

#[test]
fn through_the_socket_everything_may_be_done() {
    let stage = HttpStage::new();
    let (socket, listener) = stage.node.open_local_socket().expect("opens");
    let router = local(stage.api.clone());
    stage.node.spawn(async move { serve_local(listener, router).await.expect("serves") });
    let path = stage.directory.path().join("control/socket");
    let ask = |method: &str, target: &str, body: &str| {
        let mut stream = UnixStream::connect(&path).expect("connects");
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nhost: local\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("is written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("is read");
        let status: u16 = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer)
    };
    assert!(ask("GET", "/local/node", "").1.contains("\"name\":\"leveret@localhost\""));
    assert!(ask("GET", "/api/whoami", "").1.contains("rmq-cli"));
    // In a vhost without any permissions; creating it there grants none.
    assert_eq!(ask("PUT", "/api/vhosts/w", "{}").0, 201);
    assert_eq!(ask("PUT", "/api/queues/w/q", "{}").0, 201);
    assert_eq!(ask("DELETE", "/api/queues/w/q/contents", "").0, 204);
    assert_eq!(ask("DELETE", "/api/queues/w/q", "").0, 204);
    let permissions = ask("GET", "/api/vhosts/w/permissions", "").1;
    // The list is sent in chunks.
    assert!(permissions.lines().any(|line| line == "[]"), "{permissions}");
    assert_eq!(ask("GET", "/api/queues/none", "").0, 404);
    // A user with that name is independent of it: over TCP its tags count.
    assert_eq!(stage.ask("PUT", "/api/users/rmq-cli", r#"{"password": "p", "tags": "management"}"#).0, 201);
    assert_eq!(stage.ask_as(Some("rmq-cli:p"), "GET", "/api/users", "").0, 401);
    let login = |password: &str| {
        ask("POST", "/local/authenticate", &format!(r#"{{"user": "guest", "password": "{password}"}}"#)).1
    };
    assert!(login("guest").ends_with("{\"authenticated\":true}"));
    assert!(login("wrong").ends_with("{\"authenticated\":false}"));
    assert!(login("").ends_with("{\"authenticated\":false}"));
    assert_eq!(ask("PUT", "/local/alarm-limits/disk", r#"{"bytes": 5}"#).0, 200);
    assert_eq!(stage.node.handle().alarm_limits().disk_free_bytes, 5);
    assert_eq!(ask("PUT", "/local/alarm-limits/memory", r#"{"factor": 0.5}"#).0, 200);
    let limits = stage.node.handle().alarm_limits();
    assert_eq!(limits.memory_bytes, Some(limits.total_memory_bytes / 2));
    assert_eq!(ask("PUT", "/local/alarm-limits/memory", r#"{"factor": -1}"#).0, 400);
    assert_eq!(ask("POST", "/local/connections/close", r#"{"reason": "x", "vhost": "none"}"#).0, 404);
    assert_eq!(ask("POST", "/local/connections/close", r#"{}"#).0, 400);
    let level = |name: &str| ask("PUT", "/local/log-level", &format!(r#"{{"level": "{name}"}}"#)).0;
    assert_eq!(level("debug"), 503, "a test has no log");
    assert_eq!(level("loud"), 400);
    assert_eq!(ask("POST", "/local/log/rotate", "").0, 503);
    assert_eq!(ask("GET", "/local/log/tail?lines=x", "").0, 400);
    drop(socket);
    stage.node.stop("test");
}
