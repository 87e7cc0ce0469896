//! Values as formatted by RabbitMQ's tools, which are Erlang terms.

use serde_json::{Map, Value, json};

use super::{harmless, in_one_line};

/// A value in a table: texts unquoted, lists of them in brackets, arguments as a list of pairs.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => harmless(&text.replace(['\n', '\t'], " ")),
        Value::Array(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(", ")),
        Value::Object(arguments) => pairs(arguments),
        other => other.to_string(),
    }
}

/// Formats arguments of a queue and similar objects.
fn pairs(arguments: &Map<String, Value>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{{\"{}\",{}}}", in_one_line(key), inner(value));
    format!("[{}]", arguments.iter().map(pair).collect::<Vec<_>>().join(","))
}

fn inner(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", in_one_line(text)),
        Value::Object(arguments) => pairs(arguments),
        Value::Array(list) => format!("[{}]", list.iter().map(inner).collect::<Vec<_>>().join(",")),
        Value::Null => "undefined".to_owned(),
        other => other.to_string(),
    }
}

/// The columns whose objects are maps of Erlang, and not tables of AMQP 0-9-1.
const MAPS: &[&str] = &["effective_policy_definition", "metadata"];

/// Whether objects in this column are maps.
pub(crate) fn is_map(column: &str) -> bool {
    MAPS.contains(&column)
}

/// A value in this column of a table.
pub(crate) fn in_column(column: &str, value: &Value) -> String {
    match value {
        Value::Object(map) if is_map(column) && map.is_empty() => "#{}".to_owned(),
        Value::Object(map) if is_map(column) => {
            let pair = |(key, value): (&String, &Value)| format!("{{<<\"{}\">>, {}}}", in_one_line(key), text(value));
            format!("[{}]", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        other => text(other),
    }
}

/// A table of AMQP 0-9-1 in JSON: a list of name, type and value.
pub(crate) fn typed(value: Value) -> Value {
    match value {
        Value::Object(arguments) => arguments.into_iter().map(|(key, value)| triple(key, value)).collect(),
        other => other,
    }
}

fn triple(key: String, value: Value) -> Value {
    let kind = match &value {
        Value::String(_) => "longstr",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "long",
        Value::Array(_) => "array",
        Value::Object(_) => "table",
        Value::Null => "void",
    };
    json!([key, kind, typed(value)])
}
