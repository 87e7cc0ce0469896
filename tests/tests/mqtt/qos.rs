//! The three levels of QoS (MQTT 5, 4.3).

use leveret_tests::mqtt::{AckKind, Login, MqttClient, QoS, ReasonCode, Version};

use super::{VERSIONS, clean, finish, node, persistent};

#[test]
fn messages_come_with_the_lower_qos_of_both_sides() {
    let Some(node) = node() else { return };
    for version in Version::ALL {
        let (mut reader, _) = MqttClient::open(node.mqtt(), "r", Login { version, ..Login::default() });
        let (mut writer, _) = MqttClient::open(node.mqtt(), "w", Login { version, ..Login::default() });
        let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        for wanted in levels {
            let topic = format!("t/{}", wanted.bits());
            reader.subscribe_to(&topic, wanted);
            for sent in levels {
                writer.publish(&topic, b"x", sent, 5, false);
                match sent {
                    QoS::AtMostOnce => {}
                    QoS::AtLeastOnce => _ = writer.expect_ack(AckKind::PubAck, 5),
                    QoS::ExactlyOnce => {
                        writer.expect_ack(AckKind::PubRec, 5);
                        writer.ack(AckKind::PubRel, 5);
                        writer.expect_ack(AckKind::PubComp, 5);
                    }
                }
                assert_eq!(reader.receive().qos, wanted.min(sent), "{version:?}: {sent:?} to {wanted:?}");
            }
        }
        writer.close();
        reader.close();
    }
    finish(&node);
}

#[test]
fn a_message_of_qos_2_that_comes_again_is_published_once() {
    let Some(node) = node() else { return };
    for version in VERSIONS {
        let mut reader = clean(node.mqtt(), "reader");
        reader.subscribe_to("t", QoS::ExactlyOnce);
        let (mut writer, _) = persistent(node.mqtt(), "writer", version);
        writer.publish("t", b"once", QoS::ExactlyOnce, 3, false);
        writer.expect_ack(AckKind::PubRec, 3);
        writer.vanish();
        // Whether the PUBREC came, a client can't tell.
        let (mut writer, _) = persistent(node.mqtt(), "writer", version);
        writer.publish("t", b"once", QoS::ExactlyOnce, 3, true);
        writer.expect_ack(AckKind::PubRec, 3);
        writer.ack(AckKind::PubRel, 3);
        writer.expect_ack(AckKind::PubComp, 3);
        assert_eq!(reader.receive().payload, b"once");
        // The identifier is free again.
        writer.publish("t", b"next", QoS::ExactlyOnce, 3, false);
        writer.expect_ack(AckKind::PubRec, 3);
        writer.ack(AckKind::PubRel, 3);
        writer.expect_ack(AckKind::PubComp, 3);
        assert_eq!(reader.receive().payload, b"next");
        reader.expect_nothing();
        let unknown = {
            writer.ack(AckKind::PubRel, 77);
            writer.expect_ack(AckKind::PubComp, 77)
        };
        let expected =
            if version == Version::V50 { ReasonCode::PACKET_IDENTIFIER_NOT_FOUND } else { ReasonCode::SUCCESS };
        assert_eq!(unknown, expected, "a PUBREL without PUBLISH");
        writer.close();
        reader.close();
    }
    finish(&node);
}

#[test]
fn an_unacknowledged_message_comes_again_with_its_identifier() {
    let Some(node) = node() else { return };
    for version in VERSIONS {
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let (mut reader, _) = persistent(node.mqtt(), "reader", version);
            reader.subscribe_to("t", qos);
            let mut writer = clean(node.mqtt(), "writer");
            for payload in [b"1", b"2", b"3"] {
                writer.publish("t", payload, QoS::ExactlyOnce, 1, false);
                writer.expect_ack(AckKind::PubRec, 1);
                writer.ack(AckKind::PubRel, 1);
                writer.expect_ack(AckKind::PubComp, 1);
            }
            let before: Vec<_> = (0..3).map(|_| reader.message()).collect();
            assert!(before.iter().all(|message| !message.dup));
            reader.vanish();
            let (mut reader, is_there) = persistent(node.mqtt(), "reader", version);
            assert!(is_there);
            let again: Vec<_> = (0..3).map(|_| reader.message()).collect();
            for (earlier, again) in before.into_iter().zip(again) {
                reader.acknowledge(&again);
                assert!(again.dup);
                assert_eq!((again.id, again.payload), (earlier.id, earlier.payload));
            }
            reader.expect_nothing();
            reader.close();
            writer.close();
        }
    }
    finish(&node);
}

#[test]
fn a_released_message_goes_on_with_pubrel_after_a_reconnect() {
    let Some(node) = node() else { return };
    for version in VERSIONS {
        let (mut reader, _) = persistent(node.mqtt(), "reader", version);
        reader.subscribe_to("t", QoS::ExactlyOnce);
        let mut writer = clean(node.mqtt(), "writer");
        writer.publish("t", b"once", QoS::ExactlyOnce, 1, false);
        writer.expect_ack(AckKind::PubRec, 1);
        let message = reader.message();
        reader.ack(AckKind::PubRec, message.id);
        reader.expect_ack(AckKind::PubRel, message.id);
        reader.vanish();
        // [MQTT-4.4.0-1] and [MQTT-4.3.3-4]
        let (mut reader, _) = persistent(node.mqtt(), "reader", version);
        reader.expect_ack(AckKind::PubRel, message.id);
        reader.ack(AckKind::PubComp, message.id);
        reader.expect_nothing();
        reader.close();
        writer.close();
    }
    finish(&node);
}

#[test]
fn a_client_gets_no_more_than_its_receive_maximum() {
    let Some(node) = node() else { return };
    let login = Login { receive_max: Some(2), ..Login::default() };
    let (mut reader, _) = MqttClient::open(node.mqtt(), "reader", login);
    reader.subscribe_to("t", QoS::ExactlyOnce);
    let mut writer = clean(node.mqtt(), "writer");
    for payload in [b"1", b"2", b"3"] {
        writer.publish("t", payload, QoS::ExactlyOnce, 1, false);
        writer.expect_ack(AckKind::PubRec, 1);
        writer.ack(AckKind::PubRel, 1);
        writer.expect_ack(AckKind::PubComp, 1);
    }
    let (first, second) = (reader.message(), reader.message());
    assert_eq!((&first.payload[..], &second.payload[..]), (&b"1"[..], &b"2"[..]));
    reader.ack(AckKind::PubRec, first.id);
    reader.expect_ack(AckKind::PubRel, first.id);
    // It counts until its PUBCOMP [MQTT-3.3.4-9].
    reader.expect_nothing();
    reader.ack(AckKind::PubComp, first.id);
    assert_eq!(reader.message().payload, b"3");
    reader.close();
    writer.close();
    finish(&node);
}

#[test]
fn large_messages_come_back() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        client.subscribe_to("t", qos);
        for size in [0, 5_000, 300_000, 3 << 20] {
            let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            client.publish("t", &payload, QoS::AtLeastOnce, 1, false);
            // Its acknowledgement and the message come in any order.
            let mut came = 0;
            while came < 2 {
                let id = client.next(|packet| match packet {
                    leveret_tests::mqtt::Packet::Publish(publish) => {
                        assert!(publish.payload == payload, "{size} bytes");
                        publish.packet_id
                    }
                    _ => 0,
                });
                if let Some(id @ 1..) = id {
                    client.ack(AckKind::PubAck, id);
                }
                came += 1;
            }
        }
    }
    client.close();
    finish(&node);
}
