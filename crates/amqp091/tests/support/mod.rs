//! The argument lists of all methods, written down a second time from the specification, and generators of payloads
//! with such arguments.
#![allow(dead_code, missing_docs, unreachable_pub)]

use leveret_amqp091::{Decimal, FieldTable, FieldValue};
use proptest::collection::vec;
use proptest::prelude::*;

/// Name, class, method, arguments: `1` octet, `2` short, `4` long, `8` longlong, `s` short string, `S` long string,
/// `T` table, `b` bit, `k` ticket (`K`: always 1). `o`, `O` (obsolete short and long string), `q` (obsolete long) and
/// `z` (obsolete bit) are always written as zero by the oracle.
pub const LAYOUTS: &[(&str, u16, u16, &str)] = &[
    ("connection.start", 10, 10, "11TSS"),
    ("connection.start-ok", 10, 11, "TsSs"),
    ("connection.secure", 10, 20, "S"),
    ("connection.secure-ok", 10, 21, "S"),
    ("connection.tune", 10, 30, "242"),
    ("connection.tune-ok", 10, 31, "242"),
    ("connection.open", 10, 40, "soz"),
    ("connection.open-ok", 10, 41, "o"),
    ("connection.close", 10, 50, "2s22"),
    ("connection.close-ok", 10, 51, ""),
    ("connection.blocked", 10, 60, "s"),
    ("connection.unblocked", 10, 61, ""),
    ("connection.update-secret", 10, 70, "Ss"),
    ("connection.update-secret-ok", 10, 71, ""),
    ("channel.open", 20, 10, "o"),
    ("channel.open-ok", 20, 11, "O"),
    ("channel.flow", 20, 20, "b"),
    ("channel.flow-ok", 20, 21, "b"),
    ("channel.close", 20, 40, "2s22"),
    ("channel.close-ok", 20, 41, ""),
    ("access.request", 30, 10, "sbbbbb"),
    ("access.request-ok", 30, 11, "K"),
    ("exchange.declare", 40, 10, "kssbbbbbT"),
    ("exchange.declare-ok", 40, 11, ""),
    ("exchange.delete", 40, 20, "ksbb"),
    ("exchange.delete-ok", 40, 21, ""),
    ("exchange.bind", 40, 30, "ksssbT"),
    ("exchange.bind-ok", 40, 31, ""),
    ("exchange.unbind", 40, 40, "ksssbT"),
    ("exchange.unbind-ok", 40, 51, ""),
    ("queue.declare", 50, 10, "ksbbbbbT"),
    ("queue.declare-ok", 50, 11, "s44"),
    ("queue.bind", 50, 20, "ksssbT"),
    ("queue.bind-ok", 50, 21, ""),
    ("queue.purge", 50, 30, "ksb"),
    ("queue.purge-ok", 50, 31, "4"),
    ("queue.delete", 50, 40, "ksbbb"),
    ("queue.delete-ok", 50, 41, "4"),
    ("queue.unbind", 50, 50, "ksssT"),
    ("queue.unbind-ok", 50, 51, ""),
    ("basic.qos", 60, 10, "q2b"),
    ("basic.qos-ok", 60, 11, ""),
    ("basic.consume", 60, 20, "kssbbbbT"),
    ("basic.consume-ok", 60, 21, "s"),
    ("basic.cancel", 60, 30, "sb"),
    ("basic.cancel-ok", 60, 31, "s"),
    ("basic.publish", 60, 40, "kssbb"),
    ("basic.return", 60, 50, "2sss"),
    ("basic.deliver", 60, 60, "s8bss"),
    ("basic.get", 60, 70, "ksb"),
    ("basic.get-ok", 60, 71, "8bss4"),
    ("basic.get-empty", 60, 72, "o"),
    ("basic.ack", 60, 80, "8b"),
    ("basic.reject", 60, 90, "8b"),
    ("basic.recover-async", 60, 100, "b"),
    ("basic.recover", 60, 110, "b"),
    ("basic.recover-ok", 60, 111, ""),
    ("basic.nack", 60, 120, "8bb"),
    ("confirm.select", 85, 10, "b"),
    ("confirm.select-ok", 85, 11, ""),
    ("tx.select", 90, 10, ""),
    ("tx.select-ok", 90, 11, ""),
    ("tx.commit", 90, 20, ""),
    ("tx.commit-ok", 90, 21, ""),
    ("tx.rollback", 90, 30, ""),
    ("tx.rollback-ok", 90, 31, ""),
];

/// The values that generators may produce.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anything well-formed.
    Any,
    /// Only values that the oracle can represent: UTF-8 short strings, sorted unique keys, zeros in obsolete fields.
    Oracle,
}

fn short_string(dialect: Dialect) -> BoxedStrategy<Vec<u8>> {
    let bytes = match dialect {
        Dialect::Any => vec(any::<u8>(), 0..=255).boxed(),
        Dialect::Oracle => "[a-z.#*äß-]{0,40}".prop_map(String::into_bytes).boxed(),
    };
    bytes
        .prop_map(|bytes| {
            let mut out = vec![u8::try_from(bytes.len()).unwrap()];
            out.extend(bytes);
            out
        })
        .boxed()
}

fn long_string() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..600).prop_map(|bytes| {
        let mut out = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
        out.extend(bytes);
        out
    })
}

fn leaf() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        any::<bool>().prop_map(FieldValue::Bool),
        any::<i8>().prop_map(FieldValue::I8),
        any::<u8>().prop_map(FieldValue::U8),
        any::<i16>().prop_map(FieldValue::I16),
        any::<u16>().prop_map(FieldValue::U16),
        any::<i32>().prop_map(FieldValue::I32),
        any::<u32>().prop_map(FieldValue::U32),
        any::<i64>().prop_map(FieldValue::I64),
        any::<f32>().prop_map(FieldValue::F32),
        any::<f64>().prop_map(FieldValue::F64),
        any::<(u8, u32)>().prop_map(|(scale, value)| FieldValue::Decimal(Decimal { scale, value })),
        vec(any::<u8>(), 0..40).prop_map(FieldValue::LongString),
        vec(any::<u8>(), 0..40).prop_map(FieldValue::Bytes),
        any::<u64>().prop_map(FieldValue::Timestamp),
        Just(FieldValue::Void),
    ]
}

fn to_table(mut pairs: Vec<(String, FieldValue)>) -> FieldTable {
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    let mut table = FieldTable::new();
    for (key, value) in pairs {
        table.insert(key, value);
    }
    table
}

/// Tables with sorted, unique, textual keys and up to four levels.
pub fn table() -> impl Strategy<Value = FieldTable> {
    let value = leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(FieldValue::Array),
            vec(("[a-z-]{0,12}", inner), 0..4).prop_map(|pairs| FieldValue::Table(to_table(pairs))),
        ]
    });
    vec(("[a-zA-Z0-9.-]{1,20}", value), 0..6).prop_map(to_table)
}

fn encoded_table() -> impl Strategy<Value = Vec<u8>> {
    table().prop_map(|table| {
        let mut out = Vec::new();
        table.encode(&mut out);
        out
    })
}

/// Payloads of a method frame: ids, then arguments according to `layout`.
pub fn payload(class: u16, method: u16, layout: &'static str, dialect: Dialect) -> BoxedStrategy<Vec<u8>> {
    let mut parts: Vec<BoxedStrategy<Vec<u8>>> =
        vec![Just(class.to_be_bytes().to_vec()).boxed(), Just(method.to_be_bytes().to_vec()).boxed()];
    let zero = dialect == Dialect::Oracle;
    let bits = layout.chars().filter(|letter| matches!(letter, 'b' | 'z')).count();
    let mut bits_done = false;
    for letter in layout.chars() {
        parts.push(match letter {
            'q' if zero => Just(vec![0; 4]).boxed(),
            'q' => any::<[u8; 4]>().prop_map(Vec::from).boxed(),
            '1' => any::<[u8; 1]>().prop_map(Vec::from).boxed(),
            '2' => any::<[u8; 2]>().prop_map(Vec::from).boxed(),
            '4' => any::<[u8; 4]>().prop_map(Vec::from).boxed(),
            '8' => any::<[u8; 8]>().prop_map(Vec::from).boxed(),
            's' => short_string(dialect),
            'S' => long_string().boxed(),
            'T' => encoded_table().boxed(),
            'k' if zero => Just(vec![0; 2]).boxed(),
            'K' if zero => Just(vec![0, 1]).boxed(),
            'K' => any::<[u8; 2]>().prop_map(Vec::from).boxed(),
            'o' if zero => Just(vec![0]).boxed(),
            'O' if zero => Just(vec![0; 4]).boxed(),
            'z' if zero => Just(vec![0]).boxed(),
            'k' => any::<[u8; 2]>().prop_map(Vec::from).boxed(),
            'o' => short_string(dialect),
            'O' => long_string().boxed(),
            'b' | 'z' if bits_done => continue,
            'b' | 'z' => {
                bits_done = true;
                (0..1u16 << bits).prop_map(|bits| vec![bits as u8]).boxed()
            }
            other => panic!("unknown letter {other}"),
        });
    }
    parts.prop_map(|parts| parts.concat()).boxed()
}

/// A payload of any method.
pub fn any_payload(dialect: Dialect) -> impl Strategy<Value = Vec<u8>> {
    (0..LAYOUTS.len()).prop_flat_map(move |index| {
        let (_, class, method, layout) = LAYOUTS[index];
        payload(class, method, layout, dialect)
    })
}

/// Property flags and list.
pub fn properties() -> impl Strategy<Value = Vec<u8>> {
    let s = || short_string(Dialect::Oracle);
    let octet = || any::<[u8; 1]>().prop_map(Vec::from).boxed();
    let parts = vec![
        s(),
        s(),
        encoded_table().boxed(),
        octet(),
        octet(),
        s(),
        s(),
        s(),
        s(),
        any::<[u8; 8]>().prop_map(Vec::from).boxed(),
        s(),
        s(),
        s(),
        s(),
    ];
    (any::<u16>(), parts).prop_map(|(flags, parts)| {
        let flags = flags & 0xFFFC;
        let mut out = flags.to_be_bytes().to_vec();
        for (index, part) in parts.into_iter().enumerate() {
            if flags & (0x8000 >> index) != 0 {
                out.extend(part);
            }
        }
        out
    })
}
