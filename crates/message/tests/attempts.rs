//! Counts of earlier deliveries that a quorum queue's messages carry, as RabbitMQ 4.3.6 was measured.

use leveret_amqp10::Value;
use leveret_amqp10::message::Sections;
use leveret_amqp091::{FieldTable, FieldValue, Properties};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use leveret_message::{Batch, BatchBuilder, Encoding, Envelope, StoredMessage};

const NAMES: [&str; 2] = ["x-acquired-count", "x-delivery-count"];

/// A message of AMQP 0-9-1 with headers.
fn published(headers: &[(&str, FieldValue)]) -> Batch {
    let mut table = FieldTable::new();
    for (name, value) in headers {
        table.insert(name.as_bytes(), value.clone());
    }
    let table = table.encoded();
    let mut properties = Vec::new();
    let headers = (!headers.is_empty()).then(|| table.as_table());
    Properties { headers, ..Properties::default() }.encode(&mut properties);
    let mut builder = BatchBuilder::default();
    builder.push(&Envelope::default(), &properties, b"body");
    builder.finish()
}

/// The counts that a receiver over AMQP 0-9-1 finds in the headers.
fn in_headers(message: &StoredMessage<'_>, delivery: &Delivery) -> [Option<FieldValue>; 2] {
    let received = to_amqp091(message, delivery);
    let headers = Properties::decode(&received.properties).expect("they are whole").headers;
    NAMES.map(|name| headers.and_then(|table| table.lookup(name)).map(Into::into))
}

/// The counts that a receiver over AMQP 1.0 finds in the annotations, and the header's delivery-count.
fn in_annotations(message: &StoredMessage<'_>, delivery: &Delivery) -> ([Option<i64>; 2], u32) {
    let mut payload = Vec::new();
    to_amqp10(message, delivery, &mut payload);
    let sections = Sections::parse(&payload).expect("they are whole");
    let annotations = sections.message_annotations.expect("the broker adds some");
    let count = |name: &str| {
        annotations.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| match value {
            Value::Long(count) => count,
            other => panic!("{name} is {other:?}"),
        })
    };
    (NAMES.map(count), sections.header.expect("the broker writes one").delivery_count)
}

#[test]
fn counts_are_shown_once_they_are_not_zero() {
    let batch = published(&[]);
    let message = batch.message(0).view();
    assert_eq!(message.encoding, Encoding::Amqp091);
    let mut delivery = Delivery::default();
    assert_eq!(in_headers(&message, &delivery), [None, None]);
    assert_eq!(in_annotations(&message, &delivery), ([None, None], 0));
    delivery.acquired_count = 1;
    assert_eq!(in_headers(&message, &delivery), [Some(FieldValue::I64(1)), None]);
    assert_eq!(in_annotations(&message, &delivery), ([Some(1), None], 0));
    (delivery.acquired_count, delivery.delivery_count) = (3, 2);
    assert_eq!(in_headers(&message, &delivery), [Some(FieldValue::I64(3)), Some(FieldValue::I64(2))]);
    assert_eq!(in_annotations(&message, &delivery), ([Some(3), Some(2)], 2));
}

#[test]
fn a_queue_that_counts_failures_only_shows_no_headers() {
    let batch = published(&[]);
    let message = batch.message(0).view();
    let delivery = Delivery { redelivered: true, delivery_count: 2, ..Delivery::default() };
    assert_eq!(in_headers(&message, &delivery), [None, None]);
    assert_eq!(in_annotations(&message, &delivery), ([None, None], 2));
}

#[test]
fn own_counts_replace_those_of_the_publisher() {
    let batch = published(&[(NAMES[0], FieldValue::I64(9)), (NAMES[1], FieldValue::I64(7))]);
    let message = batch.message(0).view();
    let delivery = Delivery { acquired_count: 1, ..Delivery::default() };
    assert_eq!(in_headers(&message, &delivery), [Some(FieldValue::I64(1)), Some(FieldValue::I64(7))]);
    assert_eq!(in_annotations(&message, &delivery), ([Some(1), Some(7)], 0));
}
