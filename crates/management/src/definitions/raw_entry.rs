use std::ops::Range;

use leveret_model::Arguments;
use serde_json::Value;

/// An object of a document as text whose shape is right, to compare it with what exists without building a tree.
pub(super) struct RawEntry<'a> {
    /// The text that the values are in.
    pub(super) text: &'a [u8],
    /// The fields that are known, each with the place of its value.
    pub(super) fields: &'a [(&'static str, Range<usize>)],
}

/// A value of such an object.
#[derive(Clone, Copy)]
pub(super) struct RawValue<'a>(&'a [u8]);

impl<'a> RawEntry<'a> {
    /// The values with these names.
    pub(super) fn values<const N: usize>(&self, names: [&str; N]) -> [Option<RawValue<'a>>; N] {
        names.map(|wanted| {
            let found = self.fields.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| RawValue(&self.text[value.clone()]))
        })
    }
}

impl<'a> RawValue<'a> {
    /// A text without escapes, as almost all are; `None` for anything else.
    pub(super) fn plain_text(self) -> Option<&'a str> {
        let bare = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if memchr::memchr(b'\\', bare).is_some() { None } else { std::str::from_utf8(bare).ok() }
    }

    /// A table of arguments; `None` if it is none.
    pub(super) fn arguments(self) -> Option<Arguments> {
        match self.0 {
            b"{}" | b"[]" => Some(Arguments::default()),
            text => match serde_json::from_slice(text).ok()? {
                Value::Object(table) => Some(Arguments::from_json(&Value::Object(table))),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_walk as walk;

    #[test]
    fn plain_texts_and_tables_are_read_and_all_else_is_left() {
        let text = br#"{"name": "q", "vhost":"a\"b", "durable":true, "arguments":{"x-max-length":5}, "empty":{} }"#;
        let names = ["name", "vhost", "durable", "arguments", "empty"];
        let fields: Vec<_> = names.into_iter().zip(walk::members(text, 0).map(|(_, value)| value)).collect();
        let [name, vhost, durable, arguments, empty, none] =
            RawEntry { text, fields: &fields }.values(["name", "vhost", "durable", "arguments", "empty", "none"]);
        assert_eq!(name.and_then(RawValue::plain_text), Some("q"));
        assert_eq!(vhost.and_then(RawValue::plain_text), None);
        assert_eq!(durable.and_then(RawValue::plain_text), None);
        let arguments = arguments.and_then(RawValue::arguments).expect("a table");
        assert_eq!(arguments.get("x-max-length"), Some(&leveret_model::Value::from(5_i64)));
        assert!(empty.and_then(RawValue::arguments).expect("a table").is_empty());
        assert!(none.is_none() && durable.and_then(RawValue::arguments).is_none());
    }
}
