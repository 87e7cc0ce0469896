//! The result of a command, before it is formatted.

use serde_json::{Map, Value};

/// The result of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CommandOutput {
    /// Success without a result.
    Done,
    /// A text, whatever the formatter.
    Text(String),
    /// A list.
    Rows(Rows),
    /// A text for people, and a value for programs.
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
    /// Rows from objects whose keys are the columns; missing keys give empty cells.
    pub(crate) fn pick(columns: &[String], objects: Vec<Value>) -> Self {
        let pick = |mut object: Value| -> Vec<Value> {
            columns.iter().map(|column| object.get_mut(column).map_or(Value::from(""), Value::take)).collect()
        };
        Rows { columns: columns.to_vec(), rows: objects.into_iter().map(pick).collect() }
    }

    /// The rows as objects.
    pub(crate) fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |row: &Vec<Value>| self.columns.iter().cloned().zip(row.iter().cloned()).collect();
        self.rows.iter().map(object).collect()
    }
}

impl From<Rows> for CommandOutput {
    fn from(rows: Rows) -> Self {
        CommandOutput::Rows(rows)
    }
}
