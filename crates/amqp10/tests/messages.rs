//! Messages: sections in every encoding, in and out of order.

mod support;

use leveret_amqp10::message::{
    BodyRef, Header, MapSection, MessageId, Properties, Sections, write_data, write_map_section, write_sequence,
    write_value,
};
use leveret_amqp10::value::{EncodedMap, OwnedDescriptor};
use leveret_amqp10::{DecodeError, OwnedValue, Symbol, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use support::encoding::{self, Picks};
use support::layout::{self, SECTIONS};
use support::{Dialect, binary, described, map};

/// A section with this code and value.
fn section(code: u64, value: OwnedValue) -> OwnedValue {
    described(OwnedDescriptor::Code(code), value)
}

fn body() -> impl Strategy<Value = Vec<OwnedValue>> {
    prop_oneof![
        Just(Vec::new()),
        vec(binary().prop_map(|bytes| section(0x75, OwnedValue::Binary(bytes))), 1..4),
        vec(vec(support::value(), 0..3).prop_map(|list| section(0x76, OwnedValue::List(list))), 1..4),
        support::value().prop_map(|value| vec![section(0x77, value)]),
    ]
}

fn optional(section: impl Strategy<Value = OwnedValue> + 'static) -> BoxedStrategy<Option<OwnedValue>> {
    proptest::option::of(section).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sections_are_found_in_any_encoding(
        (header, delivery, annotations) in (
            optional(layout::composite(&SECTIONS[0], Dialect::Any)),
            optional(map(Dialect::Any).prop_map(|map| section(0x71, map))),
            optional(map(Dialect::Any).prop_map(|map| section(0x72, map))),
        ),
        (properties, application) in (
            optional(layout::composite(&SECTIONS[1], Dialect::Any)),
            optional(map(Dialect::Any).prop_map(|map| section(0x74, map))),
        ),
        body in body(),
        footer in optional(map(Dialect::Any).prop_map(|map| section(0x78, map))),
        seed in any::<u64>(),
    ) {
        let mut picks = Picks(seed);
        let mut raw = |section: &Option<OwnedValue>| {
            let mut out = Vec::new();
            if let Some(section) = section {
                encoding::encode(section, &mut picks, &mut out);
            }
            out
        };
        let [header_raw, delivery_raw, annotations_raw] = [raw(&header), raw(&delivery), raw(&annotations)];
        let [properties_raw, application_raw] = [raw(&properties), raw(&application)];
        let body_raw: Vec<u8> = body.iter().flat_map(|section| raw(&Some(section.clone()))).collect();
        let footer_raw = raw(&footer);
        let bare = [&properties_raw[..], &application_raw, &body_raw, &footer_raw].concat();
        let payload = [&header_raw[..], &delivery_raw, &annotations_raw, &bare].concat();

        let sections = Sections::parse(&payload).unwrap();
        prop_assert_eq!(sections.header_raw, &header_raw);
        prop_assert_eq!(sections.delivery_annotations_raw, &delivery_raw);
        prop_assert_eq!(sections.message_annotations_raw, &annotations_raw);
        prop_assert_eq!(sections.properties_raw, &properties_raw);
        prop_assert_eq!(sections.application_properties_raw, &application_raw);
        prop_assert_eq!(sections.body_raw, &body_raw);
        prop_assert_eq!(sections.footer_raw, &footer_raw);
        prop_assert_eq!(sections.bare, &bare);

        let described_map = |code, map: Option<leveret_amqp10::MapRef<'_>>| map.map(|map| section(code, Value::Map(map).into()));
        prop_assert_eq!(described_map(0x71, sections.delivery_annotations), delivery);
        prop_assert_eq!(described_map(0x72, Sections::message_annotations_of(&payload)), annotations.clone());
        prop_assert_eq!(described_map(0x72, sections.message_annotations), annotations);
        prop_assert_eq!(described_map(0x74, sections.application_properties), application);
        prop_assert_eq!(described_map(0x78, sections.footer), footer);
        let found: Vec<OwnedValue> = match sections.body {
            BodyRef::None => Vec::new(),
            BodyRef::Data(data) => {
                prop_assert_eq!(data.single().is_some(), body.len() == 1);
                prop_assert_eq!(data.first(), data.iter().next().unwrap());
                prop_assert_eq!(data.size(), data.iter().map(<[u8]>::len).sum::<usize>());
                data.iter().map(|bytes| section(0x75, Value::Binary(bytes).into())).collect()
            }
            BodyRef::Sequence(lists) => lists.iter().map(|list| section(0x76, list.decode().unwrap().into())).collect(),
            BodyRef::Value(value) => vec![section(0x77, value.decode().unwrap().into())],
        };
        prop_assert_eq!(found, body);

        // Encoded again, header and properties are the same lists.
        let mut out = Vec::new();
        if let Some(header) = sections.header {
            header.encode(&mut out);
            let again = OwnedValue::from(Value::decode_all(&out).unwrap());
            prop_assert_eq!(Some(layout::normal(again)), header_of(&payload));
            prop_assert_eq!(Sections::parse(&out).unwrap().header, Some(header));
        }
        out.clear();
        if let Some(properties) = sections.properties {
            properties.encode(&mut out);
            prop_assert_eq!(Properties::decode(&out), Ok(properties));
            prop_assert_eq!(Properties::decode(&properties_raw), Ok(properties));
            let again = OwnedValue::from(Value::decode_all(&out).unwrap());
            let given = OwnedValue::from(Value::decode_all(&properties_raw).unwrap());
            prop_assert_eq!(layout::normal(again), layout::normal(given));
        }
    }

    #[test]
    fn no_noise_panics(bytes in vec(any::<u8>(), 0..60), start in 0..9u8) {
        let payload = [&[0x00, 0x53, 0x70 + start][..], &bytes].concat();
        let _ = Sections::parse(&payload);
    }
}

fn header_of(payload: &[u8]) -> Option<OwnedValue> {
    Value::decode(payload).ok().map(|(header, _)| layout::normal(header.into()))
}

/// One section of each kind, in order.
fn sections() -> Vec<Vec<u8>> {
    let annotations = EncodedMap::new().with("x-opt-a", 1u32);
    let map = |section| {
        let mut out = Vec::new();
        write_map_section(&mut out, section, annotations.as_map());
        out
    };
    let mut header = Vec::new();
    Header { durable: Some(true), ..Header::default() }.encode(&mut header);
    let mut properties = Vec::new();
    Properties { message_id: Some(MessageId::Ulong(7)), ..Properties::default() }.encode(&mut properties);
    let mut data = Vec::new();
    write_data(&mut data, b"hi");
    vec![
        header,
        map(MapSection::DeliveryAnnotations),
        map(MapSection::MessageAnnotations),
        properties,
        map(MapSection::ApplicationProperties),
        data,
        map(MapSection::Footer),
    ]
}

const NAMES: [&str; 7] =
    ["header", "delivery-annotations", "message-annotations", "properties", "application-properties", "data", "footer"];

#[test]
fn sections_out_of_order_are_named() {
    let sections = sections();
    assert!(Sections::parse(&sections.concat()).is_ok());
    for (later, name) in NAMES.iter().enumerate() {
        for earlier in later..NAMES.len() {
            let payload = [&sections[earlier][..], &sections[later]].concat();
            let result = Sections::parse(&payload);
            if later == earlier && *name == "data" {
                assert!(result.is_ok());
            } else {
                assert_eq!(result, Err(DecodeError::SectionOrder { section: name }), "{name} after {}", NAMES[earlier]);
            }
        }
    }
}

#[test]
fn kinds_of_bodies_dont_mix() {
    let mut data = Vec::new();
    write_data(&mut data, b"a");
    let mut value = Vec::new();
    write_value(&mut value, &Value::String("a"));
    let mut sequence = Vec::new();
    write_sequence(&mut sequence, leveret_amqp10::value::ListRef::EMPTY);
    for (first, second, name) in [
        (&data, &value, "amqp-value"),
        (&value, &data, "data"),
        (&value, &value, "amqp-value"),
        (&sequence, &data, "data"),
        (&data, &sequence, "amqp-sequence"),
    ] {
        let payload = [&first[..], second].concat();
        assert_eq!(Sections::parse(&payload), Err(DecodeError::SectionOrder { section: name }));
    }
    let many = [data.clone(), data.clone(), data].concat();
    let BodyRef::Data(data) = Sections::parse(&many).unwrap().body else { panic!("data") };
    assert_eq!(data.iter().collect::<Vec<_>>(), [b"a", b"a", b"a"]);
    assert_eq!((data.single(), data.size()), (None, 3));
}

#[test]
fn malformed_sections_are_named() {
    let cases: &[(&[u8], &str)] = &[
        (&[0x00, 0x53, 0x79, 0x45], "descriptor 0x79 is unknown here, expected a message section"),
        (&[0x00, 0x53, 0x24, 0x45], "descriptor 0x24 is unknown here"),
        (&[0x00, 0x53, 0x72, 0x45], "cannot decode message-annotations: received a value of type list, expected map"),
        (&[0x00, 0x53, 0x72, 0xC1, 2, 1, 0x40], "message-annotations: a map has an odd number of items"),
        (&[0x00, 0x53, 0x75, 0x40], "cannot decode data: received a value of type null, expected binary"),
        (&[0x00, 0x53, 0x76, 0x40], "cannot decode amqp-sequence: received a value of type null, expected list"),
        (&[0x00, 0x53, 0x70, 0xC0, 3, 2, 0x41, 0x41], "cannot decode field priority of header"),
        (&[0x00, 0x53, 0x73, 0xC0, 2, 1, 0x41], "cannot decode field message-id of properties"),
        (&[0xA1, 0x02, b'h', b'i'], "received a value of type string, expected a message section"),
    ];
    for (payload, text) in cases {
        let error = Sections::parse(payload).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(Properties::decode(&[0x00, 0x53, 0x70, 0x45]).is_err());
    assert!(Properties::decode(&[0x00, 0x53, 0x73, 0x45, 0x40]).is_err());
}

/// The content of a body concerns only sender and receiver, as in RabbitMQ 4.3: the broker passes on values that it
/// would refuse elsewhere.
#[test]
fn bodies_are_passed_unread() {
    let mut deep = vec![0x45];
    for _ in 0..10_000u32 {
        let size = (deep.len() as u32 + 4).to_be_bytes();
        deep = [&[0xD0][..], &size, &[0, 0, 0, 1], &deep].concat();
    }
    let described = [[0x00, 0x53, 0x01].repeat(10_000), vec![0x40]].concat();
    let zero_width = vec![0xF0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40];
    let absurd = vec![0xD0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff];
    let inside = vec![0xC0, 3, 2, 0xff, 0xff];
    for value in [&deep, &described, &zero_width, &absurd, &inside, &vec![0xA1, 1, 0xff]] {
        let footer = [0x00, 0x53, 0x78, 0xC1, 1, 0];
        for code in [0x77, 0x76] {
            let payload = [&[0x00, 0x53, code][..], value, &footer].concat();
            let is_list = matches!(value[0], 0xC0 | 0xD0);
            let sections = match Sections::parse(&payload) {
                Ok(sections) if code == 0x77 || is_list => sections,
                other => {
                    assert!(code == 0x76 && !is_list && other.is_err());
                    continue;
                }
            };
            assert_eq!(sections.footer_raw, footer);
            let found = match sections.body {
                BodyRef::Value(value) => value,
                BodyRef::Sequence(lists) => lists.iter().next().unwrap(),
                other => panic!("{other:?}"),
            };
            assert_eq!(found.as_bytes(), &value[..]);
            assert!(found.decode().is_err());
        }
    }
    for cut in [&[0x00, 0x53, 0x77][..], &[0x00, 0x53, 0x77, 0xD0, 0, 0, 1, 0], &[0x00, 0x53, 0x77, 0x3f]] {
        assert!(Sections::parse(cut).is_err());
    }
}

#[test]
fn no_bytes_are_a_message_without_sections() {
    let sections = Sections::parse(&[]).unwrap();
    assert_eq!((sections.header, sections.body, sections.bare), (None, BodyRef::None, &[][..]));
}

#[test]
fn a_map_section_that_is_null_is_empty() {
    let sections = Sections::parse(&[0x00, 0x53, 0x72, 0x40, 0x00, 0x53, 0x75, 0xA0, 0]).unwrap();
    assert_eq!(sections.message_annotations, Some(leveret_amqp10::MapRef::EMPTY));
}

#[test]
fn nulls_in_a_header_are_absent_fields() {
    let payload = b"\0\x53\x70\xC0\x06\x05\x41\x40\x40\x41\x43\
        \0\x53\x72\xC1\x23\x04\xA3\x10x-opt-exchange\0\0\xA1\0\xA3\x05x-opt\xA1\x05abcde\
        \0\x53\x75\xA0\x02hi";
    // The key above contains two zero octets: a symbol may contain any ASCII.
    let sections = Sections::parse(payload).unwrap();
    assert_eq!(sections.header, Some(Header { durable: Some(true), first_acquirer: true, ..Header::default() }));
    assert_eq!(sections.message_annotations.unwrap().lookup("x-opt"), Some(Value::String("abcde")));
    assert_eq!(sections.bare, b"\0\x53\x75\xA0\x02hi");
    let mut out = Vec::new();
    let properties = Properties { content_type: Some(Symbol::new("text/plain")), ..Properties::default() };
    properties.encode(&mut out);
    assert_eq!(out, b"\0\x53\x73\xC0\x13\x07\x40\x40\x40\x40\x40\x40\xA3\x0Atext/plain");
}

/// Recorded on 2026-11-21 from RabbitMQ 4.3.6: a message published over HTTP with content type, message id, timestamp
/// and headers.
#[test]
fn a_message_of_rabbitmq_is_read() {
    let payload = b"\0\x53\x70\xC0\x06\x05\x41\x40\x40\x41\x43\
        \0\x53\x72\xC1\x29\x04\xA3\x0Dx-routing-key\xA1\x09codec-cap\xA3\x0Ax-exchange\xA1\0\
        \0\x53\x73\xC0\x20\x0A\xA1\x01m\x40\x40\x40\x40\x40\xA3\x0Atext/plain\x40\x40\x83\0\0\x01\x8B\xCF\xE5\x68\0\
        \0\x53\x74\xC1\x0C\x04\xA1\x01a\x55\x01\xA1\x01b\xA1\x01x\
        \0\x53\x75\xA0\x05hello";
    let sections = Sections::parse(payload).unwrap();
    assert_eq!(sections.header, Some(Header { durable: Some(true), first_acquirer: true, ..Header::default() }));
    let annotations = sections.message_annotations.unwrap();
    assert_eq!(annotations.lookup("x-routing-key"), Some(Value::String("codec-cap")));
    assert_eq!(annotations.lookup("x-exchange"), Some(Value::String("")));
    let properties = Properties {
        message_id: Some(MessageId::String("m")),
        content_type: Some(Symbol::new("text/plain")),
        creation_time: Some(1_700_000_000_000),
        ..Properties::default()
    };
    assert_eq!(sections.properties, Some(properties));
    assert_eq!(sections.application_properties.unwrap().lookup("a"), Some(Value::Long(1)));
    let BodyRef::Data(data) = sections.body else { panic!("data") };
    assert_eq!(data.single(), Some(&b"hello"[..]));
    // Our encoding is the same, byte for byte, except for a delivery-count of 0 in the header, which is the default.
    let mut out = Vec::new();
    sections.header.unwrap().encode(&mut out);
    assert_eq!(out, b"\0\x53\x70\xC0\x05\x04\x41\x40\x40\x41");
    out.clear();
    write_map_section(&mut out, MapSection::MessageAnnotations, annotations);
    properties.encode(&mut out);
    write_map_section(&mut out, MapSection::ApplicationProperties, sections.application_properties.unwrap());
    write_data(&mut out, b"hello");
    assert_eq!(out, payload[sections.header_raw.len()..]);
}
