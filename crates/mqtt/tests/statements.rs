//! Malformed packets, by the numbered statements of MQTT 5 that forbid them: each is refused with the reason code of its kind.

use leveret_mqtt::{DecodeError, Packet, ReasonCode, Version, next_packet};

const MALFORMED: ReasonCode = ReasonCode::MALFORMED_PACKET;
const PROTOCOL: ReasonCode = ReasonCode::PROTOCOL_ERROR;

/// Decodes the first packet of these bytes.
fn decode(bytes: &[u8], version: Version) -> Result<Packet<'_>, DecodeError> {
    let (raw, used) = next_packet(bytes, 65_536)?.expect("is complete");
    assert_eq!(used, bytes.len(), "the example is one packet");
    Packet::decode(&raw, version)
}

fn refused(statement: &str, bytes: &[u8], version: Version, reason: ReasonCode) {
    let error = decode(bytes, version).expect_err(statement);
    assert_eq!(error.reason(), reason, "{statement}: {error}");
}

/// A packet with this first byte and content.
fn packet(head: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    assert!(content.len() < 128, "the example is short");
    [&[head, content.len() as u8], &content[..]].concat()
}

/// A CONNECT of MQTT 5 with these flags and everything behind the keep alive.
fn connect(flags: u8, rest: &[u8]) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x05", &[flags, 0, 60], rest])
}

#[test]
fn fixed_headers_are_checked() {
    refused("2.1.2: type 0 is forbidden", &[0x00, 0], Version::V50, MALFORMED);
    // [MQTT-2.1.3-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1], [MQTT-3.14.1-1], [MQTT-3.15.1-1]
    for head in [0x11, 0x21, 0x41, 0x51, 0x60, 0x63, 0x80, 0x90 | 1, 0xa0, 0xb1, 0xc1, 0xd1, 0xe1, 0xf1] {
        refused("[MQTT-2.1.3-1]", &[head, 0], Version::V50, MALFORMED);
    }
    refused("1.5.5: four bytes at most", &[0x30, 0xff, 0xff, 0xff, 0xff, 1], Version::V50, MALFORMED);
    refused("[MQTT-1.5.5-1]", &[0xc0, 0x80, 0], Version::V50, MALFORMED);
}

#[test]
fn a_large_packet_is_refused_by_its_first_bytes() {
    let error = next_packet(&[0x30, 0xff, 0xff, 0xff, 0x7f], 65_536).expect_err("is too large");
    assert_eq!(error, DecodeError::TooLarge { size: 268_435_460, max: 65_536 });
    assert_eq!(error.reason(), ReasonCode::PACKET_TOO_LARGE);
    assert_eq!(next_packet(&[0x30, 0xff, 0xff, 0xff, 0x7f], leveret_mqtt::PACKET_MAX), Ok(None));
}

#[test]
fn packets_begin_anywhere() {
    let packets = [packet(0x30, &[b"\0\x01a", b"hi"]), packet(0xc0, &[]), packet(0x30, &[b"\0\x01b"])].concat();
    for cut in 0..packets.len() {
        let mut seen = Vec::new();
        let mut kept = Vec::new();
        for part in [&packets[..cut], &packets[cut..]] {
            kept.extend_from_slice(part);
            while let Some((raw, used)) = next_packet(&kept, 100).expect("is right") {
                seen.push((raw.kind, raw.content.len()));
                kept.drain(..used);
            }
        }
        let kinds: Vec<_> = seen.iter().map(|(kind, length)| (kind.name(), *length)).collect();
        assert_eq!(kinds, [("PUBLISH", 5), ("PINGREQ", 0), ("PUBLISH", 3)], "cut at {cut}");
    }
}

#[test]
fn a_wrong_connect_is_refused() {
    let ok = connect(0b10, &[0, 0, 1, b'c']);
    assert!(decode(&ok, Version::V50).is_ok());
    let version = ReasonCode::UNSUPPORTED_PROTOCOL_VERSION;
    let of = |name: &[u8]| packet(0x10, &[name, &[2, 0, 60, 0, 0, 0]]);
    refused("[MQTT-3.1.2-1]", &of(b"\0\x04MQTX\x05"), Version::V50, version);
    refused("[MQTT-3.1.2-2]", &of(b"\0\x04MQTT\x06"), Version::V50, version);
    refused("[MQTT-3.1.2-2]", &of(b"\0\x06MQIsdp\x04"), Version::V50, version);
    refused("[MQTT-3.1.2-3]", &connect(0b11, &[0, 0, 0]), Version::V50, MALFORMED);
    refused("[MQTT-3.1.2-11]", &connect(0b1010, &[0, 0, 0]), Version::V50, MALFORMED);
    refused("[MQTT-3.1.2-13]", &connect(0b10_0010, &[0, 0, 0]), Version::V50, MALFORMED);
    refused("[MQTT-3.1.2-12]", &connect(0b1_1110, &[0, 0, 0, 0, 0, 1, b't', 0, 0]), Version::V50, MALFORMED);
    refused("[MQTT-3.1.3-4]", &connect(2, &[0, 0, 1, 0xff]), Version::V50, MALFORMED);
    refused("[MQTT-1.5.4-1]: a surrogate", &connect(2, &[0, 0, 3, 0xed, 0xa0, 0x80]), Version::V50, MALFORMED);
    refused("[MQTT-1.5.4-2]", &connect(2, &[0, 0, 1, 0]), Version::V50, MALFORMED);
    refused("[MQTT-3.1.3-1]: no client id", &connect(2, &[0]), Version::V50, MALFORMED);
    refused("a user name is missing", &connect(0x82, &[0, 0, 0]), Version::V50, MALFORMED);
    refused("bytes follow", &connect(2, &[0, 0, 0, 1]), Version::V50, MALFORMED);
    let old = packet(0x10, &[b"\0\x04MQTT\x04", &[0b100_0010, 0, 60, 0, 0, 0, 1, b'p']]);
    refused("MQTT 3.1.1, [MQTT-3.1.2-22]", &old, Version::V311, MALFORMED);
    assert!(decode(&connect(0b100_0010, &[0, 0, 0, 0, 1, b'p']), Version::V50).is_ok(), "MQTT 5 allows it");
    let id = [&[0, 24][..], &[b'x'; 24]].concat();
    let oldest = packet(0x10, &[b"\0\x06MQIsdp\x03", &[2, 0, 60], &id]);
    refused("MQTT 3.1: 23 bytes", &oldest, Version::V310, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
}

#[test]
fn a_byte_order_mark_is_kept() {
    // [MQTT-1.5.4-3]
    let bytes = packet(0x30, &[b"\0\x04\xef\xbb\xbfa"]);
    let Ok(Packet::Publish(publish)) = decode(&bytes, Version::V311) else { panic!("is a PUBLISH") };
    assert_eq!(publish.topic, "\u{feff}a");
}

#[test]
fn wrong_properties_are_refused() {
    let with = |properties: &[u8]| connect(2, &[&[properties.len() as u8], properties, &[0, 0]].concat());
    assert!(decode(&with(&[0x21, 0, 5, 0x11, 0, 0, 0, 9]), Version::V50).is_ok());
    refused("2.2.2.2: unknown", &with(&[0x7f, 0]), Version::V50, MALFORMED);
    refused("2.2.2.2: not of a CONNECT", &with(&[0x23, 0, 1]), Version::V50, MALFORMED);
    refused("3.1.2.11.2: twice", &with(&[0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1]), Version::V50, PROTOCOL);
    refused("3.1.2.11.3: receive maximum 0", &with(&[0x21, 0, 0]), Version::V50, PROTOCOL);
    refused("3.1.2.11.4: packet size 0", &with(&[0x27, 0, 0, 0, 0]), Version::V50, PROTOCOL);
    refused("3.1.2.11.7: 2 isn't a boolean", &with(&[0x17, 2]), Version::V50, PROTOCOL);
    refused("3.1.2.11.10: data without a method", &with(&[0x16, 0, 1, 1]), Version::V50, PROTOCOL);
    refused("[MQTT-1.5.7-1]", &with(&[0x26, 0, 1, b'a', 0, 1, 0xff]), Version::V50, MALFORMED);
    refused("a value is cut", &with(&[0x21, 0]), Version::V50, MALFORMED);
    refused("their length is cut", &connect(2, &[9, 0, 0]), Version::V50, MALFORMED);
    let will = |properties: &[u8]| {
        connect(0b110, &[&[0, 0, 0, properties.len() as u8], properties, &[0, 1, b't', 0, 0]].concat())
    };
    assert!(decode(&will(&[0x18, 0, 0, 0, 1]), Version::V50).is_ok());
    refused("a will has no alias", &will(&[0x23, 0, 1]), Version::V50, MALFORMED);
    refused("a CONNECT has no will delay", &with(&[0x18, 0, 0, 0, 1]), Version::V50, MALFORMED);
}

#[test]
fn a_wrong_publish_is_refused() {
    let v5 = Version::V50;
    refused("[MQTT-3.3.1-4]", &packet(0x36, &[b"\0\x01a\0\x01\0"]), v5, MALFORMED);
    refused("[MQTT-3.3.1-2]", &packet(0x38, &[b"\0\x01a\0"]), v5, MALFORMED);
    refused("[MQTT-3.3.2-1]: not UTF-8", &packet(0x30, &[b"\0\x01\xff\0"]), v5, MALFORMED);
    refused("[MQTT-3.3.2-2]", &packet(0x30, &[b"\0\x01#\0"]), v5, ReasonCode::TOPIC_NAME_INVALID);
    refused("[MQTT-3.3.2-2]", &packet(0x30, &[b"\0\x03a/+\0"]), v5, ReasonCode::TOPIC_NAME_INVALID);
    refused("[MQTT-4.7.3-1]", &packet(0x30, &[b"\0\0\0"]), v5, PROTOCOL);
    refused("[MQTT-2.2.1-3]", &packet(0x32, &[b"\0\x01a\0\0\0"]), v5, PROTOCOL);
    refused("a packet identifier is missing", &packet(0x32, &[b"\0\x01a\0"]), v5, MALFORMED);
    refused("[MQTT-3.3.2-8]", &packet(0x30, &[b"\0\x01a\x03\x23\0\0"]), v5, ReasonCode::TOPIC_ALIAS_INVALID);
    refused("[MQTT-3.3.2-14]", &packet(0x30, &[b"\0\x01a\x04\x08\0\x01#"]), v5, ReasonCode::TOPIC_NAME_INVALID);
    let alias = packet(0x30, &[b"\0\0\x03\x23\0\x01", b"x"]);
    assert!(decode(&alias, v5).is_ok(), "an alias stands for the topic");
    let ids = packet(0x30, &[b"\0\x01a\x04\x0b\x01\x0b\x02"]);
    assert!(decode(&ids, v5).is_ok(), "several subscriptions matched");
}

#[test]
fn wrong_acknowledgements_are_refused() {
    for head in [0x40, 0x50, 0x62, 0x70] {
        refused("[MQTT-2.2.1-3]", &[head, 2, 0, 0], Version::V50, PROTOCOL);
        refused("a reason code of another packet", &[head, 3, 0, 1, 0x8d], Version::V50, PROTOCOL);
        refused("bytes follow", &[head, 3, 0, 1, 0], Version::V311, MALFORMED);
        assert!(decode(&[head, 2, 0, 1], Version::V50).is_ok(), "3.4.2.1: a success may be left out");
        assert!(decode(&[head, 4, 0, 1, 0, 0], Version::V50).is_ok());
    }
    refused("3.6.2.1", &[0x62, 3, 0, 1, 0x87], Version::V50, PROTOCOL);
}

#[test]
fn wrong_subscriptions_are_refused() {
    let v5 = Version::V50;
    let filter = ReasonCode::TOPIC_FILTER_INVALID;
    let one = |name: &str, options: u8| packet(0x82, &[&[0, 1, 0, 0, name.len() as u8], name.as_bytes(), &[options]]);
    refused("[MQTT-3.8.3-2]", &packet(0x82, &[&[0, 1, 0]]), v5, PROTOCOL);
    refused("[MQTT-2.2.1-3]", &packet(0x82, &[&[0, 0, 0, 0, 1, b'a', 0]]), v5, PROTOCOL);
    refused("[MQTT-3.8.3-5]", &one("a", 0x40), v5, MALFORMED);
    refused("3.8.3.1: QoS 3", &one("a", 3), v5, MALFORMED);
    refused("3.8.3.1: retain handling 3", &one("a", 0x30), v5, MALFORMED);
    refused("[MQTT-3.8.3-4]", &one("$share/g/a", 4), v5, MALFORMED);
    for name in ["#/a", "a#", "a/#/b", "a/b#"] {
        refused("[MQTT-4.7.1-1]", &one(name, 0), v5, filter);
    }
    refused("[MQTT-4.7.1-2]", &one("a+/b", 0), v5, filter);
    refused("[MQTT-4.7.3-1]", &one("", 0), v5, filter);
    refused("[MQTT-4.8.2-1]", &one("$share//a", 0), v5, filter);
    refused("[MQTT-4.8.2-1]", &one("$share/+/a", 0), v5, filter);
    refused("[MQTT-4.8.2-2]", &one("$share/g", 0), v5, filter);
    refused("3.8.2.1.2: identifier 0", &packet(0x82, &[&[0, 1, 2, 0x0b, 0, 0, 1, b'a', 0]]), v5, PROTOCOL);
    let twice = packet(0x82, &[&[0, 1, 4, 0x0b, 1, 0x0b, 2, 0, 1, b'a', 0]]);
    refused("3.8.2.1.2: two identifiers", &twice, v5, PROTOCOL);
    let old = packet(0x82, &[&[0, 1, 0, 1, b'a', 4]]);
    refused("MQTT 3.1.1, [MQTT-3.8.3-4]", &old, Version::V311, MALFORMED);
    refused("[MQTT-3.10.3-2]", &packet(0xa2, &[&[0, 1, 0]]), v5, PROTOCOL);
    refused("[MQTT-3.10.3-1]", &packet(0xa2, &[&[0, 1, 0, 0, 1, 0xff]]), v5, MALFORMED);
}

#[test]
fn wrong_ends_are_refused() {
    refused("MQTT 3.1.1 has no reason", &[0xe0, 1, 0], Version::V311, MALFORMED);
    refused("3.14.2.1: no such reason", &[0xe0, 1, 1], Version::V50, PROTOCOL);
    refused("MQTT 3.1.1 has no AUTH", &[0xf0, 0], Version::V311, PROTOCOL);
    refused("[MQTT-3.15.2-1]", &[0xf0, 1, 0x80], Version::V50, PROTOCOL);
    refused("PINGREQ is empty", &[0xc0, 1, 0], Version::V50, MALFORMED);
    assert!(decode(&[0xe0, 0], Version::V50).is_ok(), "3.14.2.1: it may be left out");
}

#[test]
fn a_wrong_connack_is_refused() {
    refused("[MQTT-3.2.2-1]: reserved bits", &[0x20, 3, 2, 0, 0], Version::V50, PROTOCOL);
    refused("[MQTT-3.2.2-6]", &[0x20, 3, 1, 0x87, 0], Version::V50, PROTOCOL);
    refused("MQTT 3.1.1 has 6 return codes", &[0x20, 2, 0, 6], Version::V311, PROTOCOL);
}
