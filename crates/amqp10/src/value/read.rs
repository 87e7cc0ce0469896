//! Reads values, and parts of values that were checked before.

use super::{ArrayRef, Described, Descriptor, ListRef, MapRef, Value, code};
use crate::Symbol;
use crate::error::Problem;
use crate::wire::Reader;

/// Reads a constructor: all its bytes including descriptors, and its primitive code.
#[inline]
pub(crate) fn read_constructor<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], u8), Problem> {
    let start = *reader;
    loop {
        let code = reader.octet("constructor")?;
        if code != code::DESCRIBED {
            return Ok((reader.taken_since(&start), code));
        }
        read_descriptor(reader)?;
    }
}

/// Reads the descriptor after a 0x00: a ulong or a symbol; all other types are reserved (1.5).
#[inline]
pub(crate) fn read_descriptor<'a>(reader: &mut Reader<'a>) -> Result<Descriptor<'a>, Problem> {
    let code = reader.octet("descriptor")?;
    Ok(match code {
        code::ULONG_SMALL => Descriptor::Code(u64::from(reader.octet("descriptor")?)),
        code::ULONG => Descriptor::Code(u64::from_be_bytes(reader.array("descriptor")?)),
        code::ULONG_0 => Descriptor::Code(0),
        code::SYMBOL_8 => Descriptor::Symbol(symbol(reader.short_bytes("symbol")?)?),
        code::SYMBOL_32 => Descriptor::Symbol(symbol(reader.long_bytes("symbol")?)?),
        _ => {
            let received = code::type_name(code).ok_or(Problem::Constructor { received: code })?;
            return Err(Problem::Type { received, expected: "ulong or symbol as descriptor" });
        }
    })
}

/// Reads a value whose nested values were checked before.
#[inline]
pub(crate) fn read_trusted<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, Problem> {
    let (constructor, code) = read_constructor(reader)?;
    read_data(constructor, code, reader)
}

/// Reads the data after a constructor, without checking nested values.
#[inline]
pub(crate) fn read_data<'a>(constructor: &'a [u8], code: u8, reader: &mut Reader<'a>) -> Result<Value<'a>, Problem> {
    if constructor.len() > 1 {
        let start = *reader;
        read_primitive(code, reader)?;
        return Ok(Value::Described(Described::trusted(constructor, reader.taken_since(&start))));
    }
    read_primitive(code, reader)
}

/// Skips a value and returns its encoding, including descriptors. Only its size is read.
#[inline]
pub(crate) fn skip<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Problem> {
    let start = *reader;
    let (_, received) = read_constructor(reader)?;
    let part = code::type_name(received).ok_or(Problem::Constructor { received })?;
    // The upper half of a constructor tells how the size of its data is encoded (1.2).
    match received >> 4 {
        0x4 => &[],
        0x5 => reader.bytes(1, part)?,
        0x6 => reader.bytes(2, part)?,
        0x7 => reader.bytes(4, part)?,
        0x8 => reader.bytes(8, part)?,
        0x9 => reader.bytes(16, part)?,
        0xA | 0xC | 0xE => reader.short_bytes(part)?,
        _ => reader.long_bytes(part)?,
    };
    Ok(reader.taken_since(&start))
}

#[inline]
fn read_primitive<'a>(code: u8, reader: &mut Reader<'a>) -> Result<Value<'a>, Problem> {
    Ok(match code {
        code::NULL => Value::Null,
        code::TRUE => Value::Bool(true),
        code::FALSE => Value::Bool(false),
        code::BOOL => Value::Bool(boolean(reader.octet("boolean")?)?),
        code::UBYTE => Value::Ubyte(reader.octet("ubyte")?),
        code::USHORT => Value::Ushort(u16::from_be_bytes(reader.array("ushort")?)),
        code::UINT => Value::Uint(reader.word("uint")?),
        code::UINT_SMALL => Value::Uint(u32::from(reader.octet("uint")?)),
        code::UINT_0 => Value::Uint(0),
        code::ULONG => Value::Ulong(u64::from_be_bytes(reader.array("ulong")?)),
        code::ULONG_SMALL => Value::Ulong(u64::from(reader.octet("ulong")?)),
        code::ULONG_0 => Value::Ulong(0),
        code::BYTE => Value::Byte(reader.octet("byte")? as i8),
        code::SHORT => Value::Short(i16::from_be_bytes(reader.array("short")?)),
        code::INT => Value::Int(i32::from_be_bytes(reader.array("int")?)),
        code::INT_SMALL => Value::Int(i32::from(reader.octet("int")? as i8)),
        code::LONG => Value::Long(i64::from_be_bytes(reader.array("long")?)),
        code::LONG_SMALL => Value::Long(i64::from(reader.octet("long")? as i8)),
        code::FLOAT => Value::Float(f32::from_be_bytes(reader.array("float")?)),
        code::DOUBLE => Value::Double(f64::from_be_bytes(reader.array("double")?)),
        code::DECIMAL_32 => Value::Decimal32(reader.array("decimal32")?),
        code::DECIMAL_64 => Value::Decimal64(reader.array("decimal64")?),
        code::DECIMAL_128 => Value::Decimal128(reader.array("decimal128")?),
        code::CHAR => {
            let received = reader.word("char")?;
            Value::Char(char::from_u32(received).ok_or(Problem::Char { received })?)
        }
        code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(reader.array("timestamp")?)),
        code::UUID => Value::Uuid(reader.array("uuid")?),
        code::BINARY_8 => Value::Binary(reader.short_bytes("binary")?),
        code::BINARY_32 => Value::Binary(reader.long_bytes("binary")?),
        code::STRING_8 => Value::String(text(reader.short_bytes("string")?)?),
        code::STRING_32 => Value::String(text(reader.long_bytes("string")?)?),
        code::SYMBOL_8 => Value::Symbol(symbol(reader.short_bytes("symbol")?)?),
        code::SYMBOL_32 => Value::Symbol(symbol(reader.long_bytes("symbol")?)?),
        code::LIST_0 => Value::List(ListRef::EMPTY),
        code::LIST_8 => {
            let (count, items) = short_items(reader, "list")?;
            Value::List(ListRef::trusted(count, items))
        }
        code::LIST_32 => {
            let (count, items) = long_items(reader, "list")?;
            Value::List(ListRef::trusted(count, items))
        }
        code::MAP_8 => {
            let (count, items) = short_items(reader, "map")?;
            Value::Map(MapRef::trusted(count, items))
        }
        code::MAP_32 => {
            let (count, items) = long_items(reader, "map")?;
            Value::Map(MapRef::trusted(count, items))
        }
        code::ARRAY_8 => {
            let (count, items) = short_items(reader, "array")?;
            array(count, items)?
        }
        code::ARRAY_32 => {
            let (count, items) = long_items(reader, "array")?;
            array(count, items)?
        }
        received => return Err(Problem::Constructor { received }),
    })
}

#[inline(always)]
fn short_items<'a>(reader: &mut Reader<'a>, part: &'static str) -> Result<(u32, &'a [u8]), Problem> {
    let mut body = Reader::new(reader.short_bytes(part)?);
    Ok((u32::from(body.octet("count")?), body.rest()))
}

#[inline(always)]
fn long_items<'a>(reader: &mut Reader<'a>, part: &'static str) -> Result<(u32, &'a [u8]), Problem> {
    let mut body = Reader::new(reader.long_bytes(part)?);
    Ok((body.word("count")?, body.rest()))
}

fn array(count: u32, items: &[u8]) -> Result<Value<'_>, Problem> {
    if items.is_empty() {
        return Ok(Value::Array(ArrayRef::trusted(&[code::NULL], code::NULL, 0, &[])));
    }
    let mut reader = Reader::new(items);
    let (constructor, code) = read_constructor(&mut reader)?;
    Ok(Value::Array(ArrayRef::trusted(constructor, code, count, reader.rest())))
}

#[inline(always)]
fn boolean(received: u8) -> Result<bool, Problem> {
    match received {
        0 => Ok(false),
        1 => Ok(true),
        received => Err(Problem::Boolean { received }),
    }
}

#[inline(always)]
fn text(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|_| Problem::Utf8)
}

#[inline(always)]
fn symbol(bytes: &[u8]) -> Result<Symbol<'_>, Problem> {
    std::str::from_utf8(bytes).ok().and_then(Symbol::checked).ok_or(Problem::Ascii)
}
