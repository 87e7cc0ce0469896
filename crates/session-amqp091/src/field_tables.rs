//! Field tables of AMQP 0-9-1 as values of the model. Messages of all protocols store their headers in this form.

use std::sync::Arc;

use leveret_amqp091::{ShortStr, Table, Value};
use leveret_model as model;

/// A table as arguments.
///
/// # Errors
/// The first key that isn't UTF-8.
pub fn arguments(table: Table<'_>) -> Result<model::Arguments, ShortStr<'_>> {
    if table.is_empty() {
        return Ok(model::Arguments::default());
    }
    let mut pairs: Vec<(Arc<str>, model::Value)> = Vec::new();
    for (key, value) in table.iter() {
        let key = key.as_str().ok_or(key)?;
        pairs.push((key.into(), self::value(value)));
    }
    Ok(model::Arguments::new(pairs))
}

/// Converts a value. Keys of inner tables that aren't UTF-8 are converted lossily.
pub(crate) fn value(value: Value<'_>) -> model::Value {
    match value {
        Value::Void => model::Value::Void,
        Value::Bool(value) => model::Value::Bool(value),
        Value::F64(value) => model::Value::Double(value),
        Value::F32(value) => model::Value::Double(f64::from(value)),
        Value::Decimal(value) => model::Value::Decimal { scale: value.scale, unscaled: value.value.cast_signed() },
        Value::Timestamp(value) => model::Value::Timestamp(value),
        Value::LongString(bytes) => model::Value::String(bytes.into()),
        Value::Bytes(bytes) => model::Value::Bytes(bytes.into()),
        Value::Array(array) => model::Value::Array(array.iter().map(self::value).collect()),
        Value::Table(table) => {
            let pairs = table
                .iter()
                .map(|(key, inner)| (Arc::from(String::from_utf8_lossy(key.as_bytes())), self::value(inner)));
            model::Value::Table(model::Arguments::new(pairs.collect()))
        }
        number => number.as_i64().map_or(model::Value::Void, model::Value::Int),
    }
}
