//! Messages: the sections found add up to the input, and sections that are encoded again mean the same.
#![no_main]

use leveret_amqp10::message::{
    BodyRef, MapSection, Sections, write_data, write_map_section, write_sequence, write_value, write_value_raw,
};
use leveret_amqp10::value::{EncodedMap, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parsed = None;
    let cost = allocation_counter::measure(|| parsed = Sections::parse(data).ok());
    assert_eq!(cost.count_total, 0, "whatever the input claims to hold");
    let Some(sections) = parsed else { return };
    let before = [sections.header_raw, sections.delivery_annotations_raw, sections.message_annotations_raw].concat();
    assert_eq!([&before[..], sections.bare].concat(), data);
    let bare = [sections.properties_raw, sections.application_properties_raw, sections.body_raw, sections.footer_raw];
    assert_eq!(bare.concat(), sections.bare);

    let mut out = Vec::new();
    if let Some(header) = sections.header {
        header.encode(&mut out);
    }
    for (section, map) in [
        (MapSection::DeliveryAnnotations, sections.delivery_annotations),
        (MapSection::MessageAnnotations, sections.message_annotations),
    ] {
        if let Some(map) = map {
            write_map_section(&mut out, section, map);
        }
    }
    if let Some(properties) = sections.properties {
        properties.encode(&mut out);
    }
    if let Some(map) = sections.application_properties {
        let mut copy = EncodedMap::new();
        copy.extend_where(map, |_| true);
        assert_eq!(copy.as_map(), map);
        for (key, _) in map {
            assert!(key.as_text().is_none_or(|key| map.lookup(key).is_some()));
        }
        write_map_section(&mut out, MapSection::ApplicationProperties, copy.as_map());
    }
    match sections.body {
        BodyRef::None => {}
        BodyRef::Data(data) => data.iter().for_each(|bytes| write_data(&mut out, bytes)),
        BodyRef::Sequence(lists) => lists.iter().for_each(|list| match list.decode() {
            Ok(Value::List(list)) => write_sequence(&mut out, list),
            _ => out.extend_from_slice(&[&[0x00, 0x53, 0x76], list.as_bytes()].concat()),
        }),
        BodyRef::Value(value) => match value.decode() {
            Ok(value) => write_value(&mut out, &value),
            Err(_) => write_value_raw(&mut out, |out| out.extend_from_slice(value.as_bytes())),
        },
    }
    if let Some(map) = sections.footer {
        write_map_section(&mut out, MapSection::Footer, map);
    }
    let again = Sections::parse(&out).unwrap();
    assert_eq!((again.header, again.properties), (sections.header, sections.properties));
    assert_eq!(again.delivery_annotations, sections.delivery_annotations);
    assert_eq!(again.message_annotations, sections.message_annotations);
    assert_eq!(again.application_properties, sections.application_properties);
    assert_eq!(again.footer, sections.footer);
    match (sections.body, again.body) {
        (BodyRef::Data(given), BodyRef::Data(read)) => assert!(given.iter().eq(read.iter())),
        (BodyRef::Sequence(given), BodyRef::Sequence(read)) => {
            assert_eq!(given.iter().count(), read.iter().count());
            for (given, read) in given.iter().zip(read) {
                assert!(given.decode().is_err() || given.decode() == read.decode());
            }
        }
        // NaN isn't equal to itself.
        (BodyRef::Value(_), BodyRef::Value(_)) => {}
        (given, read) => assert_eq!(given, read),
    }
});
