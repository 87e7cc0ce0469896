//! Encoded field tables (4.2.5.5).

use crate::value::read_pair;
use crate::wire::Reader;
use crate::{DecodeError, ShortStr, Value};

/// Deepest accepted nesting of tables and arrays, including the outermost table.
pub const DEPTH_MAX: u32 = 32;

/// An encoded field table, checked once, so that iterating can't fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Table<'a> {
    bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The empty table.
    pub const EMPTY: Self = Self { bytes: b"" };

    /// Checks the encoded pairs of a table (without the length prefix).
    ///
    /// # Errors
    /// If a length doesn't fit, a type letter is unknown, or tables are nested deeper than [`DEPTH_MAX`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        check_values(bytes, true, DEPTH_MAX)?;
        Ok(Self { bytes })
    }

    /// Wraps bytes that were checked or encoded by this crate.
    pub(crate) fn trusted(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The encoded pairs, without the length prefix.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it has no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The pairs, in the order received. A key may occur more than once.
    #[must_use]
    pub fn iter(&self) -> TableIter<'a> {
        TableIter { reader: Reader::new(self.bytes) }
    }

    /// The first value under `key`.
    #[must_use]
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Option<Value<'a>> {
        let (key, mut reader) = (key.as_ref(), Reader::new(self.bytes));
        while !reader.is_empty() {
            if reader.short_string().ok()?.as_bytes() == key {
                return Value::read_trusted(&mut reader);
            }
            Value::skip_trusted(&mut reader)?;
        }
        None
    }
}

impl<'a> IntoIterator for Table<'a> {
    type Item = (ShortStr<'a>, Value<'a>);
    type IntoIter = TableIter<'a>;

    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
}

/// Iterates over the pairs of a [`Table`].
#[derive(Debug, Clone)]
pub struct TableIter<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for TableIter<'a> {
    type Item = (ShortStr<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        read_pair(&mut self.reader)
    }
}

/// Checks the values of a table (`keyed`) or array. Recursion ends at `depth_left` levels.
pub(crate) fn check_values(bytes: &[u8], keyed: bool, depth_left: u32) -> Result<(), DecodeError> {
    if depth_left == 0 {
        return Err(DecodeError::TableDepth { limit: DEPTH_MAX });
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        if keyed {
            reader.short_string()?;
        }
        Value::read(&mut reader, depth_left - 1)?;
    }
    Ok(())
}
