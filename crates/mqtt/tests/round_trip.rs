//! Packets come back from their bytes, and every prefix of one is incomplete.

use leveret_mqtt::{
    Ack, AckKind, ConnAck, Connect, Disconnect, Packet, PropertyId, PropertyList, PropertyWriter, Publish, QoS,
    ReasonCode, RetainHandling, SubAck, SubscribeWriter, SubscriptionOptions, Version, Will, next_packet,
};
use proptest::prelude::*;

fn versions() -> impl Strategy<Value = Version> {
    prop::sample::select(Version::ALL.to_vec())
}

fn levels() -> impl Strategy<Value = QoS> {
    prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn names() -> impl Strategy<Value = String> {
    "[a-z/$.äß]{1,40}"
}

/// Encoded properties of a PUBLISH, without their length.
fn properties() -> impl Strategy<Value = Vec<u8>> {
    let user = prop::collection::vec(("[a-zä]{0,9}", "[a-zä]{0,9}"), 0..4);
    let expiry = prop::option::of(any::<u32>());
    (expiry, user, prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), prop::option::of("[a-z/]{0,30}"))
        .prop_map(|(expiry, user, correlation, content_type)| {
            let mut out = Vec::new();
            let mut writer = PropertyWriter::begin(&mut out);
            expiry.into_iter().for_each(|value| writer.number(PropertyId::MessageExpiryInterval, value));
            user.iter().for_each(|(name, value)| writer.user(name, value));
            correlation.iter().for_each(|bytes| writer.binary(PropertyId::CorrelationData, bytes));
            content_type.iter().for_each(|text| writer.text(PropertyId::ContentType, text));
            out
        })
}

/// Decodes a packet, whose every prefix is incomplete, and encodes it again.
fn check(bytes: &[u8], version: Version) -> Packet<'_> {
    for cut in 0..bytes.len() {
        assert_eq!(next_packet(&bytes[..cut], u32::MAX), Ok(None), "cut at {cut}");
    }
    let (raw, used) = next_packet(bytes, bytes.len() as u32).expect("is right").expect("is complete");
    assert_eq!(used, bytes.len());
    let packet = Packet::decode(&raw, version).expect("is right");
    let mut again = Vec::new();
    packet.encode(version, &mut again);
    assert_eq!(again, bytes);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn messages_come_back(
        version in versions(), qos in levels(), dup: bool, retain: bool, topic in names(), packet_id in 1u16..,
        encoded in properties(), payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let properties = match version.has_properties() {
            true => PropertyList::of_publish(&encoded).expect("is right"),
            false => PropertyList::NONE,
        };
        let has_id = qos != QoS::AtMostOnce;
        let publish = Publish {
            dup: dup && has_id, qos, retain, topic: &topic, packet_id: if has_id { packet_id } else { 0 },
            properties, payload: &payload,
        };
        let mut bytes = Vec::new();
        publish.encode(version, &mut bytes);
        prop_assert_eq!(bytes.len(), publish.encoded_length(version));
        prop_assert_eq!(check(&bytes, version), Packet::Publish(publish));
    }

    #[test]
    fn connects_come_back(
        version in versions(), clean_start: bool, keep_alive: u16, client_id in "[a-z0-9]{1,23}",
        user in prop::option::of("[a-z:]{0,20}"), password in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        will in prop::option::of((names(), levels(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..20))),
    ) {
        let will = will.as_ref().map(|(topic, qos, retain, payload)| Will {
            topic, qos: *qos, retain: *retain, properties: PropertyList::NONE, payload,
        });
        let connect = Connect {
            version, clean_start, keep_alive, properties: PropertyList::NONE, client_id: &client_id, will,
            user_name: user.as_deref(), password: password.as_deref().filter(|_| user.is_some()),
        };
        let mut bytes = Vec::new();
        connect.encode(&mut bytes);
        prop_assert_eq!(check(&bytes, version), Packet::Connect(connect));
    }

    #[test]
    fn subscriptions_come_back(
        version in versions(), packet_id in 1u16..,
        filters in prop::collection::vec((names(), levels(), any::<bool>(), 0..3u8), 1..20),
    ) {
        let options = |qos, flag: bool, handling| match version.has_properties() {
            false => SubscriptionOptions { qos, ..SubscriptionOptions::default() },
            true => SubscriptionOptions {
                qos, no_local: flag, retain_as_published: !flag,
                retain_handling: match handling {
                    0 => RetainHandling::Send,
                    1 => RetainHandling::SendIfNew,
                    _ => RetainHandling::DontSend,
                },
            },
        };
        let mut bytes = Vec::new();
        let mut writer = SubscribeWriter::begin(&mut bytes, version, packet_id, PropertyList::NONE);
        filters.iter().for_each(|(name, qos, flag, handling)| writer.filter(name, options(*qos, *flag, *handling)));
        writer.end();
        let Packet::Subscribe(subscribe) = check(&bytes, version) else { panic!("is a SUBSCRIBE") };
        let read: Vec<_> = subscribe.filters.iter().map(|filter| (filter.filter, filter.options)).collect();
        let given: Vec<_> = filters.iter().map(|(name, qos, flag, handling)| (&**name, options(*qos, *flag, *handling))).collect();
        prop_assert_eq!(read, given);
    }

    #[test]
    fn any_bytes_are_refused_or_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200), version in versions()) {
        if let Ok(Some((raw, used))) = next_packet(&bytes, 1000) {
            assert!(used <= bytes.len());
            let _whatever = Packet::decode(&raw, version);
        }
    }
}

#[test]
fn answers_come_back() {
    for version in Version::ALL {
        for kind in [AckKind::PubAck, AckKind::PubRec, AckKind::PubRel, AckKind::PubComp] {
            let mut bytes = Vec::new();
            let ack = Ack::success(kind, 0x1234);
            ack.encode(version, &mut bytes);
            assert_eq!((bytes.len(), check(&bytes, version)), (4, Packet::Ack(ack)));
        }
        let mut bytes = Vec::new();
        let codes = [0, 1, 2, 0x80];
        let suback = SubAck { packet_id: 7, properties: PropertyList::NONE, codes: &codes };
        suback.encode(version, &mut bytes);
        assert_eq!(check(&bytes, version), Packet::SubAck(suback));
        let mut bytes = Vec::new();
        let connack = ConnAck {
            session_present: version > Version::V310,
            reason: ReasonCode::SUCCESS,
            properties: PropertyList::NONE,
        };
        connack.encode(version, &mut bytes);
        assert_eq!(check(&bytes, version), Packet::ConnAck(connack));
        let mut bytes = Vec::new();
        let reason = if version.has_properties() { ReasonCode::SESSION_TAKEN_OVER } else { ReasonCode::SUCCESS };
        Disconnect::of(reason).encode(version, &mut bytes);
        assert_eq!(check(&bytes, version), Packet::Disconnect(Disconnect::of(reason)));
    }
}

#[test]
fn failures_have_one_code_before_version_5() {
    let mut bytes = Vec::new();
    let codes = [1, ReasonCode::NOT_AUTHORIZED.0];
    SubAck { packet_id: 1, properties: PropertyList::NONE, codes: &codes }.encode(Version::V311, &mut bytes);
    assert_eq!(bytes, [0x90, 4, 0, 1, 1, 0x80]);
}

#[test]
fn a_publish_is_decoded_without_allocation() {
    let mut bytes = Vec::new();
    let mut properties = Vec::new();
    let mut writer = PropertyWriter::begin(&mut properties);
    writer.user("name", "value");
    let properties = PropertyList::of_publish(&properties).expect("is right");
    let publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "a/b",
        packet_id: 9,
        properties,
        payload: b"payload",
    };
    publish.encode(Version::V50, &mut bytes);
    let counted = allocation_counter::measure(|| {
        let (raw, _) = next_packet(&bytes, 1000).expect("is right").expect("is complete");
        let Ok(Packet::Publish(read)) = Packet::decode(&raw, Version::V50) else { panic!("is a PUBLISH") };
        assert_eq!(read.properties.user().count(), 1);
    });
    assert_eq!(counted.count_total, 0);
}
