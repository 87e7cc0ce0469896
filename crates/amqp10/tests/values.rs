//! The type system: every encoding, the specification's examples, hostile sizes and depths.

mod support;

use leveret_amqp10::value::{DEPTH_MAX, Descriptor, EncodedMap, ZERO_WIDTH_ITEMS_MAX};
use leveret_amqp10::{DecodeError, OwnedValue, Problem, Symbol, Value};
use proptest::prelude::*;
use support::encoding::{self, Picks};

fn problem(bytes: &[u8]) -> Problem {
    match Value::decode(bytes) {
        Err(DecodeError::Value { problem, .. }) => problem,
        other => panic!("{bytes:02x?} gives {other:?}"),
    }
}

#[test]
fn each_constructor_has_its_meaning() {
    let uuid = *b"0123456789abcdef";
    let with_uuid = [&[0x98][..], &uuid].concat();
    let with_decimal = [&[0x94][..], &uuid].concat();
    let cases: &[(&[u8], Value<'_>)] = &[
        (&[0x40], Value::Null),
        (&[0x41], Value::Bool(true)),
        (&[0x42], Value::Bool(false)),
        (&[0x56, 1], Value::Bool(true)),
        (&[0x56, 0], Value::Bool(false)),
        (&[0x50, 0xFF], Value::Ubyte(255)),
        (&[0x60, 0xFF, 0xFE], Value::Ushort(0xFFFE)),
        (&[0x70, 0xFF, 0xFF, 0xFF, 0xFD], Value::Uint(0xFFFF_FFFD)),
        (&[0x52, 0x80], Value::Uint(128)),
        (&[0x43], Value::Uint(0)),
        (&[0x80, 0xFF, 0, 0, 0, 0, 0, 0, 1], Value::Ulong(0xFF00_0000_0000_0001)),
        (&[0x53, 0x80], Value::Ulong(128)),
        (&[0x44], Value::Ulong(0)),
        (&[0x51, 0xFF], Value::Byte(-1)),
        (&[0x61, 0xFF, 0xFE], Value::Short(-2)),
        (&[0x71, 0xFF, 0xFF, 0xFF, 0xFD], Value::Int(-3)),
        (&[0x54, 0x80], Value::Int(-128)),
        (&[0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFC], Value::Long(-4)),
        (&[0x55, 0x80], Value::Long(-128)),
        (&[0x72, 0x3F, 0x80, 0, 0], Value::Float(1.0)),
        (&[0x82, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0], Value::Double(1.0)),
        (&[0x74, 1, 2, 3, 4], Value::Decimal32([1, 2, 3, 4])),
        (&[0x84, 1, 2, 3, 4, 5, 6, 7, 8], Value::Decimal64([1, 2, 3, 4, 5, 6, 7, 8])),
        (&with_decimal, Value::Decimal128(uuid)),
        (&[0x73, 0, 1, 0xF4, 0x07], Value::Char('🐇')),
        (&[0x83, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], Value::Timestamp(-1)),
        (&with_uuid, Value::Uuid(uuid)),
        (b"\xA0\x02\x00\xFF", Value::Binary(&[0, 0xFF])),
        (b"\xB0\0\0\0\x02\x00\xFF", Value::Binary(&[0, 0xFF])),
        (b"\xA1\x03\xE2\x82\xAC", Value::String("€")),
        (b"\xB1\0\0\0\x01a", Value::String("a")),
        (b"\xA3\x01a", Value::Symbol(Symbol::new("a"))),
        (b"\xB3\0\0\0\x01a", Value::Symbol(Symbol::new("a"))),
    ];
    for (bytes, value) in cases {
        assert_eq!(Value::decode(bytes), Ok((*value, &[][..])), "{bytes:02x?}");
    }
    for bytes in [&[0x45][..], &[0xC0, 1, 0], &[0xD0, 0, 0, 0, 4, 0, 0, 0, 0]] {
        let Ok(Value::List(list)) = Value::decode_all(bytes) else { panic!("a list: {bytes:02x?}") };
        assert!(list.is_empty());
    }
}

/// An array of described values as in figure 1.26 of part 1: `@example:book:list` values share their constructor.
#[test]
fn arrays_of_described_values_keep_the_descriptor_of_each_item() {
    let bytes = b"\xE0\x1F\x02\x00\xA3\x09book:list\xC0\x08\x02\xA1\x03abc\x52\x01\x07\x02\xA1\x02de\x52\x02";
    let Value::Array(array) = Value::decode_all(bytes).unwrap() else { panic!("an array") };
    let books: Vec<_> = array
        .iter()
        .map(|book| {
            let Value::Described(book) = book else { panic!("a described value") };
            assert_eq!(book.descriptor(), Descriptor::Symbol(Symbol::new("book:list")));
            let Value::List(fields) = book.value() else { panic!("a list") };
            fields.iter().collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(books, [[Value::String("abc"), Value::Uint(1)], [Value::String("de"), Value::Uint(2)]]);
}

#[test]
fn an_empty_array_may_lack_its_constructor() {
    for bytes in [&[0xE0, 1, 0][..], &[0xF0, 0, 0, 0, 4, 0, 0, 0, 0], &[0xE0, 2, 0, 0x70]] {
        let Value::Array(array) = Value::decode_all(bytes).unwrap() else { panic!("an array") };
        assert!(array.is_empty());
        let mut out = Vec::new();
        Value::Array(array).encode(&mut out);
        assert_eq!(out.len(), 4, "the constructor is always written");
        assert!(Value::decode_all(&out).is_ok());
    }
}

#[test]
fn a_described_value_may_be_described_again() {
    let bytes = b"\x00\x53\x01\x00\xA3\x01x\xA1\x02hi";
    let Value::Described(outer) = Value::decode_all(bytes).unwrap() else { panic!("described") };
    assert_eq!(outer.descriptor(), Descriptor::Code(1));
    let Value::Described(inner) = outer.value() else { panic!("described twice") };
    assert_eq!((inner.descriptor(), inner.value()), (Descriptor::Symbol(Symbol::new("x")), Value::String("hi")));
}

#[test]
fn names_of_descriptors_are_known() {
    assert_eq!(Descriptor::Symbol(Symbol::new("amqp:accepted:list")).code(), Some(0x24));
    assert_eq!(Descriptor::Symbol(Symbol::new("amqp:what:list")).code(), None);
    for layout in support::layout::all() {
        assert_eq!(leveret_amqp10::descriptor::code_of(layout.symbol), Some(layout.code), "{}", layout.name);
        assert_eq!(leveret_amqp10::descriptor::name_of(layout.code), Some(layout.symbol), "{}", layout.name);
    }
}

#[test]
fn sizes_and_counts_that_lie_are_errors() {
    for bytes in [
        &[][..],
        &[0x70, 0, 0],
        &[0xA1, 5, b'a'],
        &[0xB0, 0xFF, 0xFF, 0xFF, 0xFF, 1],
        &[0xC0, 0],
        &[0xC0, 5, 1, 0x40],
        &[0xD0, 0, 0, 0, 3, 0, 0, 0],
        &[0xD1, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
        &[0xE0, 1, 1],
        &[0xF0, 0, 0, 0, 5, 0, 0, 0, 1, 0x70],
        &[0x00],
        &[0x00, 0x53],
        &[0x00, 0x53, 0x10],
    ] {
        assert!(matches!(problem(bytes), Problem::Truncated { .. } | Problem::Count { .. }), "{bytes:02x?}");
    }
    assert_eq!(problem(&[0xC0, 2, 200, 0x40]), Problem::Count { count: 200, available: 1 });
    assert_eq!(
        problem(&[0xD0, 0, 0, 0, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0x40]),
        Problem::Count { count: u32::MAX, available: 1 }
    );
    assert_eq!(problem(&[0xC0, 3, 1, 0x40, 0x40]), Problem::Excess { count: 1 });
    assert_eq!(problem(&[0xE0, 3, 1, 0x40, 0x40]), Problem::Excess { count: 1 });
    assert_eq!(problem(&[0xC1, 2, 1, 0x40]), Problem::OddMap { count: 1 });
    assert_eq!(problem(&[0xE0, 3, 200, 0x50, 1]), Problem::Count { count: 200, available: 1 });
    assert_eq!(Value::decode_all(&[0x40, 0x40, 0x40]), Err(DecodeError::TrailingBytes { place: "value", count: 2 }));
}

#[test]
fn undefined_encodings_are_named() {
    assert_eq!(problem(&[0x57]), Problem::Constructor { received: 0x57 });
    assert_eq!(problem(&[0xC0, 2, 1, 0xFF]), Problem::Constructor { received: 0xFF });
    assert_eq!(problem(&[0xE0, 2, 0, 0x4F]), Problem::Constructor { received: 0x4F });
    assert_eq!(problem(&[0x56, 2]), Problem::Boolean { received: 2 });
    assert_eq!(problem(&[0x73, 0, 0, 0xD8, 0]), Problem::Char { received: 0xD800 });
    assert_eq!(problem(&[0xA1, 1, 0xFF]), Problem::Utf8);
    assert_eq!(problem(b"\xA3\x02\xC3\xA4"), Problem::Ascii);
    assert!(matches!(problem(&[0x00, 0x40, 0x40]), Problem::Type { received: "null", .. }));
}

fn nested(levels: u32, open: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x40];
    for _ in 0..levels {
        let count = u32::from(open[0] != 0x45);
        let body = [&count.to_be_bytes()[..], &open[1..], &bytes].concat();
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        bytes = [&open[..1], &size, &body].concat();
    }
    bytes
}

#[test]
fn nesting_is_limited() {
    let lists = nested(DEPTH_MAX, &[0xD0]);
    assert!(Value::decode(&lists).is_ok());
    assert_eq!(problem(&nested(DEPTH_MAX + 1, &[0xD0])), Problem::Depth { limit: DEPTH_MAX });
    // Far more levels than any stack could hold.
    assert_eq!(problem(&nested(20_000, &[0xD0])), Problem::Depth { limit: DEPTH_MAX });

    let described = |levels: u32| [[0x00, 0x53, 1].repeat(levels as usize), vec![0x40]].concat();
    assert!(Value::decode(&described(DEPTH_MAX)).is_ok());
    assert_eq!(problem(&described(DEPTH_MAX + 1)), Problem::Depth { limit: DEPTH_MAX });
    assert_eq!(problem(&described(100_000)), Problem::Depth { limit: DEPTH_MAX });
    // Levels end with their value: siblings don't add up.
    let neighbours = [&[0xC0, 121, 30][..], &[0x00, 0x53, 1, 0x40].repeat(30)].concat();
    assert!(Value::decode(&neighbours).is_ok());
}

#[test]
fn items_without_bytes_are_limited() {
    for code in [0x40, 0x41, 0x42, 0x43, 0x44, 0x45] {
        let array = |count: u32| [&[0xF0, 0, 0, 0, 5][..], &count.to_be_bytes(), &[code]].concat();
        let fits = array(ZERO_WIDTH_ITEMS_MAX);
        let Ok(Value::Array(items)) = Value::decode_all(&fits) else { panic!("an array of {code:#x}") };
        assert_eq!(items.iter().count(), ZERO_WIDTH_ITEMS_MAX as usize);
        for count in [ZERO_WIDTH_ITEMS_MAX + 1, u32::MAX] {
            assert_eq!(problem(&array(count)), Problem::ZeroWidth { limit: ZERO_WIDTH_ITEMS_MAX });
        }
        // Several arrays in one value share the limit.
        let half = array(ZERO_WIDTH_ITEMS_MAX / 2 + 1);
        let pair = [&[0xC0, half.len() as u8 * 2 + 1, 2][..], &half, &half].concat();
        assert_eq!(problem(&pair), Problem::ZeroWidth { limit: ZERO_WIDTH_ITEMS_MAX });
    }
}

#[test]
fn the_smallest_encoding_is_written() {
    let cases: &[(Value<'_>, &[u8])] = &[
        (Value::Bool(true), &[0x41]),
        (Value::Uint(0), &[0x43]),
        (Value::Uint(255), &[0x52, 255]),
        (Value::Uint(256), &[0x70, 0, 0, 1, 0]),
        (Value::Ulong(0), &[0x44]),
        (Value::Ulong(255), &[0x53, 255]),
        (Value::Int(-128), &[0x54, 0x80]),
        (Value::Int(128), &[0x71, 0, 0, 0, 128]),
        (Value::Long(127), &[0x55, 127]),
        (Value::String("a"), b"\xA1\x01a"),
        (Value::List(leveret_amqp10::value::ListRef::EMPTY), &[0x45]),
        (Value::Map(leveret_amqp10::MapRef::EMPTY), &[0xC1, 1, 0]),
    ];
    for (value, bytes) in cases {
        let mut out = Vec::new();
        value.encode(&mut out);
        assert_eq!(&out, bytes, "{value:?}");
    }
    let long = "a".repeat(256);
    let mut out = Vec::new();
    Value::String(&long).encode(&mut out);
    assert_eq!(out[..5], [0xB1, 0, 0, 1, 0]);
}

#[test]
fn maps_are_looked_up_by_text_and_copied_as_encoded() {
    let map = EncodedMap::new().with("x-a", 1u32).with("x-b", "two");
    let mut other = EncodedMap::new();
    // An int in its long form, which encoding it again would shorten.
    other.extend_encoded(1, b"\xA1\x01k\x71\0\0\0\x05").unwrap();
    other.extend(map.as_map()).push_symbol("x-c", true);
    assert_eq!(other.len(), 4);
    assert_eq!(other.as_map().lookup("x-b"), Some(Value::String("two")));
    assert_eq!(other.as_map().lookup("k"), Some(Value::Int(5)));
    assert_eq!(other.as_map().lookup("x-d"), None);
    let mut kept = EncodedMap::new();
    kept.extend_where(other.as_map(), |key| key.as_text() != Some("x-a"));
    assert_eq!(kept.len(), 3);
    assert!(kept.as_map().as_bytes().starts_with(b"\xA1\x01k\x71\0\0\0\x05"));
    assert!(EncodedMap::new().extend_encoded(1, b"\x40").is_err());
    assert!(EncodedMap::new().extend_encoded(1, b"\x40\x40\x40").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every legal encoding gives the same value, and our encoding is never longer.
    #[test]
    fn any_encoding_is_read(value in support::value(), seed in any::<u64>()) {
        let mut bytes = Vec::new();
        encoding::encode(&value, &mut Picks(seed), &mut bytes);
        let decoded = Value::decode_all(&bytes).unwrap();
        prop_assert_eq!(&OwnedValue::from(decoded), &value);
        let mut ours = Vec::new();
        value.encode(&mut ours);
        prop_assert_eq!(&OwnedValue::from(Value::decode_all(&ours).unwrap()), &value);
        // Borrowed values are copied as encoded, which must give the same value.
        let mut copied = Vec::new();
        decoded.encode(&mut copied);
        prop_assert_eq!(&OwnedValue::from(Value::decode_all(&copied).unwrap()), &value);
        prop_assert!(copied.len() <= bytes.len());
    }

    #[test]
    fn no_prefix_and_no_noise_panics(value in support::value(), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        let at = cut.index(bytes.len());
        prop_assert!(Value::decode(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        if let Ok((value, _)) = Value::decode(&bytes) {
            let _ = OwnedValue::from(value);
        }
    }
}
