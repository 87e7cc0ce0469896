//! Compares a response with the recorded one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use leveret_tests::http::Answer;
use serde_json::Value;

use crate::fixed::fixed;

/// A difference from the recording.
pub(crate) struct Difference {
    /// The name of the response.
    pub(crate) answer: &'static str,
    /// `status`, or a path such as `[].arguments.x-max-length`; a list's elements share one.
    pub(crate) path: String,
    /// The actual and the recorded value.
    pub(crate) what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.answer, self.path, self.what)
    }
}

/// Types by path, each with the path of its parent. A key may contain dots itself.
type Shape = BTreeMap<String, (String, BTreeSet<&'static str>)>;

/// All differences of one response.
pub(crate) fn compare(answer: &'static str, ours: &Answer, recorded: &Value) -> Vec<Difference> {
    let difference = |path: &str, what: String| Difference { answer, path: path.to_owned(), what };
    if recorded["status"] != ours.status {
        let what = format!("{}, recorded {}: {}", ours.status, recorded["status"], ours.body);
        return vec![difference("status", what)];
    }
    // A body that isn't JSON was recorded as text.
    let body = serde_json::from_str(&ours.body).unwrap_or_else(|_| Value::String(ours.body.clone()));
    let (mine, theirs) = (shape(&body), shape(&recorded["body"]));
    let mut differences = Vec::new();
    for (path, (parent, kinds)) in &theirs {
        match mine.get(path) {
            // Everything below a missing key is covered by that key.
            None if mine.contains_key(parent) => {
                differences.push(difference(path, format!("missing, recorded {kinds:?}")));
            }
            Some((_, have)) if have.is_disjoint(kinds) && !kinds.iter().eq(&["null"]) => {
                differences.push(difference(path, format!("{have:?}, recorded {kinds:?}")));
            }
            _ => {}
        }
    }
    for path in fixed(answer) {
        let (mine, theirs) = (at(&body, path), at(&recorded["body"], path));
        if mine != theirs {
            differences.push(difference(&format!(".{path}"), format!("{mine}, recorded {theirs}")));
        }
    }
    differences
}

fn shape(value: &Value) -> Shape {
    let mut shape = Shape::new();
    add(value, "", String::new(), &mut shape);
    shape
}

fn add(value: &Value, parent: &str, path: String, shape: &mut Shape) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    match value {
        Value::Array(list) => list.iter().for_each(|element| add(element, &path, format!("{path}[]"), shape)),
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| add(value, &path, format!("{path}.{key}"), shape));
        }
        _ => {}
    }
    shape.entry(path).or_insert_with(|| (parent.to_owned(), BTreeSet::new())).1.insert(kind);
}

/// The value at `a.0.b`; null if it doesn't exist.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let step = |value: &'a Value, step: &str| match value {
        Value::Array(list) => step.parse().ok().and_then(|at: usize| list.get(at)),
        other => other.get(step),
    };
    path.split('.').try_fold(value, step).unwrap_or(&Value::Null)
}

#[test]
fn keys_types_and_fixed_values_are_compared() {
    let recorded = serde_json::json!({"status": 200, "body": {
        "messages": 20, "name": "q", "owner": null, "list": [{"a": 1}], "lacking": {"b": 2}, "arguments": {},
    }});
    let body = r#"{"messages": 19, "name": 5, "owner": "x", "list": [{"a": 1}, {}], "arguments": {}, "more": 1}"#;
    let found = compare("queue", &Answer { status: 200, body: body.to_owned() }, &recorded);
    let found: Vec<String> = found.iter().map(Difference::to_string).collect();
    assert_eq!(
        found,
        [
            "queue .lacking: missing, recorded {\"object\"}",
            "queue .name: {\"number\"}, recorded {\"string\"}",
            "queue .messages: 19, recorded 20",
            "queue .name: 5, recorded \"q\"",
        ]
    );
    let other = compare("queue", &Answer { status: 404, body: String::new() }, &recorded);
    assert_eq!(other.len(), 1);
}
