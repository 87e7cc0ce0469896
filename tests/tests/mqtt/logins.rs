//! CONNECT: who may, with which codes others are refused, keep alive, limits, and what comes over other protocols.

use std::time::Duration;

use leveret_tests::mqtt::{AckKind, Login, MqttClient, QoS, ReasonCode, Version};
use leveret_tests::node::{Node, Options};
use leveret_tests::wire::{Wire, Writer, method, publish};
use serde_json::json;

use super::{clean, finish, node};

fn code(address: std::net::SocketAddr, client_id: &str, login: Login<'_>) -> ReasonCode {
    MqttClient::connect(address, client_id, login).connack().0
}

#[test]
fn refused_logins_have_the_codes_of_rabbitmq() {
    if leveret_tests::broker::is_given() {
        return;
    }
    let node = Node::start(Options::new().set("mqtt.allow_anonymous", false));
    for version in Version::ALL {
        let of = |user| Login { version, user, ..Login::default() };
        let bad = ReasonCode::BAD_USER_NAME_OR_PASSWORD;
        assert_eq!(code(node.mqtt(), "c", of(Some(("guest", "wrong")))), bad, "{version:?}");
        assert_eq!(code(node.mqtt(), "c", of(Some(("nowhere:guest", "guest")))), bad);
        assert_eq!(code(node.mqtt(), "c", of(Some(("guest", "")))), bad);
        assert_eq!(code(node.mqtt(), "c", of(None)), bad, "anonymous logins are off");
        assert_eq!(code(node.mqtt(), "c", of(Some(("/:guest", "guest")))), ReasonCode::SUCCESS);
    }
    let invalid = ReasonCode::CLIENT_IDENTIFIER_NOT_VALID;
    let not_clean = Login { version: Version::V311, clean: false, ..Login::default() };
    assert_eq!(code(node.mqtt(), "", not_clean), invalid, "MQTT 3.1.1, [MQTT-3.1.3-8]");
    assert_eq!(code(node.mqtt(), &"x".repeat(300), Login::default()), invalid);
    assert_eq!(code(node.mqtt(), "", Login::default()), ReasonCode::SUCCESS);
    finish(&node);
}

#[test]
fn packets_that_are_not_allowed_are_refused() {
    let Some(node) = node() else { return };
    let refused = |bytes: &[u8]| {
        let mut client = MqttClient::connect(node.mqtt(), "c", Login::default());
        client.connack();
        client.send_bytes(bytes);
        client.disconnected()
    };
    let second = b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0";
    assert_eq!(refused(second), Some(ReasonCode::PROTOCOL_ERROR), "[MQTT-3.1.0-2]");
    assert_eq!(refused(&[0x20, 3, 0, 0, 0]), Some(ReasonCode::PROTOCOL_ERROR), "only servers send CONNACK");
    assert_eq!(refused(&[0x36, 5, 0, 1, b'a', 0, 1]), Some(ReasonCode::MALFORMED_PACKET), "[MQTT-3.3.1-4]");
    assert_eq!(refused(&[0x30, 0xff, 0xff, 0xff, 0x7f]), Some(ReasonCode::PACKET_TOO_LARGE));
    finish(&node);
}

#[test]
fn a_silent_client_is_disconnected() {
    let Some(node) = node() else { return };
    let login = Login { keep_alive: 1, ..Login::default() };
    let (mut client, _) = MqttClient::open(node.mqtt(), "c", login);
    client.set_patience(Duration::from_secs(30));
    assert_eq!(client.disconnected(), Some(ReasonCode::KEEP_ALIVE_TIMEOUT), "[MQTT-3.1.2-22]");
    finish(&node);
}

#[test]
fn a_client_that_may_not_is_disconnected_or_told() {
    if leveret_tests::broker::is_given() {
        return;
    }
    for disconnects in [true, false] {
        let node = Node::start(Options::new().set("mqtt.disconnect_on_unauthorized", disconnects));
        let http = node.http();
        http.put("/api/users/device", &json!({"password": "secret", "tags": ""})).expect("an answer");
        let own = json!({"configure": "^mqtt-subscription-.*", "write": "^mqtt-subscription-.*", "read": ".*"});
        http.put("/api/permissions/%2F/device", &own).expect("an answer");
        let login = Login { user: Some(("device", "secret")), ..Login::default() };
        let (mut client, _) = MqttClient::open(node.mqtt(), "c", login);
        client.subscribe_to("t", QoS::AtLeastOnce);
        client.publish("t", b"x", QoS::AtLeastOnce, 1, false);
        match disconnects {
            true => assert_eq!(client.disconnected(), Some(ReasonCode::NOT_AUTHORIZED)),
            false => {
                assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::NOT_AUTHORIZED);
                client.expect_nothing();
                client.close();
            }
        }
        finish(&node);
    }
}

#[test]
fn topic_permissions_name_the_client_id_literally() {
    let Some(node) = node() else { return };
    let http = node.http();
    let own = json!({"exchange": "amq.topic", "write": "^up\\.{client_id}$", "read": "^down\\.{client_id}$"});
    http.put("/api/topic-permissions/%2F/guest", &own).expect("an answer");
    // A client id that would match others' topics if it were part of the pattern.
    for id in ["one", ".*"] {
        let mut client = clean(node.mqtt(), id);
        client.subscribe_to(&format!("down/{id}"), QoS::AtLeastOnce);
        client.publish(&format!("up/{id}"), b"x", QoS::AtLeastOnce, 1, false);
        assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::NO_MATCHING_SUBSCRIBERS);
        client.publish("up/other", b"x", QoS::AtLeastOnce, 1, false);
        assert_eq!(client.disconnected(), Some(ReasonCode::NOT_AUTHORIZED), "{id}");
    }
    finish(&node);
}

#[test]
fn draining_says_that_the_server_shuts_down() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    let overview = node.http().get("/api/overview").expect("an answer").json();
    let path = format!("/api/nodes/{}/maintenance", overview["node"].as_str().expect("a name"));
    node.http().put(&path, &serde_json::Value::Null).expect("an answer");
    assert_eq!(client.disconnected(), Some(ReasonCode::SERVER_SHUTTING_DOWN));
    node.http().delete(&path).expect("an answer");
    clean(node.mqtt(), "c").close();
    finish(&node);
}

#[test]
fn listings_show_clients_of_mqtt() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "shown");
    client.publish("t", b"x", QoS::AtLeastOnce, 1, false);
    client.expect_ack(AckKind::PubAck, 1);
    let connections = node.http().get("/api/connections").expect("an answer").json();
    let shown = &connections[0];
    assert_eq!((&shown["protocol"], &shown["client_properties"]["client_id"]), (&json!("MQTT 5-0"), &json!("shown")));
    let metrics = node.prometheus().get("/metrics").expect("metrics").body;
    let line = "rabbitmq_global_messages_received_total{protocol=\"mqtt50\"} 1";
    assert!(metrics.lines().any(|other| other == line), "no {line}");
    // [MQTT-3.14.2-1]: an operator's end of a connection has a reason, too.
    let name = shown["name"].as_str().expect("a name").replace(' ', "%20").replace('>', "%3E");
    node.http().delete(&format!("/api/connections/{name}")).expect("an answer");
    assert_eq!(client.disconnected(), Some(ReasonCode::ADMINISTRATIVE_ACTION));
    finish(&node);
}

#[test]
fn a_taken_port_that_nobody_asked_for_gives_a_warning() {
    if leveret_tests::broker::is_given() {
        return;
    }
    let Ok(taken) = std::net::TcpListener::bind("0.0.0.0:1883") else { return };
    // With a fixed port for AMQP, MQTT is on 1883.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let options = || Options::new().set("listeners.tcp.default", format!("127.0.0.1:{free}"));
    let mut node = Node::start(options());
    assert_eq!(node.ports().mqtt, 0);
    assert!(node.wait_for_line("there is no MQTT: "), "{}", node.log());
    drop(node);
    let node = Node::start(options().set("mqtt.listeners.tcp", "none"));
    assert_eq!(node.ports().mqtt, 0);
    drop((node, taken));
}

#[test]
fn a_proxy_tells_where_the_client_is() {
    if leveret_tests::broker::is_given() {
        return;
    }
    let node = Node::start(Options::new().set("mqtt.proxy_protocol", true));
    let code_by =
        |header: &str| MqttClient::connect_by(node.mqtt(), header.as_bytes(), "c", Login::default()).connack().0;
    // guest comes from this machine only, whatever machine the proxy is on.
    assert_eq!(code_by("PROXY TCP4 192.0.2.1 127.0.0.1 1000 1883\r\n"), ReasonCode::NOT_AUTHORIZED);
    assert_eq!(code_by("PROXY TCP4 127.0.0.1 127.0.0.1 1000 1883\r\n"), ReasonCode::SUCCESS);
    finish(&node);
}

#[test]
fn messages_go_to_streams() {
    let Some(node) = node() else { return };
    let http = node.http();
    let stream = json!({"durable": true, "arguments": {"x-queue-type": "stream"}});
    http.put("/api/queues/%2F/s", &stream).expect("an answer");
    http.post("/api/bindings/%2F/e/amq.topic/q/s", &json!({"routing_key": "t.#"})).expect("an answer");
    let mut client = clean(node.mqtt(), "c");
    for number in 0..5u8 {
        client.publish("t/x", &[number], QoS::AtLeastOnce, 1, false);
        assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::SUCCESS);
    }
    client.close();
    let shown = http.get("/api/queues/%2F/s").expect("an answer").json();
    assert_eq!(shown["messages"], 5);
    finish(&node);
}

#[test]
fn a_full_queue_is_quota_exceeded() {
    let Some(node) = node() else { return };
    let http = node.http();
    let full = json!({"durable": true, "arguments": {"x-max-length": 0, "x-overflow": "reject-publish"}});
    http.put("/api/queues/%2F/full", &full).expect("an answer");
    http.post("/api/bindings/%2F/e/amq.topic/q/full", &json!({"routing_key": "t"})).expect("an answer");
    let mut client = clean(node.mqtt(), "c");
    client.publish("t", b"x", QoS::AtLeastOnce, 1, false);
    assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::QUOTA_EXCEEDED);
    client.close();
    finish(&node);
}

#[test]
fn messages_cross_between_protocols() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    client.subscribe_to("from/amqp/#", QoS::AtLeastOnce);
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "q", true);
    let mut bind = Writer::new();
    bind.put_short(0).put_short_string("q").put_short_string("amq.topic").put_short_string("from.mqtt.#");
    bind.put_octet(0).put_empty_table();
    wire.call(1, method::QUEUE_BIND, &bind, method::QUEUE_BIND_OK);
    wire.confirm_select(1);
    wire.send(&publish(1, "amq.topic", "from.amqp.x", b"persistent", false, true));
    wire.confirms(1);
    let message = client.receive();
    assert_eq!(
        (&*message.topic, &message.payload[..], message.qos),
        ("from/amqp/x", &b"persistent"[..], QoS::AtLeastOnce)
    );
    wire.send(&publish(1, "amq.topic", "from.amqp.x", b"transient", false, false));
    wire.confirms(1);
    assert_eq!(client.receive().qos, QoS::AtMostOnce, "as in RabbitMQ");
    client.publish("from/mqtt/y", b"hello", QoS::AtLeastOnce, 1, false);
    assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::SUCCESS);
    wire.consume(1, "q", true);
    assert_eq!(wire.delivery().2, b"hello");
    client.close();
    finish(&node);
}
