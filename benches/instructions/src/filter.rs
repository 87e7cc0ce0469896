//! Filters of stored messages.

use std::hint::black_box;

use leveret_amqp10::message::{MapSection, MessageId, Properties, write_data, write_map_section};
use leveret_amqp10::value::EncodedMap;
use leveret_amqp091::{FieldTable, Properties as Amqp091Properties, ShortStr};
use leveret_message::{Encoding, StoredMessage};
use leveret_queue::FilterFields;
use leveret_selector::{Budget, Dialect, Selector, Verdict};

use crate::count::count;
use crate::{BODY, MESSAGES, NOW_MS};

fn evaluate(message: &StoredMessage<'_>, expression: &str) -> u64 {
    let selector = Selector::parse(expression, Dialect::Amqp).expect("an expression");
    let mut matches = 0;
    count(|| {
        let mut budget = Budget::new(u64::MAX);
        for _ in 0..MESSAGES {
            let fields = FilterFields::new(black_box(message));
            let verdict = black_box(&selector).evaluate(&fields, NOW_MS, &mut budget);
            matches += u64::from(verdict == Verdict::Match);
        }
    });
    assert_eq!(matches, MESSAGES);
    MESSAGES
}

/// Three comparisons, for which all fields of the expression are looked at.
pub(crate) fn amqp10() -> u64 {
    let mut bare = Vec::new();
    let properties = Properties {
        message_id: Some(MessageId::String("message")),
        subject: Some("order.created"),
        creation_time: Some(1_700_000_000_000),
        ..Properties::default()
    };
    properties.encode(&mut bare);
    let mut map = EncodedMap::new();
    map.push("region", "EMEA").push("price", 120i32);
    write_map_section(&mut bare, MapSection::ApplicationProperties, map.as_map());
    write_data(&mut bare, BODY);
    let message = StoredMessage { encoding: Encoding::Amqp10, body: &bare, ..StoredMessage::default() };
    evaluate(&message, "properties.subject = 'order.created' AND region IN ('AMER','EMEA') AND price > 100")
}

/// The same with a property that AMQP 0-9-1 has.
pub(crate) fn amqp091() -> u64 {
    let table = FieldTable::new().with("region", "EMEA").with("price", 120).encoded();
    let properties = Amqp091Properties {
        message_id: ShortStr::new(b"message").ok(),
        app_id: ShortStr::new(b"order.created").ok(),
        headers: Some(table.as_table()),
        delivery_mode: Some(2),
        ..Amqp091Properties::default()
    };
    let mut raw = Vec::new();
    properties.encode(&mut raw);
    let message = StoredMessage { properties: &raw, body: BODY, ..StoredMessage::default() };
    evaluate(&message, "properties.group_id = 'order.created' AND region IN ('AMER','EMEA') AND price > 100")
}
