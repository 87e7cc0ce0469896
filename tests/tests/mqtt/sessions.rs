//! Sessions (MQTT 5, 4.1): over reconnects, restarts, kills and take-over.

use leveret_tests::mqtt::{AckKind, Login, MqttClient, QoS, ReasonCode, Version};

use super::{VERSIONS, clean, finish, node, persistent};

#[test]
fn a_session_keeps_what_comes_while_its_client_is_away() {
    let Some(node) = node() else { return };
    for version in VERSIONS {
        let (mut reader, was_there) = persistent(node.mqtt(), "reader", version);
        assert!(!was_there);
        reader.subscribe_to("a/+", QoS::AtLeastOnce);
        reader.subscribe_to("b.c/#", QoS::ExactlyOnce);
        reader.subscribe_to("d", QoS::AtMostOnce);
        reader.close();
        let mut writer = clean(node.mqtt(), "writer");
        writer.publish_once("a/1", b"one");
        writer.publish_once("b.c/2", b"two");
        writer.publish_once("b/c/2", b"of another topic");
        writer.publish_once("d", b"three");
        let (mut reader, was_there) = persistent(node.mqtt(), "reader", version);
        assert!(was_there);
        let mut came: Vec<_> = (0..3).map(|_| reader.receive()).map(|message| (message.topic, message.qos)).collect();
        came.sort();
        let expected = [("a/1", QoS::AtLeastOnce), ("b.c/2", QoS::AtLeastOnce), ("d", QoS::AtMostOnce)];
        assert_eq!(came, expected.map(|(topic, qos)| (topic.to_owned(), qos)));
        reader.expect_nothing();
        reader.close();
        // A clean start ends it.
        let login = Login { version, ..Login::default() };
        let (reader, was_there) = MqttClient::open(node.mqtt(), "reader", login);
        assert!(!was_there);
        reader.close();
        let (reader, was_there) = persistent(node.mqtt(), "reader", version);
        assert!(!was_there);
        reader.close();
        writer.close();
    }
    finish(&node);
}

#[test]
fn a_session_survives_a_restart_and_a_kill() {
    let Some(mut node) = node() else { return };
    let (mut reader, _) = persistent(node.mqtt(), "reader", Version::V50);
    reader.subscribe_to("t/#", QoS::ExactlyOnce);
    let mut writer = clean(node.mqtt(), "writer");
    writer.publish_once("t/1", b"before the restart");
    let first = reader.message();
    reader.vanish();
    writer.close();
    assert!(node.terminate().success());
    node.restart();
    let mut writer = clean(node.mqtt(), "writer");
    for number in 0..200u16 {
        writer.publish("t/2", &number.to_be_bytes(), QoS::AtLeastOnce, number + 1, false);
    }
    for number in 0..200 {
        writer.expect_ack(AckKind::PubAck, number + 1);
    }
    node.kill();
    node.restart();
    let (mut reader, was_there) = persistent(node.mqtt(), "reader", Version::V50);
    assert!(was_there);
    let again = reader.receive();
    assert_eq!((again.payload, again.id), (first.payload, first.id), "the identifier follows from its number");
    for number in 0..200u16 {
        assert_eq!(reader.receive().payload, number.to_be_bytes(), "what was confirmed is there, in order");
    }
    reader.expect_nothing();
    reader.close();
    finish(&node);
}

#[test]
fn another_connection_takes_the_client_id_over() {
    let Some(node) = node() else { return };
    for version in VERSIONS {
        let (mut old, _) = persistent(node.mqtt(), "same", version);
        old.subscribe_to("t", QoS::AtLeastOnce);
        let mut writer = clean(node.mqtt(), "writer");
        writer.publish_once("t", b"1");
        let sent = old.message();
        let (mut new, was_there) = persistent(node.mqtt(), "same", version);
        assert!(was_there);
        let expected = (version == Version::V50).then_some(ReasonCode::SESSION_TAKEN_OVER);
        assert_eq!(old.disconnected(), expected, "[MQTT-3.1.4-3]");
        let again = new.receive();
        assert_eq!((again.id, again.payload), (sent.id, sent.payload));
        new.close();
        writer.close();
        MqttClient::open(node.mqtt(), "same", Login::default()).0.close();
    }
    finish(&node);
}

#[test]
fn the_same_client_id_in_a_loop_ends_with_the_last_connection() {
    let Some(node) = node() else { return };
    let mut one = clean(node.mqtt(), "loop");
    for _ in 0..50 {
        let (mut next, _) = MqttClient::open(node.mqtt(), "loop", Login::default());
        assert_eq!(one.disconnected(), Some(ReasonCode::SESSION_TAKEN_OVER));
        next.subscribe_to("t", QoS::AtLeastOnce);
        one = next;
    }
    one.publish("t", b"x", QoS::AtMostOnce, 0, false);
    assert_eq!(one.receive().payload, b"x");
    one.close();
    finish(&node);
}

#[test]
fn a_session_with_an_expiry_of_zero_at_its_end_is_gone() {
    let Some(node) = node() else { return };
    let (mut client, _) = persistent(node.mqtt(), "c", Version::V50);
    client.subscribe_to("t", QoS::AtLeastOnce);
    // DISCONNECT with a Session Expiry Interval of 0 (3.14.2.2.2).
    client.send_bytes(&[0xe0, 7, 0, 5, 0x11, 0, 0, 0, 0]);
    assert_eq!(client.next(|_| ()), None);
    let (client, was_there) = persistent(node.mqtt(), "c", Version::V50);
    assert!(!was_there);
    client.close();
    // One that was to end with its connection can't be prolonged.
    let mut client = clean(node.mqtt(), "c");
    client.send_bytes(&[0xe0, 7, 0, 5, 0x11, 0, 0, 0, 9]);
    assert_eq!(client.disconnected(), Some(ReasonCode::PROTOCOL_ERROR));
    finish(&node);
}
