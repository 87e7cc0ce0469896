use serde_json::Value;

use super::in_one_line;
use crate::answer::Rows;

/// Rows of comma-separated values, which are quoted, numbers as well.
pub(super) fn show(rows: &Rows, headers: bool) -> String {
    let mut out = String::new();
    if headers && !rows.rows.is_empty() {
        let names: Vec<String> = rows.columns.iter().map(|name| quoted(name)).collect();
        out.push_str(&format!("{}\n", names.join(",")));
    }
    for row in &rows.rows {
        let fields: Vec<String> = row.iter().map(field).collect();
        out.push_str(&format!("{}\n", fields.join(",")));
    }
    out
}

fn field(value: &Value) -> String {
    quoted(&bare(value))
}

fn bare(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(bare).collect::<Vec<_>>().join(","),
        Value::Object(table) => {
            table.iter().map(|(key, value)| format!("{key}={}", bare(value))).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", in_one_line(text).replace('"', "\"\""))
}
