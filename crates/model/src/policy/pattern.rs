use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::term;
use crate::permission::Pattern;

/// Most bytes of a pattern, as in RabbitMQ.
const PATTERN_BYTES_MAX: usize = 1024;

/// The pattern of a policy. As in RabbitMQ, the match isn't anchored, and the empty pattern matches every name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamePattern(Pattern);

impl NamePattern {
    /// Compiles the pattern.
    ///
    /// # Errors
    /// In RabbitMQ's words: it isn't a text, is too long, or isn't taken by
    /// [`crate::RegularExpression::new`].
    pub(super) fn parse(given: &Value) -> Result<Self, String> {
        let Value::String(text) = given else {
            return Err(format!("pattern should be a binary but was {}", term::of(given)));
        };
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("pattern must not exceed {PATTERN_BYTES_MAX} bytes"));
        }
        Pattern::plain(text).map(NamePattern).map_err(|reason| {
            format!("pattern should be regular expression but is invalid: {reason}; received '{text}'")
        })
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the pattern matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

impl<'de> Deserialize<'de> for NamePattern {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        NamePattern::parse(&Value::String(String::deserialize(input)?)).map_err(serde::de::Error::custom)
    }
}
