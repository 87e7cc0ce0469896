//! Values of the hub form: the type system of AMQP 1.0, part 1.

use std::borrow::Cow;

use leveret_amqp10::Value as Amqp10;
use leveret_amqp10::value::{self as amqp10, ArrayRef, ListRef, MapRef};
use leveret_amqp091::{Array, Table};

use super::amqp091;

/// A value that borrows from the stored bytes and is decoded when it is read.
///
/// Arrays appear as lists, and described values as the values that they describe: only AMQP 1.0 has them, and its
/// receivers get its messages verbatim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A value without nested values. The codec's list, map, array and described values never occur here.
    Simple(Amqp10<'a>),
    /// Values in order.
    List(List<'a>),
    /// A map with strings as keys.
    Map(Map<'a>),
}

impl<'a> Value<'a> {
    /// A string if the bytes are UTF-8, otherwise a binary.
    pub(crate) fn text(bytes: &'a [u8]) -> Self {
        Self::Simple(std::str::from_utf8(bytes).map_or(Amqp10::Binary(bytes), Amqp10::String))
    }

    /// The text of a string or symbol.
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Self::Simple(value) => value.as_text(),
            Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The value of any integer type or timestamp that isn't negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Simple(value) => value.as_u64(),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

impl<'a> From<Amqp10<'a>> for Value<'a> {
    fn from(value: Amqp10<'a>) -> Self {
        match value {
            Amqp10::List(list) => Self::List(List(Items::Amqp10(list))),
            Amqp10::Array(array) => Self::List(List(Items::Amqp10Array(array))),
            Amqp10::Map(map) => Self::Map(Map(Pairs::Amqp10(map))),
            // The codec limits their nesting.
            Amqp10::Described(described) => Self::from(described.value()),
            simple => Self::Simple(simple),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Simple(Amqp10::String(text))
    }
}

/// Values in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct List<'a>(Items<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Items<'a> {
    Amqp091(Array<'a>),
    Amqp10(ListRef<'a>),
    Amqp10Array(ArrayRef<'a>),
}

impl<'a> List<'a> {
    /// An array of AMQP 0-9-1, without its decimals.
    pub(super) fn amqp091(array: Array<'a>) -> Self {
        Self(Items::Amqp091(array))
    }

    /// Whether it is an array of AMQP 1.0, whose items have the same type.
    pub fn is_array(&self) -> bool {
        matches!(self.0, Items::Amqp10Array(_))
    }

    /// The items.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (mut old, mut list, mut array) = (None, None, None);
        match self.0 {
            Items::Amqp091(items) => old = Some(items.iter().filter_map(amqp091::value)),
            Items::Amqp10(items) => list = Some(items.iter().map(Value::from)),
            Items::Amqp10Array(items) => array = Some(items.iter().map(Value::from)),
        }
        old.into_iter().flatten().chain(list.into_iter().flatten()).chain(array.into_iter().flatten())
    }
}

/// Named values, in the publisher's order. A name may occur twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Map<'a>(Pairs<'a>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pairs<'a> {
    Amqp091(Table<'a>),
    Amqp10(MapRef<'a>),
}

impl<'a> Map<'a> {
    /// A table of AMQP 0-9-1, without its decimals.
    pub(super) fn amqp091(table: Table<'a>) -> Self {
        Self(Pairs::Amqp091(table))
    }

    /// The pairs whose keys are strings or symbols. Bytes of names that aren't UTF-8 are replaced by U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Value<'a>)> + use<'a> {
        let (mut table, mut map) = (None, None);
        match self.0 {
            Pairs::Amqp091(pairs) => {
                table = Some(pairs.iter().filter_map(|(key, value)| {
                    let value = amqp091::value(value)?;
                    Some((String::from_utf8_lossy(key.as_bytes()), value))
                }));
            }
            Pairs::Amqp10(pairs) => {
                map = Some(text_pairs(pairs.iter()).map(|(key, value)| (Cow::Borrowed(key), value)))
            }
        }
        table.into_iter().flatten().chain(map.into_iter().flatten())
    }

    /// The first value of this name.
    pub fn lookup(&self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// The pairs of a map of AMQP 1.0 whose keys are strings or symbols.
#[inline]
pub(super) fn text_pairs<'a>(pairs: amqp10::MapIter<'a>) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
    pairs.filter_map(|(key, value)| Some((key.as_text()?, Value::from(value))))
}
