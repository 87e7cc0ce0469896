//! A row of a list while it is made, and as it is shown.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Fields of an object in any order. A list writes them as they are. An object that each field was inserted into, with a name of its
/// own, was half of the CPU time of a list of queues.
#[derive(Debug, Default)]
pub(crate) struct Row(Vec<(Cow<'static, str>, Value)>);

/// A row as it is shown.
#[derive(Debug)]
pub(crate) enum Shown {
    Value(Value),
    Row(Row),
}

impl Row {
    /// An empty row with room for this many fields.
    pub(crate) fn with_capacity(fields: usize) -> Self {
        Self(Vec::with_capacity(fields))
    }

    /// Adds a field, which it doesn't have yet.
    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name.into(), value.into()));
    }

    /// Removes the fields with these names.
    pub(crate) fn remove(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| !names.contains(&&**name));
    }

    /// The fields in the order in which they were added.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

impl Shown {
    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Shown::Value(value) => value.get(name),
            Shown::Row(row) => row.fields().find(|(field, _)| *field == name).map(|(_, value)| value),
        }
    }

    /// The fields, if it is an object.
    pub(crate) fn fields(&self) -> Box<dyn Iterator<Item = (&str, &Value)> + '_> {
        match self {
            Shown::Value(value) => {
                Box::new(value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value)))
            }
            Shown::Row(row) => Box::new(row.fields()),
        }
    }

    /// The value.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Shown::Value(value) => value,
            Shown::Row(row) => row.into(),
        }
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Shown::Value(value) => value.serialize(serializer),
            Shown::Row(row) => row.serialize(serializer),
        }
    }
}

impl From<Row> for Value {
    fn from(row: Row) -> Self {
        let fields = row.0.len();
        let object: Map<String, Value> = row.0.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
        debug_assert_eq!(object.len(), fields, "each field is there once");
        Value::Object(object)
    }
}

impl<N: Into<Cow<'static, str>>> Extend<(N, Value)> for Row {
    fn extend<I: IntoIterator<Item = (N, Value)>>(&mut self, fields: I) {
        self.0.extend(fields.into_iter().map(|(name, value)| (name.into(), value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_written_as_the_object_that_it_becomes() {
        let mut row = Row::with_capacity(4);
        row.add("b", 1);
        row.add("gone", true);
        row.extend([("a".to_owned(), json!([])), ("c\"".to_owned(), json!(null))]);
        row.remove(&["gone", "never there"]);
        let written = serde_json::to_string(&row).expect("it has a JSON form");
        assert_eq!(written, r#"{"b":1,"a":[],"c\"":null}"#);
        let shown = Shown::Row(row);
        assert_eq!((shown.get("b"), shown.get("gone")), (Some(&json!(1)), None));
        assert_eq!(shown.into_value(), serde_json::from_str::<Value>(&written).expect("valid"));
    }
}
