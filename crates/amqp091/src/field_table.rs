//! Owned tables, for building arguments and headers.

use crate::wire::{write_long_string, write_short_string, write_with_length};
use crate::{Array, Decimal, Table, Value};

/// An owned value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`
    Decimal(Decimal),
    /// `S`
    LongString(Vec<u8>),
    /// `x`
    Bytes(Vec<u8>),
    /// `A`
    Array(Vec<FieldValue>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`
    Table(FieldTable),
    /// `V`
    Void,
}

impl FieldValue {
    /// Appends type letter and value.
    ///
    /// # Panics
    /// If a key has more than 255 octets or a value has 4 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => fixed(out, b't', [u8::from(*value)]),
            Self::I8(value) => fixed(out, b'b', value.to_be_bytes()),
            Self::U8(value) => fixed(out, b'B', value.to_be_bytes()),
            Self::I16(value) => fixed(out, b's', value.to_be_bytes()),
            Self::U16(value) => fixed(out, b'u', value.to_be_bytes()),
            Self::I32(value) => fixed(out, b'I', value.to_be_bytes()),
            Self::U32(value) => fixed(out, b'i', value.to_be_bytes()),
            Self::I64(value) => fixed(out, b'l', value.to_be_bytes()),
            Self::F32(value) => fixed(out, b'f', value.to_be_bytes()),
            Self::F64(value) => fixed(out, b'd', value.to_be_bytes()),
            Self::Timestamp(value) => fixed(out, b'T', value.to_be_bytes()),
            Self::Void => out.push(b'V'),
            Self::Decimal(value) => {
                fixed(out, b'D', [value.scale]);
                out.extend_from_slice(&value.value.to_be_bytes());
            }
            Self::LongString(bytes) => {
                out.push(b'S');
                write_long_string(out, bytes);
            }
            Self::Bytes(bytes) => {
                out.push(b'x');
                write_long_string(out, bytes);
            }
            Self::Array(values) => {
                out.push(b'A');
                write_with_length(out, |out| values.iter().for_each(|value| value.encode(out)));
            }
            Self::Table(table) => {
                out.push(b'F');
                table.encode(out);
            }
        }
    }

    /// The text of a string (`S`), if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::LongString(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

fn fixed<const N: usize>(out: &mut Vec<u8>, letter: u8, bytes: [u8; N]) {
    out.push(letter);
    out.extend_from_slice(&bytes);
}

impl From<Value<'_>> for FieldValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(value),
            Value::I8(value) => Self::I8(value),
            Value::U8(value) => Self::U8(value),
            Value::I16(value) => Self::I16(value),
            Value::U16(value) => Self::U16(value),
            Value::I32(value) => Self::I32(value),
            Value::U32(value) => Self::U32(value),
            Value::I64(value) => Self::I64(value),
            Value::F32(value) => Self::F32(value),
            Value::F64(value) => Self::F64(value),
            Value::Decimal(value) => Self::Decimal(value),
            Value::LongString(bytes) => Self::LongString(bytes.to_vec()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Array(array) => array.into(),
            Value::Timestamp(value) => Self::Timestamp(value),
            Value::Table(table) => Self::Table(table.into()),
            Value::Void => Self::Void,
        }
    }
}

impl From<Array<'_>> for FieldValue {
    fn from(array: Array<'_>) -> Self {
        Self::Array(array.iter().map(Self::from).collect())
    }
}

macro_rules! from_plain {
    ($($type:ty => $variant:ident,)*) => {
        $(impl From<$type> for FieldValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from_plain! {
    bool => Bool,
    i8 => I8,
    u8 => U8,
    i16 => I16,
    u16 => U16,
    i32 => I32,
    u32 => U32,
    i64 => I64,
    f32 => F32,
    f64 => F64,
    &str => LongString,
    String => LongString,
    FieldTable => Table,
    Vec<FieldValue> => Array,
}

/// An owned table that keeps the order of insertion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldTable {
    pairs: Vec<(Vec<u8>, FieldValue)>,
}

impl FieldTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key`; an existing key keeps its place.
    pub fn insert(&mut self, key: impl AsRef<[u8]>, value: impl Into<FieldValue>) -> &mut Self {
        let key = key.as_ref();
        let value = value.into();
        match self.pairs.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((key.to_vec(), value)),
        }
        self
    }

    /// As [`insert`](Self::insert), for method chains.
    #[must_use]
    pub fn with(mut self, key: impl AsRef<[u8]>, value: impl Into<FieldValue>) -> Self {
        self.insert(key, value);
        self
    }

    /// The first value under `key`.
    #[must_use]
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Option<&FieldValue> {
        let key = key.as_ref();
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &FieldValue)> {
        self.pairs.iter().map(|(key, value)| (key.as_slice(), value))
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Appends the table as a field: its length, then its pairs.
    ///
    /// # Panics
    /// If a key has more than 255 octets or a value has 4 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_with_length(out, |out| self.encode_pairs(out));
    }

    /// The encoded table, which a [`Table`] can borrow.
    ///
    /// # Panics
    /// As [`encode`](Self::encode).
    #[must_use]
    pub fn encoded(&self) -> EncodedTable {
        let mut bytes = Vec::new();
        self.encode_pairs(&mut bytes);
        EncodedTable { bytes }
    }

    fn encode_pairs(&self, out: &mut Vec<u8>) {
        for (key, value) in &self.pairs {
            write_short_string(out, key);
            value.encode(out);
        }
    }
}

impl FromIterator<(Vec<u8>, FieldValue)> for FieldTable {
    /// Keeps repeated keys.
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, FieldValue)>>(pairs: I) -> Self {
        Self { pairs: pairs.into_iter().collect() }
    }
}

impl From<Table<'_>> for FieldTable {
    /// Keeps repeated keys, as RabbitMQ does.
    fn from(table: Table<'_>) -> Self {
        Self { pairs: table.iter().map(|(key, value)| (key.to_vec(), value.into())).collect() }
    }
}

/// An encoded [`FieldTable`], to be borrowed by methods and properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncodedTable {
    bytes: Vec<u8>,
}

impl EncodedTable {
    /// The table in the form used by methods.
    #[must_use]
    pub fn as_table(&self) -> Table<'_> {
        Table::trusted(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldTable, FieldValue};

    #[test]
    fn insertion_keeps_its_place() {
        let mut table = FieldTable::new().with("a", 1).with("b", "text");
        table.insert("a", true);
        assert_eq!(table.len(), 2);
        assert_eq!(table.lookup("a"), Some(&FieldValue::Bool(true)));
        assert_eq!(table.encoded().as_table().as_bytes(), b"\x01at\x01\x01bS\0\0\0\x04text");
    }
}
