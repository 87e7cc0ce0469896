//! Values of the hub form as field values of AMQP 0-9-1.
//!
//! | AMQP 1.0 | AMQP 0-9-1 |
//! |---|---|
//! | boolean, integers, float, double | `t`, the integer of the same width and sign, `f`, `d` |
//! | ulong | `l` of the same bits |
//! | string, symbol, binary | `S` |
//! | char, uuid | `S` with its text, with `urn:uuid:` and its text |
//! | timestamp in milliseconds | `T` seconds |
//! | null | `V` |
//! | list, map | `A`, `F` |
//! | decimals, NaN and infinities, times before 1970, names over 255 bytes | nothing: it is left out |

use leveret_amqp10::Value as Simple;
use leveret_amqp091::{FieldTable, FieldValue};

use super::headers::NAME_MAX;
use crate::hub::{Value, uuid};

/// The time in seconds since the Unix epoch; `None` before 1970.
pub(in crate::deliver) fn seconds(milliseconds: i64) -> Option<u64> {
    u64::try_from(milliseconds).ok().map(|milliseconds| milliseconds / 1000)
}

/// The value, if it has a counterpart. The codecs limit nesting.
pub(super) fn field(value: Value<'_>) -> Option<FieldValue> {
    match value {
        Value::Simple(value) => simple(value),
        Value::List(list) => Some(FieldValue::Array(list.iter().filter_map(field).collect())),
        Value::Map(map) => {
            let pairs = map.iter().filter(|(name, _)| name.len() <= NAME_MAX);
            let pairs = pairs.filter_map(|(name, value)| Some((name.into_owned().into_bytes(), field(value)?)));
            Some(FieldValue::Table(pairs.collect::<FieldTable>()))
        }
    }
}

fn simple(value: Simple<'_>) -> Option<FieldValue> {
    Some(match value {
        Simple::Null => FieldValue::Void,
        Simple::Bool(value) => FieldValue::Bool(value),
        Simple::Ubyte(value) => FieldValue::U8(value),
        Simple::Ushort(value) => FieldValue::U16(value),
        Simple::Uint(value) => FieldValue::U32(value),
        Simple::Ulong(value) => FieldValue::I64(value.cast_signed()),
        Simple::Byte(value) => FieldValue::I8(value),
        Simple::Short(value) => FieldValue::I16(value),
        Simple::Int(value) => FieldValue::I32(value),
        Simple::Long(value) => FieldValue::I64(value),
        // RabbitMQ and its clients can't read others.
        Simple::Float(value) if value.is_finite() => FieldValue::F32(value),
        Simple::Double(value) if value.is_finite() => FieldValue::F64(value),
        Simple::Char(value) => FieldValue::from(value.to_string()),
        Simple::Timestamp(value) => FieldValue::Timestamp(seconds(value)?),
        Simple::Uuid(bytes) => FieldValue::from(uuid::text(&bytes)),
        Simple::Binary(bytes) => FieldValue::LongString(bytes.to_vec()),
        Simple::String(text) => FieldValue::from(text),
        Simple::Symbol(text) => FieldValue::from(text.as_str()),
        Simple::Float(_) | Simple::Double(_) => return None,
        Simple::Decimal32(_) | Simple::Decimal64(_) | Simple::Decimal128(_) => return None,
        Simple::List(_) | Simple::Map(_) | Simple::Array(_) | Simple::Described(_) => {
            unreachable!("the hub has lists and maps of its own, and no arrays and described values")
        }
    })
}
