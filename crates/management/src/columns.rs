//! Selection of columns.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Paths into a row, such as `name` or `arguments.x-queue-type`; empty for the whole row.
pub(crate) struct Columns(Vec<Vec<String>>);

impl Columns {
    /// The columns requested by a query.
    pub(crate) fn of(query: &HashMap<String, String>) -> Self {
        let asked = query.get("columns").map_or("", String::as_str);
        let paths = asked.split(',').filter(|path| !path.is_empty());
        Columns(paths.map(|path| path.split('.').map(str::to_owned).collect()).collect())
    }

    /// The row with only these columns. An object without any of them becomes an empty list, as in RabbitMQ.
    pub(crate) fn pick(&self, row: Value) -> Value {
        if self.0.is_empty() {
            return row;
        }
        let paths: Vec<&[String]> = self.0.iter().map(Vec::as_slice).collect();
        pick(&row, &paths)
    }
}

fn pick(value: &Value, paths: &[&[String]]) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let mut out = Map::new();
    for (key, inner) in object {
        let below: Vec<&[String]> = paths.iter().filter(|path| path[0] == *key).map(|path| &path[1..]).collect();
        if below.iter().any(|path| path.is_empty()) {
            out.insert(key.clone(), inner.clone());
        } else if !below.is_empty() {
            out.insert(key.clone(), pick(inner, &below));
        }
    }
    if out.is_empty() { json!([]) } else { Value::Object(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_into_objects() {
        let columns = |text: &str| Columns::of(&HashMap::from([("columns".to_owned(), text.to_owned())]));
        let row = json!({"name": "q", "arguments": {"a": 1, "b": 2}, "messages": 5});
        assert_eq!(columns("name,arguments.b").pick(row.clone()), json!({"name": "q", "arguments": {"b": 2}}));
        assert_eq!(columns("arguments.none").pick(row.clone()), json!({"arguments": []}));
        assert_eq!(columns("none").pick(row.clone()), json!([]));
        assert_eq!(columns("").pick(row.clone()), row);
    }
}
