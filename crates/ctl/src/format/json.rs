use serde_json::Value;

use super::term;
use crate::answer::Rows;

/// A list with one object per line.
pub(super) fn show(rows: &Rows) -> String {
    let mut out = String::from("[\n");
    let mut separator = "";
    for mut object in rows.objects() {
        for (column, value) in &mut object {
            *value = match value.take() {
                // A value that isn't set is an empty text in RabbitMQ.
                Value::Null => Value::from(""),
                map if term::is_map(column) => map,
                other => term::typed(other),
            };
        }
        out.push_str(separator);
        out.push_str(&format!("{}\n", Value::Object(object)));
        separator = ",";
    }
    out.push_str("]\n");
    out
}
