//! Content headers (4.2.6.1), and access to single properties without decoding the others.

use crate::properties::KNOWN_FLAGS;
use crate::wire::Reader;
use crate::{DecodeError, Properties, ShortStr, Table};

/// The payload of a header frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// Class of the method that carries the content; 60 (basic) is the only one.
    pub class_id: u16,
    /// Size of the whole body, in bytes.
    pub body_size: u64,
    /// Property flags and list as received; they have been checked.
    pub properties: &'a [u8],
}

impl<'a> ContentHeader<'a> {
    /// Decodes and checks the payload of a header frame. The weight field is ignored, as in RabbitMQ.
    ///
    /// # Errors
    /// If it is cut short or its properties are malformed.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let class_id = reader.short()?;
        reader.short()?;
        let body_size = reader.longlong()?;
        let properties = reader.rest();
        // Fast path for the two most common lists: an empty one, and delivery-mode alone.
        if !matches!(properties, [0, 0] | [0x10, 0, _]) {
            Properties::decode(properties)?;
        }
        Ok(Self { class_id, body_size, properties })
    }
}

const HEADERS: u32 = 13;
const DELIVERY_MODE: u32 = 12;
const PRIORITY: u32 = 11;
const TIMESTAMP: u32 = 6;
const EXPIRATION: u32 = 8;

/// The delivery mode in checked properties: 2 is persistent.
#[inline]
#[must_use]
pub fn delivery_mode(raw: &[u8]) -> Option<u8> {
    if let [0x10, 0, mode] = raw {
        return Some(*mode);
    }
    skip_to(raw, DELIVERY_MODE)?.octet().ok()
}

/// The priority in checked properties.
#[must_use]
pub fn priority(raw: &[u8]) -> Option<u8> {
    skip_to(raw, PRIORITY)?.octet().ok()
}

/// The expiration in checked properties: milliseconds as decimal text.
#[must_use]
pub fn expiration(raw: &[u8]) -> Option<ShortStr<'_>> {
    skip_to(raw, EXPIRATION)?.short_string().ok()
}

/// The headers in checked properties.
#[must_use]
pub fn headers(raw: &[u8]) -> Option<Table<'_>> {
    let mut reader = skip_to(raw, HEADERS)?;
    reader.long_string().ok().map(Table::trusted)
}

/// A reader positioned at the property of flag `bit`, if it is present.
#[inline]
fn skip_to(raw: &[u8], bit: u32) -> Option<Reader<'_>> {
    let mut reader = Reader::new(raw);
    let flags = reader.short().ok()?;
    if flags & (1 << bit) == 0 {
        return None;
    }
    let mut before = flags & KNOWN_FLAGS & !((2 << bit) - 1);
    while before != 0 {
        let next = 15 - before.leading_zeros();
        match next {
            HEADERS => drop(reader.long_string().ok()?),
            DELIVERY_MODE | PRIORITY => drop(reader.octet().ok()?),
            TIMESTAMP => drop(reader.longlong().ok()?),
            _ => drop(reader.short_string().ok()?),
        }
        before &= !(1 << next);
    }
    Some(reader)
}
