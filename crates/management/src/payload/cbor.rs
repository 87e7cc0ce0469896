//! CBOR (RFC 8949) as JSON.

use ciborium_ll::{Decoder, Header, simple};

use super::json_text::{JsonText, Stop};

/// Bytes of a string that are looked at together.
const PIECE_BYTES: usize = 1024;

/// Writes the first value of `bytes`. Returns its length in bytes.
pub(super) fn decode(bytes: &[u8], out: &mut JsonText) -> Result<usize, Stop> {
    let mut decoder = Decoder::from(bytes);
    match pull(&mut decoder)? {
        Header::Break => Err(Stop::damaged("a break stands outside of an array or map")),
        header => value(header, &mut decoder, out),
    }?;
    Ok(decoder.offset())
}

fn damaged<E>(error: ciborium_ll::Error<E>) -> Stop {
    match error {
        ciborium_ll::Error::Io(_) => Stop::damaged("it ends within a value"),
        ciborium_ll::Error::Syntax(at) => Stop::damaged(format!("the byte at {at} doesn't fit")),
    }
}

fn pull(decoder: &mut Decoder<&[u8]>) -> Result<Header, Stop> {
    decoder.pull().map_err(damaged)
}

fn value(header: Header, decoder: &mut Decoder<&[u8]>, out: &mut JsonText) -> Result<(), Stop> {
    match header {
        Header::Positive(number) => out.number(number),
        // The distance from -1 stands there.
        Header::Negative(number) => out.number(-1 - i128::from(number)),
        Header::Float(number) => out.float(number),
        Header::Simple(simple::FALSE) => out.raw("false"),
        Header::Simple(simple::TRUE) => out.raw("true"),
        Header::Simple(simple::NULL | simple::UNDEFINED) => out.raw("null"),
        Header::Simple(number) => out.raw(&format!("{{\"$simple\":{number}}}")),
        Header::Break => Err(Stop::damaged("a break stands where a value should")),
        Header::Tag(number) => {
            out.raw(&format!("{{\"$tag\":{number},\"value\":"))?;
            out.nested(|out| {
                let header = pull(decoder)?;
                value(header, decoder, out)
            })?;
            out.raw("}")
        }
        Header::Bytes(length) => {
            out.raw("{\"$bytes\":\"")?;
            let mut segments = decoder.bytes(length);
            while let Some(mut segment) = segments.pull().map_err(damaged)? {
                let mut piece = [0; PIECE_BYTES];
                while let Some(bytes) = segment.pull(&mut piece).map_err(damaged)? {
                    out.hex(bytes)?;
                }
            }
            out.raw("\"}")
        }
        Header::Text(length) => {
            out.raw("\"")?;
            let mut segments = decoder.text(length);
            while let Some(mut segment) = segments.pull().map_err(damaged)? {
                let mut piece = [0; PIECE_BYTES];
                while let Some(text) = segment.pull(&mut piece).map_err(damaged)? {
                    out.escaped(text)?;
                }
            }
            out.raw("\"")
        }
        Header::Array(length) => {
            out.raw("[")?;
            out.nested(|out| items(length, decoder, out, value))?;
            out.raw("]")
        }
        Header::Map(length) => {
            out.raw("{")?;
            out.nested(|out| {
                items(length, decoder, out, |header, decoder, out| {
                    out.key(|out| value(header, decoder, out))?;
                    let header = pull(decoder)?;
                    value(header, decoder, out)
                })
            })?;
            out.raw("}")
        }
    }
}

/// Writes items, as many as there should be or up to a break.
fn items(
    length: Option<usize>,
    decoder: &mut Decoder<&[u8]>,
    out: &mut JsonText,
    mut write: impl FnMut(Header, &mut Decoder<&[u8]>, &mut JsonText) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut count = 0;
    while length.is_none_or(|length| count < length) {
        let header = pull(decoder)?;
        if header == Header::Break && length.is_none() {
            return Ok(());
        }
        if count > 0 {
            out.raw(",")?;
        }
        write(header, decoder, out)?;
        count += 1;
    }
    Ok(())
}
