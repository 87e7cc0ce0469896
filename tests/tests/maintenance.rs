//! Maintenance mode: a drained node disconnects its clients, accepts no others, and reports its state; once revived,
//! it is as before.

use std::io::ErrorKind;
use std::net::TcpStream;

use leveret_amqp10::condition;
use leveret_amqp10::value::EncodedMap;
use leveret_strict_client::amqp10::{Options as ClientOptions, SessionOptions};
use leveret_tests::amqp10::Amqp10;
use leveret_tests::broker::is_given;
use leveret_tests::conservation;
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{PROTOCOL_HEADER, Tuning, Wire, method, publish};
use serde_json::{Value, json};

fn path(node: &Node) -> String {
    let overview = node.http().get("/api/overview").expect("an answer").json();
    format!("/api/nodes/{}/maintenance", overview["node"].as_str().expect("a name"))
}

/// Calls the route. Returns the state reported by the node.
fn being_drained(node: &Node, method: &str) -> Value {
    let (http, path) = (node.http(), path(node));
    let answer = match method {
        "PUT" => http.put(&path, &Value::Null),
        "DELETE" => http.delete(&path),
        _ => http.get(&path),
    };
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["being_drained"].clone()
}

fn health(node: &Node, check: &str) -> (u16, Value) {
    let answer = node.http().get(&format!("/api/health/checks/{check}")).expect("an answer");
    (answer.status, answer.json())
}

/// The protocols of the listeners that the overview shows.
fn listed(node: &Node) -> Vec<String> {
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let listeners = overview["listeners"].as_array().expect("an array");
    listeners.iter().map(|one| one["protocol"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn draining_closes_connections_and_refuses_others_until_revived() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let mut amqp091 = Wire::open(node.amqp());
    amqp091.declare(1, "maintenance", true);
    amqp091.confirm_select(1);
    amqp091.send(&publish(1, "", "maintenance", b"before", true, true));
    amqp091.confirms(1);
    let mut amqp10 = Amqp10::open(node.amqp());
    // A client in the middle of the handshake, which sends its open too late.
    let mut late = Wire::connect(node.amqp());
    late.send(PROTOCOL_HEADER);
    late.next_method(method::CONNECTION_START).expect("connection.start");
    assert_eq!(health(&node, "is-in-service"), (200, json!({"status": "ok"})));
    assert_eq!(being_drained(&node, "GET"), json!(false));

    assert_eq!(being_drained(&node, "PUT"), json!(true));
    let refused = TcpStream::connect(node.amqp()).expect_err("the listener is closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let (code, text) = amqp091.until_closed().expect("a reason");
    assert_eq!((code, &*text), (320, "CONNECTION_FORCED - Node was put into maintenance mode"));
    let error = amqp10.error();
    assert_eq!(error.condition, condition::CONNECTION_FORCED.as_str());
    assert_eq!(error.description, "Connection forced: Node was put into maintenance mode");
    let frame = late.log_in_to(Tuning { frame_max: 0, heartbeat: 0 }, "/").expect_err("the node is in maintenance");
    assert_eq!(frame.reason().expect("a reason").0, 320);

    let reason = "this rabbit node is not currently available to serve";
    assert_eq!(health(&node, "is-in-service"), (503, json!({"status": "failed", "reason": reason})));
    assert_eq!(health(&node, "ready-to-serve-clients").0, 503);
    assert_eq!(health(&node, &format!("port-listener/{}", node.amqp().port())).0, 503);
    assert_eq!(health(&node, "protocol-listener/amqp").0, 503);
    assert_eq!(health(&node, "protocol-listener/stream").0, 503);
    assert_eq!(listed(&node), ["http", "http/prometheus"]);
    // Repeating it is no error.
    assert_eq!(being_drained(&node, "PUT"), json!(true));
    assert_eq!(being_drained(&node, "GET"), json!(true));

    assert_eq!(being_drained(&node, "DELETE"), json!(false));
    assert_eq!(being_drained(&node, "DELETE"), json!(false));
    assert_eq!(health(&node, "is-in-service").0, 200);
    assert_eq!(health(&node, "ready-to-serve-clients").0, 200);
    assert_eq!(health(&node, "protocol-listener/stream").0, 200);
    assert_eq!(listed(&node), ["amqp", "stream", "mqtt", "http", "http/prometheus"]);
    let mut wire = Wire::open(node.amqp());
    wire.consume(1, "maintenance", false);
    assert_eq!(wire.delivery().2, b"before");
    conservation::check(&node.http());
}

#[test]
fn connections_for_maintenance_stay_open() {
    if is_given() {
        return;
    }
    let node = Node::start(Options::new());
    let stays = |value: bool| {
        let properties = EncodedMap::new().with("ignore-maintenance", value);
        Amqp10::open_with(
            node.amqp(),
            ClientOptions { properties, ..ClientOptions::default() },
            SessionOptions::default(),
        )
    };
    let mut exempt = stays(true);
    let mut other = stays(false);
    leveret_tests::wire::declare_durable(node.amqp(), "maintenance");
    assert_eq!(being_drained(&node, "PUT"), json!(true));
    assert_eq!(other.error().condition, condition::CONNECTION_FORCED.as_str());
    exempt.sender(0, "/queues/maintenance");
    exempt.publish_accepted(0, b"during maintenance");
    exempt.receiver(1, "/queues/maintenance", 1);
    let message = exempt.receive(1);
    assert_eq!(message.data(), b"during maintenance");
    exempt.accept(&message);
    exempt.close();
    conservation::check(&node.http());
}

#[test]
fn only_administrators_may_drain_and_only_this_node() {
    if is_given() {
        return;
    }
    let node = Node::start(
        Options::new().set("default_user_tags.administrator", "false").set("default_user_tags.monitoring", "true"),
    );
    let (http, path) = (node.http(), path(&node));
    assert_eq!(http.get(&path).expect("an answer").status, 200);
    assert_eq!(http.put(&path, &Value::Null).expect("an answer").status, 401);
    assert_eq!(http.delete(&path).expect("an answer").status, 401);
    assert_eq!(http.get("/api/nodes/leveret@elsewhere/maintenance").expect("an answer").status, 404);
    assert_eq!(being_drained(&node, "GET"), json!(false));
    Wire::open(node.amqp()).close();
}

/// A restart ends maintenance mode, as in RabbitMQ.
#[test]
fn a_restarted_node_serves() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    assert_eq!(being_drained(&node, "PUT"), json!(true));
    assert!(node.terminate().success());
    node.restart();
    assert_eq!(being_drained(&node, "GET"), json!(false));
    Wire::open(node.amqp()).close();
    conservation::check(&node.http());
}
