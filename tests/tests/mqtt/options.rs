//! Subscription options, identifiers, properties and topic aliases (MQTT 5).

use leveret_tests::mqtt::{
    AckKind, Packet, PropertyId, PropertyList, PropertyWriter, Publish, QoS, ReasonCode, SubscriptionOptions,
};

use super::{clean, finish, node};

fn options(qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions { qos, ..SubscriptionOptions::default() }
}

#[test]
fn overlapping_filters_get_one_copy_with_all_identifiers() {
    let Some(node) = node() else { return };
    let mut reader = clean(node.mqtt(), "reader");
    reader.subscribe(&[("o/#", options(QoS::AtMostOnce))], Some(5));
    reader.subscribe(&[("o/+", options(QoS::AtLeastOnce))], Some(300));
    let mut writer = clean(node.mqtt(), "writer");
    writer.publish_once("o/x", b"both");
    let message = reader.receive();
    let properties = PropertyList::of_publish(&message.properties).expect("is right");
    let mut ids: Vec<_> = properties.iter().map(|property| property.value).collect();
    ids.sort_by_key(|value| format!("{value:?}"));
    assert_eq!(format!("{ids:?}"), "[Number(300), Number(5)]");
    assert_eq!(message.qos, QoS::AtLeastOnce);
    reader.expect_nothing();
    reader.close();
    writer.close();
    finish(&node);
}

#[test]
fn no_local_leaves_own_messages_out() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    let own = SubscriptionOptions { no_local: true, ..options(QoS::AtLeastOnce) };
    client.subscribe(&[("t", own)], None);
    client.publish_once("t", b"own");
    client.expect_nothing();
    let mut other = clean(node.mqtt(), "other");
    other.publish_once("t", b"other");
    assert_eq!(client.receive().payload, b"other");
    client.close();
    other.close();
    finish(&node);
}

#[test]
fn properties_reach_subscribers_and_aliases_stand_for_topics() {
    let Some(node) = node() else { return };
    let mut reader = clean(node.mqtt(), "reader");
    reader.subscribe_to("t", QoS::AtLeastOnce);
    let mut writer = clean(node.mqtt(), "writer");
    let mut bytes = Vec::new();
    let mut properties = PropertyWriter::begin(&mut bytes);
    properties.user("k", "v");
    properties.user("k", "w");
    properties.text(PropertyId::ContentType, "text/plain");
    properties.text(PropertyId::ResponseTopic, "answers");
    properties.binary(PropertyId::CorrelationData, &[1, 2]);
    let for_readers = bytes.clone();
    PropertyWriter::begin(&mut bytes).number(PropertyId::TopicAlias, 16);
    for topic in ["t", ""] {
        let (qos, properties) = (QoS::AtLeastOnce, PropertyList::written(&bytes));
        let publish = Publish { dup: false, qos, retain: false, topic, packet_id: 1, properties, payload: b"x" };
        writer.send(&Packet::Publish(publish));
        writer.expect_ack(AckKind::PubAck, 1);
        let message = reader.receive();
        assert_eq!((&*message.topic, message.properties), ("t", for_readers.clone()), "[MQTT-3.3.2-17]");
    }
    for (alias, reason) in [(17, ReasonCode::TOPIC_ALIAS_INVALID), (3, ReasonCode::PROTOCOL_ERROR)] {
        let mut writer = clean(node.mqtt(), "writer");
        let mut bytes = Vec::new();
        PropertyWriter::begin(&mut bytes).number(PropertyId::TopicAlias, alias);
        let properties = PropertyList::written(&bytes);
        let (qos, topic) = (QoS::AtMostOnce, "");
        writer.send(&Packet::Publish(Publish {
            dup: false,
            qos,
            retain: false,
            topic,
            packet_id: 0,
            properties,
            payload: b"",
        }));
        assert_eq!(writer.disconnected(), Some(reason), "alias {alias}");
    }
    reader.close();
    finish(&node);
}

#[test]
fn an_unsubscribed_topic_brings_nothing_more() {
    let Some(node) = node() else { return };
    let mut client = clean(node.mqtt(), "c");
    client.subscribe_to("t", QoS::AtLeastOnce);
    let mut bytes = Vec::new();
    leveret_tests::mqtt::encode_unsubscribe(
        &mut bytes,
        leveret_tests::mqtt::Version::V50,
        4,
        PropertyList::NONE,
        &["t", "never"],
    );
    client.send_bytes(&bytes);
    let codes = client.next(|packet| match packet {
        Packet::UnsubAck(unsuback) => unsuback.codes.to_vec(),
        other => panic!("{other:?}"),
    });
    assert_eq!(codes, Some(vec![0, ReasonCode::NO_SUBSCRIPTION_EXISTED.0]));
    client.publish("t", b"x", QoS::AtLeastOnce, 1, false);
    assert_eq!(client.expect_ack(AckKind::PubAck, 1), ReasonCode::NO_MATCHING_SUBSCRIBERS);
    client.expect_nothing();
    let shared = client.subscribe(&[("$share/g/t", options(QoS::AtLeastOnce))], None);
    assert_eq!(shared, [ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED.0], "they aren't there yet");
    client.close();
    finish(&node);
}
