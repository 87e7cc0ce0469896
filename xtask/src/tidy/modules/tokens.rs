/// A token of Rust source, as far as needed for paths and items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// An identifier, a number, `::`, or one character of punctuation. String literals are left out.
    pub(super) text: &'a str,
    /// Its line, from 1.
    pub(super) line: usize,
}

/// Splits source into tokens, without comments and string literals.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let length = if let Some(length) = skipped(rest) {
            length
        } else {
            let length = token(rest, first);
            found.push(Token { text: &rest[..length], line });
            length
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// Length of a token that is kept.
fn token(rest: &str, first: char) -> usize {
    if rest.starts_with("::") {
        2
    } else if is_word(first) {
        rest.find(|c| !is_word(c)).unwrap_or(rest.len())
    } else {
        first.len_utf8()
    }
}

/// Length of white space, a comment, a string literal or a lifetime, if the text begins with one.
fn skipped(rest: &str) -> Option<usize> {
    let first = rest.chars().next()?;
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if first == '\'' {
        return Some(character_or_lifetime(rest));
    }
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|rest| {
            let rest = if prefix.ends_with('r') { rest.trim_start_matches('#') } else { rest };
            rest.starts_with('"')
        })
    });
    if let Some(prefix) = prefix {
        return Some(prefix.len() + string(&rest[prefix.len()..], prefix.ends_with('r')));
    }
    rest.strip_prefix('b').filter(|rest| rest.starts_with('\'')).map(|rest| 1 + character_or_lifetime(rest))
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn string(rest: &str, is_raw: bool) -> usize {
    if is_raw {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        return rest[hashes + 1..].find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len());
    }
    quoted(rest, '"')
}

/// Length of a literal between two `mark`s, the first of which begins the text.
fn quoted(rest: &str, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == mark => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn character_or_lifetime(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    let (first, second) = (chars.next(), chars.next());
    if first == Some('\\') || second == Some('\'') {
        return quoted(rest, '\'');
    }
    rest[1..].find(|c| !is_word(c)).map_or(rest.len(), |at| at + 1)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        assert_eq!(words("a // crate::b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r##"a("b \" c", r#"d " e"#, b"f", b'g', 'h', '\'', r"\") i"##), {
            ["a", "(", ",", ",", ",", ",", ",", ",", ")", "i"]
        });
    }

    #[test]
    fn lifetimes_end_where_their_name_ends() {
        assert_eq!(words("&'a str, 'b: loop { 'c' }"), ["&", "str", ",", ":", "loop", "{", "}"]);
    }

    #[test]
    fn paths_keep_their_separator_and_lines_are_counted() {
        assert_eq!(words("crate::a::{b, c}: d"), ["crate", "::", "a", "::", "{", "b", ",", "c", "}", ":", "d"]);
        let found = tokens("a\n\"b\nc\"\n/*\n*/ d");
        assert_eq!(found.iter().map(|token| token.line).collect::<Vec<_>>(), [1, 5]);
    }
}
