//! The common part of the commands that list objects.

use serde_json::Value;

use crate::answer::{CommandOutput, Rows};
use crate::call::Call;
use crate::failure::Failure;

/// The requested columns, or `usual` if none were requested.
///
/// # Errors
/// A column doesn't exist; RabbitMQ's text.
pub(super) fn columns(call: &Call<'_>, known: &[&str], usual: &[&str]) -> Result<Vec<String>, Failure> {
    // Columns may also be separated by commas.
    let asked: Vec<String> = call
        .words("column")
        .iter()
        .flat_map(|word| word.split([',', ' ']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    if asked.is_empty() {
        return Ok(usual.iter().map(|column| (*column).to_owned()).collect());
    }
    let unknown: Vec<&str> = asked.iter().map(String::as_str).filter(|column| !known.contains(column)).collect();
    if unknown.is_empty() {
        return Ok(asked);
    }
    Err(Failure::Usage(format!(
        "Error (argument validation): Info key(s) {} are not supported\nKnown are {}",
        unknown.join(","),
        known.join(", ")
    )))
}

/// The rows of objects. `rename` may change an object's keys, which are the columns.
pub(super) fn rows(columns: &[String], objects: Vec<Value>, rename: impl Fn(&mut Value)) -> CommandOutput {
    let renamed = objects.into_iter().map(|mut object| {
        rename(&mut object);
        object
    });
    Rows::pick(columns, renamed.collect()).into()
}

/// Copies an object's value to another key.
pub(super) fn copy(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.pointer(from).cloned() {
        object[to] = value;
    }
}
