//! Conversion between maps of AMQP 1.0 and the control plane's arguments. The rules are RabbitMQ's, except that
//! integers don't keep their width: they come back as `long`, or `ulong` if that can't hold them.

use std::sync::Arc;

use leveret_amqp10::value::{MapRef, OwnedMap, OwnedValue, Value};
use leveret_model as model;

use super::refusal::{Refusal, Result};

const SECOND_MS: i64 = 1000;

/// A map as arguments.
///
/// # Errors
/// 400 if a key is no text or a value has no counterpart.
pub(crate) fn from_map(map: MapRef<'_>) -> Result<model::Arguments> {
    let mut pairs: Vec<(Arc<str>, model::Value)> = Vec::new();
    for (key, value) in map {
        let Some(name) = key.as_text() else {
            return Err(Refusal::bad_request(format!("unsupported argument: its key is of type {}", key.type_name())));
        };
        pairs.push((name.into(), from_value(name, value)?));
    }
    Ok(model::Arguments::new(pairs))
}

/// The part of a map that can be shown: pairs without a counterpart are left out.
pub(crate) fn shown(map: MapRef<'_>) -> model::Arguments {
    let pairs = map.iter().filter_map(|(key, value)| {
        let name = key.as_text()?;
        Some((Arc::from(name), from_value(name, value).ok()?))
    });
    model::Arguments::new(pairs.collect())
}

fn from_value(name: &str, value: Value<'_>) -> Result<model::Value> {
    Ok(match value {
        Value::Null => model::Value::Void,
        Value::Bool(value) => model::Value::Bool(value),
        Value::Float(value) => model::Value::Double(value.into()),
        Value::Double(value) => model::Value::Double(value),
        Value::Timestamp(ms) if ms >= 0 => model::Value::Timestamp((ms / SECOND_MS) as u64),
        Value::String(text) => model::Value::string(text),
        Value::Symbol(symbol) => model::Value::string(symbol.as_str()),
        Value::Binary(bytes) => model::Value::Bytes(bytes.into()),
        Value::List(list) => {
            model::Value::Array(list.iter().map(|item| from_value(name, item)).collect::<Result<_>>()?)
        }
        Value::Array(array) => {
            model::Value::Array(array.iter().map(|item| from_value(name, item)).collect::<Result<_>>()?)
        }
        Value::Map(map) => model::Value::Table(from_map(map)?),
        Value::Ulong(number) => i64::try_from(number).map_or(model::Value::UInt(number), model::Value::Int),
        Value::Ubyte(_)
        | Value::Ushort(_)
        | Value::Uint(_)
        | Value::Byte(_)
        | Value::Short(_)
        | Value::Int(_)
        | Value::Long(_) => model::Value::Int(value.as_i64().unwrap_or_default()),
        Value::Timestamp(_)
        | Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::Char(_)
        | Value::Uuid(_)
        | Value::Described(_) => {
            return Err(Refusal::bad_request(format!("unsupported argument '{name}' of type {}", value.type_name())));
        }
    })
}

/// Arguments as a map. Its keys are strings; the keys of inner tables are symbols.
pub(crate) fn to_map(arguments: &model::Arguments) -> OwnedValue {
    OwnedValue::Map(OwnedMap(
        arguments.iter().map(|(key, value)| (OwnedValue::String(key.to_owned()), to_value(value))).collect(),
    ))
}

fn to_value(value: &model::Value) -> OwnedValue {
    match value {
        model::Value::Void => OwnedValue::Null,
        model::Value::Bool(value) => OwnedValue::Bool(*value),
        model::Value::Int(number) => OwnedValue::Long(*number),
        model::Value::UInt(number) => OwnedValue::Ulong(*number),
        model::Value::Double(number) => OwnedValue::Double(*number),
        model::Value::Decimal { scale, unscaled } => {
            OwnedValue::Double(f64::from(*unscaled) / 10f64.powi(i32::from(*scale)))
        }
        model::Value::Timestamp(seconds) => {
            OwnedValue::Timestamp(i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(SECOND_MS))
        }
        model::Value::String(bytes) => match str::from_utf8(bytes) {
            Ok(text) => OwnedValue::String(text.to_owned()),
            Err(_) => OwnedValue::Binary(bytes.to_vec()),
        },
        model::Value::Bytes(bytes) => OwnedValue::Binary(bytes.to_vec()),
        model::Value::Array(items) => OwnedValue::List(items.iter().map(to_value).collect()),
        model::Value::Table(table) => {
            let symbol = |key: &str| match key.is_ascii() {
                true => OwnedValue::Symbol(key.to_owned()),
                false => OwnedValue::String(key.to_owned()),
            };
            OwnedValue::Map(OwnedMap(table.iter().map(|(key, value)| (symbol(key), to_value(value))).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_amqp10::value::{EncodedValue, OwnedArray};

    use super::*;

    fn back(value: OwnedValue) -> Result<OwnedValue> {
        let mut map = OwnedMap::default();
        map.push("k", value);
        let encoded = EncodedValue::from(&OwnedValue::Map(map));
        let Value::Map(map) = encoded.as_value() else { panic!("a map") };
        let OwnedValue::Map(map) = to_map(&from_map(map)?) else { panic!("a map") };
        Ok(map.lookup("k").expect("the key").clone())
    }

    #[test]
    fn values_come_back_as_from_rabbitmq() {
        let text = |text: &str| OwnedValue::String(text.into());
        let inner = |key| OwnedValue::Map(OwnedMap(vec![(key, text("v"))]));
        for (sent, received) in [
            (OwnedValue::Null, OwnedValue::Null),
            (OwnedValue::Bool(true), OwnedValue::Bool(true)),
            (OwnedValue::Uint(7), OwnedValue::Long(7)),
            (OwnedValue::Ulong(u64::MAX), OwnedValue::Ulong(u64::MAX)),
            (OwnedValue::Byte(-7), OwnedValue::Long(-7)),
            (OwnedValue::Float(1.5), OwnedValue::Double(1.5)),
            (OwnedValue::Timestamp(1_234_567), OwnedValue::Timestamp(1_234_000)),
            (text("ü"), text("ü")),
            (OwnedValue::Symbol("s".into()), text("s")),
            (OwnedValue::Binary(vec![1, 255]), OwnedValue::Binary(vec![1, 255])),
            (OwnedValue::List(vec![text("a"), OwnedValue::Null]), OwnedValue::List(vec![text("a"), OwnedValue::Null])),
            (OwnedValue::Array(OwnedArray::new(vec![text("a")]).unwrap()), OwnedValue::List(vec![text("a")])),
            (inner(text("k")), inner(OwnedValue::Symbol("k".into()))),
            (inner(text("ü")), inner(text("ü"))),
        ] {
            assert_eq!(back(sent.clone()).unwrap(), received, "{sent:?}");
        }
    }

    #[test]
    fn values_without_a_counterpart_are_refused() {
        for wrong in [
            OwnedValue::Uuid([0; 16]),
            OwnedValue::Char('a'),
            OwnedValue::Timestamp(-1),
            OwnedValue::Map(OwnedMap(vec![(OwnedValue::Uint(1), OwnedValue::Null)])),
        ] {
            assert!(back(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
