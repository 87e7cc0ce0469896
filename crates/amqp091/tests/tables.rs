//! Field tables: RabbitMQ's type letters, nesting, hostile lengths.

mod support;

use leveret_amqp091::{DEPTH_MAX, Decimal, DecodeError, FieldTable, FieldValue, Table, Value};
use proptest::prelude::*;

fn one(bytes: &[u8]) -> Result<Value<'_>, DecodeError> {
    Ok(Table::new(bytes)?.lookup("k").expect("the key is there"))
}

#[test]
fn each_letter_has_rabbitmqs_meaning() {
    assert_eq!(one(b"\x01kt\x02"), Ok(Value::Bool(true)));
    assert_eq!(one(b"\x01kb\xff"), Ok(Value::I8(-1)));
    assert_eq!(one(b"\x01kB\xff"), Ok(Value::U8(255)));
    assert_eq!(one(b"\x01ks\xff\xfe"), Ok(Value::I16(-2)));
    assert_eq!(one(b"\x01ku\xff\xfe"), Ok(Value::U16(0xFFFE)));
    assert_eq!(one(b"\x01kI\xff\xff\xff\xfd"), Ok(Value::I32(-3)));
    assert_eq!(one(b"\x01ki\xff\xff\xff\xfd"), Ok(Value::U32(0xFFFF_FFFD)));
    assert_eq!(one(b"\x01kl\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(Value::I64(-1)));
    assert_eq!(one(b"\x01kL\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(Value::I64(-1)));
    assert_eq!(one(b"\x01kf\x3f\x80\x00\x00"), Ok(Value::F32(1.0)));
    assert_eq!(one(b"\x01kd\x3f\xf0\x00\x00\x00\x00\x00\x00"), Ok(Value::F64(1.0)));
    assert_eq!(one(b"\x01kD\x02\x00\x00\x01\x3a"), Ok(Value::Decimal(Decimal { scale: 2, value: 314 })));
    assert_eq!(one(b"\x01kS\0\0\0\x02hi"), Ok(Value::LongString(b"hi")));
    assert_eq!(one(b"\x01kx\0\0\0\x02hi"), Ok(Value::Bytes(b"hi")));
    assert_eq!(one(b"\x01kT\0\0\0\0\0\0\0\x07"), Ok(Value::Timestamp(7)));
    assert_eq!(one(b"\x01kV"), Ok(Value::Void));
    let Ok(Value::Array(array)) = one(b"\x01kA\0\0\0\x04t\x01B\x05") else { panic!("an array") };
    assert_eq!(array.iter().collect::<Vec<_>>(), [Value::Bool(true), Value::U8(5)]);
    let Ok(Value::Table(table)) = one(b"\x01kF\0\0\0\x03\x01nV") else { panic!("a table") };
    assert_eq!(table.lookup("n"), Some(Value::Void));
}

#[test]
fn unknown_letters_are_named() {
    let error = Table::new(b"\x01kZ\x01").unwrap_err();
    assert_eq!(error, DecodeError::FieldType { received: b'Z' });
    assert_eq!(error.to_string(), "field table value of unknown type 'Z'");
}

#[test]
fn lengths_that_lie_are_errors() {
    for bytes in [
        b"\x05k".as_slice(),
        b"\x01k",
        b"\x01kS\xff\xff\xff\xffabc",
        b"\x01kS\0\0\0\x04abc",
        b"\x01kF\0\0\0\x02\x01n",
        b"\x01kA\0\0\0\x01S",
        b"\x01kA\xff\xff\xff\xff",
        b"\x01kl\0",
    ] {
        assert!(matches!(Table::new(bytes), Err(DecodeError::Truncated { .. })), "{bytes:?}");
    }
}

fn nested(levels: u32, array: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in 1..levels {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        // The outermost level is always a table, so only it has a key if the rest are arrays.
        let key: &[u8] = if array && level < levels - 1 { b"" } else { b"\x01n" };
        bytes = [key, if array { b"A" } else { b"F" }, &length, &bytes].concat();
    }
    bytes
}

#[test]
fn nesting_ends_at_the_limit() {
    for array in [false, true] {
        assert!(Table::new(&nested(DEPTH_MAX, array)).is_ok());
        let error = Table::new(&nested(DEPTH_MAX + 1, array)).unwrap_err();
        assert_eq!(error, DecodeError::TableDepth { limit: DEPTH_MAX });
        assert!(Table::new(&nested(20_000, array)).is_err());
    }
}

#[test]
fn keys_need_not_be_text_and_may_repeat() {
    let table = Table::new(b"\x02\xff\xfeV\x01at\x01\x01at\x00").unwrap();
    assert_eq!(table.lookup([0xFF, 0xFE]), Some(Value::Void));
    assert_eq!(table.lookup("a"), Some(Value::Bool(true)));
    assert_eq!(table.iter().count(), 3);
    assert_eq!(FieldTable::from(table).encoded().as_table(), table);
}

#[test]
fn integers_of_any_width_read_alike() {
    for (value, expected) in [
        (FieldValue::I8(-1), Some(-1)),
        (FieldValue::U8(200), Some(200)),
        (FieldValue::I32(-5), Some(-5)),
        (FieldValue::U32(u32::MAX), Some(i64::from(u32::MAX))),
        (FieldValue::Timestamp(u64::MAX), None),
        (FieldValue::Bool(true), None),
    ] {
        let table = FieldTable::new().with("k", value).encoded();
        assert_eq!(table.as_table().lookup("k").unwrap().as_i64(), expected);
    }
}

proptest! {
    #[test]
    fn owned_tables_survive_the_wire(table in support::table()) {
        let encoded = table.encoded();
        let wire = Table::new(encoded.as_table().as_bytes()).unwrap();
        prop_assert_eq!(FieldTable::from(wire), table);
    }

    #[test]
    fn iteration_reaches_the_end_of_every_accepted_table(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(table) = Table::new(&noise) {
            let again = FieldTable::from(table).encoded();
            // The letters L and l mean the same and bools are normalised, so only the lengths have to agree.
            prop_assert_eq!(again.as_table().as_bytes().len(), noise.len());
        }
    }

    #[test]
    fn a_lookup_finds_the_first_of_its_name(table in support::table()) {
        let encoded = table.encoded();
        let table = encoded.as_table();
        let named = |key: &[u8]| table.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, value)| value);
        for (key, _) in table.iter().chain(Table::new(b"\x0bno such keyV").unwrap().iter()) {
            prop_assert_eq!(table.lookup(key), named(key.as_bytes()));
        }
    }
}
