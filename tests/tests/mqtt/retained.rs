//! Retained messages (MQTT 5, 3.3.1.3).

use leveret_tests::mqtt::{QoS, RetainHandling, SubscriptionOptions};

use super::{clean, finish, node};

#[test]
fn a_new_subscription_gets_the_last_message_of_each_topic() {
    let Some(node) = node() else { return };
    let mut writer = clean(node.mqtt(), "writer");
    for (topic, payload) in [("r/a", "old"), ("r/a", "new"), ("r/b/c", "deep"), ("r/gone", "x"), ("r/gone", "")] {
        writer.retain(topic, payload.as_bytes());
    }
    for qos in [QoS::AtMostOnce, QoS::ExactlyOnce] {
        let mut reader = clean(node.mqtt(), "reader");
        reader.subscribe_to("r/#", qos);
        let mut came: Vec<_> = (0..2).map(|_| reader.receive()).collect();
        came.sort_by(|one, other| one.topic.cmp(&other.topic));
        let seen: Vec<_> =
            came.iter().map(|message| (&*message.topic, &message.payload[..], message.retain, message.qos)).collect();
        let qos = qos.min(QoS::AtLeastOnce);
        assert_eq!(seen, [("r/a", &b"new"[..], true, qos), ("r/b/c", b"deep", true, qos)]);
        writer.retain("r/a", b"new");
        let live = reader.receive();
        assert!(!live.retain, "[MQTT-3.3.1-12]: it comes because it is new");
        reader.expect_nothing();
        reader.close();
    }
    writer.close();
    finish(&node);
}

#[test]
fn retain_handling_and_retain_as_published_are_kept_to() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    client.retain("t", b"kept");
    let with = |retain_handling, retain_as_published| {
        let qos = QoS::AtMostOnce;
        [("t", SubscriptionOptions { qos, retain_handling, retain_as_published, no_local: false })]
    };
    client.subscribe(&with(RetainHandling::DontSend, false), None);
    client.expect_nothing();
    client.subscribe(&with(RetainHandling::SendIfNew, false), None);
    client.expect_nothing();
    client.subscribe(&with(RetainHandling::Send, true), None);
    assert!(client.receive().retain);
    client.publish("t", b"x", QoS::AtMostOnce, 0, false);
    assert!(!client.receive().retain);
    client.close();
    finish(&node);
}
