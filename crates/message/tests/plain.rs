//! The short way of plain messages leads where the long one does.

use leveret_amqp10::message::{Header, Properties, write_data};
use leveret_message::Overlay;
use leveret_message::incoming::{self, Plain};
use proptest::prelude::*;

const NOW_MS: u64 = 1_700_000_000_000;

/// The payload of a plain message.
fn plain(header: Option<Header>, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(header) = header {
        header.encode(&mut payload);
    }
    write_data(&mut payload, body);
    payload
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

/// The plain way takes nothing that the other one refuses or stores otherwise.
fn agrees(payload: &[u8]) -> bool {
    let Some(plain) = Plain::read(payload) else { return false };
    let incoming = incoming::amqp10(payload).expect("what is plain is well-formed");
    assert!(incoming.user_id.is_none() && incoming.to.is_none() && incoming.subject.is_none());
    assert!(incoming.headers.is_empty() && !incoming.has_further_keys() && !incoming.has_creation_time);
    assert_eq!(plain.is_durable(), incoming.durable);
    assert_eq!(plain.stored(b"x", b"k", NOW_MS), incoming.stored(b"x", b"k", NOW_MS, Overlay::default()));
    true
}

proptest! {
    #[test]
    fn a_plain_message_is_stored_as_any_other(
        header in proptest::option::of(header()),
        size in prop_oneof![0..600usize, Just(255), Just(256)],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut payload = plain(header, &vec![7; size]);
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
fn what_has_more_than_header_and_data_is_not_plain() {
    let header = Header { durable: Some(true), ..Header::default() };
    let message = plain(Some(header), b"data");
    assert!(agrees(&message) && agrees(&plain(None, b"data")) && agrees(&plain(Some(Header::default()), b"")));
    let mut with_properties = Vec::new();
    header.encode(&mut with_properties);
    Properties { to: Some("/queues/q"), ..Properties::default() }.encode(&mut with_properties);
    write_data(&mut with_properties, b"data");
    let two_sections = [&message[..], &plain(None, b"more")].concat();
    let two_headers = [&message[..message.len() - 9], &message[..]].concat();
    let only_header = &message[..message.len() - 9];
    let excess = b"\x00\x53\x70\xc0\x03\x01\x42\x42\x00\x53\x75\xa0\x00";
    let six_fields = b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x41\x00\x53\x75\xa0\x00";
    assert!(incoming::amqp10(excess).is_err() && incoming::amqp10(six_fields).is_err());
    let others: [&[u8]; 4] = [excess, six_fields, b"", b"\x00\x53\x70\xc0\x00"];
    for payload in [&with_properties[..], &two_sections, &two_headers, only_header].into_iter().chain(others) {
        assert!(Plain::read(payload).is_none(), "{payload:?}");
    }
}
