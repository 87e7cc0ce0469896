//! Values from one type system to the other.
//!
//! | AMQP 0-9-1 | AMQP 1.0 |
//! |---|---|
//! | `t` bool, integers, `f`, `d` | boolean, the integer of the same width and sign, float, double |
//! | `S` long string | string if UTF-8, else binary; back from string, symbol and binary |
//! | `x` bytes | binary |
//! | `T` seconds | timestamp in milliseconds |
//! | `V` void | null |
//! | `A` array, `F` table | list, map with symbols for keys |
//! | `D` decimal | nothing: it is left out |
//! | `l` of the same bits | ulong |
//! | `S` | char as its text, uuid as `urn:uuid:` and its text |
//! | the value | described value |
//! | nothing: it is left out | decimals, NaN and infinities, times before 1970, map keys that are neither string nor symbol or over 255 bytes |

use leveret_amqp10::Value;
use leveret_amqp091::{FieldTable, FieldValue};

use super::headers::NAME_MAX;
use super::map_writer::{Compound, MapWriter};
use super::message_id::uuid_text;

/// A string, if the bytes are UTF-8, else a binary.
pub(super) fn text(bytes: &[u8]) -> Value<'_> {
    std::str::from_utf8(bytes).map_or(Value::Binary(bytes), Value::String)
}

/// Whether a value of AMQP 0-9-1 has a counterpart.
pub(super) fn is_convertible(value: &leveret_amqp091::Value<'_>) -> bool {
    !matches!(value, leveret_amqp091::Value::Decimal(_))
}

/// Appends a [convertible](is_convertible) value of AMQP 0-9-1 as one of AMQP 1.0. Nesting is bounded by the codec.
pub(super) fn write_amqp10(value: leveret_amqp091::Value<'_>, out: &mut Vec<u8>) {
    use leveret_amqp091::Value as Old;
    let simple = match value {
        Old::Bool(value) => Value::Bool(value),
        Old::I8(value) => Value::Byte(value),
        Old::U8(value) => Value::Ubyte(value),
        Old::I16(value) => Value::Short(value),
        Old::U16(value) => Value::Ushort(value),
        Old::I32(value) => Value::Int(value),
        Old::U32(value) => Value::Uint(value),
        Old::I64(value) => Value::Long(value),
        Old::F32(value) => Value::Float(value),
        Old::F64(value) => Value::Double(value),
        Old::LongString(bytes) => text(bytes),
        Old::Bytes(bytes) => Value::Binary(bytes),
        Old::Timestamp(seconds) => Value::Timestamp(milliseconds(seconds)),
        Old::Void | Old::Decimal(_) => Value::Null,
        Old::Array(array) => {
            let mut list = Compound::list(out);
            for item in array.iter().filter(is_convertible) {
                list.item();
                write_amqp10(item, out);
            }
            return list.finish(out);
        }
        Old::Table(table) => {
            let mut map = MapWriter::value(out);
            for (key, item) in table.iter().filter(|(_, item)| is_convertible(item)) {
                map.key(out, &String::from_utf8_lossy(key.as_bytes()));
                write_amqp10(item, out);
            }
            return map.finish(out);
        }
    };
    simple.encode(out);
}

/// A time of AMQP 0-9-1 in milliseconds since the Unix epoch; one beyond what fits is the last that does.
pub(super) fn milliseconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// A time of AMQP 1.0 in seconds since the Unix epoch; none before it.
pub(super) fn seconds(milliseconds: i64) -> Option<u64> {
    u64::try_from(milliseconds).ok().map(|milliseconds| milliseconds / 1000)
}

/// The value as one of AMQP 0-9-1, if it has a counterpart. Nesting is bounded by the codec.
pub(super) fn to_amqp091(value: Value<'_>) -> Option<FieldValue> {
    Some(match value {
        Value::Null => FieldValue::Void,
        Value::Bool(value) => FieldValue::Bool(value),
        Value::Ubyte(value) => FieldValue::U8(value),
        Value::Ushort(value) => FieldValue::U16(value),
        Value::Uint(value) => FieldValue::U32(value),
        Value::Ulong(value) => FieldValue::I64(value.cast_signed()),
        Value::Byte(value) => FieldValue::I8(value),
        Value::Short(value) => FieldValue::I16(value),
        Value::Int(value) => FieldValue::I32(value),
        Value::Long(value) => FieldValue::I64(value),
        // RabbitMQ's clients, and RabbitMQ itself, can't read others.
        Value::Float(value) if value.is_finite() => FieldValue::F32(value),
        Value::Double(value) if value.is_finite() => FieldValue::F64(value),
        Value::Float(_) | Value::Double(_) => return None,
        Value::Decimal32(_) | Value::Decimal64(_) | Value::Decimal128(_) => return None,
        Value::Char(value) => FieldValue::from(value.to_string()),
        Value::Timestamp(value) => FieldValue::Timestamp(seconds(value)?),
        Value::Uuid(bytes) => FieldValue::from(uuid_text(&bytes)),
        Value::Binary(bytes) => FieldValue::LongString(bytes.to_vec()),
        Value::String(text) => FieldValue::from(text),
        Value::Symbol(text) => FieldValue::from(text.as_str()),
        Value::List(list) => FieldValue::Array(list.iter().filter_map(to_amqp091).collect()),
        Value::Array(array) => FieldValue::Array(array.iter().filter_map(to_amqp091).collect()),
        Value::Map(map) => {
            let pairs = map.iter().filter_map(|(key, value)| {
                let key = key.as_text().filter(|key| key.len() <= NAME_MAX)?;
                Some((key.as_bytes().to_vec(), to_amqp091(value)?))
            });
            FieldValue::Table(pairs.collect::<FieldTable>())
        }
        Value::Described(described) => return to_amqp091(described.value()),
    })
}
