//! Damaged chunks: an error or another message, and never a panic.

use bytes::Bytes;
use leveret_message::Encoding;
use leveret_message::chunk::{
    ChunkBuilder, ChunkError, ChunkHeader, HEADER_BYTES, SUB_BATCH_BYTES_MAX, SubBatch, bloom, decode, may_match,
};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};

use crate::{NOW_MS, chunk_of_entries};

const MESSAGE: &[u8] = b"\0\x53\x75\xa0\x04body";

/// Reads a chunk; all of its messages can be delivered.
fn read(chunk: &Bytes) -> Result<usize, ChunkError> {
    if let Ok(bloom) = bloom(chunk) {
        may_match(bloom, ["value"].into_iter(), true);
    }
    let batch = decode(chunk, "")?;
    for index in 0..batch.len() {
        let view = batch.message(index).view();
        assert_eq!(view.encoding, Encoding::Amqp10);
        to_amqp10(&view, &Delivery::default(), &mut Vec::new());
        to_amqp091(&view, &Delivery::default());
    }
    Ok(batch.len())
}

fn sub_batch(compression: u8, messages: u16, uncompressed_length: u32, bytes: &[u8]) -> Bytes {
    let mut builder = ChunkBuilder::new(16);
    builder.push_sub_batch(&SubBatch { compression, messages, uncompressed_length, bytes }, None, NOW_MS).unwrap();
    builder.finish().to_bytes()
}

/// Messages as a sub-batch has them.
fn joined(messages: usize) -> Vec<u8> {
    [&(MESSAGE.len() as u32).to_be_bytes(), MESSAGE].concat().repeat(messages)
}

#[test]
fn every_truncation_is_an_error() {
    let chunk = chunk_of_entries(&[MESSAGE, MESSAGE]);
    assert_eq!(read(&chunk), Ok(2));
    for end in 0..chunk.len() {
        assert!(read(&chunk.slice(..end)).is_err(), "cut at {end}");
    }
    assert!(read(&[&chunk[..], b"x"].concat().into()).is_err());
}

#[test]
fn any_changed_byte_is_no_panic() {
    let segment = include_bytes!("../fixtures/stream-4.3.6.segment");
    let mut rest = &segment[8..];
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(ChunkHeader::decode(rest).unwrap().chunk_bytes() as usize);
        rest = behind;
        for at in 0..chunk.len().min(1500) {
            for change in [0x01, 0x80, 0xff] {
                let mut chunk = chunk.to_vec();
                chunk[at] ^= change;
                let _ = read(&chunk.into());
            }
        }
    }
}

#[test]
fn counts_of_entries_and_messages_are_compared() {
    let chunk = chunk_of_entries(&[MESSAGE, MESSAGE]);
    let with = |change: fn(&mut ChunkHeader)| {
        let mut header = ChunkHeader::decode(&chunk).unwrap();
        change(&mut header);
        read(&[&header.encode(), &chunk[HEADER_BYTES..]].concat().into())
    };
    assert_eq!(with(|header| header.messages = 3), Err(ChunkError::Messages { header: 3, found: 2 }));
    assert_eq!(with(|header| header.messages = 65_536), Err(ChunkError::TooManyMessages(65_536)));
    assert_eq!(with(|header| header.entries = 1), Err(ChunkError::Excess { at: 61, count: 13 }));
    assert_eq!(
        with(|header| header.entries = 3),
        Err(ChunkError::Truncated { part: "entry", at: 74, need: 4, have: 0 })
    );
    assert_eq!(with(|header| header.timestamp_ms = -1), Err(ChunkError::Timestamp(-1)));
    assert_eq!(with(|header| header.data_length += 1), Err(ChunkError::Length { need: 75, have: 74 }));
    assert_eq!(with(|header| header.filter_length = 255), Err(ChunkError::Length { need: 329, have: 74 }));
}

#[test]
fn a_message_that_is_not_one_of_amqp10_is_a_body() {
    let header_again = b"\0\x53\x70\x45\0\x53\x70\x45\0\x53\x75\xa0\0";
    let batch = decode(&chunk_of_entries(&[MESSAGE, b"text", header_again]), "").unwrap();
    let body = |index| batch.message(index).view().body.to_vec();
    assert_eq!(body(1), b"\0\x53\x75\xb0\0\0\0\x04text");
    assert_eq!(body(2)[8..], header_again[..]);
}

#[test]
fn messages_that_were_not_routed_have_the_name_of_their_stream() {
    let mut map = leveret_amqp10::value::EncodedMap::new();
    map.push(leveret_amqp10::Symbol::new("x-exchange"), "amq.fanout")
        .push(leveret_amqp10::Symbol::new("x-routing-key"), "");
    let mut routed = Vec::new();
    let section = leveret_amqp10::message::MapSection::MessageAnnotations;
    leveret_amqp10::message::write_map_section(&mut routed, section, map.as_map());
    routed.extend_from_slice(MESSAGE);
    let batch = decode(&chunk_of_entries(&[MESSAGE, b"text", MESSAGE, &routed]), "orders").unwrap();
    let key = |index| String::from_utf8(batch.message(index).view().envelope.routing_key.to_vec()).unwrap();
    assert_eq!([0, 1, 2, 3].map(key), ["orders", "orders", "orders", ""]);
}

#[test]
fn names_that_are_too_long_are_ignored() {
    let mut map = leveret_amqp10::value::EncodedMap::new();
    let long = "n".repeat(256);
    map.push(leveret_amqp10::Symbol::new("x-exchange"), &*long)
        .push(leveret_amqp10::Symbol::new("x-routing-key"), &long[1..]);
    let mut message = Vec::new();
    let section = leveret_amqp10::message::MapSection::MessageAnnotations;
    leveret_amqp10::message::write_map_section(&mut message, section, map.as_map());
    message.extend_from_slice(MESSAGE);
    let batch = decode(&chunk_of_entries(&[&message]), "").unwrap();
    let view = batch.message(0).view();
    assert_eq!((view.envelope.exchange.len(), view.envelope.routing_key.len()), (0, 255));
    assert!(view.properties.is_empty());
}

#[test]
fn messages_of_a_sub_batch_that_cannot_be_read_are_absent() {
    let lengths = |chunk: &Bytes| {
        let batch = decode(chunk, "").unwrap();
        (0..batch.len()).map(|index| batch.message(index).view().body.len()).collect::<Vec<_>>()
    };
    let (good, empty) = (MESSAGE.len(), 8);
    assert_eq!(lengths(&sub_batch(0, 2, 26, &joined(2))), [good, good]);
    // All of a sub-batch are absent, or none.
    assert_eq!(lengths(&sub_batch(0, 1, 26, &joined(2))), [empty]);
    assert_eq!(lengths(&sub_batch(0, 3, 26, &joined(2))), [empty, empty, empty]);
    let absent = |chunk: &Bytes| decode(chunk, "").unwrap().absent().iter().map(|one| one.count).collect::<Vec<_>>();
    assert_eq!(absent(&sub_batch(0, 2, 26, &joined(2))), [0; 0]);
    assert_eq!(absent(&sub_batch(0, 1, 26, &joined(2))), [1]);
    assert_eq!(absent(&sub_batch(0, 3, 26, &joined(2))), [3]);
    assert_eq!(lengths(&sub_batch(0, 1, 0, &[0x80; 11])), [empty]);
    assert_eq!(lengths(&sub_batch(0, 1, 0, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])), [empty]);
    assert_eq!(lengths(&sub_batch(7, 1, 0, b"")), [empty]);
    let mut more = sub_batch(0, 2, 26, &joined(2)).to_vec();
    more[4..8].copy_from_slice(&1u32.to_be_bytes());
    assert_eq!(read(&more.into()), Err(ChunkError::Messages { header: 1, found: 2 }));
}

#[test]
fn inflation_is_limited() {
    let empty = |chunk: &Bytes| {
        let batch = decode(chunk, "").unwrap();
        (0..batch.len()).filter(|index| batch.message(*index).view().body.len() == 8).count()
    };
    let too_long = SUB_BATCH_BYTES_MAX as u32 + 1;
    for compression in 1..=4 {
        assert_eq!(empty(&sub_batch(compression, 1, too_long, b"")), 1);
        assert_eq!(empty(&sub_batch(compression, 1, 13, b"no such thing")), 1);
    }
    let compressed = gzip(&joined(100));
    assert_eq!(empty(&sub_batch(1, 100, 1_300, &compressed)), 0);
    assert_eq!(empty(&sub_batch(1, 100, 1_299, &compressed)), 100, "it becomes longer than it says");
    // Each sub-batch is short enough, and all together aren't.
    let mut builder = ChunkBuilder::new(16);
    let (bytes, length) = (gzip(&joined(1)), SUB_BATCH_BYTES_MAX as u32);
    for _ in 0..5 {
        let sub_batch = SubBatch { compression: 1, messages: 1, uncompressed_length: length, bytes: &bytes };
        builder.push_sub_batch(&sub_batch, None, NOW_MS).unwrap();
    }
    assert_eq!(empty(&builder.finish().to_bytes()), 1);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
