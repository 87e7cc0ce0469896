//! Fast path for messages as most clients encode them.

use super::sections::read_map;
use super::{Header, Properties};
use crate::composite::Composite;
use crate::descriptor;
use crate::plain_fields::PlainFields;
use crate::value::code;
use crate::wire::Reader;

/// A message without annotations, user-id and footer, whose body is one data section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainMessage<'a> {
    /// `header`; default values if there is none.
    pub header: Header,
    /// Whether there is an `application-properties` section, even if empty.
    pub has_application_properties: bool,
    /// The bare message as encoded.
    pub bare: &'a [u8],
}

impl<'a> PlainMessage<'a> {
    /// Locates all parts in one pass, if they are encoded as by nearly all clients. Returns `None` for any other
    /// message, malformed or merely unusual, which takes the general path through
    /// [`Sections::parse`](super::Sections::parse).
    #[inline]
    #[must_use]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (header, bare) = match payload {
            [0x00, 0x53, 0x70, code::LIST_8, size, rest @ ..] => {
                let (list, bare) = rest.split_at_checked(usize::from(*size))?;
                let (count, fields) = list.split_first()?;
                (read_header(PlainFields::new(fields, *count))?, bare)
            }
            [0x00, 0x53, 0x70, code::LIST_0, bare @ ..] => (Header::default(), bare),
            bare => (Header::default(), bare),
        };
        let (has_application_properties, body) = match bare {
            [0x00, 0x53, 0x73 | 0x74, ..] => read_properties(bare)?,
            body => (false, body),
        };
        let is_data = match body {
            [0x00, 0x53, 0x75, code::BINARY_8, size, data @ ..] => data.len() == usize::from(*size),
            [0x00, 0x53, 0x75, code::BINARY_32, a, b, c, d, data @ ..] => {
                data.len() == u32::from_be_bytes([*a, *b, *c, *d]) as usize
            }
            _ => false,
        };
        is_data.then_some(Self { header, has_application_properties, bare })
    }
}

#[inline(always)]
fn read_header(mut fields: PlainFields<'_>) -> Option<Header> {
    let header = Header {
        durable: fields.boolean()?,
        priority: fields.ubyte()?,
        ttl: fields.uint()?,
        first_acquirer: fields.boolean()?.unwrap_or(false),
        delivery_count: fields.uint()?.unwrap_or(0),
    };
    fields.is_at_end().then_some(header)
}

/// Whether there are application properties, and the bytes after both sections, which are checked to their last item.
/// A function of its own, so that a message with neither section executes fewer instructions.
#[inline(never)]
fn read_properties(bare: &[u8]) -> Option<(bool, &[u8])> {
    let mut reader = Reader::new(bare);
    if let [0x00, 0x53, 0x73, list @ ..] = bare {
        reader = Reader::new(list);
        // A user-id has to be checked by the caller, so this isn't a plain message.
        if Properties::read_list(&mut reader).ok()?.user_id.is_some() {
            return None;
        }
    }
    let [0x00, 0x53, 0x74, map @ ..] = reader.rest() else { return Some((false, reader.rest())) };
    reader = Reader::new(map);
    read_map(&mut reader, descriptor::APPLICATION_PROPERTIES).ok()?;
    Some((true, reader.rest()))
}
