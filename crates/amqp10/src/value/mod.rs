//! The type system (part 1): every primitive, described values, and lists, maps and arrays that are iterated without
//! being copied.

mod array;
pub(crate) mod code;
mod described;
mod encode;
mod encoded;
mod list;
mod map;
mod owned;
mod read;
mod walk;

pub use array::{ArrayIter, ArrayRef};
pub use described::{Described, Descriptor};
pub(crate) use encode::{write_binary, write_compound_header, write_symbol, write_ulong};
pub use encoded::{EncodedMap, EncodedValue};
pub use list::{ListIter, ListRef};
pub use map::{MapIter, MapRef};
pub use owned::{OwnedArray, OwnedDescribed, OwnedDescriptor, OwnedMap, OwnedValue};
pub(crate) use read::{read_constructor, read_data, read_descriptor, read_trusted, skip};
pub(crate) use walk::Walk;
pub use walk::{DEPTH_MAX, ZERO_WIDTH_ITEMS_MAX};

use crate::wire::{Reader, saturate};
use crate::{DecodeError, Symbol};

/// Any value, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `boolean`
    Bool(bool),
    /// `ubyte`
    Ubyte(u8),
    /// `ushort`
    Ushort(u16),
    /// `uint`
    Uint(u32),
    /// `ulong`
    Ulong(u64),
    /// `byte`
    Byte(i8),
    /// `short`
    Short(i16),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal32`, as encoded.
    Decimal32([u8; 4]),
    /// `decimal64`, as encoded.
    Decimal64([u8; 8]),
    /// `decimal128`, as encoded.
    Decimal128([u8; 16]),
    /// `char`
    Char(char),
    /// `timestamp`: milliseconds since 1970.
    Timestamp(i64),
    /// `uuid`
    Uuid([u8; 16]),
    /// `binary`
    Binary(&'a [u8]),
    /// `string`
    String(&'a str),
    /// `symbol`
    Symbol(Symbol<'a>),
    /// `list`
    List(ListRef<'a>),
    /// `map`
    Map(MapRef<'a>),
    /// `array`
    Array(ArrayRef<'a>),
    /// A value with a descriptor.
    Described(Described<'a>),
}

impl<'a> Value<'a> {
    /// Decodes the first value of `input`. Also returns the bytes after it.
    ///
    /// # Errors
    /// If it or a nested value is malformed, or exceeds [`DEPTH_MAX`] or [`ZERO_WIDTH_ITEMS_MAX`].
    pub fn decode(input: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let problem = |problem| DecodeError::Value { place: "value", problem };
        let mut reader = Reader::new(input);
        let mut probe = reader;
        Walk::new().value(&mut probe).map_err(problem)?;
        let value = read_trusted(&mut reader).map_err(problem)?;
        Ok((value, reader.rest()))
    }

    /// Decodes `input`, which has to be a single value.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), or if more bytes follow.
    pub fn decode_all(input: &'a [u8]) -> Result<Self, DecodeError> {
        let (value, rest) = Self::decode(input)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(DecodeError::TrailingBytes { place: "value", count: saturate(rest.len()) })
        }
    }

    /// The text of a string or symbol.
    #[must_use]
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            _ => None,
        }
    }

    /// The value of any integer type or timestamp that isn't negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ubyte(number) => Some(number.into()),
            Self::Ushort(number) => Some(number.into()),
            Self::Uint(number) => Some(number.into()),
            Self::Ulong(number) => Some(number),
            _ => self.as_i64().and_then(|number| u64::try_from(number).ok()),
        }
    }

    /// The value of any integer type or timestamp that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Ubyte(number) => Some(number.into()),
            Self::Ushort(number) => Some(number.into()),
            Self::Uint(number) => Some(number.into()),
            Self::Ulong(number) => i64::try_from(number).ok(),
            Self::Byte(number) => Some(number.into()),
            Self::Short(number) => Some(number.into()),
            Self::Int(number) => Some(number.into()),
            Self::Long(number) | Self::Timestamp(number) => Some(number),
            _ => None,
        }
    }

    /// The value of a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The specification's name of its type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Ubyte(_) => "ubyte",
            Self::Ushort(_) => "ushort",
            Self::Uint(_) => "uint",
            Self::Ulong(_) => "ulong",
            Self::Byte(_) => "byte",
            Self::Short(_) => "short",
            Self::Int(_) => "int",
            Self::Long(_) => "long",
            Self::Float(_) => "float",
            Self::Double(_) => "double",
            Self::Decimal32(_) => "decimal32",
            Self::Decimal64(_) => "decimal64",
            Self::Decimal128(_) => "decimal128",
            Self::Char(_) => "char",
            Self::Timestamp(_) => "timestamp",
            Self::Uuid(_) => "uuid",
            Self::Binary(_) => "binary",
            Self::String(_) => "string",
            Self::Symbol(_) => "symbol",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Array(_) => "array",
            Self::Described(_) => "described",
        }
    }
}

macro_rules! from_plain {
    ($($type:ty => $variant:ident,)*) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

from_plain! {
    bool => Bool,
    u8 => Ubyte,
    u16 => Ushort,
    u32 => Uint,
    u64 => Ulong,
    i8 => Byte,
    i16 => Short,
    i32 => Int,
    i64 => Long,
    f32 => Float,
    f64 => Double,
    char => Char,
    &'a [u8] => Binary,
    &'a str => String,
    Symbol<'a> => Symbol,
    ListRef<'a> => List,
    MapRef<'a> => Map,
    ArrayRef<'a> => Array,
    Described<'a> => Described,
}
