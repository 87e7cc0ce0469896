//! Reasons why an expression can't be compiled.

use crate::{CHARACTERS_MAX, TOKENS_MAX};

/// An expression that can't be compiled: the reason, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at character {at})")]
pub struct ParseError {
    /// The reason.
    pub kind: ParseErrorKind,
    /// The character at which the fault begins, counted from 1; one more than there are if something is missing at the
    /// end.
    pub at: usize,
}

/// The reason why an expression can't be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// It has too many characters.
    #[error("the expression has {characters} characters; shorten it to {CHARACTERS_MAX}")]
    TooLong {
        /// The number of characters.
        characters: usize,
    },
    /// It has too many tokens.
    #[error("the expression has more than {TOKENS_MAX} tokens; split it between several consumers or shorten it")]
    TooManyTokens,
    /// A token or the end of the expression is in the wrong place.
    #[error("found {found} where {expected} was expected")]
    Unexpected {
        /// The token.
        found: String,
        /// The tokens that are allowed here.
        expected: &'static str,
    },
    /// A character begins no token.
    #[error("unexpected character {character:?}; {hint}")]
    Character {
        /// The character.
        character: char,
        /// The remedy.
        hint: &'static str,
    },
    /// A string or a name in brackets has no end.
    #[error("the end of the {what} is missing; add {end}")]
    Unterminated {
        /// The token.
        what: &'static str,
        /// Its last character.
        end: char,
    },
    /// A number is too large.
    #[error("the number {number} is out of range; {hint}")]
    Number {
        /// The number.
        number: String,
        /// The remedy.
        hint: &'static str,
    },
    /// An identifier is a reserved word.
    #[error("{word} is a reserved word; {hint}")]
    Reserved {
        /// The word.
        word: String,
        /// The remedy.
        hint: &'static str,
    },
    /// There is no field of this name.
    #[error("there is no field {name}; {hint}")]
    Field {
        /// The name.
        name: String,
        /// The remedy.
        hint: &'static str,
    },
    /// The pattern or escape character of a `LIKE` can't be used.
    #[error("the LIKE pattern can't be used: {0}")]
    Pattern(&'static str),
}
