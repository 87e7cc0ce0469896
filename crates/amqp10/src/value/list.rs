//! Lists (1.6.22).

use super::{Value, read_trusted};
use crate::wire::Reader;
use std::fmt;

/// A list, checked when it was decoded. Equality compares the encoded items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListRef<'a> {
    count: u32,
    items: &'a [u8],
}

impl<'a> ListRef<'a> {
    /// The empty list.
    pub const EMPTY: Self = Self { count: 0, items: &[] };

    pub(crate) const fn trusted(count: u32, items: &'a [u8]) -> Self {
        Self { count, items }
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

    /// The encoded items, without size and count.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.items
    }

    /// The items in order.
    #[must_use]
    pub fn iter(&self) -> ListIter<'a> {
        ListIter { reader: Reader::new(self.items), left: self.count }
    }
}

impl fmt::Debug for ListRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for ListRef<'a> {
    type Item = Value<'a>;
    type IntoIter = ListIter<'a>;

    fn into_iter(self) -> ListIter<'a> {
        self.iter()
    }
}

/// Iterates over the items of a [`ListRef`].
#[derive(Debug, Clone)]
pub struct ListIter<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_trusted(&mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}
