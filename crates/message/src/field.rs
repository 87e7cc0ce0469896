//! Values of AMQP 0-9-1 field tables (specification 4.2.5.5), readable without the codec.

use leveret_amqp091 as amqp091;

/// A value that borrows from the stored bytes and is decoded when it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    /// A name without a value.
    Void,
    /// A boolean.
    Bool(bool),
    /// An integer of any width.
    Integer(i64),
    /// A float or double.
    Double(f64),
    /// A decimal.
    Decimal {
        /// Number of digits after the decimal point.
        scale: u8,
        /// The digits as a signed number.
        unscaled: i32,
    },
    /// A time in seconds since the Unix epoch.
    Timestamp(u64),
    /// A long string.
    String(&'a [u8]),
    /// A byte array.
    Bytes(&'a [u8]),
    /// Values in order.
    Array(Array<'a>),
    /// Named values.
    Table(Fields<'a>),
}

/// The values of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a>(amqp091::Array<'a>);

/// The named values of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fields<'a>(amqp091::Table<'a>);

impl<'a> Array<'a> {
    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        self.0.iter().map(Field::from)
    }
}

impl<'a> Fields<'a> {
    /// Names, which may be any bytes, and values in the publisher's order. A name may occur twice.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Field<'a>)> + use<'a> {
        self.0.iter().map(|(name, value)| (name.as_bytes(), Field::from(value)))
    }
}

impl<'a> From<amqp091::Value<'a>> for Field<'a> {
    fn from(value: amqp091::Value<'a>) -> Self {
        use amqp091::Value;
        match value {
            Value::Void => Self::Void,
            Value::Bool(value) => Self::Bool(value),
            Value::F64(value) => Self::Double(value),
            Value::F32(value) => Self::Double(value.into()),
            Value::Decimal(value) => Self::Decimal { scale: value.scale, unscaled: value.value.cast_signed() },
            Value::Timestamp(seconds) => Self::Timestamp(seconds),
            Value::LongString(bytes) => Self::String(bytes),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Array(array) => Self::Array(Array(array)),
            Value::Table(table) => Self::Table(Fields(table)),
            Value::I8(value) => Self::Integer(value.into()),
            Value::U8(value) => Self::Integer(value.into()),
            Value::I16(value) => Self::Integer(value.into()),
            Value::U16(value) => Self::Integer(value.into()),
            Value::I32(value) => Self::Integer(value.into()),
            Value::U32(value) => Self::Integer(value.into()),
            Value::I64(value) => Self::Integer(value),
        }
    }
}
