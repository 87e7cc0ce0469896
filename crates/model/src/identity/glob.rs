use std::fmt;
use std::sync::Arc;

/// Stands for the vhost in a piece.
const VHOST: &str = "\0";

/// A text in which `*` stands for any text. Compiled once; a match looks at each byte of the name a bounded number of times for each
/// piece of the pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    /// The texts between the stars, of which there is one less.
    pieces: Arc<[Box<str>]>,
}

impl Glob {
    /// Compiles a pattern. `%2F` stands for the byte 2F, also for one that would mean something by itself.
    ///
    /// # Errors
    /// An escape isn't two hexadecimal digits, or the bytes aren't UTF-8.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let pieces: Result<Vec<Box<str>>, String> = pattern.split('*').map(unescaped).collect();
        Ok(Self::of_pieces(pieces?))
    }

    /// As [`Glob::parse`], with `{vhost}` for the vhost in which [`Glob::matches_in`] looks.
    ///
    /// # Errors
    /// As [`Glob::parse`], or an escape stands for the byte 0, which is the mark of the vhost here.
    pub fn parse_with_vhost(pattern: &str) -> Result<Self, String> {
        if pattern.contains('\0') || pattern.contains("%00") {
            return Err(format!("'{}' has the byte 0", pattern.escape_debug()));
        }
        Self::parse(&pattern.replace("{vhost}", VHOST))
    }

    /// A pattern that only matches this text.
    pub fn literal(text: &str) -> Self {
        Self::of_pieces(vec![text.into()])
    }

    pub(super) fn of_pieces(pieces: Vec<Box<str>>) -> Self {
        Self { pieces: pieces.into() }
    }

    pub(super) fn pieces(&self) -> &[Box<str>] {
        &self.pieces
    }

    /// Whether the whole text matches in this vhost.
    pub fn matches_in(&self, vhost: &str, text: &str) -> bool {
        if !self.pieces.iter().any(|piece| piece.contains(VHOST)) {
            return self.matches(text);
        }
        let filled = self.pieces.iter().map(|piece| piece.replace(VHOST, vhost).into_boxed_str());
        Self::of_pieces(filled.collect()).matches(text)
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        let (first, rest) = self.pieces.split_first().expect("a pattern has a piece");
        let Some((last, middle)) = rest.split_last() else { return **first == *text };
        let Some(mut text) = text.strip_prefix(&**first) else { return false };
        for piece in middle {
            let Some(at) = text.find(&**piece) else { return false };
            text = &text[at + piece.len()..];
        }
        text.ends_with(&**last)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.pieces.join("*"))
    }
}

fn unescaped(text: &str) -> Result<Box<str>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8);
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => return Err(format!("'%' in '{text}' isn't followed by two hexadecimal digits")),
        }
    }
    String::from_utf8(bytes).map(String::into_boxed_str).map_err(|_| format!("'{text}' isn't UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::parse(pattern).expect("is a pattern").matches(text)
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in
            [("*", ""), ("*", "a"), ("a*", "a"), ("*a", "ba"), ("a*b*c", "a--b--c"), ("a*a", "aa"), ("", "")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "ab"), ("a*", "ba"), ("a*a", "a"), ("a*b*c", "a-c-b"), ("*a", "ab")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn an_escape_is_taken_literally() {
        assert!(matches("%2F", "/") && matches("%2a", "*") && !matches("%2A", "x") && matches("%25", "%"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert!(Glob::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_vhost_is_filled_in_where_it_is_looked_for() {
        let glob = Glob::parse_with_vhost("a-{vhost}-*").expect("is a pattern");
        assert!(glob.matches_in("/", "a-/-b") && glob.matches_in("v*", "a-v*-") && !glob.matches_in("v*", "a-vx-"));
        assert!(!glob.matches_in("w", "a-v-b"));
        assert!(Glob::parse_with_vhost("%00").is_err() && Glob::parse_with_vhost("\0").is_err());
    }

    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => slow(rest, text),
            (Some((b'*', rest)), Some((_, later))) => slow(rest, text) || slow(pattern, later),
            (Some((own, rest)), Some((other, later))) => own == other && slow(rest, later),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_match_is_that_of_the_definition(pattern in "[ab*]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
