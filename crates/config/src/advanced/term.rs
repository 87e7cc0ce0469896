//! The Erlang terms of an advanced.config: atoms, numbers, texts, lists and tuples. Maps, functions and other kinds
//! of terms are refused.

/// Deepest nesting of lists and tuples.
const DEPTH_MAX: usize = 32;

/// A term and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    pub(crate) line: u32,
    pub(crate) value: TermValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TermValue {
    Atom(String),
    Integer(i64),
    Float(f64),
    /// `"..."` or `<<"...">>`.
    Text(String),
    List(Vec<Term>),
    Tuple(Vec<Term>),
}

/// A syntax error, after its line.
pub(crate) type Mistake = (u32, String);

/// The single term of a file, which is followed by a dot. `None` for a file without a term.
///
/// # Errors
/// The file isn't a single term.
pub(crate) fn parse(text: &str) -> Result<Option<Term>, Mistake> {
    let mut parser = Parser { rest: text, line: 1 };
    parser.skip();
    if parser.rest.is_empty() {
        return Ok(None);
    }
    let term = parser.term(0)?;
    parser.expect(".", "after the list")?;
    parser.skip();
    match parser.rest.is_empty() {
        true => Ok(Some(term)),
        false => Err(parser.unexpected("the end of the file, for it has one term only")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Parser<'a> {
    fn term(&mut self, depth: usize) -> Result<Term, Mistake> {
        self.skip();
        let line = self.line;
        let value = match self.rest.as_bytes() {
            [b'[' | b'{', ..] if depth == DEPTH_MAX => {
                return Err((line, format!("lists and tuples are nested more than {DEPTH_MAX} deep")));
            }
            [b'[', ..] => TermValue::List(self.items("[", "]", depth)?),
            [b'{', ..] => TermValue::Tuple(self.items("{", "}", depth)?),
            [b'<', b'<', ..] => {
                self.take(2);
                self.skip();
                let text = self.quoted('"')?;
                self.expect(">>", "after the text of a binary")?;
                TermValue::Text(text)
            }
            [b'"', ..] => TermValue::Text(self.quoted('"')?),
            [b'\'', ..] => TermValue::Atom(self.quoted('\'')?),
            [b'a'..=b'z', ..] => {
                let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@');
                TermValue::Atom(self.take_while(word).to_owned())
            }
            [b'-' | b'+' | b'0'..=b'9', ..] => self.number()?,
            _ => return Err(self.unexpected("an atom, a number, a text, a list or a tuple")),
        };
        Ok(Term { line, value })
    }

    fn items(&mut self, open: &str, close: &str, depth: usize) -> Result<Vec<Term>, Mistake> {
        let line = self.line;
        self.take(open.len());
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() {
                return Err((line, format!("the '{open}' isn't closed")));
            }
            if items.is_empty() && self.rest.starts_with(close) {
                break;
            }
            items.push(self.term(depth + 1)?);
            self.skip();
            if !self.rest.starts_with(',') {
                break;
            }
            self.take(1);
        }
        if self.rest.is_empty() {
            return Err((line, format!("the '{open}' isn't closed")));
        }
        self.expect(close, &format!("or ',' in what '{open}' of line {line} begins"))?;
        Ok(items)
    }

    fn quoted(&mut self, quote: char) -> Result<String, Mistake> {
        let line = self.line;
        if !self.rest.starts_with(quote) {
            return Err(self.unexpected("a text in quotes: other binaries aren't read"));
        }
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            let char = match char {
                '\\' => match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, 't')) => '\t',
                    Some((_, 'r')) => '\r',
                    Some((_, 's')) => ' ',
                    Some((_, same @ ('\\' | '"' | '\''))) => same,
                    other => {
                        let found = other.map_or(String::new(), |(_, char)| char.to_string());
                        return Err((line, format!("'\\{found}' in a text isn't read")));
                    }
                },
                char if char == quote => {
                    self.take(at + quote.len_utf8());
                    return Ok(out);
                }
                char => char,
            };
            out.push(char);
        }
        Err((line, format!("the quote {quote} isn't closed")))
    }

    fn number(&mut self) -> Result<TermValue, Mistake> {
        let line = self.line;
        // The dot that ends the file isn't part of a number before it.
        let mut end = 1;
        let bytes = self.rest.as_bytes();
        while let Some(byte) = bytes.get(end) {
            let is_fraction = *byte == b'.' && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            let is_exponent =
                matches!(byte, b'e' | b'E') || matches!(byte, b'-' | b'+') && matches!(bytes[end - 1], b'e' | b'E');
            if !byte.is_ascii_digit() && *byte != b'_' && !is_fraction && !is_exponent {
                break;
            }
            end += 1;
        }
        let text: String = self.take(end).chars().filter(|c| *c != '_').collect();
        let wrong = || (line, format!("'{text}' is no number that is read here"));
        match text.contains(['.', 'e', 'E']) {
            true => text.parse().map(TermValue::Float).map_err(|_| wrong()),
            false => text.parse().map(TermValue::Integer).map_err(|_| wrong()),
        }
    }

    fn expect(&mut self, wanted: &str, place: &str) -> Result<(), Mistake> {
        self.skip();
        if !self.rest.starts_with(wanted) {
            return Err(self.unexpected(&format!("'{wanted}' {place}")));
        }
        self.take(wanted.len());
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> Mistake {
        let found: String = self.rest.chars().take_while(|c| *c != '\n').take(20).collect();
        let found = if found.is_empty() { "the end of the line or file".to_owned() } else { format!("'{found}'") };
        (self.line, format!("expected {wanted}, found {found}"))
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with('%') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(term: &Term) -> String {
        let list = |items: &[Term]| items.iter().map(shown).collect::<Vec<_>>().join(",");
        match &term.value {
            TermValue::Atom(atom) => atom.clone(),
            TermValue::Integer(number) => number.to_string(),
            TermValue::Float(number) => format!("{number:?}"),
            TermValue::Text(text) => format!("{text:?}"),
            TermValue::List(items) => format!("[{}]", list(items)),
            TermValue::Tuple(items) => format!("{{{}}}", list(items)),
        }
    }

    #[test]
    fn terms() {
        let text = "%% a comment\n[{rabbit, [{'Max', -5}, {f, 0.6}, {e, 1.5e3}, {i, 1_000},\n {u, [<<\"a\">>, \"b\\\"c\"]}, {n, []}]}].\n%";
        let term = parse(text).expect("is right").expect("is there");
        assert_eq!(shown(&term), r#"[{rabbit,[{Max,-5},{f,0.6},{e,1500.0},{i,1000},{u,["a","b\"c"]},{n,[]}]}]"#);
        assert_eq!(parse("  % nothing\n").expect("is right"), None);
        assert_eq!(shown(&parse("5.").expect("is right").expect("is there")), "5");
    }

    #[test]
    fn mistakes_name_their_line_and_what_was_found() {
        let mistake = |text: &str| parse(text).expect_err("is wrong");
        assert_eq!(mistake("[\n{a, b}"), (1, "the '[' isn't closed".into()));
        assert_eq!(mistake("[{a, b}]"), (1, "expected '.' after the list, found the end of the line or file".into()));
        assert_eq!(
            mistake("[].\n[]."),
            (2, "expected the end of the file, for it has one term only, found '[].'".into())
        );
        assert_eq!(
            mistake("[\n\n#{a => b}]."),
            (3, "expected an atom, a number, a text, a list or a tuple, found '#{a => b}].'".into())
        );
        assert_eq!(
            mistake("[<<1,2>>]."),
            (1, "expected a text in quotes: other binaries aren't read, found '1,2>>].'".into())
        );
        assert_eq!(mistake("[\"a].").0, 1);
        assert_eq!(mistake("[99999999999999999999].").1, "'99999999999999999999' is no number that is read here");
        assert_eq!(mistake("[a b]."), (1, "expected ']' or ',' in what '[' of line 1 begins, found 'b].'".into()));
        assert!(mistake(&"[".repeat(100_000)).1.contains("nested more than 32 deep"));
    }
}
