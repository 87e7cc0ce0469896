//! Content headers and properties.

mod support;

use leveret_amqp091::{
    ContentHeader, DecodeError, FieldTable, Properties, ShortStr, delivery_mode, encode_header, expiration, headers,
    priority,
};
use proptest::prelude::*;

#[test]
fn the_flags_are_in_the_specifications_order() {
    let headers = FieldTable::new().with("h", true).encoded();
    let all = Properties {
        content_type: Some(ShortStr::literal("1")),
        content_encoding: Some(ShortStr::literal("2")),
        headers: Some(headers.as_table()),
        delivery_mode: Some(4),
        priority: Some(5),
        correlation_id: Some(ShortStr::literal("6")),
        reply_to: Some(ShortStr::literal("7")),
        expiration: Some(ShortStr::literal("8")),
        message_id: Some(ShortStr::literal("9")),
        timestamp: Some(10),
        kind: Some(ShortStr::literal("b")),
        user_id: Some(ShortStr::literal("c")),
        app_id: Some(ShortStr::literal("d")),
        cluster_id: Some(ShortStr::literal("e")),
    };
    let mut raw = Vec::new();
    all.encode(&mut raw);
    let expected =
        b"\xff\xfc\x011\x012\0\0\0\x04\x01ht\x01\x04\x05\x016\x017\x018\x019\0\0\0\0\0\0\0\x0a\x01b\x01c\x01d\x01e";
    assert_eq!(raw, expected);
    assert_eq!(Properties::decode(&raw), Ok(all));
}

#[test]
fn a_persistent_message_without_more() {
    let mut out = Vec::new();
    encode_header(&mut out, 1, 60, 12, &[0x10, 0, 2]);
    assert_eq!(out, b"\x02\0\x01\0\0\0\x0f\0\x3c\0\0\0\0\0\0\0\0\0\x0c\x10\0\x02\xce");
    let header = ContentHeader::decode(&out[7..out.len() - 1]).unwrap();
    assert_eq!((header.class_id, header.body_size), (60, 12));
    assert_eq!(delivery_mode(header.properties), Some(2));
    assert_eq!((priority(header.properties), expiration(header.properties)), (None, None));
}

#[test]
fn malformed_headers_are_errors() {
    let fixed = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let decode = |properties: &[u8]| ContentHeader::decode(&[&fixed, properties].concat()).map(|_| ());
    assert_eq!(decode(&[0, 0]), Ok(()));
    // RabbitMQ ignores bit 1 too.
    assert_eq!(decode(&[0, 2]), Ok(()));
    assert_eq!(decode(&[0, 1, 0, 0]), Err(DecodeError::PropertyFlags { received: 1 }));
    assert_eq!(decode(&[0, 0, 9]), Err(DecodeError::TrailingBytes { count: 1 }));
    assert!(matches!(decode(&[0x80, 0, 5, b'a']), Err(DecodeError::Truncated { .. })));
    assert!(matches!(decode(&[0x10, 0]), Err(DecodeError::Truncated { .. })));
    assert_eq!(decode(&[0x20, 0, 0, 0, 0, 3, 1, b'a', b'Z']), Err(DecodeError::FieldType { received: b'Z' }));
    for end in 0..14 {
        assert!(ContentHeader::decode(&[0; 14][..end]).is_err());
    }
}

proptest! {
    #[test]
    fn any_properties_are_read_and_written_byte_for_byte(raw in support::properties()) {
        let decoded = Properties::decode(&raw).unwrap();
        let mut out = Vec::new();
        decoded.encode(&mut out);
        prop_assert_eq!(&out, &raw);
        prop_assert_eq!(delivery_mode(&raw), decoded.delivery_mode);
        prop_assert_eq!(priority(&raw), decoded.priority);
        prop_assert_eq!(expiration(&raw), decoded.expiration);
        prop_assert_eq!(headers(&raw), decoded.headers);
    }

    #[test]
    fn skipping_never_panics(noise in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = (Properties::decode(&noise), ContentHeader::decode(&noise));
        let _ = (delivery_mode(&noise), priority(&noise), expiration(&noise));
        let _ = headers(&noise).map(|table| table.iter().count());
    }
}
