//! Wills (MQTT 5, 3.1.2.5).

use leveret_tests::mqtt::{Login, MqttClient, PropertyId, PropertyList, PropertyWriter, QoS, ReasonCode, Will};

use super::{clean, finish, node};

fn will(properties: &[u8]) -> Will<'_> {
    Will {
        topic: "will/x",
        qos: QoS::ExactlyOnce,
        retain: false,
        properties: PropertyList::written(properties),
        payload: b"gone",
    }
}

#[test]
fn a_will_is_published_unless_its_client_takes_leave() {
    let Some(node) = node() else { return };
    let mut reader = clean(node.mqtt(), "reader");
    reader.subscribe_to("will/#", QoS::ExactlyOnce);
    let open = || MqttClient::open(node.mqtt(), "mortal", Login { will: Some(will(&[])), ..Login::default() }).0;
    open().close();
    reader.expect_nothing();
    open().vanish();
    assert_eq!(reader.receive().payload, b"gone");
    // DISCONNECT with will, 0x04.
    let mut client = open();
    client.send_bytes(&[0xe0, 1, 4]);
    assert_eq!(client.next(|_| ()), None);
    assert_eq!(reader.receive().payload, b"gone");
    // A protocol error, and another connection with the client id.
    let mut client = open();
    client.send_bytes(&[0x00, 0x00]);
    assert_eq!(client.disconnected(), Some(ReasonCode::MALFORMED_PACKET));
    assert_eq!(reader.receive().payload, b"gone");
    let taken_over = open();
    MqttClient::open(node.mqtt(), "mortal", Login::default()).0.close();
    assert_eq!(reader.receive().payload, b"gone");
    drop(taken_over);
    reader.expect_nothing();
    reader.close();
    finish(&node);
}

#[test]
fn a_delayed_will_waits_and_ends_when_its_client_is_back() {
    let Some(node) = node() else { return };
    let mut reader = clean(node.mqtt(), "reader");
    reader.subscribe_to("will/#", QoS::ExactlyOnce);
    let mut properties = Vec::new();
    PropertyWriter::begin(&mut properties).number(PropertyId::WillDelayInterval, 1);
    let login = Login { will: Some(will(&properties)), clean: false, expiry_s: 1000, ..Login::default() };
    let (mut client, _) = MqttClient::open(node.mqtt(), "mortal", login);
    client.subscribe_to("t", QoS::AtLeastOnce);
    client.vanish();
    let message = reader.receive();
    assert_eq!((&*message.topic, &message.payload[..]), ("will/x", &b"gone"[..]));
    let queue = "/api/queues/%2F/mqtt-will-mortal";
    assert_eq!(node.http().get(queue).expect("an answer").status, 200, "it waited there");
    let (client, was_there) = MqttClient::open(node.mqtt(), "mortal", login);
    assert!(was_there);
    assert_eq!(node.http().get(queue).expect("an answer").status, 404);
    client.close();
    reader.close();
    finish(&node);
}
