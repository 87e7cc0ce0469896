//! The fast path for plain messages gives the same result as the general one.

use leveret_amqp10::message::{Header, MapSection, MessageId, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp10::{Symbol, Value};
use leveret_message::Overlay;
use leveret_message::incoming::{self, Plain};
use proptest::prelude::*;

const NOW_MS: u64 = 1_700_000_000_000;

/// The payload of a plain message.
fn plain(header: Option<Header>, body: &[u8]) -> Vec<u8> {
    with_properties(header, &[], body)
}

/// The payload of a plain message with further sections of the bare message.
fn with_properties(header: Option<Header>, sections: &[u8], body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(header) = header {
        header.encode(&mut payload);
    }
    payload.extend_from_slice(sections);
    write_data(&mut payload, body);
    payload
}

/// Properties and application properties, either of which may be missing.
fn sections() -> impl Strategy<Value = Vec<u8>> {
    let properties = proptest::option::of((any::<Option<u64>>(), any::<Option<String>>(), any::<Option<i64>>()));
    let headers = proptest::option::of(proptest::collection::vec(("[a-z]{1,8}", any::<i64>()), 0..40));
    (properties, headers).prop_map(|(properties, headers)| {
        let mut sections = Vec::new();
        if let Some((number, subject, creation_time)) = properties {
            Properties {
                message_id: number.map(MessageId::Ulong),
                to: subject.as_deref(),
                subject: subject.as_deref(),
                content_type: number.map(|_| Symbol::new("text/plain")),
                creation_time,
                ..Properties::default()
            }
            .encode(&mut sections);
        }
        if let Some(headers) = headers {
            let mut map = EncodedMap::new();
            for (name, value) in &headers {
                map.push(name.as_str(), *value);
            }
            write_map_section(&mut sections, MapSection::ApplicationProperties, map.as_map());
        }
        sections
    })
}

fn header() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![Just(0u32), Just(255), Just(256), any::<u32>()];
    (any::<Option<bool>>(), any::<Option<u8>>(), proptest::option::of(number()), any::<bool>(), number()).prop_map(
        |(durable, priority, ttl, first_acquirer, delivery_count)| Header {
            durable,
            priority,
            ttl,
            first_acquirer,
            delivery_count,
        },
    )
}

/// Asserts that the fast path accepts no message that the general one refuses or stores differently. Returns whether
/// it was accepted.
fn agrees(payload: &[u8]) -> bool {
    let Some(plain) = Plain::read(payload) else { return false };
    let incoming = incoming::amqp10(payload).expect("what is plain is well-formed");
    assert!(incoming.user_id.is_none() && !incoming.has_further_keys());
    assert_eq!((plain.is_durable(), plain.has_headers()), (incoming.durable, !incoming.headers.is_empty()));
    assert_eq!(plain.stored(b"x", b"k", NOW_MS), incoming.stored(b"x", b"k", NOW_MS, Overlay::default()));
    true
}

proptest! {
    #[test]
    fn a_plain_message_is_stored_as_any_other(
        header in proptest::option::of(header()),
        sections in sections(),
        size in prop_oneof![0..600usize, Just(255), Just(256)],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut payload = with_properties(header, &sections, &vec![7; size]);
        prop_assert!(agrees(&payload));
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        agrees(&payload);
    }
}

#[test]
fn messages_with_a_user_or_annotations_are_not_plain() {
    let header = Header { durable: Some(true), ..Header::default() };
    let message = plain(Some(header), b"data");
    assert!(agrees(&message) && agrees(&plain(None, b"data")) && agrees(&plain(Some(Header::default()), b"")));
    let encoded = |properties: Properties<'_>| {
        let mut section = Vec::new();
        properties.encode(&mut section);
        section
    };
    let map = |section, key: Value<'_>| {
        let mut out = Vec::new();
        let mut map = EncodedMap::new();
        map.push(key, 1u64);
        write_map_section(&mut out, section, map.as_map());
        out
    };
    let properties = encoded(Properties { to: Some("/queues/q"), ..Properties::default() });
    let of_a_user = encoded(Properties { user_id: Some(b"guest"), ..Properties::default() });
    let headers = map(MapSection::ApplicationProperties, Value::String("kind"));
    let annotations = map(MapSection::MessageAnnotations, Value::Symbol(Symbol::new("x-opt-kind")));
    let of = |sections: &[&[u8]]| with_properties(Some(header), &sections.concat(), b"data");
    for payload in [of(&[&properties]), of(&[&headers]), of(&[&properties, &headers])] {
        assert!(agrees(&payload), "{payload:?}");
    }
    let looked_at = [
        of(&[&of_a_user]),
        of(&[&annotations]),
        of(&[&properties, &properties]),
        of(&[&headers, &properties]),
        of(&[&headers, &headers]),
        [&message[..], &plain(None, b"more")].concat(),
        [&message[..], &map(MapSection::Footer, Value::Symbol(Symbol::new("x-opt-kind")))].concat(),
        [&message[..message.len() - 9], &message[..]].concat(),
        message[..message.len() - 9].to_vec(),
        of(&[&properties])[..7 + properties.len()].to_vec(),
    ];
    let excess = b"\x00\x53\x70\xc0\x03\x01\x42\x42\x00\x53\x75\xa0\x00";
    let six_fields = b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x41\x00\x53\x75\xa0\x00";
    let number_as_subject = b"\x00\x53\x73\xc0\x05\x04\x40\x40\x40\x44\x00\x53\x75\xa0\x00";
    let odd_map = b"\x00\x53\x74\xc1\x02\x01\x40\x00\x53\x75\xa0\x00";
    for malformed in [&excess[..], six_fields, number_as_subject, odd_map] {
        assert!(incoming::amqp10(malformed).is_err() && Plain::read(malformed).is_none(), "{malformed:?}");
    }
    let others: [&[u8]; 2] = [b"", b"\x00\x53\x70\xc0\x00"];
    for payload in looked_at.iter().map(Vec::as_slice).chain(others) {
        assert!(Plain::read(payload).is_none(), "{payload:?}");
    }
}
