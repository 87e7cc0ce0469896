//! Fast path for fields in the encodings that nearly all clients use. Callers fall back to the general decoder for
//! all others.

use crate::performative::DELIVERY_TAG_MAX;
use crate::value::code;

/// Reads fields one after the other. The outer `None` stands for an unusual encoding, the inner one for null.
pub(crate) struct PlainFields<'a> {
    fields: &'a [u8],
    left: u8,
}

impl<'a> PlainFields<'a> {
    /// The `count` fields of a list.
    #[inline(always)]
    pub(crate) fn new(fields: &'a [u8], count: u8) -> Self {
        Self { fields, left: count }
    }

    /// Whether all fields were read and nothing follows.
    #[inline(always)]
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0 && self.fields.is_empty()
    }

    /// The constructor of the next field; `NULL` after the last one.
    #[inline(always)]
    fn constructor(&mut self) -> Option<u8> {
        match self.left.checked_sub(1) {
            None => Some(code::NULL),
            Some(left) => {
                self.left = left;
                let (&code, rest) = self.fields.split_first()?;
                self.fields = rest;
                Some(code)
            }
        }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.fields.split_first_chunk::<N>()?;
        self.fields = rest;
        Some(*bytes)
    }

    #[inline(always)]
    pub(crate) fn uint(&mut self) -> Option<Option<u32>> {
        Some(match self.constructor()? {
            code::UINT_SMALL => Some(u32::from(self.take::<1>()?[0])),
            code::UINT => Some(u32::from_be_bytes(self.take()?)),
            code::UINT_0 => Some(0),
            code::NULL => None,
            _ => return None,
        })
    }

    #[inline(always)]
    pub(crate) fn tag(&mut self) -> Option<Option<&'a [u8]>> {
        match self.constructor()? {
            code::BINARY_8 => {
                let [length] = self.take()?;
                let (tag, rest) = self.fields.split_at_checked(usize::from(length))?;
                self.fields = rest;
                (tag.len() <= DELIVERY_TAG_MAX).then_some(Some(tag))
            }
            code::NULL => Some(None),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> Option<Option<bool>> {
        match self.constructor()? {
            code::NULL => Some(None),
            code::TRUE => Some(Some(true)),
            code::FALSE => Some(Some(false)),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn ubyte(&mut self) -> Option<Option<u8>> {
        match self.constructor()? {
            code::NULL => Some(None),
            code::UBYTE => Some(Some(self.take::<1>()?[0])),
            _ => None,
        }
    }
}
