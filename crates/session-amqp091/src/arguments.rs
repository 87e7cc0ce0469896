//! Conversion from the wire's tables to the control plane's arguments.

use std::borrow::Cow;

use leveret_amqp091::Table;
use leveret_model as model;
use leveret_model::without_line_ends;

use super::error::{Result, syntax};
use super::field_tables;

/// A table as arguments.
///
/// # Errors
/// 502 if a key isn't UTF-8.
pub(crate) fn arguments(table: Table<'_>) -> Result<model::Arguments> {
    field_tables::arguments(table).map_err(|key| syntax(format!("argument name {key:?} is not UTF-8")))
}

/// The name of a queue or an exchange in a declare, bind or delete.
///
/// # Errors
/// As [`name`].
pub(crate) fn declared_name<'a>(what: &str, given: leveret_amqp091::ShortStr<'a>) -> Result<Cow<'a, str>> {
    Ok(without_line_ends(name(what, given)?))
}

/// A name that has to be text, since it is shown in JSON.
///
/// # Errors
/// 502 if it isn't UTF-8.
pub(crate) fn name<'a>(what: &str, name: leveret_amqp091::ShortStr<'a>) -> Result<&'a str> {
    name.as_str().ok_or_else(|| syntax(format!("{what} name {name:?} is not UTF-8")))
}
