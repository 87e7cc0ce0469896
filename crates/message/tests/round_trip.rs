//! Messages converted to the other protocol and back, and random bytes.

use std::collections::BTreeMap;

use leveret_amqp10::message::{BodyRef, Sections};
use leveret_amqp091::{FieldTable, FieldValue, Properties, ShortStr};
use leveret_message::deliver::{Delivery, to_amqp10, to_amqp091};
use leveret_message::headers::Headers;
use leveret_message::hub::{self, Body, BodyForm, Entries};
use leveret_message::overlay::{Overlay, encode_keys};
use leveret_message::{BatchBuilder, DeadLetter, Envelope, Reason, StoredMessage, incoming};
use proptest::prelude::*;

const NOW_MS: u64 = 1_700_000_000_000;

/// Values that both protocols have and that are allowed in application properties.
fn scalar() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        any::<bool>().prop_map(FieldValue::Bool),
        any::<i8>().prop_map(FieldValue::I8),
        any::<u8>().prop_map(FieldValue::U8),
        any::<i16>().prop_map(FieldValue::I16),
        any::<u16>().prop_map(FieldValue::U16),
        any::<i32>().prop_map(FieldValue::I32),
        any::<u32>().prop_map(FieldValue::U32),
        any::<i64>().prop_map(FieldValue::I64),
        (-1e30f32..1e30).prop_map(FieldValue::F32),
        (-1e300f64..1e300).prop_map(FieldValue::F64),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(FieldValue::LongString),
        (0..i64::MAX as u64 / 1000).prop_map(FieldValue::Timestamp),
        Just(FieldValue::Void),
    ]
}

fn any_value() -> impl Strategy<Value = FieldValue> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(FieldValue::Array),
            proptest::collection::vec(("[ -~]{0,20}", inner), 0..5).prop_map(|pairs| FieldValue::Table(
                pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()
            )),
        ]
    })
}

fn headers() -> impl Strategy<Value = BTreeMap<String, FieldValue>> {
    let plain = proptest::collection::btree_map("[a-wyzü][a-zü]{0,10}", scalar(), 0..5);
    let x = proptest::collection::btree_map("x-[a-z]{8,12}", any_value(), 0..5);
    (plain, x).prop_map(|(mut plain, x)| {
        plain.extend(x);
        plain
    })
}

#[derive(Debug, Clone)]
struct Message {
    ascii: [Option<String>; 2],
    texts: [Option<String>; 5],
    user: Option<String>,
    headers: BTreeMap<String, FieldValue>,
    persistent: bool,
    priority: Option<u8>,
    timestamp: Option<u64>,
    ttl: Option<u32>,
    body: Vec<u8>,
}

fn message() -> impl Strategy<Value = Message> {
    let ascii = proptest::array::uniform2(proptest::option::of("[ -~]{0,60}"));
    let texts = proptest::array::uniform5(proptest::option::of("[a-z/% ü]{0,60}"));
    let rest = (
        proptest::option::of("[a-z]{0,20}"),
        headers(),
        any::<bool>(),
        any::<Option<u8>>(),
        proptest::option::of(0..i64::MAX as u64 / 1000),
        any::<Option<u32>>(),
        proptest::collection::vec(any::<u8>(), 0..300),
    );
    (ascii, texts, rest).prop_map(|(ascii, texts, (user, headers, persistent, priority, timestamp, ttl, body))| {
        Message { ascii, texts, user, headers, persistent, priority, timestamp, ttl, body }
    })
}

fn short(text: &Option<String>) -> Option<ShortStr<'_>> {
    text.as_ref().map(|text| ShortStr::new(text.as_bytes()).unwrap())
}

impl Message {
    fn properties(&self) -> Vec<u8> {
        let table = self.headers.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone()));
        let table = table.collect::<FieldTable>().encoded();
        let expiration = self.ttl.map(|ttl| ttl.to_string());
        let properties = Properties {
            content_type: short(&self.ascii[0]),
            content_encoding: short(&self.ascii[1]),
            headers: (!self.headers.is_empty()).then(|| table.as_table()),
            delivery_mode: self.persistent.then_some(2),
            priority: self.priority,
            correlation_id: short(&self.texts[0]),
            reply_to: short(&self.texts[1]),
            expiration: short(&expiration),
            message_id: short(&self.texts[2]),
            timestamp: self.timestamp,
            kind: short(&self.texts[3]),
            user_id: short(&self.user),
            app_id: short(&self.texts[4]),
            cluster_id: None,
        };
        let mut raw = Vec::new();
        properties.encode(&mut raw);
        raw
    }

    /// The stored form of the message in AMQP 0-9-1, with its encoded `properties`.
    fn stored<'a>(&'a self, properties: &'a [u8]) -> StoredMessage<'a> {
        StoredMessage { envelope: self.envelope(), properties, body: &self.body, ..StoredMessage::default() }
    }

    fn envelope(&self) -> Envelope<'static> {
        Envelope {
            durable: self.persistent,
            priority: self.priority,
            exchange: b"exchange",
            routing_key: b"key",
            received_ms: NOW_MS,
            expiry_ms: self.ttl.map_or(0, |ttl| Envelope::expiry(NOW_MS, ttl.into())),
        }
    }
}

fn payload_of(message: &StoredMessage<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    to_amqp10(message, &Delivery { now_ms: NOW_MS, ..Delivery::default() }, &mut payload);
    payload
}

/// A value with all nested values as text, whichever encoding it is read from.
fn shown(value: hub::Value<'_>) -> String {
    match value {
        hub::Value::Simple(value) => format!("{value:?}"),
        hub::Value::List(list) => format!("{:?}", list.iter().map(shown).collect::<Vec<_>>()),
        hub::Value::Map(map) => format!("{:?}", map.iter().map(|(key, value)| (key, shown(value))).collect::<Vec<_>>()),
    }
}

fn shown_entries(entries: &Entries<'_>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    entries.each(|name, value| all.push((name.to_owned(), shown(value))));
    all
}

proptest! {
    /// Writers see the same message, whichever protocol it was published over.
    #[test]
    fn the_hub_form_is_the_same_from_both_encodings(message in message()) {
        let properties = message.properties();
        let stored = message.stored(&properties);
        let payload = payload_of(&stored);
        let incoming = incoming::amqp10(&payload).unwrap();
        let converted = incoming.stored(b"exchange", b"key", NOW_MS, Overlay::default());
        let (old, old_body) = hub::Message::read(&stored).unwrap();
        let (new, new_body) = hub::Message::read(&converted).unwrap();
        prop_assert_eq!(old.envelope, new.envelope);
        prop_assert_eq!(shown_entries(&old.annotations), shown_entries(&new.annotations));
        prop_assert_eq!(shown_entries(&old.application_properties), shown_entries(&new.application_properties));
        let reply_to = |properties: &hub::Properties<'_>| properties.reply_to.map(|to| to.queue().into_owned());
        prop_assert_eq!(reply_to(&old.properties), reply_to(&new.properties));
        let rest = |properties| hub::Properties { reply_to: None, ..properties };
        prop_assert_eq!(rest(old.properties), rest(new.properties));
        prop_assert_eq!((old.body, new.body), (BodyForm::Bytes, BodyForm::Sections));
        prop_assert_eq!(old_body, Body::Bytes(&message.body));
        let Body::Sections { body: BodyRef::Data(data), .. } = new_body else { panic!("{new_body:?}") };
        prop_assert_eq!(data.single(), Some(&message.body[..]));
    }

    #[test]
    fn from_amqp_091_and_back(message in message()) {
        let properties = message.properties();
        let stored = message.stored(&properties);
        let payload = payload_of(&stored);
        let incoming = incoming::amqp10(&payload).unwrap();
        let again = incoming.stored(b"exchange", b"key", NOW_MS, Overlay::default());
        let back = to_amqp091(&again, &Delivery::default());
        prop_assert_eq!(&back.properties, &properties, "{:?}", Properties::decode(&back.properties));
        prop_assert_eq!(&*back.body, &message.body[..]);
    }

    #[test]
    fn accepted_messages_can_be_delivered(
        case in 0..1000usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut payload = recorded(case);
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        let Ok(incoming) = incoming::amqp10(&payload) else { return Ok(()) };
        let mut overlay = Vec::new();
        encode_keys(&mut overlay, incoming.further_keys(), []);
        let stored = incoming.stored(b"", b"q", NOW_MS, Overlay::new(&overlay));
        let mut builder = BatchBuilder::default();
        builder.push_message(&stored);
        let published = builder.finish();
        let letter = DeadLetter { queue: b"q", reason: Reason::Expired, now_ms: NOW_MS, exchange: b"x", routing_key: None, failures: 0 };
        builder.push_dead_letter(&published.message(0), &letter);
        let dead = builder.finish();
        for batch in [&published, &dead] {
            let view = batch.message(0).view();
            let sent = payload_of(&view);
            let sections = Sections::parse(&sent).unwrap();
            prop_assert_eq!(sections.bare, view.body);
            prop_assert!(payload.ends_with(sections.bare));
            let converted = to_amqp091(&view, &Delivery::default());
            Properties::decode(&converted.properties).unwrap();
            Headers::stored(&view).lookup("x-first-death-queue");
        }
    }
}

/// The payload of a recorded message.
fn recorded(case: usize) -> Vec<u8> {
    thread_local! {
        static PAYLOADS: Vec<Vec<u8>> = {
            let lines = include_str!("conversions/amqp10.txt").lines().filter_map(|line| line.strip_prefix("bytes "));
            let byte = |hex: &str, at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            lines.map(|hex| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect()).collect()
        };
    }
    PAYLOADS.with(|payloads| payloads[case % payloads.len()].clone())
}

#[test]
fn a_time_to_live_begins_anew_when_a_batch_is_received_anew() {
    let mut builder = BatchBuilder::default();
    for (received_ms, ttl_ms) in [(1_000, Some(500)), (1_200, None), (1_300, Some(0))] {
        let expiry_ms = ttl_ms.map_or(0, |ttl_ms| Envelope::expiry(received_ms, ttl_ms));
        builder.push(&Envelope { received_ms, expiry_ms, ..Envelope::default() }, &[0, 0], b"body");
    }
    let mut batch = builder.finish();
    batch.receive_at(9_000);
    let times: Vec<(u64, u64)> = (0..3).map(|index| batch.times(index)).collect();
    assert_eq!(times, [(9_000, 9_500), (9_000, 0), (9_000, 9_000)]);
    assert_eq!(batch.message(2).view().body, b"body");
}
