//! Selection of columns.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// A column of a row, for lists that don't need the whole row.
pub(crate) enum Cell {
    /// Its value.
    Is(Value),
    /// The row hasn't this column.
    Absent,
    /// It costs as much as the whole row.
    Costly,
}

impl<V: Into<Value>> From<V> for Cell {
    fn from(value: V) -> Self {
        Cell::Is(value.into())
    }
}

/// Paths into a row, such as `name` or `arguments.x-queue-type`; empty for the whole row.
pub(crate) struct Columns(Vec<Vec<String>>);

impl Columns {
    /// The columns requested by a query.
    pub(crate) fn of(query: &HashMap<String, String>) -> Self {
        let asked = query.get("columns").map_or("", String::as_str);
        let paths = asked.split(',').filter(|path| !path.is_empty());
        Columns(paths.map(|path| path.split('.').map(str::to_owned).collect()).collect())
    }

    /// The row with only these columns. `cell` makes a column; the whole row is only made if it can't.
    pub(crate) fn of_row(&self, cell: impl Fn(&str) -> Cell, whole: impl FnOnce() -> Value) -> Value {
        let mut row = Map::new();
        for path in &self.0 {
            if row.contains_key(&path[0]) {
                continue;
            }
            match cell(&path[0]) {
                Cell::Is(value) => drop(row.insert(path[0].clone(), value)),
                Cell::Absent => {}
                Cell::Costly => return self.pick(whole()),
            }
        }
        match self.0.is_empty() {
            true => whole(),
            false => self.pick(Value::Object(row)),
        }
    }

    /// Whether columns were asked for, and all of them are among these.
    pub(crate) fn are_among(&self, names: &[&str]) -> bool {
        !self.0.is_empty() && self.0.iter().all(|path| names.contains(&path[0].as_str()))
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
    fn a_row_is_only_made_for_a_column_that_needs_it() {
        let columns = |text: &str| Columns::of(&HashMap::from([("columns".to_owned(), text.to_owned())]));
        let cell = |name: &str| match name {
            "name" => "q".into(),
            "arguments" => json!({"a": 1, "b": 2}).into(),
            "leader" => Cell::Absent,
            _ => Cell::Costly,
        };
        let no_row = || panic!("the row isn't needed");
        assert_eq!(
            columns("name,arguments.b,leader").of_row(cell, no_row),
            json!({"name": "q", "arguments": {"b": 2}})
        );
        assert_eq!(columns("leader").of_row(cell, no_row), json!([]));
        let whole = || json!({"name": "q", "messages": 5});
        assert_eq!(columns("name,messages").of_row(cell, whole), json!({"name": "q", "messages": 5}));
        assert_eq!(columns("").of_row(cell, whole), whole());
        assert!(columns("name,arguments.b").are_among(&["arguments", "name"]));
        assert!(!columns("name,x").are_among(&["name"]) && !columns("").are_among(&["name"]));
    }

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
