//! Reading and writing the elementary types (4.2.5).

use crate::{DecodeError, ShortStr, Table};

/// Reads elementary types from the front of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline(always)]
    fn bytes(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated(field, count, self.rest.len())),
        }
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(truncated(field, N, self.rest.len())),
        }
    }

    #[inline(always)]
    pub(crate) fn octet(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>("octet").map(|[octet]| octet)
    }

    #[inline(always)]
    pub(crate) fn short(&mut self) -> Result<u16, DecodeError> {
        self.array("short").map(u16::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn long(&mut self) -> Result<u32, DecodeError> {
        self.array("long").map(u32::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn longlong(&mut self) -> Result<u64, DecodeError> {
        self.array("longlong").map(u64::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn short_string(&mut self) -> Result<ShortStr<'a>, DecodeError> {
        let length = self.octet()?;
        self.bytes(usize::from(length), "short string").map(ShortStr::trusted)
    }

    #[inline(always)]
    pub(crate) fn long_string(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.long()?;
        self.bytes(length as usize, "long string")
    }

    /// Passes over this many bytes, if they are there.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    pub(crate) fn table(&mut self) -> Result<Table<'a>, DecodeError> {
        let length = self.long()?;
        Table::new(self.bytes(length as usize, "table")?)
    }

    /// Fails if bytes are left.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes { count: saturate(self.rest.len()) }) }
    }
}

#[cold]
fn truncated(field: &'static str, needed: usize, available: usize) -> DecodeError {
    DecodeError::Truncated { field, needed: saturate(needed), available: saturate(available) }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A type of method fields and properties.
pub(crate) trait Field<'a>: Sized {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! integer_field {
    ($type:ty, $read:ident) => {
        impl<'a> Field<'a> for $type {
            #[inline(always)]
            fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.$read()
            }

            #[inline(always)]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    };
}

integer_field!(u8, octet);
integer_field!(u16, short);
integer_field!(u32, long);
integer_field!(u64, longlong);

impl<'a> Field<'a> for ShortStr<'a> {
    #[inline(always)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.short_string()
    }

    #[inline(always)]
    fn write(&self, out: &mut Vec<u8>) {
        write_short_string(out, self.as_bytes());
    }
}

impl<'a> Field<'a> for &'a [u8] {
    #[inline(always)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.long_string()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_long_string(out, self);
    }
}

impl<'a> Field<'a> for Table<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.table()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_long_string(out, self.as_bytes());
    }
}

/// Writes a short string.
///
/// # Panics
/// If `bytes` has more than 255 octets: a truncated name would address something else.
#[inline(always)]
pub(crate) fn write_short_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u8::try_from(bytes.len()).expect("a short string has at most 255 octets");
    out.push(length);
    out.extend_from_slice(bytes);
}

/// Writes a long string.
///
/// # Panics
/// If `bytes` has 4 GiB or more.
pub(crate) fn write_long_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a long string is shorter than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Writes a placeholder for a length, then calls `fill`, then sets the length to that of the bytes appended by
/// `fill`.
pub(crate) fn write_with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = u32::try_from(out.len() - start - 4).expect("a payload is shorter than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
