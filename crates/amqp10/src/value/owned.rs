//! Owned values, for building and keeping them.

use super::{ArrayRef, Described, Descriptor, EncodedValue, MapRef, Value, code};
use super::{write_compound_header, write_symbol, write_ulong};

/// A value that owns its bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedValue {
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
    Binary(Vec<u8>),
    /// `string`
    String(String),
    /// `symbol`: ASCII.
    Symbol(String),
    /// `list`
    List(Vec<OwnedValue>),
    /// `map`
    Map(OwnedMap),
    /// `array`
    Array(OwnedArray),
    /// A value with a descriptor.
    Described(Box<OwnedDescribed>),
}

/// A descriptor that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedDescriptor {
    /// A number.
    Code(u64),
    /// A name: ASCII.
    Symbol(String),
}

/// A described value that owns its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedDescribed {
    /// Its descriptor.
    pub descriptor: OwnedDescriptor,
    /// The described value.
    pub value: OwnedValue,
}

/// A map that owns its bytes and keeps the order of insertion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedMap(pub Vec<(OwnedValue, OwnedValue)>);

impl OwnedMap {
    /// The value of the first key with this text, as a string or symbol.
    #[must_use]
    pub fn lookup(&self, key: &str) -> Option<&OwnedValue> {
        self.0.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    }

    /// Appends a pair.
    pub fn push(&mut self, key: impl Into<OwnedValue>, value: impl Into<OwnedValue>) -> &mut Self {
        self.0.push((key.into(), value.into()));
        self
    }
}

impl From<MapRef<'_>> for OwnedMap {
    fn from(map: MapRef<'_>) -> Self {
        Self(map.iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// An array that owns its bytes: values of one type, with the same descriptors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedArray(Vec<OwnedValue>);

impl OwnedArray {
    /// An array of these items; `None` if their types or descriptors differ.
    #[must_use]
    pub fn new(items: Vec<OwnedValue>) -> Option<Self> {
        let same = items.windows(2).all(|pair| same_type(&pair[0], &pair[1]));
        same.then_some(Self(items))
    }

    /// The items in order.
    #[must_use]
    pub fn items(&self) -> &[OwnedValue] {
        &self.0
    }
}

impl From<ArrayRef<'_>> for OwnedArray {
    fn from(array: ArrayRef<'_>) -> Self {
        Self(array.iter().map(OwnedValue::from).collect())
    }
}

fn same_type(a: &OwnedValue, b: &OwnedValue) -> bool {
    match (a, b) {
        (OwnedValue::Described(a), OwnedValue::Described(b)) => {
            a.descriptor == b.descriptor && same_type(&a.value, &b.value)
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

impl OwnedValue {
    /// Appends the value in its smallest encoding; the items of an array in the smallest encoding that fits all of
    /// them.
    ///
    /// # Panics
    /// If it has 4 GiB or more, or a symbol isn't ASCII.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::List(items) => {
                let mut encoded = Vec::new();
                items.iter().for_each(|item| item.encode(&mut encoded));
                write_compound_header(out, [code::LIST_0, code::LIST_8, code::LIST_32], items.len(), encoded.len());
                out.extend_from_slice(&encoded);
            }
            Self::Map(OwnedMap(pairs)) => {
                let mut encoded = Vec::new();
                for (key, value) in pairs {
                    key.encode(&mut encoded);
                    value.encode(&mut encoded);
                }
                write_compound_header(out, [0, code::MAP_8, code::MAP_32], pairs.len() * 2, encoded.len());
                out.extend_from_slice(&encoded);
            }
            Self::Array(OwnedArray(items)) => {
                let mut encoded = Vec::new();
                match items.first() {
                    Some(first) => write_array_items(&mut encoded, first, items),
                    None => encoded.push(code::NULL),
                }
                write_compound_header(out, [0, code::ARRAY_8, code::ARRAY_32], items.len(), encoded.len());
                out.extend_from_slice(&encoded);
            }
            Self::Described(described) => {
                described.descriptor.encode(out);
                described.value.encode(out);
            }
            _ => self.as_scalar().unwrap_or(Value::Null).encode(out),
        }
    }

    /// The encoded value, which a [`Value`] can borrow.
    #[must_use]
    pub fn encoded(&self) -> EncodedValue {
        self.into()
    }

    /// The text of a string or symbol.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The same value borrowed, unless it is a list, map, array or described.
    #[must_use]
    pub fn as_scalar(&self) -> Option<Value<'_>> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Ubyte(value) => Value::Ubyte(*value),
            Self::Ushort(value) => Value::Ushort(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Ulong(value) => Value::Ulong(*value),
            Self::Byte(value) => Value::Byte(*value),
            Self::Short(value) => Value::Short(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Long(value) => Value::Long(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Decimal32(value) => Value::Decimal32(*value),
            Self::Decimal64(value) => Value::Decimal64(*value),
            Self::Decimal128(value) => Value::Decimal128(*value),
            Self::Char(value) => Value::Char(*value),
            Self::Timestamp(value) => Value::Timestamp(*value),
            Self::Uuid(value) => Value::Uuid(*value),
            Self::Binary(bytes) => Value::Binary(bytes),
            Self::String(text) => Value::String(text),
            Self::Symbol(text) => Value::Symbol(crate::Symbol::new(text)),
            Self::List(_) | Self::Map(_) | Self::Array(_) | Self::Described(_) => return None,
        })
    }
}

impl OwnedDescriptor {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(code::DESCRIBED);
        match self {
            Self::Code(code) => write_ulong(out, *code),
            Self::Symbol(text) => {
                assert!(text.is_ascii(), "a symbol is ASCII");
                write_symbol(out, text);
            }
        }
    }
}

/// An array's constructor, and its items in the widest encoding of their type.
fn write_array_items(out: &mut Vec<u8>, first: &OwnedValue, items: &[OwnedValue]) {
    let mut innermost = first;
    while let OwnedValue::Described(described) = innermost {
        described.descriptor.encode(out);
        innermost = &described.value;
    }
    out.push(widest(innermost));
    for item in items {
        let mut item = item;
        while let OwnedValue::Described(described) = item {
            item = &described.value;
        }
        write_widest(out, item);
    }
}

fn widest(value: &OwnedValue) -> u8 {
    match value {
        OwnedValue::Null => code::NULL,
        OwnedValue::Bool(_) => code::BOOL,
        OwnedValue::Ubyte(_) => code::UBYTE,
        OwnedValue::Ushort(_) => code::USHORT,
        OwnedValue::Uint(_) => code::UINT,
        OwnedValue::Ulong(_) => code::ULONG,
        OwnedValue::Byte(_) => code::BYTE,
        OwnedValue::Short(_) => code::SHORT,
        OwnedValue::Int(_) => code::INT,
        OwnedValue::Long(_) => code::LONG,
        OwnedValue::Float(_) => code::FLOAT,
        OwnedValue::Double(_) => code::DOUBLE,
        OwnedValue::Decimal32(_) => code::DECIMAL_32,
        OwnedValue::Decimal64(_) => code::DECIMAL_64,
        OwnedValue::Decimal128(_) => code::DECIMAL_128,
        OwnedValue::Char(_) => code::CHAR,
        OwnedValue::Timestamp(_) => code::TIMESTAMP,
        OwnedValue::Uuid(_) => code::UUID,
        OwnedValue::Binary(_) => code::BINARY_32,
        OwnedValue::String(_) => code::STRING_32,
        OwnedValue::Symbol(_) => code::SYMBOL_32,
        OwnedValue::List(_) => code::LIST_32,
        OwnedValue::Map(_) => code::MAP_32,
        OwnedValue::Array(_) => code::ARRAY_32,
        OwnedValue::Described(_) => code::DESCRIBED,
    }
}

/// Appends the data for the constructor that [`widest`] returns.
fn write_widest(out: &mut Vec<u8>, value: &OwnedValue) {
    match value {
        OwnedValue::Null | OwnedValue::Described(_) => {}
        OwnedValue::Bool(value) => out.push(u8::from(*value)),
        OwnedValue::Uint(value) => out.extend_from_slice(&value.to_be_bytes()),
        OwnedValue::Ulong(value) => out.extend_from_slice(&value.to_be_bytes()),
        OwnedValue::Int(value) => out.extend_from_slice(&value.to_be_bytes()),
        OwnedValue::Long(value) => out.extend_from_slice(&value.to_be_bytes()),
        OwnedValue::Binary(bytes) => with_length(out, |out| out.extend_from_slice(bytes)),
        OwnedValue::String(text) | OwnedValue::Symbol(text) => {
            with_length(out, |out| out.extend_from_slice(text.as_bytes()));
        }
        OwnedValue::List(items) => with_length(out, |out| {
            out.extend_from_slice(&count(items.len()));
            items.iter().for_each(|item| item.encode(out));
        }),
        OwnedValue::Map(OwnedMap(pairs)) => with_length(out, |out| {
            out.extend_from_slice(&count(pairs.len() * 2));
            for (key, value) in pairs {
                key.encode(out);
                value.encode(out);
            }
        }),
        OwnedValue::Array(OwnedArray(items)) => with_length(out, |out| {
            out.extend_from_slice(&count(items.len()));
            match items.first() {
                Some(first) => write_array_items(out, first, items),
                None => out.push(code::NULL),
            }
        }),
        // These have only one encoding: the value without its constructor.
        _ => {
            let start = out.len();
            value.encode(out);
            out.remove(start);
        }
    }
}

fn with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = count(out.len() - start - 4);
    out[start..start + 4].copy_from_slice(&length);
}

fn count(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("a value is shorter than 4 GiB").to_be_bytes()
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Ubyte(value) => Self::Ubyte(value),
            Value::Ushort(value) => Self::Ushort(value),
            Value::Uint(value) => Self::Uint(value),
            Value::Ulong(value) => Self::Ulong(value),
            Value::Byte(value) => Self::Byte(value),
            Value::Short(value) => Self::Short(value),
            Value::Int(value) => Self::Int(value),
            Value::Long(value) => Self::Long(value),
            Value::Float(value) => Self::Float(value),
            Value::Double(value) => Self::Double(value),
            Value::Decimal32(value) => Self::Decimal32(value),
            Value::Decimal64(value) => Self::Decimal64(value),
            Value::Decimal128(value) => Self::Decimal128(value),
            Value::Char(value) => Self::Char(value),
            Value::Timestamp(value) => Self::Timestamp(value),
            Value::Uuid(value) => Self::Uuid(value),
            Value::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Value::String(text) => Self::String(text.to_owned()),
            Value::Symbol(symbol) => Self::Symbol(symbol.as_str().to_owned()),
            Value::List(list) => Self::List(list.iter().map(Self::from).collect()),
            Value::Map(map) => Self::Map(map.into()),
            Value::Array(array) => Self::Array(array.into()),
            Value::Described(described) => described.into(),
        }
    }
}

impl From<Described<'_>> for OwnedValue {
    fn from(described: Described<'_>) -> Self {
        let descriptor = match described.descriptor() {
            Descriptor::Code(code) => OwnedDescriptor::Code(code),
            Descriptor::Symbol(symbol) => OwnedDescriptor::Symbol(symbol.as_str().to_owned()),
        };
        Self::Described(Box::new(OwnedDescribed { descriptor, value: described.value().into() }))
    }
}

macro_rules! from_plain {
    ($($type:ty => $variant:ident,)*) => {
        $(impl From<$type> for OwnedValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
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
    &str => String,
    String => String,
    Vec<u8> => Binary,
    Vec<OwnedValue> => List,
    OwnedMap => Map,
    OwnedArray => Array,
}

impl From<crate::Symbol<'_>> for OwnedValue {
    fn from(symbol: crate::Symbol<'_>) -> Self {
        Self::Symbol(symbol.as_str().to_owned())
    }
}
