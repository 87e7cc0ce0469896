//! Short strings: up to 255 octets (4.2.5.3).

use std::fmt;
use std::ops::Deref;

/// A string of at most 255 octets. Any octets are allowed: RabbitMQ accepts binary routing keys and names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShortStr<'a>(&'a [u8]);

/// The error for a string that is longer than 255 octets; it holds the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("short string of {0} octets; the limit is 255")]
pub struct TooLong(pub usize);

impl<'a> ShortStr<'a> {
    /// The empty string.
    pub const EMPTY: Self = Self(b"");

    /// Maximum length in octets.
    pub const LENGTH_MAX: usize = 255;

    /// Wraps `bytes`.
    ///
    /// # Errors
    /// [`TooLong`] if `bytes` has more than 255.
    pub const fn new(bytes: &'a [u8]) -> Result<Self, TooLong> {
        if bytes.len() > Self::LENGTH_MAX { Err(TooLong(bytes.len())) } else { Ok(Self(bytes)) }
    }

    /// Wraps a string known to be short, such as a literal.
    ///
    /// # Panics
    /// If it has more than 255 octets.
    #[must_use]
    pub const fn literal(text: &'a str) -> Self {
        match Self::new(text.as_bytes()) {
            Ok(short) => short,
            Err(_) => panic!("a literal short string has at most 255 octets"),
        }
    }

    /// Wraps `text`. A text that is too long is truncated between characters. Reply texts use this.
    #[must_use]
    pub fn truncated(text: &'a str) -> Self {
        let mut end = text.len().min(Self::LENGTH_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(&text.as_bytes()[..end])
    }

    /// Wraps `bytes` without a check. The decoder uses it, because a length octet can't exceed 255.
    pub(crate) fn trusted(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() <= Self::LENGTH_MAX);
        Self(bytes)
    }

    /// The octets.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The text, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

impl Deref for ShortStr<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl AsRef<[u8]> for ShortStr<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl fmt::Debug for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.0), f)
    }
}

impl fmt::Display for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}

impl<'a> TryFrom<&'a [u8]> for ShortStr<'a> {
    type Error = TooLong;

    fn try_from(bytes: &'a [u8]) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl<'a> TryFrom<&'a str> for ShortStr<'a> {
    type Error = TooLong;

    fn try_from(text: &'a str) -> Result<Self, TooLong> {
        Self::new(text.as_bytes())
    }
}

impl PartialEq<str> for ShortStr<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for ShortStr<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{ShortStr, TooLong};

    #[test]
    fn takes_255_octets_and_no_more() {
        assert!(ShortStr::new(&[0xFF; 255]).is_ok());
        assert_eq!(ShortStr::new(&[0; 256]), Err(TooLong(256)));
        assert_eq!(ShortStr::new(&[0xFF]).unwrap().as_str(), None);
        assert_eq!(ShortStr::literal("a"), "a");
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        let text = "ä".repeat(200);
        let short = ShortStr::truncated(&text);
        assert_eq!(short.len(), 254);
        assert!(short.as_str().is_some());
    }
}
