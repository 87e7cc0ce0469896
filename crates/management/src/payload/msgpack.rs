//! MessagePack as JSON.

use rmp::Marker;
use rmp::decode::{RmpRead, read_marker};

use super::json_text::{JsonText, Stop};

/// Writes the first value of `bytes`. Returns its length in bytes.
pub(super) fn decode(bytes: &[u8], out: &mut JsonText) -> Result<usize, Stop> {
    let mut rest = bytes;
    value(&mut rest, out)?;
    Ok(bytes.len() - rest.len())
}

fn cut<E>(_: E) -> Stop {
    Stop::damaged("it ends within a value")
}

fn value(rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    match read_marker(rest).map_err(cut)? {
        Marker::Null => out.raw("null"),
        Marker::True => out.raw("true"),
        Marker::False => out.raw("false"),
        Marker::FixPos(number) => out.number(number),
        Marker::FixNeg(number) => out.number(number),
        Marker::U8 => out.number(rest.read_data_u8().map_err(cut)?),
        Marker::U16 => out.number(rest.read_data_u16().map_err(cut)?),
        Marker::U32 => out.number(rest.read_data_u32().map_err(cut)?),
        Marker::U64 => out.number(rest.read_data_u64().map_err(cut)?),
        Marker::I8 => out.number(rest.read_data_i8().map_err(cut)?),
        Marker::I16 => out.number(rest.read_data_i16().map_err(cut)?),
        Marker::I32 => out.number(rest.read_data_i32().map_err(cut)?),
        Marker::I64 => out.number(rest.read_data_i64().map_err(cut)?),
        Marker::F32 => out.float(f64::from(rest.read_data_f32().map_err(cut)?)),
        Marker::F64 => out.float(rest.read_data_f64().map_err(cut)?),
        Marker::FixStr(length) => string(length.into(), rest, out),
        Marker::Str8 => string(length8(rest)?, rest, out),
        Marker::Str16 => string(length16(rest)?, rest, out),
        Marker::Str32 => string(length32(rest)?, rest, out),
        Marker::Bin8 => binary(length8(rest)?, rest, out),
        Marker::Bin16 => binary(length16(rest)?, rest, out),
        Marker::Bin32 => binary(length32(rest)?, rest, out),
        Marker::FixArray(length) => array(length.into(), rest, out),
        Marker::Array16 => array(length16(rest)?, rest, out),
        Marker::Array32 => array(length32(rest)?, rest, out),
        Marker::FixMap(length) => map(length.into(), rest, out),
        Marker::Map16 => map(length16(rest)?, rest, out),
        Marker::Map32 => map(length32(rest)?, rest, out),
        Marker::FixExt1 => extension(1, rest, out),
        Marker::FixExt2 => extension(2, rest, out),
        Marker::FixExt4 => extension(4, rest, out),
        Marker::FixExt8 => extension(8, rest, out),
        Marker::FixExt16 => extension(16, rest, out),
        Marker::Ext8 => extension(length8(rest)?, rest, out),
        Marker::Ext16 => extension(length16(rest)?, rest, out),
        Marker::Ext32 => extension(length32(rest)?, rest, out),
        Marker::Reserved => Err(Stop::damaged("the byte c1 begins no value")),
    }
}

fn length8(rest: &mut &[u8]) -> Result<usize, Stop> {
    rest.read_data_u8().map(usize::from).map_err(cut)
}

fn length16(rest: &mut &[u8]) -> Result<usize, Stop> {
    rest.read_data_u16().map(usize::from).map_err(cut)
}

fn length32(rest: &mut &[u8]) -> Result<usize, Stop> {
    rest.read_data_u32().map(|length| length as usize).map_err(cut)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Stop> {
    let (taken, behind) = rest.split_at_checked(length).ok_or_else(|| cut(()))?;
    *rest = behind;
    Ok(taken)
}

/// Strings of older encoders may be bytes.
fn string(length: usize, rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    let bytes = take(rest, length)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => out.string(text),
        Err(_) => bytes_in(bytes, out),
    }
}

fn binary(length: usize, rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    bytes_in(take(rest, length)?, out)
}

fn bytes_in(bytes: &[u8], out: &mut JsonText) -> Result<(), Stop> {
    out.raw("{\"$bytes\":\"")?;
    out.hex(bytes)?;
    out.raw("\"}")
}

fn extension(length: usize, rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    let number = rest.read_data_i8().map_err(cut)?;
    out.raw(&format!("{{\"$ext\":{number},\"value\":\""))?;
    out.hex(take(rest, length)?)?;
    out.raw("\"}")
}

fn array(length: usize, rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    out.raw("[")?;
    out.nested(|out| {
        for at in 0..length {
            if at > 0 {
                out.raw(",")?;
            }
            value(rest, out)?;
        }
        Ok(())
    })?;
    out.raw("]")
}

fn map(length: usize, rest: &mut &[u8], out: &mut JsonText) -> Result<(), Stop> {
    out.raw("{")?;
    out.nested(|out| {
        for at in 0..length {
            if at > 0 {
                out.raw(",")?;
            }
            out.key(|out| value(rest, out))?;
            value(rest, out)?;
        }
        Ok(())
    })?;
    out.raw("}")
}
