//! Filters of lists by what stands in their rows: a reason why something waits (`why`, `severity`), and any text that a reader sees
//! (`search`), as the page writes it.

use serde_json::Value;

use crate::columns::Columns;
use crate::error::Error;
use crate::query::{Query, given};
use crate::row::Shown;
use crate::why::words::{bytes, count, rate};
use crate::why::{Severity, short};

/// Conditions on a row.
pub(crate) struct RowFilter {
    code: Option<String>,
    severity: Option<Severity>,
    text: Option<Wanted>,
    columns: Columns,
}

/// A text that is searched for.
struct Wanted {
    /// In lower case.
    text: String,
    /// Whether a number may be written so.
    may_be_number: bool,
}

impl RowFilter {
    /// Whether a query has such conditions.
    pub(crate) fn is_asked(query: &Query) -> bool {
        ["why", "severity", "search"].iter().any(|key| given(query, key).is_some())
    }

    /// The conditions of a query, if it has any.
    ///
    /// # Errors
    /// There is no such severity.
    pub(crate) fn of(query: &Query) -> Result<Option<Self>, Error> {
        if !Self::is_asked(query) {
            return Ok(None);
        }
        Ok(Some(Self {
            code: given(query, "why").map(str::to_owned),
            severity: Severity::asked(query)?,
            text: given(query, "search").map(Wanted::new),
            columns: Columns::of(query),
        }))
    }

    /// Whether a row has to have a reason.
    pub(crate) fn wants_reason(&self) -> bool {
        self.code.is_some() || self.severity.is_some()
    }

    /// Whether the row with this name meets the conditions, whatever else stands in it.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        !self.wants_reason() && self.is_named(name)
    }

    /// Whether the row with this name meets the conditions.
    pub(crate) fn matches(&self, name: &str, row: &Shown) -> bool {
        let is_seen = || self.text.as_ref().is_some_and(|wanted| wanted.is_seen(row, &self.columns));
        self.has_reason(row) && (self.is_named(name) || is_seen())
    }

    fn is_named(&self, name: &str) -> bool {
        self.text.as_ref().is_none_or(|wanted| wanted.is_in(name))
    }

    /// Whether one of the row's reasons has the code and the severity.
    fn has_reason(&self, row: &Shown) -> bool {
        let fits = |reason: &Value| {
            self.code.as_ref().is_none_or(|code| reason["code"] == **code)
                && self.severity.is_none_or(|severity| reason["severity"] == severity.name())
        };
        !self.wants_reason() || row.get("why").and_then(Value::as_array).is_some_and(|reasons| reasons.iter().any(fits))
    }
}

impl Wanted {
    fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        // Digits, separators, and the units of sizes: most texts that people look for have other letters, and writing all numbers
        // of a row to compare them is most of the work.
        let may_be_number = text.chars().all(|sign| sign.is_ascii_digit() || " .,-+<ebkmgti".contains(sign));
        Self { text, may_be_number }
    }

    /// Whether a text has it, in whatever case.
    fn is_in(&self, shown: &str) -> bool {
        let wanted = self.text.as_bytes();
        match shown.is_ascii() {
            true => shown.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted)),
            false => shown.to_lowercase().contains(&self.text),
        }
    }

    /// Whether a reader of the row sees it in these columns.
    fn is_seen(&self, row: &Shown, columns: &Columns) -> bool {
        row.fields().any(|(key, value)| match columns.are_all() {
            true => self.is_seen_in(key, value),
            false => columns.of_field(key, value).is_some_and(|value| self.is_seen_in(key, &value)),
        })
    }

    /// Whether a reader of this value, which has this key, sees it.
    fn is_seen_in(&self, key: &str, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(on) => flag(key, *on).is_some_and(|word| self.is_in(&word)),
            Value::String(shown) => self.is_in(shown),
            Value::Number(_) if !self.may_be_number => false,
            Value::Number(number) => {
                let plain = number.to_string();
                let float = number.as_f64().unwrap_or_default();
                let written = match number.as_u64() {
                    _ if key == "rate" => rate(float),
                    Some(size) if is_size(key) => bytes(size),
                    Some(number) => count(number),
                    None => rate(float),
                };
                self.is_in(&written) || plain == self.text
            }
            Value::Array(values) if key == "why" => {
                values.iter().filter_map(|reason| reason["code"].as_str()).any(|code| self.is_in(&short(code)))
            }
            Value::Array(values) => values.iter().any(|value| self.is_seen_in(key, value)),
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| self.is_in(feature(key)) || self.is_seen_in(key, value))
            }
        }
    }
}

fn is_size(key: &str) -> bool {
    key.contains("bytes") || key == "memory" || key.ends_with("_oct")
}

/// The label of a flag, if its value has one.
fn flag(key: &str, is_on: bool) -> Option<String> {
    match (key, is_on) {
        ("durable", false) => Some("transient".to_owned()),
        ("durable", true) => Some("durable".to_owned()),
        ("ack_required", false) => Some("no ack".to_owned()),
        ("confirm", true) => Some("confirms".to_owned()),
        (_, true) => Some(key.replace('_', "-")),
        (_, false) => None,
    }
}

/// The label of an argument; none of others, whose keys are headings and not in the row.
fn feature(key: &str) -> &str {
    match key {
        "x-single-active-consumer" => "single active",
        "x-max-priority" => "priorities",
        "x-dead-letter-exchange" => "dead letters",
        "alternate-exchange" => "alternate",
        key if key.starts_with("x-") => key,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finds(pairs: &[(&str, &str)], row: &Value) -> bool {
        let query = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let filter = RowFilter::of(&query).expect("it is valid").expect("there is one");
        filter.matches(row["name"].as_str().unwrap_or_default(), &Shown::Value(row.clone()))
    }

    #[test]
    fn a_row_is_found_by_what_stands_in_it() {
        let row = json!({
            "name": "orders", "durable": false, "auto_delete": true, "messages": 1_234_567, "memory": 1536, "state": "running",
            "policy": "Short lived", "arguments": {"x-max-priority": 5}, "message_stats": {"ack_details": {"rate": 2.5}},
            "why": [{"code": "no_consumers", "severity": "warn", "text": "12 ready messages"}],
        });
        for text in [
            "ORD",
            "1,234,567",
            "1234567",
            "1.50 kib",
            "transient",
            "auto-delete",
            "short l",
            "priorities",
            "no consumers",
            "2.5",
            "running",
        ] {
            assert!(finds(&[("search", text)], &row), "{text}");
        }
        for text in ["durable", "1.234", "exclusive", "x", "policy"] {
            assert!(!finds(&[("search", text), ("columns", "name,durable,messages,policy")], &row), "{text}");
        }
        assert!(!finds(&[("search", "running"), ("columns", "name,messages")], &row), "it isn't shown");
    }

    #[test]
    fn a_row_is_found_by_its_reasons() {
        let row =
            json!({"name": "q", "why": [{"code": "full", "severity": "bad"}, {"code": "sync", "severity": "warn"}]});
        assert!(finds(&[("why", "full")], &row) && finds(&[("why", "sync"), ("severity", "warn")], &row));
        assert!(!finds(&[("why", "full"), ("severity", "warn")], &row), "both hold for one reason");
        assert!(!finds(&[("severity", "note")], &row) && !finds(&[("why", "full"), ("search", "other")], &row));
        let query = Query::from([("severity".to_owned(), "worst".to_owned())]);
        assert!(RowFilter::of(&query).is_err());
    }
}
