use leveret_model::Arguments;
use serde_json::Value;

use std::ops::Range;

use crate::json_scan::ScannedValue;

/// An object of a document as text whose shape is right, to compare it with what exists without building a tree. Its values are known by
/// the numbers of their fields (see [`numbers`](super::shape::numbers)).
pub(super) struct RawEntry<'a> {
    /// The text that the values are in.
    pub(super) text: &'a str,
    /// The values by number. Those that aren't there are anything.
    pub(super) values: &'a [ScannedValue],
    /// One bit for each value that is there.
    pub(super) there: u32,
}

impl ScannedValue {
    /// Its place in the document.
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl<'a> RawEntry<'a> {
    /// The value with this number, if it is there.
    pub(super) fn value(&self, number: usize) -> Option<ScannedValue> {
        (self.there & (1 << number) != 0).then(|| self.values[number])
    }

    /// A text without escapes, as almost all are; `None` for anything else.
    pub(super) fn plain_text(&self, number: usize) -> Option<&'a str> {
        self.value(number).filter(|value| value.is_plain_text).map(|value| value.bare(self.text))
    }

    /// A text without escapes, or what stands for one that isn't there.
    pub(super) fn plain_text_or(&self, number: usize, default: &'a str) -> Option<&'a str> {
        match self.value(number) {
            None => Some(default),
            Some(_) => self.plain_text(number),
        }
    }

    /// A table of arguments, which may be missing; `None` if it is none.
    pub(super) fn arguments(&self, number: usize) -> Option<Arguments> {
        let Some(value) = self.value(number) else { return Some(Arguments::default()) };
        match &self.text[value.range()] {
            "{}" | "[]" => Some(Arguments::default()),
            text => match serde_json::from_str(text).ok()? {
                Value::Object(table) => Some(Arguments::from_json(&Value::Object(table))),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_scan::JsonScan;

    #[test]
    fn plain_texts_and_tables_are_read_and_all_else_is_left() {
        let text = r#"["q", "a\"b", true, {"x-max-length":5}, {} ]"#;
        let mut scan = JsonScan::new(text);
        assert!(scan.takes(b'['));
        let mut values = Vec::new();
        loop {
            values.push(scan.value().expect("a value"));
            if !scan.goes_on(b']').expect("is valid") {
                break;
            }
        }
        let entry = RawEntry { text, values: &values, there: 0b01_1111 };
        let texts: Vec<_> = (0..5).map(|number| entry.plain_text(number)).collect();
        assert_eq!(texts, [Some("q"), None, None, None, None]);
        assert_eq!((entry.plain_text(5), entry.plain_text_or(5, "d")), (None, Some("d")));
        assert_eq!((entry.plain_text_or(0, "d"), entry.plain_text_or(1, "d")), (Some("q"), None));
        let arguments = entry.arguments(3).expect("a table");
        assert_eq!(arguments.get("x-max-length"), Some(&leveret_model::Value::from(5_i64)));
        assert!(entry.arguments(4).expect("a table").is_empty() && entry.arguments(5).expect("none").is_empty());
        assert!(entry.arguments(2).is_none());
    }
}
