//! Symbols (1.6.21) and fields with several of them (`multiple="true"`, 1.4).

use crate::value::{ArrayRef, Value};
use std::fmt;

/// A symbolic value: ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Symbol<'a>(&'a str);

impl<'a> Symbol<'a> {
    /// A symbol of this text.
    ///
    /// # Panics
    /// If `text` isn't ASCII.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        assert!(text.is_ascii(), "a symbol is ASCII");
        Self(text)
    }

    /// A symbol of this text, if it is ASCII.
    #[must_use]
    pub const fn checked(text: &'a str) -> Option<Self> {
        if text.is_ascii() { Some(Self(text)) } else { None }
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Debug for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.0)
    }
}

impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl PartialEq<str> for Symbol<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Symbol<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// The value of a field with `multiple="true"`: no symbol, one, or an array of them.
#[derive(Clone, Copy, Default)]
pub struct Symbols<'a>(Repr<'a>);

#[derive(Clone, Copy, Default)]
enum Repr<'a> {
    #[default]
    None,
    One(Symbol<'a>),
    Slice(&'a [Symbol<'a>]),
    Array(ArrayRef<'a>),
}

impl<'a> Symbols<'a> {
    /// No symbol: the field is null.
    pub const NONE: Self = Self(Repr::None);

    /// The symbols of a slice.
    #[must_use]
    pub const fn of(symbols: &'a [Symbol<'a>]) -> Self {
        Self(Repr::Slice(symbols))
    }

    /// A single symbol.
    #[must_use]
    pub const fn one(symbol: Symbol<'a>) -> Self {
        Self(Repr::One(symbol))
    }

    /// An array that was checked to hold symbols.
    pub(crate) fn trusted(array: ArrayRef<'a>) -> Self {
        Self(Repr::Array(array))
    }

    /// The symbols in order.
    pub fn iter(self) -> impl Iterator<Item = Symbol<'a>> + Clone {
        let (one, slice, array) = match self.0 {
            Repr::None => (None, &[][..], None),
            Repr::One(symbol) => (Some(symbol), &[][..], None),
            Repr::Slice(slice) => (None, slice, None),
            Repr::Array(array) => (None, &[][..], Some(array)),
        };
        one.into_iter().chain(slice.iter().copied()).chain(array.into_iter().flat_map(|array| array.iter()).filter_map(
            |value| match value {
                Value::Symbol(symbol) => Some(symbol),
                _ => None,
            },
        ))
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0 {
            Repr::None => 0,
            Repr::One(_) => 1,
            Repr::Slice(slice) => slice.len(),
            Repr::Array(array) => array.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `text` is among them.
    #[must_use]
    pub fn contains(self, text: &str) -> bool {
        self.iter().any(|symbol| symbol == text)
    }
}

impl<'a> From<&'a [Symbol<'a>]> for Symbols<'a> {
    fn from(symbols: &'a [Symbol<'a>]) -> Self {
        Self::of(symbols)
    }
}

impl PartialEq for Symbols<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Symbols<'_> {}

impl fmt::Debug for Symbols<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
