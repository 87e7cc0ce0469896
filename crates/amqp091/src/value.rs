//! Field values in RabbitMQ's dialect, whose type letters differ from 4.2.1 of the specification, see
//! <https://www.rabbitmq.com/amqp-0-9-1-errata>, section 3.

use crate::table::check_values;
use crate::wire::Reader;
use crate::{DecodeError, ShortStr, Table};

/// A decimal: `value` divided by ten to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Decimal {
    /// Number of digits after the decimal point.
    pub scale: u8,
    /// The digits, unsigned as RabbitMQ reads them.
    pub value: u32,
}

/// A value in a table or array. The letter is the type octet on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`: a 16-bit integer, not the specification's short string.
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`, and `L`, which RabbitMQ reads as signed too.
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`
    Decimal(Decimal),
    /// `S`: any octets, usually UTF-8.
    LongString(&'a [u8]),
    /// `x`
    Bytes(&'a [u8]),
    /// `A`
    Array(Array<'a>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`
    Table(Table<'a>),
    /// `V`
    Void,
}

impl<'a> Value<'a> {
    /// The text of a string (`S`) that is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Self::LongString(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value of any integer type, or of a timestamp if it fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(value) => Some(value.into()),
            Self::U8(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::I64(value) => Some(value),
            Self::Timestamp(value) => i64::try_from(value).ok(),
            _ => None,
        }
    }

    /// The value of a bool.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// RabbitMQ's name of the type in error texts ("longstr", "signedint").
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal(_) => "decimal",
            Self::LongString(_) => "longstr",
            Self::Bytes(_) => "binary",
            Self::Array(_) => "array",
            Self::Timestamp(_) => "timestamp",
            Self::Table(_) => "table",
            Self::Void => "void",
        }
    }

    /// Reads type letter and value; checks nested tables and arrays down to `depth_left` levels.
    pub(crate) fn read(reader: &mut Reader<'a>, depth_left: u32) -> Result<Self, DecodeError> {
        let letter = reader.octet()?;
        Ok(match letter {
            b'S' => Self::LongString(reader.long_string()?),
            b't' => Self::Bool(reader.octet()? != 0),
            b'I' => Self::I32(reader.long()?.cast_signed()),
            b'i' => Self::U32(reader.long()?),
            b'l' | b'L' => Self::I64(reader.longlong()?.cast_signed()),
            b'b' => Self::I8(reader.octet()?.cast_signed()),
            b'B' => Self::U8(reader.octet()?),
            b's' => Self::I16(reader.short()?.cast_signed()),
            b'u' => Self::U16(reader.short()?),
            b'f' => Self::F32(f32::from_bits(reader.long()?)),
            b'd' => Self::F64(f64::from_bits(reader.longlong()?)),
            b'D' => Self::Decimal(Decimal { scale: reader.octet()?, value: reader.long()? }),
            b'T' => Self::Timestamp(reader.longlong()?),
            b'x' => Self::Bytes(reader.long_string()?),
            b'V' => Self::Void,
            b'F' => {
                let bytes = reader.long_string()?;
                check_values(bytes, true, depth_left)?;
                Self::Table(Table::trusted(bytes))
            }
            b'A' => {
                let bytes = reader.long_string()?;
                check_values(bytes, false, depth_left)?;
                Self::Array(Array { bytes })
            }
            received => return Err(DecodeError::FieldType { received }),
        })
    }

    /// Reads a value out of checked bytes; nested values aren't checked again.
    pub(crate) fn read_trusted(reader: &mut Reader<'a>) -> Option<Self> {
        let mut probe = *reader;
        let value = match probe.octet().ok()? {
            b'F' => Self::Table(Table::trusted(probe.long_string().ok()?)),
            b'A' => Self::Array(Array { bytes: probe.long_string().ok()? }),
            _ => return Self::read(reader, 0).ok(),
        };
        *reader = probe;
        Some(value)
    }

    /// Passes over a value of checked bytes.
    #[inline]
    pub(crate) fn skip_trusted(reader: &mut Reader<'a>) -> Option<()> {
        let length = match reader.octet().ok()? {
            b'S' | b'x' | b'F' | b'A' => return reader.long_string().ok().map(drop),
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'l' | b'L' | b'd' | b'T' => 8,
            _ => return None,
        };
        reader.skip(length)
    }
}

/// An array of values, checked when it was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Array<'a> {
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The encoded values, without the length prefix.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The values in order.
    #[must_use]
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter { reader: Reader::new(self.bytes) }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = ArrayIter<'a>;

    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

/// Iterates over the values of an [`Array`].
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.reader.is_empty() { None } else { Value::read_trusted(&mut self.reader) }
    }
}

/// Reads a key and its value out of checked bytes.
pub(crate) fn read_pair<'a>(reader: &mut Reader<'a>) -> Option<(ShortStr<'a>, Value<'a>)> {
    if reader.is_empty() {
        return None;
    }
    let key = reader.short_string().ok()?;
    Some((key, Value::read_trusted(reader)?))
}
