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
        if self.0.is_empty() {
            return whole();
        }
        // Cells are whole columns: only a path into one has to be followed.
        let is_picked = !row.is_empty() && self.0.iter().all(|path| path.len() == 1);
        if is_picked { Value::Object(row) } else { self.pick(Value::Object(row)) }
    }

    /// Whether no columns were asked for, so that all are shown.
    pub(crate) fn are_all(&self) -> bool {
        self.0.is_empty()
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
        pick(&row, &self.paths())
    }

    /// The part of a row's field that these columns have; `None` if it isn't among them.
    pub(crate) fn of_field(&self, name: &str, value: &Value) -> Option<Value> {
        pick_field(name, value, &self.paths())
    }

    fn paths(&self) -> Vec<&[String]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

fn pick(value: &Value, paths: &[&[String]]) -> Value {
    let Value::Object(object) = value else { return value.clone() };
    let picked = object.iter().filter_map(|(key, inner)| Some((key.clone(), pick_field(key, inner, paths)?)));
    let out: Map<String, Value> = picked.collect();
    if out.is_empty() { json!([]) } else { Value::Object(out) }
}

/// The part of a field with this name that paths lead to; `None` if they lead to none.
fn pick_field(name: &str, value: &Value, paths: &[&[String]]) -> Option<Value> {
    let below: Vec<&[String]> = paths.iter().filter(|path| path[0] == name).map(|path| &path[1..]).collect();
    match below.iter().any(|path| path.is_empty()) {
        true => Some(value.clone()),
        false => (!below.is_empty()).then(|| pick(value, &below)),
    }
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
