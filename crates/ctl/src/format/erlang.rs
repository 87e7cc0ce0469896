use serde_json::Value;

use super::term::typed;
use crate::answer::Rows;

/// A list with one list of pairs per row, each on a line. RabbitMQ's tools break long lines elsewhere.
pub(super) fn show(rows: &Rows) -> String {
    let row = |row: &Vec<Value>| {
        let pair = |(column, value): (&String, &Value)| format!("{{{},{}}}", atom(column), cell(column, value));
        let pairs: Vec<String> = rows.columns.iter().zip(row).map(pair).collect();
        format!("[{}]", pairs.join(","))
    };
    let rows: Vec<String> = rows.rows.iter().map(row).collect();
    format!("[{}]\n", rows.join(",\n "))
}

/// An object as a list of pairs.
pub(super) fn report(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let pairs: Vec<String> =
                object.iter().map(|(key, value)| format!("{{{},{}}}", atom(key), report(value))).collect();
            format!("[{}]", pairs.join(","))
        }
        Value::Array(list) => bracketed(list, report),
        other => plain(other),
    }
}

/// A text as a binary.
pub(super) fn text(text: &str) -> String {
    let encoding = if text.is_ascii() { "" } else { "/utf8" };
    format!(
        "<<\"{}\"{encoding}>>",
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
    )
}

fn cell(column: &str, value: &Value) -> String {
    match value {
        // The only column with tuples.
        Value::Array(list) if column == "protocol" => {
            format!("{{{}}}", list.iter().map(plain).collect::<Vec<_>>().join(","))
        }
        Value::Object(_) => arguments(&typed(value.clone())),
        Value::Array(list) => bracketed(list, |value| cell("", value)),
        other => plain(other),
    }
}

/// A table of AMQP 0-9-1, as converted by [`typed`]: triples of name, type and value.
fn arguments(value: &Value) -> String {
    let triple = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([name, Value::String(kind), inner]) => {
            let inner = match kind.as_str() {
                "table" => arguments(inner),
                _ => cell("", inner),
            };
            format!("{{{},{kind},{inner}}}", plain(name))
        }
        _ => plain(value),
    };
    bracketed(value.as_array().map_or(&[][..], Vec::as_slice), triple)
}

fn bracketed(list: &[Value], shown: impl Fn(&Value) -> String) -> String {
    format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(","))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "''".to_owned(),
        Value::String(value) => text(value),
        other => other.to_string(),
    }
}

/// An atom, quoted unless it is a lower-case letter followed by letters, digits and underscores.
fn atom(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_plain { name.to_owned() } else { format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")) }
}
