//! Arrays (1.6.24): values that share one constructor.

use super::{Value, read_data};
use crate::wire::Reader;
use std::fmt;

/// An array, checked when it was decoded. Equality compares constructor and encoded items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ArrayRef<'a> {
    constructor: &'a [u8],
    code: u8,
    count: u32,
    items: &'a [u8],
}

impl<'a> ArrayRef<'a> {
    pub(crate) const fn trusted(constructor: &'a [u8], code: u8, count: u32, items: &'a [u8]) -> Self {
        Self { constructor, code, count, items }
    }

    /// Number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The constructor of every item, including descriptors.
    #[must_use]
    pub const fn constructor(&self) -> &'a [u8] {
        self.constructor
    }

    /// The encoded items, each without its constructor.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.items
    }

    /// The primitive constructor after the descriptors.
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The items in order.
    #[must_use]
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter { constructor: self.constructor, code: self.code, reader: Reader::new(self.items), left: self.count }
    }
}

impl fmt::Debug for ArrayRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("@")?;
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for ArrayRef<'a> {
    type Item = Value<'a>;
    type IntoIter = ArrayIter<'a>;

    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

/// Iterates over the items of an [`ArrayRef`].
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    constructor: &'a [u8],
    code: u8,
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_data(self.constructor, self.code, &mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}
