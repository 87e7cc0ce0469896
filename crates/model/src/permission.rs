use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Refused, RegularExpression};

/// A permission pattern: the administrator's text, and its compiled form.
///
/// As in RabbitMQ, the match isn't anchored, and the empty pattern only matches the empty name.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
    compiled: RegularExpression,
}

impl Pattern {
    /// Compiles `text`; `object` and `part` name the pattern in error texts.
    ///
    /// # Errors
    /// As [`RegularExpression::new`].
    pub fn new(text: &str, object: &str, part: &str) -> Result<Self, Refused> {
        Self::with_variables(text, &[], object, part)
    }

    /// Compiles a pattern in which `{name}` of a variable stands for the variable's value, taken literally. Other
    /// words in braces are literal.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn with_variables(text: &str, variables: &[(&str, &str)], object: &str, part: &str) -> Result<Self, Refused> {
        let source = if text.is_empty() { "^$".to_owned() } else { expanded(text, variables) };
        Self::of(text, &source)
            .map_err(|reason| Refused::precondition(format!("invalid {part} pattern '{text}' of {object}: {reason}")))
    }

    /// Compiles a pattern without variables, in which empty text isn't special: it matches every name.
    ///
    /// # Errors
    /// The reason, as in [`Pattern::new`].
    pub(crate) fn plain(text: &str) -> Result<Self, String> {
        Self::of(text, &expanded(text, &[]))
    }

    fn of(text: &str, source: &str) -> Result<Self, String> {
        Ok(Pattern { text: Arc::from(text), compiled: RegularExpression::new(source)? })
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.compiled.matches(name)
    }
}

/// Replaces words in braces; other uses of braces, such as repetitions, are left alone.
fn expanded(text: &str, variables: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, braced) = rest.split_at(at);
        out.push_str(before);
        let word = |end: usize| {
            let word = &braced[1..end];
            let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // `\p{Greek}` is a class of characters.
            let escaped = before.ends_with("\\p") || before.ends_with("\\P") || before.ends_with("\\x");
            (is_word && !escaped).then_some(word)
        };
        let Some((end, word)) = braced.find('}').and_then(|end| Some((end, word(end)?))) else {
            out.push('{');
            rest = &braced[1..];
            continue;
        };
        match variables.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => out.push_str(&regex::escape(value)),
            None => out.push_str(&regex::escape(&braced[..=end])),
        }
        rest = &braced[end + 1..];
    }
    out.push_str(rest);
    out
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        Pattern::new(&text, "a logged permission", "").map_err(serde::de::Error::custom)
    }
}

/// The permissions of a user in one vhost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permission {
    /// The user.
    pub user: Arc<str>,
    /// The vhost.
    pub vhost: Arc<str>,
    /// Pattern of objects that may be declared and deleted.
    pub configure: Pattern,
    /// Pattern of objects that may be published to and bound as destinations.
    pub write: Pattern,
    /// Pattern of objects that may be consumed from and bound as sources.
    pub read: Pattern,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_unanchored_and_the_empty_one_matches_no_name() {
        let pattern = |text| Pattern::new(text, "user 'u' in vhost '/'", "read").unwrap();
        assert!(pattern("b").matches("abc"));
        assert!(!pattern("^b").matches("abc"));
        assert!(pattern("").matches(""));
        assert!(!pattern("").matches("abc"));
    }

    #[test]
    fn look_around_works_and_a_malformed_pattern_is_named() {
        let pattern = Pattern::new(r"^(?!amq\.).*", "user 'u' in vhost '/'", "write").unwrap();
        assert!(pattern.matches("amqp") && !pattern.matches("amq.direct"));
        let refused = Pattern::new("^(?!amq", "user 'u' in vhost '/'", "write").unwrap_err();
        assert!(refused.text.starts_with("invalid write pattern '^(?!amq' of user 'u' in vhost '/': "), "{refused}");
    }
}
