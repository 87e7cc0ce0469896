//! Encodes values, each in its smallest encoding.

use super::{Value, code};

impl Value<'_> {
    /// Appends the value in its smallest encoding. The items of lists, maps, arrays and described values are copied
    /// as they are encoded.
    ///
    /// # Panics
    /// If it has 4 GiB or more.
    // Inlined: field types are distinguished in the caller, where they are mostly known at compile time.
    #[inline(always)]
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Bool(value) => out.push(if value { code::TRUE } else { code::FALSE }),
            Value::Ubyte(value) => out.extend_from_slice(&[code::UBYTE, value]),
            Value::Uint(value) => write_uint(out, value),
            Value::Binary(bytes) => write_binary(out, bytes),
            Value::String(text) => write_string(out, text),
            _ => self.encode_any(out),
        }
    }

    #[inline(never)]
    fn encode_any(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Bool(_) | Value::Ubyte(_) | Value::Uint(_) | Value::Binary(_) | Value::String(_) => {
                unreachable!("written by encode")
            }
            Value::Null => out.push(code::NULL),
            Value::Ushort(value) => fixed(out, code::USHORT, value.to_be_bytes()),
            Value::Ulong(value) => write_ulong(out, value),
            Value::Byte(value) => fixed(out, code::BYTE, value.to_be_bytes()),
            Value::Short(value) => fixed(out, code::SHORT, value.to_be_bytes()),
            Value::Int(value) => match i8::try_from(value) {
                Ok(small) => fixed(out, code::INT_SMALL, small.to_be_bytes()),
                Err(_) => fixed(out, code::INT, value.to_be_bytes()),
            },
            Value::Long(value) => match i8::try_from(value) {
                Ok(small) => fixed(out, code::LONG_SMALL, small.to_be_bytes()),
                Err(_) => fixed(out, code::LONG, value.to_be_bytes()),
            },
            Value::Float(value) => fixed(out, code::FLOAT, value.to_be_bytes()),
            Value::Double(value) => fixed(out, code::DOUBLE, value.to_be_bytes()),
            Value::Decimal32(value) => fixed(out, code::DECIMAL_32, value),
            Value::Decimal64(value) => fixed(out, code::DECIMAL_64, value),
            Value::Decimal128(value) => fixed(out, code::DECIMAL_128, value),
            Value::Char(value) => fixed(out, code::CHAR, u32::from(value).to_be_bytes()),
            Value::Timestamp(value) => fixed(out, code::TIMESTAMP, value.to_be_bytes()),
            Value::Uuid(value) => fixed(out, code::UUID, value),
            Value::Symbol(symbol) => write_symbol(out, symbol.as_str()),
            Value::List(list) => {
                write_compound_header(
                    out,
                    [code::LIST_0, code::LIST_8, code::LIST_32],
                    list.len(),
                    list.as_bytes().len(),
                );
                out.extend_from_slice(list.as_bytes());
            }
            Value::Map(map) => {
                write_compound_header(out, [0, code::MAP_8, code::MAP_32], map.len() * 2, map.as_bytes().len());
                out.extend_from_slice(map.as_bytes());
            }
            Value::Array(array) => {
                let size = array.constructor().len() + array.as_bytes().len();
                write_compound_header(out, [0, code::ARRAY_8, code::ARRAY_32], array.len(), size);
                out.extend_from_slice(array.constructor());
                out.extend_from_slice(array.as_bytes());
            }
            Value::Described(described) => {
                out.extend_from_slice(described.constructor());
                out.extend_from_slice(described.as_bytes());
            }
        }
    }
}

#[inline(always)]
fn fixed<const N: usize>(out: &mut Vec<u8>, code: u8, bytes: [u8; N]) {
    out.push(code);
    out.extend_from_slice(&bytes);
}

#[inline(always)]
pub(crate) fn write_uint(out: &mut Vec<u8>, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::UINT_0),
        Ok(small) => out.extend_from_slice(&[code::UINT_SMALL, small]),
        Err(_) => fixed(out, code::UINT, value.to_be_bytes()),
    }
}

#[inline(always)]
pub(crate) fn write_ulong(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::ULONG_0),
        Ok(small) => out.extend_from_slice(&[code::ULONG_SMALL, small]),
        Err(_) => fixed(out, code::ULONG, value.to_be_bytes()),
    }
}

#[inline]
pub(crate) fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    variable(out, code::BINARY_8, code::BINARY_32, bytes);
}

#[inline]
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    variable(out, code::STRING_8, code::STRING_32, text.as_bytes());
}

#[inline]
pub(crate) fn write_symbol(out: &mut Vec<u8>, text: &str) {
    variable(out, code::SYMBOL_8, code::SYMBOL_32, text.as_bytes());
}

#[inline(always)]
fn variable(out: &mut Vec<u8>, short: u8, long: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend_from_slice(&[short, length]),
        Err(_) => {
            let length = u32::try_from(bytes.len()).expect("a value is shorter than 4 GiB");
            fixed(out, long, length.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Writes constructor, size and count of a list, map or array whose items (with an array's constructor) take `size`
/// bytes. `codes` are the constructors for no items (0 if there is none), for sizes of one octet and of four octets.
///
/// # Panics
/// If it has 4 GiB or more.
pub(crate) fn write_compound_header(out: &mut Vec<u8>, codes: [u8; 3], count: usize, size: usize) {
    let [empty, short, long] = codes;
    if empty != 0 && count == 0 {
        out.push(empty);
    } else if size < 255 && count < 256 {
        out.extend_from_slice(&[short, size as u8 + 1, count as u8]);
    } else {
        let size = u32::try_from(size + 4).expect("a value is shorter than 4 GiB");
        let count = u32::try_from(count).expect("a value has fewer than 2^32 items");
        fixed(out, long, size.to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
    }
}
