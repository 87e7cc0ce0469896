//! Messages in an encoding that a protocol outside this crate brings.

use leveret_amqp10::Value as Simple;
use leveret_amqp10::message::{BodyRef, MessageId, Sections};
use leveret_amqp091::{Properties as Amqp091Properties, Value as Field};
use leveret_message::deliver::{
    Delivery, file_to_amqp10, file_to_amqp091, mqtt_origin, timestamp, to_amqp10, to_amqp091, to_mqtt,
};
use leveret_message::headers::{Header, Headers};
use leveret_message::hub::{ForeignEncoding, Properties, Value, encoding_name, make_known};
use leveret_message::lookup::{MessageLookup, Property};
use leveret_message::{Batch, BatchBuilder, DeadLetter, Encoding, Envelope, ForeignId, Reason, StoredMessage};

const ID: ForeignId = ForeignId::new(200);
const UNKNOWN: ForeignId = ForeignId::new(255);

/// Lines `NAME=VALUE`; `id` and `created` are properties, a line `text` says that the body is text.
struct Lines;

fn lines(properties: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    std::str::from_utf8(properties).unwrap_or_default().lines().filter_map(|line| line.split_once('='))
}

impl ForeignEncoding for Lines {
    fn id(&self) -> ForeignId {
        ID
    }

    fn name(&self) -> &'static str {
        "lines"
    }

    fn is_text(&self, properties: &[u8]) -> bool {
        properties.ends_with(b"text\n")
    }

    fn properties<'a>(&self, properties: &'a [u8]) -> Properties<'a> {
        let find = |wanted| lines(properties).find(|(name, _)| *name == wanted).map(|(_, value)| value);
        Properties {
            message_id: find("id").map(MessageId::String),
            creation_time: find("created").and_then(|value| value.parse().ok()),
            subject: find("subject"),
            ..Properties::default()
        }
    }

    fn annotations<'a>(&self, properties: &'a [u8], take: &mut dyn FnMut(&'a str, Value<'a>)) {
        lines(properties).filter(|(name, _)| name.starts_with("x-")).for_each(|(name, value)| {
            let number = value.parse().map(Simple::Long);
            take(name, Value::Simple(number.unwrap_or(Simple::String(value))));
        });
    }

    fn application_properties<'a>(&self, properties: &'a [u8], take: &mut dyn FnMut(&'a str, Value<'a>)) {
        let of_others =
            |(name, _): &(&str, &str)| !name.starts_with("x-") && !["id", "created", "subject"].contains(name);
        lines(properties).filter(of_others).for_each(|(name, value)| take(name, Value::Simple(Simple::String(value))));
    }
}

const PROPERTIES: &[u8] = b"id=7\ncreated=5000\nsubject=s\nx-opt-a=1\nx-opt-delivery-time=9000\nk=v\n";

fn message(encoding: Encoding, properties: &'static [u8]) -> StoredMessage<'static> {
    make_known(&Lines);
    let envelope = Envelope { durable: true, routing_key: b"a.b", ..Envelope::default() };
    StoredMessage { encoding, envelope, properties, body: b"body", ..StoredMessage::default() }
}

fn batch(message: &StoredMessage<'_>) -> Batch {
    let mut builder = BatchBuilder::default();
    builder.push_message(message);
    builder.finish()
}

#[test]
fn a_message_comes_back_and_reaches_every_protocol() {
    let sent = message(Encoding::Foreign(ID), PROPERTIES);
    let stored = batch(&sent);
    let message = stored.message(0).view();
    assert_eq!(message, sent);
    let delivery = Delivery::default();

    let old = to_amqp091(&message, &delivery);
    let got = Amqp091Properties::decode(&old.properties).expect("is right");
    let header = |name| got.headers.expect("headers").lookup(name);
    assert_eq!((header("k"), header("x-opt-a")), (Some(Field::LongString(b"v")), Some(Field::I64(1))));
    assert_eq!((got.message_id.map(|id| id.as_bytes()), got.timestamp), (Some(&b"7"[..]), Some(5)));
    assert_eq!(timestamp(&message), Some(5));
    assert_eq!(&old.body[..], b"body");

    let mut new = Vec::new();
    to_amqp10(&message, &delivery, &mut new);
    let sections = Sections::parse(&new).expect("is right");
    assert_eq!(sections.properties.expect("properties").subject, Some("s"));
    assert!(matches!(sections.body, BodyRef::Data(data) if data.single() == Some(b"body")));

    let mut properties = Vec::new();
    assert_eq!(&to_mqtt(&message, &delivery, &mut properties)[..], b"body");
    assert_eq!((&*mqtt_origin(&message).topic, mqtt_origin(&message).client_id), ("a/b", None));
}

#[test]
fn a_text_is_a_string_in_amqp_1_0() {
    let sent = message(Encoding::Foreign(ID), b"text\n");
    let mut new = Vec::new();
    to_amqp10(&sent, &Delivery::default(), &mut new);
    let BodyRef::Value(value) = Sections::parse(&new).expect("is right").body else { panic!("no value") };
    assert_eq!(value.decode().ok(), Some(Simple::String("body")));
}

#[test]
fn routing_and_filters_see_its_fields() {
    let sent = message(Encoding::Foreign(ID), PROPERTIES);
    let headers = Headers::stored(&sent);
    assert_eq!(headers.lookup("k"), Some(Header::Bytes(b"v")));
    assert_eq!(headers.lookup("x-opt-a"), Some(Header::Integer(1)));
    assert_eq!((headers.lookup("id"), headers.is_empty()), (None, false));
    assert!(Headers::foreign(ID, b"id=7\n").is_empty());
    let lookup = MessageLookup::new(&sent);
    assert_eq!(lookup.property(Property::MessageId), Some(Header::Bytes(b"7")));
    assert_eq!(lookup.property(Property::Subject), Some(Header::Bytes(b"s")));
    assert_eq!(lookup.property(Property::CreationTime), Some(Header::Timestamp(5_000)));
    assert_eq!(lookup.application_property("k"), Some(Header::Bytes(b"v")));
    assert_eq!((lookup.application_property("x-opt-a"), lookup.application_property("none")), (None, None));
}

#[test]
fn its_time_of_delivery_holds_and_it_can_die() {
    let sent = message(Encoding::Foreign(ID), PROPERTIES);
    let stored = batch(&sent);
    assert_eq!((stored.any_delivery_time(), stored.delivery_ms(0)), (true, Some(9_000)));
    let (exchange, reason) = (&b"dead"[..], Reason::Rejected);
    let letter = DeadLetter { queue: b"q", reason, now_ms: 1, exchange, routing_key: None, failures: 0 };
    let mut builder = BatchBuilder::default();
    builder.push_dead_letter(&stored.message(0), &letter);
    let dead = builder.finish();
    let view = dead.message(0).view();
    assert_eq!((view.encoding, view.properties), (sent.encoding, PROPERTIES));
    let content = to_amqp091(&view, &Delivery::default());
    let headers = leveret_amqp091::headers(&content.properties).expect("headers");
    assert_eq!(headers.lookup("x-first-death-queue"), Some(Field::LongString(b"q")));
    assert_eq!(headers.lookup("k"), Some(Field::LongString(b"v")));
}

#[test]
fn a_body_in_a_file_is_sent_in_pieces() {
    let sent = StoredMessage { body: b"", ..message(Encoding::Foreign(ID), PROPERTIES) };
    let (properties, range) = file_to_amqp091(&sent, &Delivery::default(), 300_000, b"start").expect("as it is");
    assert_eq!(leveret_amqp091::headers(&properties).expect("headers").lookup("k"), Some(Field::LongString(b"v")));
    assert_eq!(range, 0..300_000);
    assert!(file_to_amqp10(&sent, &Delivery::default(), 300_000, b"start", &mut Vec::new()));
}

#[test]
fn a_message_of_an_unknown_encoding_is_a_body_alone() {
    let sent = message(Encoding::Foreign(UNKNOWN), PROPERTIES);
    let stored = batch(&sent);
    assert_eq!(stored.message(0).view(), sent);
    assert_eq!(stored.delivery_ms(0), None);
    let content = to_amqp091(&sent, &Delivery::default());
    assert_eq!(leveret_amqp091::headers(&content.properties), None);
    assert_eq!(&content.body[..], b"body");
    assert!(Headers::stored(&sent).is_empty());
    assert_eq!(encoding_name(sent.encoding), "encoding 255");
    assert_eq!(encoding_name(Encoding::Foreign(ID)), "lines");
}

#[test]
#[should_panic = "two encodings have the number 200"]
fn two_encodings_with_one_number_are_a_mistake() {
    struct Other;
    impl ForeignEncoding for Other {
        fn id(&self) -> ForeignId {
            ID
        }

        fn name(&self) -> &'static str {
            "other"
        }

        fn properties<'a>(&self, _: &'a [u8]) -> Properties<'a> {
            Properties::default()
        }

        fn application_properties<'a>(&self, _: &'a [u8], _: &mut dyn FnMut(&'a str, Value<'a>)) {}
    }
    make_known(&Lines);
    make_known(&Other);
}
