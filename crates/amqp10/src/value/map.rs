//! Maps (1.6.23).

use super::{Value, read_trusted};
use crate::wire::Reader;
use std::fmt;

/// A map, checked when it was decoded. Keeps the order of pairs, which matters for its identity, and repeated keys.
/// Equality compares the encoded items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MapRef<'a> {
    /// Number of keys and values together.
    count: u32,
    items: &'a [u8],
}

impl<'a> MapRef<'a> {
    /// The empty map.
    pub const EMPTY: Self = Self { count: 0, items: &[] };

    pub(crate) const fn trusted(count: u32, items: &'a [u8]) -> Self {
        Self { count, items }
    }

    /// Number of pairs.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize / 2
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded keys and values, without size and count.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.items
    }

    /// The value of the first key with this text, as a string or symbol.
    #[must_use]
    pub fn lookup(&self, key: &str) -> Option<Value<'a>> {
        self.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    }

    /// The pairs in order.
    #[must_use]
    pub fn iter(&self) -> MapIter<'a> {
        MapIter { reader: Reader::new(self.items), left: self.count / 2 }
    }
}

impl fmt::Debug for MapRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for MapRef<'a> {
    type Item = (Value<'a>, Value<'a>);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

/// Iterates over the pairs of a [`MapRef`].
#[derive(Debug, Clone)]
pub struct MapIter<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> MapIter<'a> {
    /// The next pair's key, and the encoded bytes of key and value.
    pub fn next_raw(&mut self) -> Option<(Value<'a>, &'a [u8])> {
        let start = self.reader;
        let (key, _) = self.next()?;
        Some((key, self.reader.taken_since(&start)))
    }
}

impl<'a> Iterator for MapIter<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = read_trusted(&mut self.reader).ok()?;
        Some((key, read_trusted(&mut self.reader).ok()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}
