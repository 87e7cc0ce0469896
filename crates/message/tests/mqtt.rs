//! Messages of MQTT for receivers of other protocols, and the other way: what a RabbitMQ 4.3.6 gave for the same messages.

use leveret_amqp091::{FieldTable, Properties, ShortStr};
use leveret_message::deliver::{Delivery, mqtt_origin, to_amqp10, to_amqp091, to_mqtt};
use leveret_message::mqtt::MqttHead;
use leveret_message::{Encoding, Envelope, Overlay, StoredMessage};
use leveret_mqtt::properties::PropertyValue;
use leveret_mqtt::{PropertyId, PropertyList, PropertyWriter, QoS};

const RECEIVED_MS: u64 = 1_795_952_310_500;

/// A stored message of MQTT, given to `look`.
fn published(qos: QoS, write: impl FnOnce(&mut PropertyWriter<'_>), look: impl FnOnce(&StoredMessage<'_>)) {
    let mut encoded = Vec::new();
    write(&mut PropertyWriter::begin(&mut encoded));
    let properties = PropertyList::of_publish(&encoded).expect("is right");
    let expiry_s = properties.number(PropertyId::MessageExpiryInterval).map(u64::from);
    let mut head = Vec::new();
    MqttHead { qos, retain: false, kept: false, client_id: "c", topic: None, properties }.write(&mut head);
    let envelope = Envelope {
        durable: qos != QoS::AtMostOnce,
        exchange: b"amq.topic",
        routing_key: b"conv.1",
        received_ms: RECEIVED_MS,
        expiry_ms: expiry_s.map_or(0, |seconds| Envelope::expiry(RECEIVED_MS, seconds * 1000)),
        ..Envelope::default()
    };
    let overlay = Overlay::new(&[]);
    look(&StoredMessage { encoding: Encoding::Mqtt, envelope, overlay, properties: &head, body: b"body" });
}

#[test]
fn a_message_with_everything_reaches_amqp_0_9_1() {
    let write = |properties: &mut PropertyWriter<'_>| {
        properties.user("k", "v");
        properties.user("x-k", "w");
        properties.text(PropertyId::ContentType, "text/plain");
        properties.text(PropertyId::ResponseTopic, "a/b c");
        properties.binary(PropertyId::CorrelationData, b"text");
        properties.number(PropertyId::MessageExpiryInterval, 100);
        properties.number(PropertyId::PayloadFormatIndicator, 1);
    };
    published(QoS::AtLeastOnce, write, |message| {
        let content = to_amqp091(message, &Delivery::default());
        let got = Properties::decode(&content.properties).expect("is right");
        let text = |text: Option<ShortStr<'_>>| text.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        let headers: FieldTable = got.headers.expect("headers").into();
        let expected = FieldTable::new().with("x-k", "w").with("k", "v").with("x-reply-to-topic", "a.b c");
        assert_eq!(headers.encoded().as_table().iter().count(), 3);
        for (name, value) in expected.iter() {
            assert_eq!(headers.lookup(name), Some(value));
        }
        assert_eq!((got.delivery_mode, got.timestamp), (Some(2), Some(RECEIVED_MS / 1000)));
        assert_eq!(text(got.expiration).as_deref(), Some("100000"));
        assert_eq!(text(got.correlation_id).as_deref(), Some("text"));
        assert_eq!(text(got.content_type).as_deref(), Some("text/plain"));
        assert_eq!(&content.body[..], b"body");
    });
    published(
        QoS::AtMostOnce,
        |_| (),
        |message| {
            let content = to_amqp091(message, &Delivery::default());
            let got = Properties::decode(&content.properties).expect("is right");
            assert_eq!(got, Properties { delivery_mode: Some(1), ..Properties::default() });
        },
    );
}

#[test]
fn text_is_a_value_of_amqp_1_0_and_other_bytes_are_data() {
    let body_of = |is_text: bool| {
        let mut out = Vec::new();
        let write = |properties: &mut PropertyWriter<'_>| {
            if is_text {
                properties.number(PropertyId::PayloadFormatIndicator, 1);
            }
        };
        published(QoS::AtLeastOnce, write, |message| to_amqp10(message, &Delivery::default(), &mut out));
        out
    };
    assert!(body_of(true).ends_with(b"\0\x53\x77\xa1\x04body"), "amqp-value, a string");
    assert!(body_of(false).ends_with(b"\0\x53\x75\xa0\x04body"), "data");
}

#[test]
fn a_message_of_amqp_0_9_1_reaches_mqtt() {
    let headers = FieldTable::new()
        .with("k", "v")
        .with("x-k", "w")
        .with("n", 5)
        .with("b", true)
        .with("x-reply-to-topic", "a.b")
        .encoded();
    let short = |text: &'static str| ShortStr::new(text.as_bytes()).ok();
    let mut properties = Vec::new();
    Properties {
        headers: Some(headers.as_table()),
        delivery_mode: Some(2),
        content_type: short("text/plain"),
        correlation_id: short("corr"),
        reply_to: short("q"),
        kind: short("ty"),
        ..Properties::default()
    }
    .encode(&mut properties);
    let envelope = Envelope { durable: true, routing_key: b"back.x.y", ..Envelope::default() };
    let message = StoredMessage { envelope, properties: &properties, body: b"body", ..StoredMessage::default() };
    let origin = mqtt_origin(&message);
    assert_eq!((&*origin.topic, origin.qos, origin.client_id), ("back/x/y", QoS::AtLeastOnce, None));
    let mut out = Vec::new();
    assert_eq!(&to_mqtt(&message, &Delivery::default(), &mut out)[..], b"body");
    let got = PropertyList::of_publish(&out).expect("every receiver can read it");
    let mut user: Vec<_> = got.user().collect();
    user.sort_unstable();
    assert_eq!(user, [("b", "true"), ("k", "v"), ("n", "5"), ("x-k", "w")]);
    let others: Vec<_> = got.iter().filter(|property| property.id != PropertyId::UserProperty).collect();
    let values: Vec<_> = others.iter().map(|property| property.value).collect();
    let expected = [PropertyValue::Binary(b"corr"), PropertyValue::Text("a/b"), PropertyValue::Text("text/plain")];
    assert_eq!(values, expected);
}

#[test]
fn no_name_of_another_protocol_is_a_string_that_mqtt_forbids() {
    let headers = FieldTable::new().with("a\0b", "v").with("k", "v\0").encoded();
    let mut properties = Vec::new();
    Properties { headers: Some(headers.as_table()), ..Properties::default() }.encode(&mut properties);
    let envelope = Envelope { routing_key: b"a.#.+\0", ..Envelope::default() };
    let message = StoredMessage { envelope, properties: &properties, ..StoredMessage::default() };
    let mut out = Vec::new();
    to_mqtt(&message, &Delivery::default(), &mut out);
    assert!(PropertyList::of_publish(&out).expect("every receiver can read it").is_empty());
    assert_eq!(mqtt_origin(&message).topic, "a/_/__");
}
