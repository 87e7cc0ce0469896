//! Messages of a header and a data section.

use super::Header;
use crate::plain_fields::PlainFields;
use crate::value::code;

/// A message without annotations, properties and footer, whose body is one data section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainMessage<'a> {
    /// `header`; all default without one.
    pub header: Header,
    /// The data section as encoded: the whole bare message.
    pub bare: &'a [u8],
}

impl<'a> PlainMessage<'a> {
    /// Finds both of them in one look, where they are encoded as nearly every client does. Any other message, malformed
    /// or merely unusual, is `None` and goes the long way, by [`Sections::parse`](super::Sections::parse).
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
        let is_data = match bare {
            [0x00, 0x53, 0x75, code::BINARY_8, size, data @ ..] => data.len() == usize::from(*size),
            [0x00, 0x53, 0x75, code::BINARY_32, a, b, c, d, data @ ..] => {
                data.len() == u32::from_be_bytes([*a, *b, *c, *d]) as usize
            }
            _ => false,
        };
        is_data.then_some(Self { header, bare })
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
