//! Described values (1.2, 1.5).

use super::{Value, read_data, read_descriptor};
use crate::wire::Reader;
use crate::{Symbol, descriptor};
use std::fmt;

/// The descriptor of a described value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptor<'a> {
    /// A number: domain in the upper half, id in the lower.
    Code(u64),
    /// A name, such as `amqp:open:list`.
    Symbol(Symbol<'a>),
}

impl Descriptor<'_> {
    /// The number, including that of a name defined by the specification.
    #[must_use]
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Symbol(symbol) => descriptor::code_of(symbol.as_str()),
        }
    }
}

/// A value with a descriptor, checked when it was decoded. Equality compares the encoded bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Described<'a> {
    /// 0x00, descriptor and constructor; repeated for each further descriptor.
    constructor: &'a [u8],
    data: &'a [u8],
}

impl<'a> Described<'a> {
    pub(crate) const fn trusted(constructor: &'a [u8], data: &'a [u8]) -> Self {
        Self { constructor, data }
    }

    /// Its descriptor.
    #[must_use]
    pub fn descriptor(&self) -> Descriptor<'a> {
        self.split().0
    }

    /// The described value.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        let (_, constructor) = self.split();
        let code = constructor.last().copied().unwrap_or(super::code::NULL);
        read_data(constructor, code, &mut Reader::new(self.data)).unwrap_or(Value::Null)
    }

    /// 0x00, descriptor and constructor.
    #[must_use]
    pub const fn constructor(&self) -> &'a [u8] {
        self.constructor
    }

    /// The encoded value without its constructor.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.data
    }

    fn split(&self) -> (Descriptor<'a>, &'a [u8]) {
        let mut reader = Reader::new(self.constructor.get(1..).unwrap_or_default());
        let descriptor = read_descriptor(&mut reader).unwrap_or(Descriptor::Code(0));
        (descriptor, reader.rest())
    }
}

impl fmt::Debug for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:?} {:?}", self.descriptor(), self.value())
    }
}
