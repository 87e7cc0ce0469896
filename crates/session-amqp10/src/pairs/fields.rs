//! The fields of a request's body: a map with strings as keys, all of them known.

use std::sync::Arc;

use leveret_amqp10::value::{MapRef, Value};
use leveret_model::Arguments;

use super::arguments;
use super::refusal::{Refusal, Result};
use super::request::Body;

/// Calls `take` with every field of the body; a missing body has none.
///
/// # Errors
/// 400 if the body is no map, or `take` doesn't know a field with this name and type.
pub(crate) fn each<'a>(
    body: Body<'a>,
    kind: &str,
    mut take: impl FnMut(&'a str, Value<'a>) -> Result<Taken>,
) -> Result<()> {
    let map = match body {
        Body::Nothing => MapRef::EMPTY,
        Body::Value(Value::Map(map)) => map,
        Body::Value(other) => {
            return Err(Refusal::bad_request(format!("bad {kind}: a map is expected, received {}", other.type_name())));
        }
        Body::Other(section) => {
            return Err(Refusal::bad_request(format!(
                "bad {kind}: an amqp-value with a map is expected, received {section}"
            )));
        }
    };
    for (key, value) in map {
        let taken = match key {
            Value::String(key) => take(key, value)?,
            _ => Taken::No,
        };
        if taken == Taken::No {
            let name = key.as_text().unwrap_or("?");
            return Err(Refusal::bad_request(format!(
                "bad {kind} '{name}': unknown, or of a wrong type: its key is of type {}, its value of type {}",
                key.type_name(),
                value.type_name()
            )));
        }
    }
    Ok(())
}

/// Whether a field is known and of the right type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    No,
}

/// Takes a boolean.
pub(crate) fn flag(field: &mut bool, value: Value<'_>) -> Result<Taken> {
    let Some(flag) = value.as_bool() else { return Ok(Taken::No) };
    *field = flag;
    Ok(Taken::Yes)
}

/// Takes a string.
pub(crate) fn text<'a>(field: &mut impl From<&'a str>, value: Value<'a>) -> Result<Taken> {
    let Value::String(text) = value else { return Ok(Taken::No) };
    *field = text.into();
    Ok(Taken::Yes)
}

/// Takes a map of arguments.
pub(crate) fn table(field: &mut Arguments, value: Value<'_>) -> Result<Taken> {
    let Value::Map(map) = value else { return Ok(Taken::No) };
    *field = arguments::from_map(map)?;
    Ok(Taken::Yes)
}

/// The exchange that an argument names, and for which its own permission is needed.
///
/// # Errors
/// 400 if it is no string.
pub(crate) fn exchange_name(arguments: &Arguments, key: &str) -> Result<Option<Arc<str>>> {
    let Some(value) = arguments.get(key) else { return Ok(None) };
    match value.as_str() {
        Some(name) => Ok(Some(name.into())),
        None => Err(Refusal::bad_request(format!("invalid type '{}' for arg '{key}'", value.type_name()))),
    }
}
