//! Stored messages, and their conversion for receivers over the other protocol.

use std::hint::black_box;

use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use leveret_message::{Batch, BatchBuilder, Envelope, Overlay, incoming};

use crate::count::count;
use crate::{BODY, MESSAGES, NOW_MS, QUEUE, codec};

fn envelope() -> Envelope<'static> {
    Envelope { durable: true, routing_key: QUEUE.as_bytes(), received_ms: NOW_MS, ..Envelope::default() }
}

/// Messages with commonly used properties.
pub(crate) fn amqp091_messages(count: u64) -> Batch {
    let short = |text| Some(ShortStr::new(text).expect("it is short"));
    let header = (b"region".to_vec(), FieldValue::LongString(b"europe".to_vec()));
    let table = FieldTable::from_iter([header]).encoded();
    let properties = Properties {
        content_type: short(b"text/plain"),
        headers: Some(table.as_table()),
        delivery_mode: Some(2),
        correlation_id: short(b"correlation"),
        message_id: short(b"message"),
        ..Properties::default()
    };
    let mut raw = Vec::new();
    properties.encode(&mut raw);
    let mut builder = BatchBuilder::default();
    (0..count).for_each(|_| builder.push(&envelope(), &raw, BODY));
    builder.finish()
}

pub(crate) fn amqp091_to_amqp10() -> u64 {
    let batch = amqp091_messages(MESSAGES);
    let mut out = Vec::with_capacity(MESSAGES as usize * 512);
    let delivery = Delivery { now_ms: NOW_MS, ..Delivery::default() };
    count(|| {
        for at in 0..batch.len() {
            to_amqp10(&black_box(&batch).message(at).view(), &delivery, &mut out);
        }
    });
    assert!(out.len() > batch.len() * BODY.len(), "they were converted");
    MESSAGES
}

pub(crate) fn amqp10_to_amqp091() -> u64 {
    let mut payloads = Vec::new();
    let from = amqp091_messages(1);
    to_amqp10(&from.message(0).view(), &Delivery { now_ms: NOW_MS, ..Delivery::default() }, &mut payloads);
    let message = incoming::amqp10(&payloads).expect("a message");
    let mut builder = BatchBuilder::default();
    (0..MESSAGES)
        .for_each(|_| builder.push_message(&message.stored(b"", QUEUE.as_bytes(), NOW_MS, Overlay::default())));
    let batch = builder.finish();
    count(|| {
        for at in 0..batch.len() {
            let converted = to_amqp091(&black_box(&batch).message(at).view(), &Delivery::default());
            assert_eq!(black_box(converted).body.len(), BODY.len());
        }
    });
    MESSAGES
}

/// From a transfer's payload into a batch.
pub(crate) fn store_amqp10() -> u64 {
    let payload = codec::payload();
    let mut builder = BatchBuilder::default();
    count(|| {
        for _ in 0..MESSAGES {
            let message = incoming::amqp10(black_box(&payload)).expect("a message");
            builder.push_message(&message.stored(b"", QUEUE.as_bytes(), NOW_MS, Overlay::default()));
        }
    });
    builder.finish().len() as u64
}
