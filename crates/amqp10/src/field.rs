//! Types of the fields of composite types.

use crate::error::Problem;
use crate::value::{MapRef, Value, Walk, code};
use crate::wire::Reader;
use crate::{Symbol, Symbols};

/// A type of a field. The reader of the list handles null.
pub(crate) trait Field<'a>: Sized {
    /// Reads the data after the constructor `code`.
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem>;

    /// Appends constructor and value.
    fn write(&self, out: &mut Vec<u8>);
}

/// The error for a constructor of another type.
#[cold]
pub(crate) fn unexpected(code: u8, expected: &'static str) -> Problem {
    match code::type_name(code) {
        Some(received) => Problem::Type { received, expected },
        None => Problem::Constructor { received: code },
    }
}

macro_rules! scalar_field {
    ($type:ty, $expected:literal, $variant:ident, $($code:pat => $read:expr,)+) => {
        impl<'a> Field<'a> for $type {
            #[inline(always)]
            fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
                match code {
                    $($code => ($read)(reader),)+
                    _ => Err(unexpected(code, $expected)),
                }
            }

            #[inline(always)]
            fn write(&self, out: &mut Vec<u8>) {
                Value::$variant((*self).into()).encode(out);
            }
        }
    };
}

scalar_field!(bool, "boolean", Bool,
    code::TRUE => |_: &mut Reader<'a>| Ok(true),
    code::FALSE => |_: &mut Reader<'a>| Ok(false),
    code::BOOL => |reader: &mut Reader<'a>| match reader.octet("boolean")? {
        0 => Ok(false),
        1 => Ok(true),
        received => Err(Problem::Boolean { received }),
    },
);
scalar_field!(u8, "ubyte", Ubyte,
    code::UBYTE => |reader: &mut Reader<'a>| reader.octet("ubyte"),
);
scalar_field!(u16, "ushort", Ushort,
    code::USHORT => |reader: &mut Reader<'a>| reader.array("ushort").map(u16::from_be_bytes),
);
scalar_field!(u32, "uint", Uint,
    code::UINT_SMALL => |reader: &mut Reader<'a>| reader.octet("uint").map(u32::from),
    code::UINT_0 => |_: &mut Reader<'a>| Ok(0),
    code::UINT => |reader: &mut Reader<'a>| reader.word("uint"),
);
scalar_field!(u64, "ulong", Ulong,
    code::ULONG_SMALL => |reader: &mut Reader<'a>| reader.octet("ulong").map(u64::from),
    code::ULONG_0 => |_: &mut Reader<'a>| Ok(0),
    code::ULONG => |reader: &mut Reader<'a>| reader.array("ulong").map(u64::from_be_bytes),
);
scalar_field!(i64, "timestamp", Timestamp,
    code::TIMESTAMP => |reader: &mut Reader<'a>| reader.array("timestamp").map(i64::from_be_bytes),
);
scalar_field!(&'a [u8], "binary", Binary,
    code::BINARY_8 => |reader: &mut Reader<'a>| reader.short_bytes("binary"),
    code::BINARY_32 => |reader: &mut Reader<'a>| reader.long_bytes("binary"),
);
scalar_field!(&'a str, "string", String,
    code::STRING_8 => |reader: &mut Reader<'a>| text(reader.short_bytes("string")?),
    code::STRING_32 => |reader: &mut Reader<'a>| text(reader.long_bytes("string")?),
);
scalar_field!(Symbol<'a>, "symbol", Symbol,
    code::SYMBOL_8 => |reader: &mut Reader<'a>| symbol(reader.short_bytes("symbol")?),
    code::SYMBOL_32 => |reader: &mut Reader<'a>| symbol(reader.long_bytes("symbol")?),
);

#[inline(always)]
fn text(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|_| Problem::Utf8)
}

#[inline(always)]
fn symbol(bytes: &[u8]) -> Result<Symbol<'_>, Problem> {
    std::str::from_utf8(bytes).ok().and_then(Symbol::checked).ok_or(Problem::Ascii)
}

/// Any value, checked to its last item.
pub(crate) fn read_checked<'a>(code: u8, reader: &mut Reader<'a>) -> Result<Value<'a>, Problem> {
    // The constructor was already read; described values need it, so the whole value is read again.
    if code == code::DESCRIBED {
        return Err(unexpected(code, "a value without descriptor"));
    }
    let mut probe = *reader;
    Walk::new().data(code, &mut probe)?;
    crate::value::read_data(&[], code, reader)
}

impl<'a> Field<'a> for MapRef<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match code {
            code::MAP_8 | code::MAP_32 => match read_checked(code, reader)? {
                Value::Map(map) => Ok(map),
                other => Err(Problem::Type { received: other.type_name(), expected: "map" }),
            },
            _ => Err(unexpected(code, "map")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        Value::Map(*self).encode(out);
    }
}

impl<'a> Field<'a> for Symbols<'a> {
    fn read(code: u8, reader: &mut Reader<'a>) -> Result<Self, Problem> {
        match code {
            code::ARRAY_8 | code::ARRAY_32 => match read_checked(code, reader)? {
                Value::Array(array) if matches!(array.code(), code::SYMBOL_8 | code::SYMBOL_32) => {
                    match array.constructor().len() {
                        1 => Ok(Self::trusted(array)),
                        _ => Err(Problem::Type { received: "array of described", expected: "symbol or array of them" }),
                    }
                }
                Value::Array(array) if array.is_empty() => Ok(Self::NONE),
                _ => Err(Problem::Type { received: "array", expected: "symbol or array of them" }),
            },
            code::SYMBOL_8 | code::SYMBOL_32 => Symbol::read(code, reader).map(Self::one),
            _ => Err(unexpected(code, "symbol or array of them")),
        }
    }

    /// A single symbol is also written as an array: some clients don't know the short form, and RabbitMQ never uses
    /// it.
    fn write(&self, out: &mut Vec<u8>) {
        let short = self.iter().all(|symbol| symbol.as_str().len() < 256);
        let mut items = Vec::new();
        items.push(if short { code::SYMBOL_8 } else { code::SYMBOL_32 });
        for symbol in self.iter() {
            let text = symbol.as_str().as_bytes();
            if short {
                items.push(text.len() as u8);
            } else {
                items.extend_from_slice(&crate::wire::saturate(text.len()).to_be_bytes());
            }
            items.extend_from_slice(text);
        }
        crate::value::write_compound_header(out, [0, code::ARRAY_8, code::ARRAY_32], self.len(), items.len());
        out.extend_from_slice(&items);
    }
}

/// An enumeration over numbers.
macro_rules! number_choice {
    (
        $(#[$doc:meta])*
        $name:ident: $number:ty, $expected:literal { $($(#[$item_doc:meta])* $item:ident = $value:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$item_doc])* $item = $value,)+
        }

        impl<'a> $crate::field::Field<'a> for $name {
            #[inline(always)]
            fn read(code: u8, reader: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::error::Problem> {
                match <$number as $crate::field::Field<'a>>::read(code, reader)? {
                    $($value => Ok(Self::$item),)+
                    received => Err($crate::error::Problem::Choice { received: received.into(), expected: $expected }),
                }
            }

            #[inline(always)]
            fn write(&self, out: &mut Vec<u8>) {
                $crate::field::Field::write(&(*self as $number), out);
            }
        }
    };
}
pub(crate) use number_choice;

/// An enumeration over symbols.
macro_rules! symbol_choice {
    (
        $(#[$doc:meta])*
        $name:ident, $expected:literal { $($(#[$item_doc:meta])* $item:ident = $text:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$item_doc])* $item,)+
        }

        impl $name {
            /// The symbol on the wire.
            #[must_use]
            pub const fn symbol(self) -> $crate::Symbol<'static> {
                match self {
                    $(Self::$item => $crate::Symbol::new($text),)+
                }
            }
        }

        impl<'a> $crate::field::Field<'a> for $name {
            fn read(code: u8, reader: &mut $crate::wire::Reader<'a>) -> Result<Self, $crate::error::Problem> {
                match $crate::Symbol::read(code, reader)?.as_str() {
                    $($text => Ok(Self::$item),)+
                    _ => Err($crate::error::Problem::ChoiceName { expected: $expected }),
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                $crate::field::Field::write(&self.symbol(), out);
            }
        }
    };
}
pub(crate) use symbol_choice;
