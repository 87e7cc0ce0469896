//! Reads JSON from front to back without building a tree, and accepts nothing that isn't valid.

/// Eight bytes that are this one.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// A bit for each byte that ends the plain part of a text: a quotation mark, a backslash or a control character. Above the lowest one
/// there may be bits of other bytes.
fn ends(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(eight(1)) & !word;
    let controls = word.wrapping_sub(eight(b' ')) & !word;
    (zero(word ^ eight(b'"')) | zero(word ^ eight(b'\\')) | controls) & eight(0x80)
}

/// A value that was read, as bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScannedValue {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether it is a text without escapes.
    pub(crate) is_plain_text: bool,
}

impl ScannedValue {
    /// Its bytes, which are those between the quotation marks of a text.
    pub(crate) fn bare(self, text: &str) -> &str {
        text.get(self.start + 1..self.end - 1).unwrap_or_default()
    }
}

/// A place in a text up to which it is valid JSON. What returns `None` stands before something that isn't.
pub(crate) struct JsonScan<'a> {
    text: &'a [u8],
    at: usize,
    /// The brackets that end the lists and objects that were begun in a value.
    open: Vec<u8>,
}

impl<'a> JsonScan<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, open: Vec::new() }
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that isn't white space, which is passed.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                found => return found.copied(),
            }
        }
    }

    /// Passes this byte, if it is next.
    #[inline]
    pub(crate) fn takes(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes the same bytes as in this part of the text, which was read, if they are next.
    #[inline]
    pub(crate) fn takes_same(&mut self, (start, end): (usize, usize)) -> bool {
        let is_next = self.text[self.at..].starts_with(&self.text[start..end]);
        self.at += if is_next { end - start } else { 0 };
        is_next
    }

    /// Goes on in a list or an object that ends with this bracket, behind a value: true if another one follows.
    #[inline]
    pub(crate) fn goes_on(&mut self, close: u8) -> Option<bool> {
        let goes_on = self.takes(b',');
        (goes_on || self.takes(close)).then_some(goes_on)
    }

    /// Passes the name of a member and the colon behind it.
    #[inline]
    pub(crate) fn name(&mut self) -> Option<ScannedValue> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let name = self.quoted()?;
        self.takes(b':').then_some(name)
    }

    /// Passes a value.
    #[inline]
    pub(crate) fn value(&mut self) -> Option<ScannedValue> {
        match self.peek()? {
            b'"' => self.quoted(),
            first => {
                let start = self.at;
                match first {
                    b'{' | b'[' => self.nested()?,
                    _ => self.bare(first)?,
                }
                Some(ScannedValue { start, end: self.at, is_plain_text: false })
            }
        }
    }

    /// Passes the text that begins here.
    #[inline(always)]
    fn quoted(&mut self) -> Option<ScannedValue> {
        let start = self.at;
        let mut at = start + 1;
        let mut is_plain_text = true;
        loop {
            while let Some(word) = self.text.get(at..).and_then(<[u8]>::first_chunk) {
                let ends = ends(u64::from_le_bytes(*word));
                if ends != 0 {
                    at += (ends.trailing_zeros() / 8) as usize;
                    break;
                }
                at += 8;
            }
            match self.text.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(ScannedValue { start, end: at + 1, is_plain_text });
                }
                b'\\' => {
                    is_plain_text = false;
                    at = self.escape(at)?;
                }
                ..b' ' => return None,
                _ => at += 1,
            }
        }
    }

    /// Offset behind the escape at `at`.
    #[cold]
    fn escape(&self, at: usize) -> Option<usize> {
        match self.text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
            b'u' => {
                let digits = self.text.get(at + 2..at + 6)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 6)
            }
            _ => None,
        }
    }

    /// Passes a number, a flag or null, which begins with this byte.
    fn bare(&mut self, first: u8) -> Option<()> {
        let word: &[u8] = match first {
            b't' => b"true",
            b'f' => b"false",
            b'n' => b"null",
            _ => return self.number(first),
        };
        let rest = self.text.get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word).then_some(())
    }

    fn number(&mut self, first: u8) -> Option<()> {
        self.at += usize::from(first == b'-');
        let whole = self.at;
        self.digits()?;
        if self.text[whole] == b'0' && self.at > whole + 1 {
            return None;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    /// Passes a list or an object, of any depth.
    fn nested(&mut self) -> Option<()> {
        self.open.clear();
        loop {
            match self.peek()? {
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    let close = if open == b'{' { b'}' } else { b']' };
                    if !self.takes(close) {
                        self.open.push(close);
                        self.begin_within(close)?;
                        continue;
                    }
                }
                b'"' => drop(self.quoted()?),
                first => self.bare(first)?,
            }
            loop {
                let Some(close) = self.open.last().copied() else { return Some(()) };
                if self.goes_on(close)? {
                    self.begin_within(close)?;
                    break;
                }
                self.open.pop();
            }
        }
    }

    /// Passes what stands before a value in a list or an object that ends with this bracket.
    fn begin_within(&mut self, close: u8) -> Option<()> {
        match close {
            b'}' => self.name().map(drop),
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    /// Whether the whole text is one valid value.
    fn is_valid(text: &str) -> bool {
        let mut scan = JsonScan::new(text);
        scan.value().is_some() && scan.peek().is_none()
    }

    fn assert_as_serde(text: &str) {
        assert_eq!(is_valid(text), serde_json::from_str::<IgnoredAny>(text).is_ok(), "{text}");
    }

    const TEXTS: [&str; 6] = [
        r#" { "a" : [1, "x,]\"}" ,{"b":[]} , null ] , "c\"":true,"d":{} } "#,
        r#"[-0.5e+10,0,10,1E5,-12.25,true,false,null,"","\u00e9\\\/\b\f\n\r\t"]"#,
        r#"{"queues":[{"name":"orders.1","vhost":"/","arguments":{"x-max-length":1000,"x":{"y":[[]]}}}]}"#,
        "\t{\"long\":\"Grüße, a text of more than eight bytes and \u{7f}\",\r\n\"\":[ ]}",
        r#"[[[[[[[{"a":{"b":[{}]}}]]]]]]]"#,
        "12",
    ];

    #[test]
    fn texts_are_valid_as_serde_json_says() {
        for text in TEXTS {
            assert!(is_valid(text), "{text}");
            for (at, _) in text.char_indices() {
                assert_as_serde(&text[..at]);
                assert_as_serde(&text[at..]);
                for other in [
                    "", ",", ":", "\"", "\\", "[", "]", "{", "}", "0", "1", "-", ".", "e", " ", "\n", "\u{1}", "\u{c}",
                    "x", "u", "é",
                ] {
                    // In place of this character, and before it.
                    let behind = &text[at + text[at..].chars().next().map_or(0, char::len_utf8)..];
                    assert_as_serde(&format!("{}{other}{behind}", &text[..at]));
                    assert_as_serde(&format!("{}{other}{}", &text[..at], &text[at..]));
                }
            }
        }
        let deep = 100_000;
        assert_as_serde(&"[".repeat(deep));
        assert_as_serde(&format!("{}{}", "[".repeat(deep), "]".repeat(deep)));
    }

    #[test]
    fn values_stand_where_they_were_read() {
        let text = r#" { "a" : "plain", "b\n":[ 1 ] , "c":"e\u00e9", "d":1.5 } "#;
        let mut scan = JsonScan::new(text);
        assert!(scan.takes(b'{'));
        let mut found = Vec::new();
        loop {
            let name = scan.name().expect("a name");
            let value = scan.value().expect("a value");
            found.push((name.bare(text), &text[value.start..value.end], value.is_plain_text));
            if !scan.goes_on(b'}').expect("is valid") {
                break;
            }
        }
        let expected =
            [("a", "\"plain\"", true), ("b\\n", "[ 1 ]", false), ("c", "\"e\\u00e9\"", false), ("d", "1.5", false)];
        assert_eq!(found, expected);
        assert_eq!((scan.peek(), scan.at()), (None, text.len()));
    }
}
