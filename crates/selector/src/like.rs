//! Patterns of `LIKE`: `%` stands for any characters, `_` for one character.

use crate::Budget;

/// The length in bytes from which on a string is unknown to patterns with `_` or more than one `%`, as in RabbitMQ: the
/// search may look at each byte once for each byte of the pattern.
const SUBJECT_MAX: usize = 4096;

/// Characters that a part with `_` may compare: a string is unknown if it takes more. That is about a millisecond.
const WORK_MAX: usize = 1 << 20;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// No wildcard.
    Exact(Box<[u8]>),
    /// One `%` between these two parts, which may be empty.
    Around(Box<[u8]>, Box<[u8]>),
    /// The parts between the `%`: the first one begins the string and the last one ends it.
    General(Box<[Part]>),
}

/// The characters between two `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Characters that stand for themselves.
    Text(Box<str>),
    /// Characters, and `None` for any one character.
    Wild(Box<[Option<char>]>),
}

impl Part {
    fn of(items: Vec<Option<char>>) -> Self {
        match items.iter().copied().collect::<Option<String>>() {
            Some(text) => Self::Text(text.into()),
            None => Self::Wild(items.into()),
        }
    }

    /// The string behind it, if the string begins with it.
    fn strip<'a>(&self, subject: &'a str, budget: &mut Budget) -> Option<&'a str> {
        match self {
            Self::Text(text) => {
                budget.pay_for_bytes(text.len());
                subject.strip_prefix(&**text)
            }
            Self::Wild(items) => strip(subject, items, budget),
        }
    }

    /// The string behind its leftmost place.
    fn find<'a>(&self, subject: &'a str, budget: &mut Budget) -> Option<&'a str> {
        match self {
            Self::Text(text) => {
                // The search of the standard library looks at each byte a fixed number of times.
                budget.pay_for_bytes(subject.len());
                subject.find(&**text).map(|at| &subject[at + text.len()..])
            }
            Self::Wild(items) => find(subject, items, budget),
        }
    }

    /// Whether the string ends with it.
    fn is_end(&self, subject: &str, budget: &mut Budget) -> bool {
        match self {
            Self::Text(text) => {
                budget.pay_for_bytes(text.len());
                subject.ends_with(&**text)
            }
            Self::Wild(items) => {
                // It has a fixed number of characters, so there is one place where it can end the string.
                let mut start = subject.len();
                let mut characters = subject.char_indices().rev();
                for _ in &**items {
                    let Some((at, _)) = characters.next() else { return false };
                    start = at;
                }
                strip(&subject[start..], items, budget).is_some()
            }
        }
    }

    /// The most characters that [`Part::find`] compares in a string of so many bytes.
    fn work(&self, bytes: usize) -> usize {
        match self {
            Self::Text(_) => bytes,
            Self::Wild(items) => items.len() * bytes,
        }
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The reason why it can't be used.
    pub(crate) fn compile(pattern: &str, escape: Option<char>) -> Result<Self, &'static str> {
        let mut parts = vec![Vec::new()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let item = match character {
                escaped if Some(escaped) == escape => match characters.next() {
                    Some(character) => Some(character),
                    None => return Err("it ends with the escape character, which must precede another one"),
                },
                '%' => {
                    parts.push(Vec::new());
                    continue;
                }
                '_' => None,
                character => Some(character),
            };
            if item.is_some_and(|character| character < ' ' || character == '\x7f') {
                return Err("it contains a control character; use % or _ in its place");
            }
            parts.last_mut().expect("there is always one").push(item);
        }
        let plain = |part: &[Option<char>]| {
            part.iter().copied().collect::<Option<String>>().map(|text| text.into_bytes().into_boxed_slice())
        };
        let simple = match &parts[..] {
            [only] => plain(only).map(Self::Exact),
            [first, last] => plain(first).zip(plain(last)).map(|(first, last)| Self::Around(first, last)),
            _ => None,
        };
        Ok(simple.unwrap_or_else(|| Self::General(parts.into_iter().map(Part::of).collect())))
    }

    /// Whether a string matches; `None` if that is unknown, because a pattern with several wildcards takes only UTF-8 of
    /// up to 4096 bytes, and less if more than 256 characters with `_` stand between two `%`.
    pub(crate) fn matches(&self, subject: &[u8], budget: &mut Budget) -> Option<bool> {
        Some(match self {
            Self::Exact(text) => {
                budget.pay_for_bytes(text.len());
                subject == &**text
            }
            Self::Around(first, last) => {
                budget.pay_for_bytes(first.len() + last.len());
                subject.strip_prefix(&**first).is_some_and(|rest| rest.ends_with(last))
            }
            Self::General(parts) => {
                if subject.len() > SUBJECT_MAX || parts.iter().any(|part| part.work(subject.len()) > WORK_MAX) {
                    return None;
                }
                budget.pay(subject.len() as u64);
                matches_parts(std::str::from_utf8(subject).ok()?, parts, budget)
            }
        })
    }
}

/// Whether the parts occur in the string one after the other. The leftmost place of a part leaves the most for the parts
/// that follow, so no other place is ever tried.
fn matches_parts(subject: &str, parts: &[Part], budget: &mut Budget) -> bool {
    let [first, between @ ..] = parts else { return false };
    let Some(mut rest) = first.strip(subject, budget) else { return false };
    let Some((last, between)) = between.split_last() else { return rest.is_empty() };
    for part in between {
        match part.find(rest, budget) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    last.is_end(rest, budget)
}

/// The string behind a part at its beginning.
fn strip<'a>(subject: &'a str, part: &[Option<char>], budget: &mut Budget) -> Option<&'a str> {
    let mut characters = subject.chars();
    for (index, item) in part.iter().enumerate() {
        let character = characters.next();
        if character.is_none() || item.is_some() && *item != character {
            budget.pay(index as u64 + 1);
            return None;
        }
    }
    budget.pay(part.len() as u64);
    Some(characters.as_str())
}

/// The string behind the leftmost place of a part.
fn find<'a>(subject: &'a str, part: &[Option<char>], budget: &mut Budget) -> Option<&'a str> {
    let mut rest = subject;
    loop {
        if let Some(after) = strip(rest, part, budget) {
            return Some(after);
        }
        let mut characters = rest.chars();
        characters.next()?;
        rest = characters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, subject: &str) -> bool {
        Pattern::compile(pattern, Some('!')).unwrap().matches(subject.as_bytes(), &mut Budget::new(1)).unwrap()
    }

    #[test]
    fn wildcards_stand_for_characters_not_bytes() {
        assert!(matches("_b_", "äbü"));
        assert!(!matches("__b_", "äbü"));
        assert!(matches("%ü%ä_", "xüyäz"));
        assert!(matches("a%a", "aa") && !matches("a%a", "a"));
        assert!(matches("%a_c%", "abc") && matches("%%", "") && !matches("_%_", "x"));
        assert!(matches("%ab%ab", "abab") && !matches("%ab%ab", "ab") && !matches("%aba%ba", "aba"));
        assert!(matches("a!%!_!!b", "a%_!b"));
        assert!(matches("a%bc%d%e_", "axbcxdxef") && !matches("a%bc%d%e_", "axbcxdxe"));
    }

    #[test]
    fn a_long_part_with_wildcards_takes_short_strings_only() {
        let like = |pattern: &str, subject: &str| {
            Pattern::compile(pattern, None).unwrap().matches(subject.as_bytes(), &mut Budget::new(1))
        };
        let part = format!("%{}_%", "a".repeat(256));
        assert_eq!(like(&part, &"a".repeat(4096)), None, "a million comparisons are enough");
        assert_eq!(like(&part, &"a".repeat(4000)), Some(true));
        assert_eq!(like(&format!("%{}%x", "a".repeat(2000)), &"a".repeat(4096)), Some(false));
    }

    #[test]
    fn a_hostile_pattern_is_paid_for_and_ends() {
        let pattern = Pattern::compile(&"%_a".repeat(1300), None).unwrap();
        let subject = "b".repeat(4096);
        let mut budget = Budget::new(u64::MAX);
        assert_eq!(pattern.matches(subject.as_bytes(), &mut budget), Some(false));
        let pattern = Pattern::compile(&format!("%{}b%", "_".repeat(250)), None).unwrap();
        assert_eq!(pattern.matches("a".repeat(4096).as_bytes(), &mut budget), Some(false));
        let cost = u64::MAX - budget.steps();
        assert!((500_000..5_000_000).contains(&cost), "{cost}");
        assert_eq!(pattern.matches(&[b'a'; 4097], &mut budget), None);
        assert_eq!(pattern.matches(b"\xff", &mut budget), None);
    }
}
