//! A segment written by RabbitMQ 4.3.6: its header of 8 bytes, then chunks. Their trailers hold the positions of publishers.

use bytes::Bytes;
use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr};
use leveret_message::chunk::{ChunkBuilder, ChunkHeader, Entries, Entry, HEADER_BYTES, bloom, decode, may_match};
use leveret_message::deliver::{Delivery, to_amqp091};
use leveret_message::headers::{Header as Field, Headers};
use leveret_message::lookup::MessageLookup;
use leveret_message::{Batch, StoredMessage};

/// The chunks of the segment.
fn chunks() -> Vec<Bytes> {
    let segment = Bytes::from_static(include_bytes!("../fixtures/stream-4.3.6.segment"));
    let mut rest = segment.strip_prefix(b"OSIL\0\0\0\x01").map(|chunks| segment.slice_ref(chunks)).unwrap();
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let length = ChunkHeader::decode(&rest).unwrap().chunk_bytes();
        chunks.push(rest.split_to(length as usize));
    }
    chunks
}

/// The text by which its publisher let the message be filtered: of the stream's own protocol, that is shown in the property
/// `filter` as well.
fn filter_value(message: &StoredMessage<'_>) -> Option<String> {
    let headers = Headers::stored(message);
    match headers.lookup("x-stream-filter-value").or_else(|| headers.lookup("filter"))? {
        Field::Bytes(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn all() -> Vec<Batch> {
    chunks().iter().map(|chunk| decode(chunk, "").unwrap()).collect()
}

#[test]
fn the_messages_of_a_segment_are_read() {
    let chunks = chunks();
    let mut next = 0;
    for chunk in &chunks {
        let (header, _) = Entries::of(chunk).unwrap();
        assert_eq!(header.check(chunk), Ok(()));
        assert_eq!((header.first, header.epoch), (next, 1));
        let batch = decode(chunk, "").unwrap();
        assert_eq!((batch.len(), batch.chunk_bytes() as usize), (header.messages as usize, chunk.len()));
        next = header.end();
    }
    assert_eq!((chunks.len(), next), (42, 79));
}

#[test]
fn a_segments_chunks_are_written_with_the_same_bytes() {
    for chunk in chunks() {
        let (header, mut entries) = Entries::of(&chunk).unwrap();
        let batch = decode(&chunk, "").unwrap();
        let received_ms = header.timestamp_ms.cast_unsigned();
        let mut builder = ChunkBuilder::new(16);
        let mut index = 0;
        while let Some(entry) = entries.next_entry().unwrap() {
            let filter = filter_value(&batch.message(index).view());
            let filter = filter.as_ref().map(|filter| filter.as_bytes());
            match entry {
                Entry::Message(message) => {
                    builder.push_sections(message, filter, received_ms).unwrap();
                    index += 1;
                }
                Entry::SubBatch(sub_batch) => {
                    builder.push_sub_batch(&sub_batch, filter, received_ms).unwrap();
                    index += usize::from(sub_batch.messages);
                }
            }
        }
        let mut again = builder.finish();
        again.set_first(header.first);
        // Leveret writes no trailers.
        let head = ChunkHeader { trailer_length: header.trailer_length, ..*again.header() }.encode();
        let trailer = &chunk[chunk.len() - header.trailer_length as usize..];
        assert_eq!([&head, &again.rest()[..], trailer].concat(), chunk, "{header:?}");
        assert_eq!(again.head().len(), HEADER_BYTES);
    }
}

#[test]
fn filters_of_a_segment_match_their_values() {
    let mut filters = 0;
    for chunk in chunks() {
        let (batch, bloom) = (decode(&chunk, "").unwrap(), bloom(&chunk).unwrap());
        assert_eq!(batch.chunk_bloom(), bloom);
        filters += usize::from(!bloom.is_empty());
        for index in 0..batch.len() {
            match filter_value(&batch.message(index).view()).unwrap_or_default() {
                none if none.is_empty() => assert!(may_match(bloom, ["other"].into_iter(), true)),
                value => assert!(may_match(bloom, [&*value].into_iter(), false)),
            }
        }
    }
    assert_eq!(filters, 7);
}

#[test]
fn messages_of_a_segment_have_their_envelopes() {
    let batches = all();
    let messages: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.len()).map(|index| batch.message(index).view())).collect();
    let envelope = |offset: usize| messages[offset].envelope;
    assert_eq!(
        (envelope(0).exchange, envelope(0).routing_key, envelope(0).durable),
        (&b""[..], &b"fixture"[..], false)
    );
    assert!(envelope(1).durable && !envelope(2).durable);
    assert_eq!(envelope(3).priority, Some(9));
    assert_eq!((envelope(4).ttl_ms(), envelope(4).received_ms), (Some(60_000), 1_795_739_923_500));
    assert_eq!((envelope(8).exchange, envelope(8).routing_key), (&b"fixture-x"[..], &b"some.key"[..]));
    assert_eq!((envelope(28).priority, envelope(28).ttl_ms()), (Some(9), Some(60_000)));
    // Messages of the stream's own protocol have no annotations.
    assert_eq!((envelope(49).exchange, envelope(49).routing_key), (&b""[..], &b""[..]));
    assert!(messages[0].properties.is_empty() && !messages[8].properties.is_empty());
    let bodies = |offset: usize| to_amqp091(&messages[offset], &Delivery::default()).body.into_owned();
    assert_eq!((bodies(0), bodies(1), bodies(9).len()), (vec![], b"m".to_vec(), 5_000));
}

#[test]
fn sub_batches_of_every_compression_are_read() {
    let batches = all();
    let messages: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.len()).map(|index| batch.message(index).view())).collect();
    for (compression, first) in [("NONE", 59), ("GZIP", 63), ("SNAPPY", 67), ("LZ4", 71), ("ZSTD", 75)] {
        for number in 0..4 {
            let fields = MessageLookup::new(&messages[first + number]);
            let id = fields.property(leveret_message::lookup::Property::MessageId);
            assert_eq!(id, Some(Field::Bytes(format!("{compression}{number}").as_bytes())));
            assert_eq!(fields.application_property("n"), Some(Field::Integer(number as i128)));
        }
    }
    let value = to_amqp091(&messages[13], &Delivery::default()).body.into_owned();
    assert!(value.ends_with(b"v"));
}

#[test]
fn properties_published_over_amqp_0_9_1_come_back() {
    let batches = all();
    let messages: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.len()).map(|index| batch.message(index).view())).collect();
    let delivered = |offset: usize| to_amqp091(&messages[offset], &Delivery::default()).properties.into_owned();
    let text = |text: Option<ShortStr<'_>>| String::from_utf8(text.unwrap().as_bytes().to_vec()).unwrap();
    let raw = delivered(3);
    let every = Properties::decode(&raw).unwrap();
    assert_eq!((text(every.content_type), text(every.content_encoding)), ("text/plain".into(), "gzip".into()));
    assert_eq!((text(every.message_id), text(every.correlation_id)), ("id".into(), "corr".into()));
    assert_eq!((text(every.reply_to), text(every.kind)), ("a b".into(), "kind".into()));
    assert_eq!((text(every.user_id), text(every.app_id)), ("guest".into(), "app".into()));
    assert_eq!((every.timestamp, every.priority, every.delivery_mode), (Some(1_700_000_000), Some(9), Some(2)));
    assert_eq!(text(Properties::decode(&delivered(4)).unwrap().expiration), "60000");

    let raw = delivered(5);
    let headers: FieldTable = Properties::decode(&raw).unwrap().headers.unwrap().into();
    let expected = [
        ("string", FieldValue::from("text")),
        ("utf", FieldValue::from("é")),
        ("empty", FieldValue::from("")),
        ("bytes", FieldValue::LongString(vec![0xff, 0])),
        ("true", FieldValue::Bool(true)),
        ("false", FieldValue::Bool(false)),
        ("time", FieldValue::Timestamp(1_700_000_000)),
        ("void", FieldValue::Void),
        ("float", FieldValue::F32(0.5)),
        ("b", FieldValue::I8(-5)),
        ("B", FieldValue::U8(200)),
        ("s", FieldValue::I16(-300)),
        ("u", FieldValue::U16(60_000)),
        ("I", FieldValue::I32(-70_000)),
        ("i", FieldValue::U32(4_000_000_000)),
        ("l", FieldValue::I64(1 << 40)),
        ("small l", FieldValue::I64(5)),
        ("x-opt-a", FieldValue::from("annotation")),
        ("x-number", FieldValue::I32(7)),
        ("x-list", FieldValue::Array(vec![FieldValue::I32(1), FieldValue::from("a")])),
        ("x-table", FieldValue::Table(FieldTable::new().with("a", 1))),
        ("x-void", FieldValue::Void),
        ("x-time", FieldValue::Timestamp(1_700_000_000)),
        ("x-bytes", FieldValue::LongString(vec![0xff])),
    ];
    assert_eq!(headers.iter().count(), expected.len());
    for (name, value) in expected {
        assert_eq!(headers.lookup(name), Some(&value), "{name}");
    }
    let raw = delivered(8);
    let cc = Properties::decode(&raw).unwrap().headers.unwrap().lookup("CC").map(FieldValue::from);
    assert_eq!(cc, Some(FieldValue::Array(vec![FieldValue::from("another.key")])));
}
