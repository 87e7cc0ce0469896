//! What a command says, before it is shown.

use serde_json::{Map, Value};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// It did what it should, and that is all.
    Done,
    /// A text, whatever the formatter.
    Text(String),
    /// A list.
    Rows(Rows),
    /// A text for people, and what programs get instead.
    Report {
        /// For people.
        text: String,
        /// For programs.
        value: Value,
    },
}

/// Rows with the same columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Rows of objects with columns that are their keys; what an object doesn't have is empty.
    pub(crate) fn pick(columns: &[String], objects: Vec<Value>) -> Self {
        let pick = |mut object: Value| -> Vec<Value> {
            columns.iter().map(|column| object.get_mut(column).map_or(Value::from(""), Value::take)).collect()
        };
        Rows { columns: columns.to_vec(), rows: objects.into_iter().map(pick).collect() }
    }

    /// As objects.
    pub(crate) fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |row: &Vec<Value>| self.columns.iter().cloned().zip(row.iter().cloned()).collect();
        self.rows.iter().map(object).collect()
    }
}

impl From<Rows> for Answer {
    fn from(rows: Rows) -> Self {
        Answer::Rows(rows)
    }
}
