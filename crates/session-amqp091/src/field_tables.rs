//! Field tables of AMQP 0-9-1 as arguments of the model, and back.

use std::sync::Arc;

use leveret_amqp091::{FieldTable, FieldValue, ShortStr, Table};
use leveret_broker::headers;
use leveret_model::{Arguments, Value};

/// A table as arguments.
///
/// # Errors
/// The first key that isn't UTF-8.
pub(crate) fn arguments(table: Table<'_>) -> Result<Arguments, ShortStr<'_>> {
    if table.is_empty() {
        return Ok(Arguments::default());
    }
    let mut pairs: Vec<(Arc<str>, Value)> = Vec::new();
    for (key, value) in table.iter() {
        let key = key.as_str().ok_or(key)?;
        pairs.push((key.into(), headers::value(value.into())));
    }
    Ok(Arguments::new(pairs))
}

/// Arguments as a table. Values that JSON can't hold become void.
pub(crate) fn field_table(arguments: &Arguments) -> FieldTable {
    arguments.iter().map(|(key, value)| (key.as_bytes().to_vec(), field_value(value))).collect()
}

fn field_value(value: &Value) -> FieldValue {
    match value {
        Value::Void => FieldValue::Void,
        Value::Bool(flag) => FieldValue::Bool(*flag),
        Value::Int(number) => FieldValue::I64(*number),
        Value::UInt(number) => i64::try_from(*number).map_or(FieldValue::F64(*number as f64), FieldValue::I64),
        Value::Double(number) => FieldValue::F64(*number),
        Value::Timestamp(seconds) => FieldValue::Timestamp(*seconds),
        Value::String(bytes) => FieldValue::LongString(bytes.to_vec()),
        Value::Bytes(bytes) => FieldValue::Bytes(bytes.to_vec()),
        // JSON has no decimals.
        Value::Decimal { .. } => FieldValue::Void,
        Value::Array(values) => FieldValue::Array(values.iter().map(field_value).collect()),
        Value::Table(table) => FieldValue::Table(field_table(table)),
    }
}
