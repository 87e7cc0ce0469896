//! Limits of virtual hosts and users, set over HTTP and reached over AMQP.

use leveret_tests::broker::is_given;
use leveret_tests::http::Http;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Frame, Login, PROTOCOL_HEADER, Tuning, Wire, Writer, declare_arguments, method};
use serde_json::json;

const TUNING: Tuning = Tuning { frame_max: 0, heartbeat: 0 };

/// A node with the vhost `v` and the user `u`.
fn stage() -> (Node, Http) {
    let node = Node::start(Options::new());
    let http = node.http();
    let everything = json!({"configure": ".*", "write": ".*", "read": ".*"});
    put(&http, "vhosts/v", &json!({}));
    put(&http, "users/u", &json!({"password": "u", "tags": ""}));
    put(&http, "permissions/v/u", &everything);
    (node, http)
}

fn put(http: &Http, path: &str, body: &serde_json::Value) {
    let answer = http.put(&format!("/api/{path}"), body).expect("an answer");
    assert!(matches!(answer.status, 201 | 204), "{path}: {answer:?}");
}

fn log_in(node: &Node) -> Result<Wire, Frame> {
    let mut wire = Wire::connect(node.amqp());
    wire.send(PROTOCOL_HEADER);
    wire.next_method(method::CONNECTION_START)?;
    wire.log_in(TUNING, &Login { user: "u", password: "u", vhost: "v", ..Login::default() })?;
    Ok(wire)
}

fn reason(refused: Result<Wire, Frame>) -> (u16, String) {
    refused.expect_err("is refused").reason().expect("a reason")
}

#[test]
fn a_vhost_has_a_limit_of_connections() {
    if is_given() {
        return;
    }
    let (node, http) = stage();
    put(&http, "vhost-limits/v/max-connections", &json!({"value": 1}));
    let first = log_in(&node).expect("the first");
    let text = "NOT_ALLOWED - access to vhost 'v' refused for user 'u': connection limit (1) is reached";
    assert_eq!(reason(log_in(&node)), (530, text.to_owned()));
    first.close();
    let again = log_in(&node).expect("once the first is closed");
    http.delete("/api/vhost-limits/v/max-connections").expect("an answer");
    log_in(&node).expect("without a limit").close();
    again.close();
}

#[test]
fn a_vhost_has_a_limit_of_queues() {
    if is_given() {
        return;
    }
    let (node, http) = stage();
    put(&http, "vhost-limits/v/max-queues", &json!({"value": 1}));
    let mut wire = log_in(&node).expect("a connection");
    wire.open_channel(1);
    wire.declare(1, "first", true);
    wire.declare(1, "first", true);
    wire.send(&leveret_tests::wire::method_frame(1, method::QUEUE_DECLARE, &declare_arguments("second", true)));
    let closed = wire.next_method(method::CHANNEL_CLOSE).expect("channel.close");
    let text = "PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost 'v' (1) is reached";
    assert_eq!(closed.reason(), Some((406, text.to_owned())));
    wire.send(&leveret_tests::wire::method_frame(1, method::CHANNEL_CLOSE_OK, &Writer::new()));
    put(&http, "vhost-limits/v/max-queues", &json!({"value": -1}));
    wire.open_channel(1);
    wire.declare(1, "second", true);
    wire.close();
}

#[test]
fn a_user_has_limits_of_connections_and_channels() {
    if is_given() {
        return;
    }
    let (node, http) = stage();
    put(&http, "user-limits/u/max-connections", &json!({"value": 1}));
    put(&http, "user-limits/u/max-channels", &json!({"value": 2}));
    let mut wire = log_in(&node).expect("the first");
    let text = "NOT_ALLOWED - connection refused for user 'u': user connection limit (1) is reached";
    assert_eq!(reason(log_in(&node)), (530, text.to_owned()));
    wire.open_channel(1);
    wire.open_channel(2);
    let mut open = Writer::new();
    open.put_short_string("");
    wire.send(&leveret_tests::wire::method_frame(3, method::CHANNEL_OPEN, &open));
    let closed = wire.next_method(method::CONNECTION_CLOSE).expect("connection.close").reason().expect("a reason");
    let text = "number of channels opened for user 'u' has reached the maximum allowed user limit of (2)";
    assert!(closed.0 == 530 && closed.1.contains(text), "{closed:?}");
    // Other users aren't counted.
    Wire::open(node.amqp()).close();
}
