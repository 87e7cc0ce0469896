//! Locates values in valid JSON without building a tree. [`JsonScan`](crate::json_scan::JsonScan) finds out whether it is valid.

use std::ops::Range;

use memchr::memchr2;

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Object,
    List,
    Text,
    Number,
    Flag,
    Null,
}

impl JsonKind {
    /// The name with an article, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            JsonKind::Object => "an object",
            JsonKind::List => "a list",
            JsonKind::Text => "a text",
            JsonKind::Number => "a number",
            JsonKind::Flag => "a flag",
            JsonKind::Null => "null",
        }
    }
}

/// The kind of the value at `at`, which its first byte decides.
pub(crate) fn kind(text: &[u8], at: usize) -> JsonKind {
    match text.get(at) {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::List,
        Some(b'"') => JsonKind::Text,
        Some(b't' | b'f') => JsonKind::Flag,
        Some(b'n') => JsonKind::Null,
        _ => JsonKind::Number,
    }
}

/// Offset of the first byte from `at` on that isn't white space.
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at.min(text.len())
}

/// Bytes of a text that are looked at one by one: most texts are shorter than what a search in vectors costs to begin.
const SHORT: usize = 24;

/// Offset after the text whose quotation mark is at `at`.
fn end_of_text(text: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    loop {
        let Some(rest) = text.get(from..) else { return text.len() };
        let is_end = |byte: &u8| matches!(byte, b'"' | b'\\');
        let found = rest.iter().take(SHORT).position(is_end);
        let found = found.or_else(|| rest.get(SHORT..).and_then(|rest| Some(SHORT + memchr2(b'"', b'\\', rest)?)));
        let Some(found) = found else { return text.len() };
        let at = from + found;
        match text[at] {
            b'"' => return at + 1,
            _ => from = at + 2,
        }
    }
}

/// Offset after the value at `at`.
pub(crate) fn end(text: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut end = at;
    while let Some(byte) = text.get(end) {
        match byte {
            b'"' => end = end_of_text(text, end),
            b'{' | b'[' => {
                depth += 1;
                end += 1;
            }
            b'}' | b']' if depth == 0 => return end,
            b'}' | b']' => {
                depth -= 1;
                end += 1;
            }
            b',' if depth == 0 => return end,
            byte if depth == 0 && byte.is_ascii_whitespace() => return end,
            _ => end += 1,
        }
        if depth == 0 && matches!(text.get(end - 1), Some(b'"' | b'}' | b']')) {
            return end;
        }
    }
    text.len()
}

/// Ranges of the items of the list at `at`.
pub(crate) fn items(text: &[u8], at: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = at + 1;
    std::iter::from_fn(move || {
        let begin = skip_space(text, next);
        if matches!(text.get(begin), None | Some(b']')) {
            return None;
        }
        let end = end(text, begin);
        // After the comma, or at the bracket.
        next = skip_space(text, end);
        next += usize::from(text.get(next) == Some(&b','));
        Some(begin..end)
    })
}

/// Approximate memory of a value or name in a tree, in bytes.
const VALUE_BYTES: usize = 48;
const NAME_BYTES: usize = 96;
/// Memory that any tree may take, in bytes.
const TREE_BYTES_FREE: usize = 1 << 20;

/// The error for a text whose tree of values would take more than twice the size of the `whole` text that it is part
/// of. So parsing a text never takes more than four times its length.
pub(crate) fn takes_too_much(text: &[u8], whole: usize) -> Option<String> {
    let most = whole.saturating_mul(2).saturating_add(TREE_BYTES_FREE);
    let mut taken = 0_usize;
    let mut at = 0;
    // Invalid JSON is refused elsewhere, so a rough scan is enough here.
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(text, at);
                taken += end - at;
                at = end;
                continue;
            }
            b',' | b'[' | b'{' => taken += VALUE_BYTES,
            b':' => taken += NAME_BYTES,
            _ => {}
        }
        at += 1;
    }
    (taken > most).then(|| {
        format!(
            "its values would take about {taken} bytes of memory, and {most} are the most for a text of {whole} bytes"
        )
    })
}

/// Line and column of a byte, both from 1; columns count bytes, as in errors about invalid JSON.
pub(crate) fn place(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_located() {
        let text = br#" [1, "x,]\"}" ,{"b":[]} , null ] "#;
        let show = |range: Range<usize>| String::from_utf8_lossy(&text[range]).into_owned();
        let begin = skip_space(text, 0);
        let found: Vec<_> = items(text, begin).map(|item| (kind(text, item.start), show(item))).collect();
        let expected = [
            (JsonKind::Number, "1"),
            (JsonKind::Text, r#""x,]\"}""#),
            (JsonKind::Object, r#"{"b":[]}"#),
            (JsonKind::Null, "null"),
        ];
        assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
        assert_eq!(show(begin..end(text, begin)), r#"[1, "x,]\"}" ,{"b":[]} , null ]"#);
        assert_eq!(items(b"[ ]", 0).count(), 0);
        assert_eq!(end(b"12", 0), 2);
    }

    #[test]
    fn many_small_values_take_too_much_and_long_texts_do_not() {
        let zeros = format!("[{}0]", "0,".repeat(1 << 20));
        assert!(takes_too_much(zeros.as_bytes(), zeros.len()).is_some());
        let text = format!("[\"{}\"]", ",".repeat(4 << 20));
        assert_eq!(takes_too_much(text.as_bytes(), text.len()), None);
        assert_eq!(takes_too_much(b"[0,0,0]", 7), None);
    }

    #[test]
    fn places_count_from_one() {
        assert_eq!(place(b"ab\ncd", 0), (1, 1));
        assert_eq!(place(b"ab\ncd", 4), (2, 2));
    }
}
