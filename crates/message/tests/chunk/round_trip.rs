//! Messages that are written into a chunk and read again.

use leveret_amqp10::Value;
use leveret_amqp10::message::{MapSection, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_message::batch::{FileBody, INLINE_BELOW};
use leveret_message::chunk::{ChunkBuilder, Entries, Entry, MESSAGES_MAX, NotAdded, bloom, decode, may_match};
use leveret_message::deliver::{Delivery, to_amqp091};
use leveret_message::overlay::encode_keys;
use leveret_message::{
    Added, BatchBuilder, DeadLetter, Encoding, Envelope, MessageRef, Overlay, Reason, StoredMessage, incoming,
};
use proptest::prelude::*;

use crate::{NOW_MS, batch, chunk_of, sections_of};

fn properties(headers: &[(&str, FieldValue)]) -> Vec<u8> {
    let table = headers.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone()));
    let table = table.collect::<FieldTable>().encoded();
    let mut raw = Vec::new();
    Properties { headers: (!headers.is_empty()).then(|| table.as_table()), ..Properties::default() }.encode(&mut raw);
    raw
}

fn annotations(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut map = EncodedMap::new();
    pairs.iter().for_each(|(key, value)| {
        map.push(leveret_amqp10::Symbol::checked(key).unwrap(), *value);
    });
    let mut section = Vec::new();
    write_map_section(&mut section, MapSection::MessageAnnotations, map.as_map());
    section
}

fn envelope(key: &[u8]) -> Envelope<'_> {
    Envelope { durable: true, exchange: b"exchange", routing_key: key, received_ms: NOW_MS, ..Envelope::default() }
}

/// The message as a receiver over AMQP 0-9-1 gets it after its way through AMQP 1.0.
fn by_way_of_amqp10(message: &StoredMessage<'_>) -> (Vec<u8>, Vec<u8>) {
    let sections = sections_of(message);
    let incoming = incoming::amqp10_sections(&sections).unwrap();
    let envelope = &message.envelope;
    let stored = incoming.stored(envelope.exchange, envelope.routing_key, envelope.received_ms, Overlay::default());
    in_amqp091(&stored)
}

fn in_amqp091(message: &StoredMessage<'_>) -> (Vec<u8>, Vec<u8>) {
    let delivered = to_amqp091(message, &Delivery::default());
    (delivered.properties.into_owned(), delivered.body.into_owned())
}

fn any_message() -> impl Strategy<Value = (bool, Vec<u8>, Envelope<'static>, Vec<u8>)> {
    let headers = proptest::collection::vec(("(x-)?[ab]{1,2}", any::<i16>()), 0..3);
    let body = prop_oneof![4 => 0..20usize, 1 => 200..300usize, 1 => INLINE_BELOW - 1..INLINE_BELOW + 9];
    let ttl = proptest::option::of(0..3u32);
    (any::<bool>(), headers, any::<bool>(), proptest::option::of(0..3u8), 0..3u64, ttl, body, 0..3usize).prop_map(
        |(is_amqp10, headers, durable, priority, later, ttl, length, key)| {
            let properties = if is_amqp10 {
                let pairs: Vec<_> = headers.iter().filter(|(name, _)| name.starts_with("x-")).collect();
                let pairs: Vec<_> = pairs.iter().map(|(name, _)| (name.as_str(), "value")).collect();
                if pairs.is_empty() { Vec::new() } else { annotations(&pairs) }
            } else {
                let pairs: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), FieldValue::I16(*value))).collect();
                properties(&pairs)
            };
            let mut body = vec![7; length];
            if is_amqp10 {
                let mut bare = Vec::new();
                write_data(&mut bare, &body);
                body = bare;
            }
            let received_ms = NOW_MS + later;
            let envelope = Envelope {
                durable,
                priority,
                exchange: b"e",
                routing_key: [&b""[..], b"key", b"\xff\xfe"][key],
                received_ms,
                expiry_ms: ttl.map_or(0, |ttl| Envelope::expiry(received_ms, ttl.into())),
            };
            (is_amqp10, properties, envelope, body)
        },
    )
}

proptest! {
    /// In AMQP 1.0 as in AMQP 0-9-1, receivers get what they would get if the message had been published over AMQP 1.0.
    #[test]
    fn receivers_get_messages_by_way_of_amqp10(messages in proptest::collection::vec(any_message(), 1..30)) {
        let batch = batch(messages.iter().map(|(is_amqp10, properties, envelope, body)| StoredMessage {
            encoding: if *is_amqp10 { Encoding::Amqp10 } else { Encoding::Amqp091 },
            envelope: *envelope,
            properties,
            body,
            ..StoredMessage::default()
        }));
        let mut chunk = chunk_of(&batch);
        chunk.set_first(77);
        let bytes = chunk.to_bytes();
        let (header, _) = Entries::of(&bytes).unwrap();
        prop_assert_eq!(header.check(&bytes), Ok(()));
        prop_assert_eq!((header.first, header.messages as usize, header.epoch), (77, messages.len(), 1));
        let latest_ms = messages.iter().map(|(_, _, envelope, _)| envelope.received_ms).max();
        prop_assert_eq!(header.timestamp_ms.cast_unsigned(), latest_ms.unwrap());

        let read = decode(&bytes, "").unwrap();
        let own = chunk.batch().unwrap();
        prop_assert_eq!((read.len(), read.chunk_bytes() as usize), (batch.len(), bytes.len()));
        prop_assert_eq!((own.len(), own.chunk_bytes()), (read.len(), read.chunk_bytes()));
        for index in 0..batch.len() {
            let (given, read) = (batch.message(index).view(), read.message(index).view());
            prop_assert_eq!(read, own.message(index).view());
            prop_assert_eq!(read.envelope.received_ms, latest_ms.unwrap());
            prop_assert_eq!(read.envelope.ttl_ms(), given.envelope.ttl_ms());
            prop_assert_eq!(sections_of(&read), sections_of(&given));
            prop_assert_eq!(in_amqp091(&read), by_way_of_amqp10(&given));
        }
        // The messages read become the same chunk again.
        let mut again = chunk_of(&read);
        again.set_first(77);
        prop_assert_eq!(again.to_bytes(), bytes);
    }
}

#[test]
fn large_bodies_are_slices_of_the_chunk() {
    let body = vec![3; INLINE_BELOW];
    let properties = properties(&[]);
    let messages = [&body[..], b"small", &body];
    let batch = batch(messages.map(|body| StoredMessage {
        envelope: envelope(b"k"),
        properties: &properties,
        body,
        ..StoredMessage::default()
    }));
    let bytes = chunk_of(&batch).to_bytes();
    let read = decode(&bytes, "").unwrap();
    let place = |index| {
        let large: &bytes::Bytes = read.message(index).large.unwrap();
        let start = large.as_ptr() as usize - bytes.as_ptr() as usize;
        (start..start + large.len()).end
    };
    assert!(read.message(1).large.is_none());
    assert!(place(0) < bytes.len());
    assert_eq!(place(2), bytes.len());
    assert_eq!(read.body_bytes(0, 3), (0..3).map(|index| u64::from(read.body_length(index))).sum());
}

#[test]
fn keys_and_deaths_of_a_message_become_annotations() {
    let properties = properties(&[("CC", FieldValue::Array(vec![FieldValue::from("second")]))]);
    let mut overlay = Vec::new();
    encode_keys(&mut overlay, [&b"second"[..]], []);
    let message = StoredMessage {
        envelope: envelope(b"first"),
        overlay: Overlay::new(&overlay),
        properties: &properties,
        body: b"body",
        ..StoredMessage::default()
    };
    let published = batch([message]);
    let mut builder = BatchBuilder::default();
    let letter = DeadLetter {
        queue: b"q",
        reason: Reason::Expired,
        now_ms: NOW_MS,
        exchange: b"x",
        routing_key: None,
        failures: 0,
    };
    builder.push_dead_letter(&published.message(0), &letter);
    let dead = builder.finish();
    for batch in [&published, &dead] {
        let given = batch.message(0).view();
        let read = chunk_of(batch).batch().unwrap();
        let read = read.message(0).view();
        assert!(read.overlay.is_empty());
        // A dead letter has no first acquirer; a stream keeps its deaths as annotations, and has no acquirers.
        let annotated = |sections: Vec<u8>| {
            let at = sections.windows(3).position(|start| start == [0, 0x53, 0x72]).expect("there are annotations");
            sections[at..].to_vec()
        };
        assert_eq!(annotated(sections_of(&read)), annotated(sections_of(&given)));
        assert_eq!(in_amqp091(&read), by_way_of_amqp10(&given));
    }
    let death = Properties::decode(&in_amqp091(&chunk_of(&dead).batch().unwrap().message(0).view()).0)
        .unwrap()
        .headers
        .and_then(|headers| headers.lookup("x-death"))
        .is_some();
    assert!(death);
}

#[test]
fn filter_values_of_both_protocols_make_the_filter() {
    let name = "x-stream-filter-value";
    let text = |text: &str| properties(&[("h", FieldValue::I32(1)), (name, FieldValue::from(text))]);
    let (a, b, empty, number) =
        (text("a"), annotations(&[("x-a", ""), (name, "b")]), text(""), properties(&[(name, FieldValue::I32(5))]));
    let none = properties(&[]);
    let message = |encoding, properties| StoredMessage {
        encoding,
        envelope: envelope(b"k"),
        properties,
        body: b"\0\x53\x75\xa0\0",
        ..StoredMessage::default()
    };
    let old = |properties| message(Encoding::Amqp091, properties);
    let new = |properties| message(Encoding::Amqp10, properties);
    let filter = |messages: &[StoredMessage<'_>]| {
        let chunk = chunk_of(&batch(messages.iter().copied()));
        let bytes = chunk.to_bytes();
        assert_eq!(chunk.batch().unwrap().chunk_bloom(), bloom(&bytes).unwrap());
        bloom(&bytes).unwrap().to_vec()
    };
    let matches = |filter: &[u8], value, unfiltered| may_match(filter, [value].into_iter(), unfiltered);
    let both = filter(&[old(&a), new(&b), old(&a)]);
    assert!(matches(&both, "a", false) && matches(&both, "b", false) && !matches(&both, "c", true));
    for unfiltered in [old(&empty), old(&number), old(&none), new(&[])] {
        assert_eq!(filter(&[unfiltered]), []);
        let mixed = filter(&[old(&a), unfiltered, unfiltered]);
        assert!(matches(&mixed, "a", false) && !matches(&mixed, "b", false) && matches(&mixed, "b", true));
    }
    assert_eq!(filter(&[old(&a), old(&a)]), filter(&[old(&a)]));
}

#[test]
fn a_builder_begins_anew_after_each_chunk() {
    let (with, without) = (properties(&[("x-stream-filter-value", FieldValue::from("a"))]), properties(&[]));
    let message =
        |properties| StoredMessage { envelope: envelope(b"k"), properties, body: b"body", ..StoredMessage::default() };
    let (first, second) = (batch([message(&with)]), batch([message(&without), message(&without)]));
    let mut builder = ChunkBuilder::new(255);
    builder.push(&first.message(0)).unwrap();
    assert_eq!((builder.len(), builder.is_empty()), (1, false));
    assert_eq!(builder.finish().header().filter_length, 255);
    assert!(builder.is_empty());
    for index in 0..2 {
        builder.push(&second.message(index)).unwrap();
    }
    assert_eq!(builder.finish().to_bytes(), chunk_of(&second).to_bytes());
    let empty = builder.finish();
    assert_eq!((empty.messages(), empty.chunk_bytes(), empty.batch().unwrap().len()), (0, 48, 0));
}

#[test]
fn a_chunk_takes_as_many_messages_as_a_record() {
    let (properties, mut builder) = (properties(&[]), ChunkBuilder::new(16));
    let message = batch([StoredMessage {
        envelope: envelope(b"k"),
        properties: &properties,
        body: b"",
        ..StoredMessage::default()
    }]);
    for _ in 0..MESSAGES_MAX {
        builder.push(&message.message(0)).unwrap();
    }
    assert_eq!(builder.push(&message.message(0)), Err(NotAdded::Full));
    assert_eq!(builder.push_sections(b"", None, 0), Err(NotAdded::Full));
    let chunk = builder.finish();
    assert_eq!((chunk.messages(), chunk.batch().unwrap().len()), (u16::MAX, usize::from(u16::MAX)));
}

#[test]
fn a_body_in_a_file_is_refused() {
    let mut builder = BatchBuilder::default();
    builder.push_file(
        &StoredMessage::default(),
        FileBody { length: 300_000, handle: std::sync::Arc::new(()), fields: None },
    );
    let batch = builder.finish();
    let mut builder = ChunkBuilder::new(16);
    assert_eq!(builder.push(&batch.message(0)), Err(NotAdded::BodyInFile));
    assert!(builder.is_empty());
}

#[test]
fn entries_are_kept_as_they_were_added() {
    let messages: Vec<Vec<u8>> = (0..3u8).map(|number| vec![0x00, 0x53, 0x77, 0x50, number]).collect();
    let bytes = crate::chunk_of_entries(&messages.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (_, mut entries) = Entries::of(&bytes).unwrap();
    let mut found = Vec::new();
    while let Some(Entry::Message(message)) = entries.next_entry().unwrap() {
        found.push(message.to_vec());
    }
    assert_eq!(found, messages);
    let batch = decode(&bytes, "").unwrap();
    let message: MessageRef<'_> = batch.message(2);
    assert_eq!(message.view().body, messages[2]);
    assert_eq!(Value::decode_all(&message.view().body[3..]).unwrap(), Value::Ubyte(2));
}

/// AMQP 1.0 has one level more around it.
#[test]
fn the_deepest_header_of_amqp_0_9_1_is_read_again() {
    let nested = |depth: u32, list: bool| {
        (0..depth).fold(FieldValue::I32(1), |value, _| match list {
            true => FieldValue::Array(vec![value]),
            false => FieldValue::Table(FieldTable::new().with("k", value)),
        })
    };
    for list in [false, true] {
        let accepted = |depth: &u32| Properties::decode(&properties(&[("x-deep", nested(*depth, list))])).is_ok();
        let deepest = (1..100).take_while(accepted).last().unwrap();
        assert!(deepest > 20);
        let properties = properties(&[("x-deep", nested(deepest, list))]);
        let message = StoredMessage { envelope: envelope(b"k"), properties: &properties, ..StoredMessage::default() };
        let batch = chunk_of(&batch([message])).batch().unwrap();
        let (back, _) = in_amqp091(&batch.message(0).view());
        let headers = Properties::decode(&back).unwrap().headers.unwrap();
        assert_eq!(headers.lookup("x-deep").map(FieldValue::from), Some(nested(deepest, list)));
    }
}

#[test]
fn annotations_that_are_too_many_together_leave_the_publishers() {
    // An array of 4,096 nulls, as many as a section may have.
    let nulls = [0xf0, 0, 0, 0, 5, 0, 0, 0x10, 0, 0x40];
    let map = |key: &[u8]| {
        let items = [&[0xa3, key.len() as u8][..], key, &nulls].concat();
        [&[0xd1][..], &(items.len() as u32 + 4).to_be_bytes(), &[0, 0, 0, 2], &items].concat()
    };
    let properties = [&[0x00, 0x53, 0x72][..], &map(b"x-a")].concat();
    let body = b"\0\x53\x75\xa0\0";
    let encoding = Encoding::Amqp10;
    let message =
        StoredMessage { encoding, envelope: envelope(b"k"), properties: &properties, body, ..StoredMessage::default() };
    let published = batch([message]);
    let mut builder = BatchBuilder::default();
    builder.push_annotated(&published.message(0), &Added::from_bytes(&map(b"x-b")).unwrap());
    let annotated = builder.finish();
    let read = chunk_of(&annotated).batch().unwrap();
    assert_eq!(sections_of(&read.message(0).view()), sections_of(&published.message(0).view()));
}
