//! Messages delivered in a series look the same as if delivered alone.

use bytes::Bytes;
use leveret_amqp10::message::{Sections, write_data};
use leveret_message::batch::INLINE_BELOW;
use leveret_message::deliver::{Amqp10Run, Delivery, to_amqp10};
use leveret_message::overlay::encode_keys;
use leveret_message::{Batch, BatchBuilder, Encoding, Envelope, Overlay, StoredMessage};

const NOW_MS: u64 = 1_700_000_000_000;

fn data(body: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    write_data(&mut section, body);
    section
}

/// Messages whose heads differ in every possible way.
fn all_kinds() -> Batch {
    let mut builder = BatchBuilder::default();
    let mut keys = Vec::new();
    encode_keys(&mut keys, [&b"further"[..]], []);
    let annotations = b"\x00\x53\x72\xc1\x0a\x02\xa3\x03x-a\xa1\x02ab";
    let other_annotations = b"\x00\x53\x72\xc1\x0a\x02\xa3\x03x-a\xa1\x02cd";
    let sections = data(b"sections");
    let envelope = |exchange: &'static str, key: &'static [u8]| Envelope {
        exchange: exchange.as_bytes(),
        routing_key: key,
        received_ms: NOW_MS,
        ..Envelope::default()
    };
    let base = StoredMessage {
        encoding: Encoding::Amqp10,
        envelope: envelope("", b"q"),
        body: &sections,
        ..StoredMessage::default()
    };
    let with = |envelope| StoredMessage { envelope, ..base };
    // Property flags with `type` alone.
    let typed = StoredMessage { encoding: Encoding::Amqp091, properties: b"\x00\x20\x08amqp-1.0", ..base };
    let kinds = [
        base,
        with(Envelope { received_ms: NOW_MS + 5, ..base.envelope }),
        with(envelope("x", b"q")),
        with(envelope("", b"r")),
        with(envelope("q", b"")),
        with(envelope("", b"\xff")),
        with(Envelope { durable: true, ..base.envelope }),
        with(Envelope { priority: Some(0), ..base.envelope }),
        with(Envelope { priority: Some(7), ..base.envelope }),
        with(Envelope { expiry_ms: NOW_MS + 1000, ..base.envelope }),
        with(Envelope { expiry_ms: NOW_MS + 2000, ..base.envelope }),
        StoredMessage { overlay: Overlay::new(&keys), ..base },
        StoredMessage { properties: annotations, ..base },
        StoredMessage { properties: other_annotations, ..base },
        StoredMessage { body: b"", ..base },
        typed,
        StoredMessage { body: b"no sections", ..typed },
        StoredMessage { properties: b"\x00\x20\x05other", ..typed },
        StoredMessage { properties: b"\x00\x00", ..typed },
    ];
    kinds.iter().for_each(|kind| builder.push_message(kind));
    builder.push_large(&base, Bytes::from(data(&[3; INLINE_BELOW])));
    builder.finish()
}

#[test]
fn a_run_is_what_its_messages_are_alone() {
    let batch = all_kinds();
    for (redelivered, sent_time) in [(false, false), (true, true)] {
        let delivery = Delivery { redelivered, delivery_count: 3, now_ms: NOW_MS, sent_time, ..Delivery::default() };
        let alone = |index: usize| {
            let mut out = Vec::new();
            to_amqp10(&batch.message(index).view(), &delivery, &mut out);
            out
        };
        for (first, second) in (0..batch.len()).flat_map(|first| (0..batch.len()).map(move |second| (first, second))) {
            let mut run = Amqp10Run::new(delivery);
            let mut out = b"before".to_vec();
            for index in [first, second, second, first] {
                let start = out.len();
                run.append(&batch.message(index), &mut out);
                assert!(out[start..] == alone(index), "{index} of {first} and {second}");
            }
            out.truncate(6);
            run.forget();
            run.append(&batch.message(first), &mut out);
            assert!(out[6..] == alone(first), "{first} after what was taken back");
        }
    }
}

#[test]
fn a_message_from_a_stream_has_all_of_its_time_to_live() {
    let envelope = Envelope { received_ms: NOW_MS, expiry_ms: NOW_MS + 1000, ..Envelope::default() };
    let message = StoredMessage {
        encoding: Encoding::Amqp10,
        envelope,
        body: b"\x00\x53\x75\xa0\x00",
        ..StoredMessage::default()
    };
    let ttl = |stream_offset| {
        let mut out = Vec::new();
        to_amqp10(&message, &Delivery { now_ms: NOW_MS + 400, stream_offset, ..Delivery::default() }, &mut out);
        Sections::parse(&out).unwrap().header.unwrap().ttl
    };
    assert_eq!((ttl(None), ttl(Some(7))), (Some(600), Some(1000)));
}
