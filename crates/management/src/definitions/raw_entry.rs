use leveret_model::Arguments;
use serde_json::Value;

use crate::json_walk as walk;

/// An object of a document as text, to compare it with what exists without building a tree.
pub(super) struct RawEntry<'a> {
    text: &'a [u8],
}

/// A value of such an object.
#[derive(Clone, Copy)]
pub(super) struct RawValue<'a>(&'a [u8]);

impl<'a> RawEntry<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        RawEntry { text }
    }

    /// The values with these names. A name that is written with escapes isn't found.
    pub(super) fn values<const N: usize>(&self, names: [&str; N]) -> [Option<RawValue<'a>>; N] {
        let mut found = [None; N];
        for (name, value) in walk::members(self.text, 0) {
            let bare = &self.text[name.start + 1..name.end - 1];
            if let Some(at) = names.iter().position(|wanted| wanted.as_bytes() == bare) {
                found[at] = Some(RawValue(&self.text[value]));
            }
        }
        found
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

    #[test]
    fn plain_texts_and_tables_are_read_and_all_else_is_left() {
        let text = br#"{"name": "q", "vhost":"a\"b", "durable":true, "arguments":{"x-max-length":5}, "empty":{} }"#;
        let [name, vhost, durable, arguments, empty, none] =
            RawEntry::new(text).values(["name", "vhost", "durable", "arguments", "empty", "none"]);
        assert_eq!(name.and_then(RawValue::plain_text), Some("q"));
        assert_eq!(vhost.and_then(RawValue::plain_text), None);
        assert_eq!(durable.and_then(RawValue::plain_text), None);
        let arguments = arguments.and_then(RawValue::arguments).expect("a table");
        assert_eq!(arguments.get("x-max-length"), Some(&leveret_model::Value::from(5_i64)));
        assert!(empty.and_then(RawValue::arguments).expect("a table").is_empty());
        assert!(none.is_none() && durable.and_then(RawValue::arguments).is_none());
    }
}
