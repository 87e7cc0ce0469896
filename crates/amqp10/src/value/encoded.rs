//! Encoded values and maps that own their bytes.

use super::{MapRef, OwnedValue, Value, Walk, write_symbol};
use crate::DecodeError;
use crate::wire::Reader;
use std::fmt;

/// An encoded value, which a [`Value`] can borrow.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedValue {
    bytes: Vec<u8>,
}

impl EncodedValue {
    /// The value, borrowed from here.
    #[must_use]
    pub fn as_value(&self) -> Value<'_> {
        super::read_trusted(&mut Reader::new(&self.bytes)).unwrap_or(Value::Null)
    }

    /// The encoding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Value<'_>> for EncodedValue {
    fn from(value: Value<'_>) -> Self {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        Self { bytes }
    }
}

impl From<&OwnedValue> for EncodedValue {
    fn from(value: &OwnedValue) -> Self {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        Self { bytes }
    }
}

impl fmt::Debug for EncodedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_value().fmt(f)
    }
}

/// A map built in encoded form, which a [`MapRef`] can borrow: annotations, properties, filters.
///
/// Pairs of other maps are copied as they are encoded. To avoid allocations, reuse a map with [`clear`](Self::clear).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EncodedMap {
    count: u32,
    items: Vec<u8>,
}

impl EncodedMap {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all pairs and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.items.clear();
    }

    /// Appends a pair with a symbol as key, as in annotations and `fields`.
    ///
    /// # Panics
    /// If `key` isn't ASCII.
    pub fn push_symbol<'a>(&mut self, key: &str, value: impl Into<Value<'a>>) -> &mut Self {
        assert!(key.is_ascii(), "a symbol is ASCII");
        write_symbol(&mut self.items, key);
        value.into().encode(&mut self.items);
        self.count += 2;
        self
    }

    /// Appends a pair.
    pub fn push<'k, 'v>(&mut self, key: impl Into<Value<'k>>, value: impl Into<Value<'v>>) -> &mut Self {
        key.into().encode(&mut self.items);
        value.into().encode(&mut self.items);
        self.count += 2;
        self
    }

    /// Appends a pair with an owned value.
    pub fn push_owned<'k>(&mut self, key: impl Into<Value<'k>>, value: &OwnedValue) -> &mut Self {
        key.into().encode(&mut self.items);
        value.encode(&mut self.items);
        self.count += 2;
        self
    }

    /// As [`push_symbol`](Self::push_symbol), for method chains.
    #[must_use]
    pub fn with<'a>(mut self, key: &str, value: impl Into<Value<'a>>) -> Self {
        self.push_symbol(key, value);
        self
    }

    /// Appends all pairs of `map` as they are encoded.
    pub fn extend(&mut self, map: MapRef<'_>) -> &mut Self {
        self.items.extend_from_slice(map.as_bytes());
        self.count += map.len() as u32 * 2;
        self
    }

    /// Appends the pairs of `map` whose key satisfies `keep`, as they are encoded.
    pub fn extend_where(&mut self, map: MapRef<'_>, mut keep: impl FnMut(&Value<'_>) -> bool) -> &mut Self {
        let mut pairs = map.iter();
        while let Some((key, raw)) = pairs.next_raw() {
            if keep(&key) {
                self.items.extend_from_slice(raw);
                self.count += 2;
            }
        }
        self
    }

    /// Appends `pairs` encoded pairs.
    ///
    /// # Errors
    /// If `items` isn't exactly that many keys and values.
    pub fn extend_encoded(&mut self, pairs: u32, items: &[u8]) -> Result<&mut Self, DecodeError> {
        let problem = |problem| DecodeError::Value { place: "map", problem };
        let mut reader = Reader::new(items);
        let mut walk = Walk::new();
        for _ in 0..u64::from(pairs) * 2 {
            walk.value(&mut reader).map_err(problem)?;
        }
        if !reader.is_empty() {
            return Err(DecodeError::TrailingBytes { place: "map", count: crate::wire::saturate(reader.len()) });
        }
        self.items.extend_from_slice(items);
        self.count += pairs * 2;
        Ok(self)
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize / 2
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The map, borrowed from here.
    #[must_use]
    pub fn as_map(&self) -> MapRef<'_> {
        MapRef::trusted(self.count, &self.items)
    }
}

impl fmt::Debug for EncodedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_map().fmt(f)
    }
}
