//! Between the wire's tables and the control plane's arguments.

use std::borrow::Cow;
use std::sync::Arc;

use leveret_amqp091::{Table, Value};
use leveret_model as model;
use leveret_model::without_line_ends;

use super::error::{Result, syntax};

/// A table as arguments.
///
/// # Errors
/// 502 when a key isn't UTF-8.
pub(crate) fn arguments(table: Table<'_>) -> Result<model::Arguments> {
    if table.is_empty() {
        return Ok(model::Arguments::default());
    }
    let mut pairs: Vec<(Arc<str>, model::Value)> = Vec::new();
    for (key, value) in table.iter() {
        let key = key.as_str().ok_or_else(|| syntax(format!("argument name {key:?} is not UTF-8")))?;
        pairs.push((key.into(), self::value(value)));
    }
    Ok(model::Arguments::new(pairs))
}

/// One value. Keys of inner tables that aren't UTF-8 are kept as far as they can be shown.
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

/// The name of a queue or an exchange that is declared, bound or deleted.
///
/// # Errors
/// As [`name`].
pub(crate) fn declared_name<'a>(what: &str, given: leveret_amqp091::ShortStr<'a>) -> Result<Cow<'a, str>> {
    Ok(without_line_ends(name(what, given)?))
}

/// A name that has to be text, since it is shown in JSON.
///
/// # Errors
/// 502 when it isn't UTF-8.
pub(crate) fn name<'a>(what: &str, name: leveret_amqp091::ShortStr<'a>) -> Result<&'a str> {
    name.as_str().ok_or_else(|| syntax(format!("{what} name {name:?} is not UTF-8")))
}
