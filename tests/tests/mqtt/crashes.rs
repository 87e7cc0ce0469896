//! Promises of MQTT that outlive a `kill -9` of the node.

use std::time::{Duration, Instant, SystemTime};

use leveret_tests::PATIENCE;
use leveret_tests::mqtt::{
    AckKind, CameIn, Login, MqttClient, Packet, PropertyId, PropertyList, PropertyWriter, QoS, ReasonCode, Version,
    Will,
};
use leveret_tests::node::Node;
use serde_json::json;

use super::{VERSIONS, clean, finish, node, persistent};

fn kill(node: &mut Node) {
    node.kill();
    node.restart();
}

fn kept(node: &Node, filter: &str, count: usize) -> Vec<(String, Vec<u8>)> {
    let mut reader = clean(node.mqtt(), "reader-of-kept");
    reader.subscribe_to(filter, QoS::AtMostOnce);
    let mut came: Vec<CameIn> = (0..count).map(|_| reader.receive()).collect();
    reader.expect_nothing();
    reader.close();
    assert!(came.iter().all(|message| message.retain));
    came.sort_by(|one, other| one.topic.cmp(&other.topic));
    came.into_iter().map(|message| (message.topic.to_string(), message.payload)).collect()
}

#[test]
fn retained_messages_survive_and_removed_ones_stay_removed() {
    let Some(mut node) = node() else { return };
    let large = vec![7; 1 << 20];
    let mut writer = clean(node.mqtt(), "writer");
    for round in 0..3_u8 {
        writer.retain("r/changes", &[round]);
        writer.retain("r/removed", &[round]);
    }
    writer.retain("r/removed", b"");
    writer.retain("r/dotted.topic", b"x");
    writer.retain("r/large", &large);
    kill(&mut node);
    let expected = [("r/changes", vec![2]), ("r/dotted.topic", b"x".to_vec()), ("r/large", large)];
    let expected = expected.map(|(topic, payload)| (topic.to_owned(), payload));
    assert_eq!(kept(&node, "r/#", 3), expected);
    // Messages that were read back can be replaced and removed.
    let mut writer = clean(node.mqtt(), "writer");
    writer.retain("r/changes", b"new");
    writer.retain("r/large", b"");
    kill(&mut node);
    assert_eq!(kept(&node, "r/changes", 1)[0].1, b"new");
    kept(&node, "r/large", 0);
    kept(&node, "r/removed", 0);
    finish(&node);
}

#[test]
fn retained_messages_survive_a_clean_stop_and_many_changes() {
    let Some(mut node) = node() else { return };
    let mut writer = clean(node.mqtt(), "writer");
    for round in 0..2000_u32 {
        let topic = format!("m/{}", round % 10);
        writer.retain(&topic, &round.to_be_bytes());
    }
    writer.close();
    for _ in 0..2 {
        assert!(node.terminate().success());
        node.restart();
        let last = kept(&node, "m/+", 10);
        let expected: Vec<Vec<u8>> = (1990..2000_u32).map(|round| round.to_be_bytes().to_vec()).collect();
        assert_eq!(last.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>(), expected);
    }
    finish(&node);
}

/// Waits until so many records of sessions are durable and in force.
fn until_recorded(node: &Node, records: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = node.http().get("/api/queues/%2F/amq.mqtt.sessions").expect("an answer").json();
        if answer["messages"] == records {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The reader of messages of QoS 2, whose session is made before the crash.
fn reader(node: &Node, version: Version) -> MqttClient {
    let (mut reader, _) = persistent(node.mqtt(), "reader", version);
    reader.subscribe_to("t", QoS::ExactlyOnce);
    reader
}

fn read_once(node: &Node, version: Version, expected: &[&[u8]]) {
    let (mut reader, was_there) = persistent(node.mqtt(), "reader", version);
    assert!(was_there);
    let came: Vec<_> = expected.iter().map(|_| reader.message()).collect();
    for (message, expected) in came.iter().zip(expected) {
        assert_eq!(message.payload, *expected);
        reader.acknowledge(message);
    }
    reader.expect_nothing();
    reader.close();
}

#[test]
fn a_publish_of_qos_2_comes_once_wherever_the_crash_came() {
    for version in VERSIONS {
        // The crash comes before the client sees PUBREC, before it sends PUBREL, and before it sees PUBCOMP.
        for state in 0..3 {
            let Some(mut node) = node() else { return };
            reader(&node, version).vanish();
            let (mut writer, _) = persistent(node.mqtt(), "writer", version);
            writer.publish("t", b"once", QoS::ExactlyOnce, 3, false);
            writer.expect_ack(AckKind::PubRec, 3);
            if state == 2 {
                writer.ack(AckKind::PubRel, 3);
                writer.expect_ack(AckKind::PubComp, 3);
            }
            kill(&mut node);
            let (mut writer, was_there) = persistent(node.mqtt(), "writer", version);
            assert_eq!(was_there, state < 2, "{version:?}, {state}");
            if state == 0 {
                writer.publish("t", b"once", QoS::ExactlyOnce, 3, true);
                writer.expect_ack(AckKind::PubRec, 3);
            }
            writer.ack(AckKind::PubRel, 3);
            writer.expect_ack(AckKind::PubComp, 3);
            // The identifier is free again, also after another crash.
            kill(&mut node);
            let (mut writer, was_there) = persistent(node.mqtt(), "writer", version);
            assert!(!was_there);
            writer.publish("t", b"next", QoS::ExactlyOnce, 3, false);
            writer.expect_ack(AckKind::PubRec, 3);
            read_once(&node, version, &[b"once", b"next"]);
            finish(&node);
        }
    }
}

#[test]
fn a_delivery_of_qos_2_comes_once_wherever_the_crash_came() {
    for version in VERSIONS {
        // The crash comes before PUBREC, before PUBCOMP, and after it.
        for state in 0..3 {
            let Some(mut node) = node() else { return };
            let mut reader = reader(&node, version);
            let mut writer = clean(node.mqtt(), "writer");
            writer.publish("t", b"once", QoS::ExactlyOnce, 1, false);
            writer.expect_ack(AckKind::PubRec, 1);
            let message = reader.message();
            if state >= 1 {
                reader.ack(AckKind::PubRec, message.id);
                reader.expect_ack(AckKind::PubRel, message.id);
            }
            if state == 2 {
                reader.ack(AckKind::PubComp, message.id);
                // Its answer comes when the PUBCOMP was handled.
                reader.subscribe_to("other", QoS::AtMostOnce);
            }
            kill(&mut node);
            let (mut reader, was_there) = persistent(node.mqtt(), "reader", version);
            assert!(was_there);
            match state {
                0 => {
                    let again = reader.message();
                    assert_eq!((again.id, again.dup, &again.payload[..]), (message.id, true, &b"once"[..]));
                    reader.acknowledge(&again);
                }
                1 => {
                    reader.expect_ack(AckKind::PubRel, message.id);
                    reader.ack(AckKind::PubComp, message.id);
                }
                // The record of a PUBCOMP is written a moment later: then PUBREL comes again, and no message.
                _ => {}
            }
            if state < 2 {
                reader.expect_nothing();
            }
            reader.close();
            finish(&node);
        }
    }
}

#[test]
fn a_clean_start_forgets_what_came_of_qos_2() {
    let Some(mut node) = node() else { return };
    reader(&node, Version::V50).vanish();
    let (mut writer, _) = persistent(node.mqtt(), "writer", Version::V50);
    writer.publish("t", b"one", QoS::ExactlyOnce, 3, false);
    writer.expect_ack(AckKind::PubRec, 3);
    kill(&mut node);
    let login = Login { version: Version::V50, clean: true, expiry_s: 1000, ..Login::default() };
    let (mut writer, was_there) = MqttClient::open(node.mqtt(), "writer", login);
    assert!(!was_there);
    writer.publish("t", b"two", QoS::ExactlyOnce, 3, false);
    writer.expect_ack(AckKind::PubRec, 3);
    kill(&mut node);
    read_once(&node, Version::V50, &[b"one", b"two"]);
    finish(&node);
}

#[test]
fn a_session_isnt_prolonged_by_starts_of_the_node() {
    let Some(mut node) = node() else { return };
    let login = Login { version: Version::V50, clean: false, expiry_s: 1, ..Login::default() };
    let (mut writer, _) = MqttClient::open(node.mqtt(), "writer", login);
    writer.publish("t", b"one", QoS::ExactlyOnce, 3, false);
    // Without a subscription it has no queue: what has one is recorded.
    assert_eq!(writer.expect_ack(AckKind::PubRec, 3), ReasonCode::NO_MATCHING_SUBSCRIBERS);
    let mut reader = clean(node.mqtt(), "reader");
    reader.subscribe_to("t", QoS::ExactlyOnce);
    writer.publish("t", b"two", QoS::ExactlyOnce, 4, false);
    writer.expect_ack(AckKind::PubRec, 4);
    writer.close();
    // That the message came, and that its client is away since.
    until_recorded(&node, 2);
    // Its end is recorded by wall time: no start makes it longer.
    let ends = SystemTime::now() + Duration::from_millis(1100);
    while SystemTime::now() < ends {
        kill(&mut node);
    }
    let (_, was_there) = MqttClient::open(node.mqtt(), "writer", login);
    assert!(!was_there);
    finish(&node);
}

fn mortal(node: &Node, qos: QoS, retain: bool, delay_s: u32, expiry_s: u32) -> MqttClient {
    let mut properties = Vec::new();
    PropertyWriter::begin(&mut properties).number(PropertyId::WillDelayInterval, delay_s);
    let properties = PropertyList::written(&properties);
    let will = Will { topic: "t", qos, retain, properties, payload: b"gone" };
    let clean = expiry_s == 0;
    let login = Login { version: Version::V50, will: Some(will), clean, expiry_s, ..Login::default() };
    MqttClient::open(node.mqtt(), "mortal", login).0
}

#[test]
fn wills_of_connected_clients_are_published_once_after_a_crash() {
    for (expiry_s, delay_s) in [(0, 0), (1000, 0), (1000, 1)] {
        let Some(mut node) = node() else { return };
        reader(&node, Version::V50).vanish();
        let _mortal = mortal(&node, QoS::ExactlyOnce, false, delay_s, expiry_s);
        kill(&mut node);
        let (mut reader, _) = persistent(node.mqtt(), "reader", Version::V50);
        assert_eq!(reader.receive().payload, b"gone", "{expiry_s}, {delay_s}");
        // Its answer is as durable as what came before it.
        reader.subscribe_to("other", QoS::AtMostOnce);
        kill(&mut node);
        read_once(&node, Version::V50, &[]);
        finish(&node);
    }
}

#[test]
fn a_will_that_was_dropped_doesnt_come_after_a_crash() {
    let Some(mut node) = node() else { return };
    let mut reader = reader(&node, Version::V50);
    mortal(&node, QoS::AtLeastOnce, false, 0, 0).close();
    // It is taken over, so that the end of the one before is over when this one is open.
    mortal(&node, QoS::AtLeastOnce, false, 0, 0).vanish();
    assert_eq!(reader.receive().payload, b"gone");
    clean(node.mqtt(), "mortal").close();
    kill(&mut node);
    // PUBACK isn't answered: the crash may have come before it was written. The will that is dropped would come anew.
    let (mut reader, _) = persistent(node.mqtt(), "reader", Version::V50);
    reader.send(&Packet::PingReq);
    let is_answer = |packet: Packet<'_>| match packet {
        Packet::PingResp => true,
        Packet::Publish(publish) => {
            assert!(publish.dup, "{publish:?}");
            false
        }
        other => panic!("{other:?}"),
    };
    while !reader.next(is_answer).expect("PINGRESP") {}
    reader.close();
    finish(&node);
}

#[test]
fn a_retained_will_is_kept_after_a_crash() {
    let Some(mut node) = node() else { return };
    let _mortal = mortal(&node, QoS::AtLeastOnce, true, 0, 0);
    // A subscriber gets it when it is published.
    reader(&node, Version::V50).vanish();
    kill(&mut node);
    read_once(&node, Version::V50, &[b"gone"]);
    assert_eq!(kept(&node, "t", 1), [("t".to_owned(), b"gone".to_vec())]);
    kill(&mut node);
    assert_eq!(kept(&node, "t", 1).len(), 1);
    finish(&node);
}

#[test]
fn ledgers_are_the_brokers_own() {
    let Some(node) = node() else { return };
    let mut writer = clean(node.mqtt(), "writer");
    writer.retain("t", b"x");
    let http = node.http();
    let queue = "/api/queues/%2F/amq.mqtt.retained";
    assert_eq!(http.get(queue).expect("an answer").status, 200);
    let policy = json!({"pattern": ".*", "definition": {"expires": 1, "message-ttl": 1}, "apply-to": "queues"});
    assert!(http.put("/api/policies/%2F/all", &policy).expect("an answer").status < 300);
    let refused = http.delete(queue).expect("an answer");
    assert!(refused.status >= 400, "{}", refused.status);
    writer.retain("u", b"x");
    assert_eq!(kept(&node, "+", 2).len(), 2);
    let definitions = http.get("/api/definitions").expect("an answer");
    assert!(!definitions.body.contains("amq.mqtt"));
    finish(&node);
}
