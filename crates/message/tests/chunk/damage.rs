//! Damaged chunks: an error or another message, and never a panic.

use bytes::Bytes;
use leveret_message::Encoding;
use leveret_message::chunk::{
    ChunkBuilder, ChunkError, ChunkHeader, Compression, HEADER_BYTES, SUB_BATCH_BYTES_MAX, SubBatch, bloom, decode,
    may_match,
};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};

use crate::{NOW_MS, chunk_of_entries};

const MESSAGE: &[u8] = b"\0\x53\x75\xa0\x04body";

/// Reads a chunk; all of its messages can be delivered.
fn read(chunk: &Bytes) -> Result<usize, ChunkError> {
    if let Ok(bloom) = bloom(chunk) {
        may_match(bloom, ["value"].into_iter(), true);
    }
    let batch = decode(chunk)?;
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
fn a_message_that_is_not_one_of_amqp10_is_named() {
    let error = read(&chunk_of_entries(&[MESSAGE, b"text"])).unwrap_err();
    assert!(matches!(error, ChunkError::Message { at: 61, .. }), "{error}");
    assert!(error.to_string().starts_with("chunk: message at byte 61 isn't one of AMQP 1.0: "), "{error}");
    let header_again = b"\0\x53\x70\x45\0\x53\x70\x45\0\x53\x75\xa0\0";
    assert!(matches!(read(&chunk_of_entries(&[header_again])), Err(ChunkError::Message { at: 48, .. })));
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
    let batch = decode(&chunk_of_entries(&[&message])).unwrap();
    let view = batch.message(0).view();
    assert_eq!((view.envelope.exchange.len(), view.envelope.routing_key.len()), (0, 255));
    assert!(view.properties.is_empty());
}

#[test]
fn counts_and_lengths_of_sub_batches_are_compared() {
    assert_eq!(read(&sub_batch(0, 2, 26, &joined(2))), Ok(2));
    let wrong = |expected, found| Err(ChunkError::SubBatchMessages { at: 48, expected, found });
    assert_eq!(read(&sub_batch(0, 1, 26, &joined(2))), wrong(1, 2));
    assert!(matches!(read(&sub_batch(0, 3, 26, &joined(2))), Err(ChunkError::Truncated { at: 48, have: 0, .. })));
    let nested = sub_batch(0, 1, 0, &[0x80; 11]);
    assert!(matches!(read(&nested), Err(ChunkError::Truncated { .. })));
    assert_eq!(read(&sub_batch(0, 1, 0, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])), wrong(1, 0));
    assert_eq!(read(&sub_batch(7, 1, 0, b"")), Err(ChunkError::UnknownCompression { at: 48, code: 7 }));
    let mut more = sub_batch(0, 2, 26, &joined(2)).to_vec();
    more[4..8].copy_from_slice(&1u32.to_be_bytes());
    assert_eq!(read(&more.into()), Err(ChunkError::Messages { header: 1, found: 2 }));
}

#[test]
fn inflation_is_limited() {
    let too_long = SUB_BATCH_BYTES_MAX as u32 + 1;
    for compression in 1..=4 {
        let error = read(&sub_batch(compression, 1, too_long, b"")).unwrap_err();
        assert_eq!(error, ChunkError::SubBatchTooLong { at: 48, length: too_long.into() });
        let named = read(&sub_batch(compression, 1, 13, b"no such thing")).unwrap_err();
        assert!(matches!(named, ChunkError::Inflate { at: 48, .. }), "{named}");
    }
    let compressed = gzip(&joined(100));
    assert_eq!(read(&sub_batch(1, 100, 1_300, &compressed)), Ok(100));
    let shorter = read(&sub_batch(1, 100, 1_299, &compressed)).unwrap_err();
    assert!(
        matches!(&shorter, ChunkError::Inflate { compression: Compression::Gzip, reason, .. } if reason.contains("1299")),
        "{shorter}"
    );
    // Each sub-batch is short enough, and all together aren't.
    let mut builder = ChunkBuilder::new(16);
    let (bytes, length) = (gzip(&joined(1)), SUB_BATCH_BYTES_MAX as u32);
    for _ in 0..5 {
        let sub_batch = SubBatch { compression: 1, messages: 1, uncompressed_length: length, bytes: &bytes };
        builder.push_sub_batch(&sub_batch, None, NOW_MS).unwrap();
    }
    let error = read(&builder.finish().to_bytes()).unwrap_err();
    assert!(matches!(error, ChunkError::SubBatchTooLong { .. }), "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
