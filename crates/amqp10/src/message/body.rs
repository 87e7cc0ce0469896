//! Bodies (3.2.6 to 3.2.8).

use crate::DecodeError;
use crate::value::{Value, read_descriptor, read_trusted, skip};
use crate::wire::Reader;

/// The body of a message. Only its outermost layer was checked when the message was parsed: the content concerns only
/// sender and receiver, and may be nested as deep as they like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BodyRef<'a> {
    /// No section. The specification doesn't allow that, but clients send it.
    None,
    /// Bytes, in one or more sections.
    Data(DataSections<'a>),
    /// Lists, in one or more sections.
    Sequence(SequenceSections<'a>),
    /// One value.
    Value(RawValue<'a>),
}

/// An encoded value of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawValue<'a> {
    pub(crate) raw: &'a [u8],
}

impl<'a> RawValue<'a> {
    /// The encoded value, beginning with its constructor.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// Decodes the value, checking all nested ones.
    ///
    /// # Errors
    /// If it is malformed, nested too deeply, or has too many items of zero width.
    pub fn decode(&self) -> Result<Value<'a>, DecodeError> {
        Value::decode_all(self.raw)
    }
}

/// The data sections of a message, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSections<'a> {
    pub(crate) first: &'a [u8],
    pub(crate) rest: &'a [u8],
}

impl<'a> DataSections<'a> {
    /// The bytes of the first section.
    #[must_use]
    pub const fn first(&self) -> &'a [u8] {
        self.first
    }

    /// All bytes, if there is only one section.
    #[must_use]
    pub const fn single(&self) -> Option<&'a [u8]> {
        if self.rest.is_empty() { Some(self.first) } else { None }
    }

    /// The bytes of each section.
    #[must_use]
    pub fn iter(&self) -> DataIter<'a> {
        DataIter { first: Some(self.first), rest: Reader::new(self.rest) }
    }

    /// The bytes of all sections together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }
}

impl<'a> IntoIterator for DataSections<'a> {
    type Item = &'a [u8];
    type IntoIter = DataIter<'a>;

    fn into_iter(self) -> DataIter<'a> {
        self.iter()
    }
}

/// Iterates over [`DataSections`].
#[derive(Debug, Clone)]
pub struct DataIter<'a> {
    first: Option<&'a [u8]>,
    rest: Reader<'a>,
}

impl<'a> Iterator for DataIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match read_section(&mut self.rest)? {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The sequence sections of a message, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceSections<'a> {
    pub(crate) raw: &'a [u8],
}

impl<'a> SequenceSections<'a> {
    /// The list of each section.
    #[must_use]
    pub fn iter(&self) -> SequenceIter<'a> {
        SequenceIter { rest: Reader::new(self.raw) }
    }
}

impl<'a> IntoIterator for SequenceSections<'a> {
    type Item = RawValue<'a>;
    type IntoIter = SequenceIter<'a>;

    fn into_iter(self) -> SequenceIter<'a> {
        self.iter()
    }
}

/// Iterates over [`SequenceSections`].
#[derive(Debug, Clone)]
pub struct SequenceIter<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for SequenceIter<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<RawValue<'a>> {
        enter_section(&mut self.rest)?;
        Some(RawValue { raw: skip(&mut self.rest).ok()? })
    }
}

fn read_section<'a>(reader: &mut Reader<'a>) -> Option<Value<'a>> {
    enter_section(reader)?;
    read_trusted(reader).ok()
}

/// Reads a section's descriptor.
fn enter_section(reader: &mut Reader<'_>) -> Option<()> {
    if reader.is_empty() {
        return None;
    }
    reader.octet("constructor").ok()?;
    read_descriptor(reader).ok()?;
    Some(())
}
