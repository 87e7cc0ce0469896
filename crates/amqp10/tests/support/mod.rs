//! Random values and composite types, and every legal encoding of them.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod encoding;
pub mod layout;

use leveret_amqp10::OwnedValue;
use leveret_amqp10::value::{OwnedArray, OwnedDescribed, OwnedDescriptor, OwnedMap};
use proptest::collection::vec;
use proptest::prelude::*;

/// Values without nested ones; no NaN, so that values equal themselves.
pub fn leaf() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        any::<bool>().prop_map(OwnedValue::Bool),
        any::<u8>().prop_map(OwnedValue::Ubyte),
        any::<u16>().prop_map(OwnedValue::Ushort),
        uint().prop_map(OwnedValue::Uint),
        ulong().prop_map(OwnedValue::Ulong),
        any::<i8>().prop_map(OwnedValue::Byte),
        any::<i16>().prop_map(OwnedValue::Short),
        prop_oneof![any::<i32>(), -130..130].prop_map(OwnedValue::Int),
        prop_oneof![any::<i64>(), -130i64..130].prop_map(OwnedValue::Long),
        any::<i32>().prop_map(|number| OwnedValue::Float(number as f32)),
        any::<i64>().prop_map(|number| OwnedValue::Double(number as f64)),
        any::<[u8; 4]>().prop_map(OwnedValue::Decimal32),
        any::<[u8; 8]>().prop_map(OwnedValue::Decimal64),
        any::<[u8; 16]>().prop_map(OwnedValue::Decimal128),
        any::<char>().prop_map(OwnedValue::Char),
        any::<i64>().prop_map(OwnedValue::Timestamp),
        any::<[u8; 16]>().prop_map(OwnedValue::Uuid),
        binary().prop_map(OwnedValue::Binary),
        string().prop_map(OwnedValue::String),
        symbol().prop_map(OwnedValue::Symbol),
    ]
}

/// Small numbers and zero are as likely as large ones.
pub fn uint() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..256u32, any::<u32>()]
}

pub fn ulong() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..256u64, any::<u64>()]
}

/// Lengths on both sides of 255.
pub fn binary() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 250..270)]
}

pub fn string() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[a-zäß€ /.-]{0,20}", 1 => "[a-z]{250,260}"]
}

pub fn symbol() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[a-z:-]{0,20}", 1 => "[a-z]{250,260}"]
}

/// Any value, up to four levels.
pub fn value() -> impl Strategy<Value = OwnedValue> {
    leaf().prop_recursive(3, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(OwnedValue::List),
            vec((leaf(), inner.clone()), 0..5).prop_map(|pairs| OwnedValue::Map(OwnedMap(pairs))),
            array(inner.clone()).prop_map(OwnedValue::Array),
            (descriptor(), inner).prop_map(|(descriptor, value)| described(descriptor, value)),
        ]
    })
}

/// Arrays: repetitions of one value, arrays of described values, and arrays whose items need different widths.
fn array(inner: impl Strategy<Value = OwnedValue> + Clone + 'static) -> impl Strategy<Value = OwnedArray> {
    prop_oneof![
        (inner, 0..4usize).prop_map(|(item, count)| OwnedArray::new(vec![item; count]).unwrap()),
        vec(uint().prop_map(OwnedValue::Uint), 0..5).prop_map(|items| OwnedArray::new(items).unwrap()),
        vec(any::<bool>().prop_map(OwnedValue::Bool), 0..5).prop_map(|items| OwnedArray::new(items).unwrap()),
        vec(string().prop_map(OwnedValue::String), 0..5).prop_map(|items| OwnedArray::new(items).unwrap()),
        (descriptor(), vec(vec(leaf(), 0..3), 0..4)).prop_map(|(descriptor, lists)| {
            let items = lists.into_iter().map(|list| described(descriptor.clone(), OwnedValue::List(list)));
            OwnedArray::new(items.collect()).unwrap()
        }),
    ]
}

fn descriptor() -> impl Strategy<Value = OwnedDescriptor> {
    prop_oneof![ulong().prop_map(OwnedDescriptor::Code), symbol().prop_map(OwnedDescriptor::Symbol)]
}

pub fn described(descriptor: OwnedDescriptor, value: OwnedValue) -> OwnedValue {
    OwnedValue::Described(Box::new(OwnedDescribed { descriptor, value }))
}

/// The values that generators may produce.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anything well-formed.
    Any,
    /// Only values that the oracle can represent: maps of unique symbols, and no empty array, whose constructor it
    /// omits.
    Oracle,
}

pub fn map(dialect: Dialect) -> BoxedStrategy<OwnedValue> {
    let key = match dialect {
        Dialect::Any => {
            prop_oneof![symbol().prop_map(OwnedValue::Symbol), string().prop_map(OwnedValue::String)].boxed()
        }
        Dialect::Oracle => symbol().prop_map(OwnedValue::Symbol).boxed(),
    };
    let value = match dialect {
        Dialect::Any => value().boxed(),
        Dialect::Oracle => leaf().boxed(),
    };
    vec((key, value), 0..4)
        .prop_map(move |mut pairs| {
            if dialect == Dialect::Oracle {
                pairs.sort_by(|(a, _), (b, _)| a.as_text().cmp(&b.as_text()));
                pairs.dedup_by(|(a, _), (b, _)| a == b);
            }
            OwnedValue::Map(OwnedMap(pairs))
        })
        .boxed()
}
