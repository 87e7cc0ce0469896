//! Reading and writing the elementary types: big-endian numbers, strings with a length of 16 bits, bytes with a length
//! of 32 bits.

use crate::DecodeError;
use crate::limits::{RESPONSE_BIT, SIZE_FIELD, STRING_MAX};

/// Reads elementary types from the front of a frame's content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
    /// The key of the command, for errors.
    key: u16,
}

impl<'a> FieldReader<'a> {
    #[inline(always)]
    pub(crate) fn new(key: u16, content: &'a [u8]) -> Self {
        Self { rest: content, key }
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> u16 {
        self.key
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated(count, field)),
        }
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.truncated(N, field)),
        }
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline(always)]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// A string's bytes; null is empty.
    #[inline(always)]
    pub(crate) fn short_bytes(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.array(field).map(i16::from_be_bytes)? {
            -1 => Ok(&[]),
            received @ ..-1 => Err(DecodeError::Length { key: self.key, field, received: received.into() }),
            length => self.take(length as usize, field),
        }
    }

    /// A string; null is empty.
    #[inline]
    pub(crate) fn string(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        let bytes = self.short_bytes(field)?;
        std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8 {
            key: self.key,
            field,
            valid_up_to: u16::try_from(error.valid_up_to()).unwrap_or(u16::MAX),
        })
    }

    /// Bytes with a length of 32 bits; null is empty.
    pub(crate) fn long_bytes(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.array(field).map(i32::from_be_bytes)? {
            -1 => Ok(&[]),
            received @ ..-1 => Err(DecodeError::Length { key: self.key, field, received }),
            length => self.take(length as usize, field),
        }
    }

    /// A count of 32 bits and as many entries of a fixed size.
    pub(crate) fn entries<const N: usize>(&mut self, field: &'static str) -> Result<&'a [[u8; N]], DecodeError> {
        let count = self.u32(field)? as usize;
        Ok(self.take(count.saturating_mul(N), field)?.as_chunks().0)
    }

    /// Fails if bytes are left.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::Excess { key: self.key, count: saturate(self.rest.len()) })
    }

    #[cold]
    pub(crate) fn truncated(&self, needed: usize, field: &'static str) -> DecodeError {
        let available = saturate(self.rest.len());
        DecodeError::Truncated { key: self.key, field, needed: saturate(needed), available }
    }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Appends a string.
///
/// # Panics
/// If `text` is longer than [`STRING_MAX`]: a truncated name would be that of something else.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    write_short_bytes(out, text.as_bytes());
}

/// Appends bytes with a length of 16 bits.
///
/// # Panics
/// If there are more than [`STRING_MAX`].
pub(crate) fn write_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= STRING_MAX, "a string of {} bytes is too long, the limit is {STRING_MAX}", bytes.len());
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends bytes with a length of 32 bits. Null stands for none.
///
/// # Panics
/// If there are 2 GiB or more.
pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = i32::try_from(bytes.len()).expect("bytes with a length are shorter than 2 GiB");
    out.extend_from_slice(&if length == 0 { -1 } else { length }.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A frame that is being appended to `out`; its size is filled in at the end.
pub(crate) struct Open {
    start: usize,
}

impl Open {
    /// Begins a frame with a size of 0.
    pub(crate) fn begin(out: &mut Vec<u8>, key: u16, version: u16) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; SIZE_FIELD]);
        out.extend_from_slice(&key.to_be_bytes());
        out.extend_from_slice(&version.to_be_bytes());
        Self { start }
    }

    /// Begins a response of version 1.
    pub(crate) fn response(out: &mut Vec<u8>, key: u16, correlation: u32) -> Self {
        let open = Self::begin(out, key | RESPONSE_BIT, 1);
        out.extend_from_slice(&correlation.to_be_bytes());
        open
    }

    /// Fills in the size of the frame.
    ///
    /// # Panics
    /// If the frame has 4 GiB or more.
    pub(crate) fn end(self, out: &mut [u8]) {
        let size = u32::try_from(out.len() - self.start - SIZE_FIELD).expect("a frame is shorter than 4 GiB");
        out[self.start..self.start + SIZE_FIELD].copy_from_slice(&size.to_be_bytes());
    }
}

/// Appends a count of 32 bits and what `write` appends for each item.
pub(crate) fn write_list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count: u32 = 0;
    for item in items {
        write(out, item);
        count += 1;
    }
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
}

/// Appends a list of pairs of strings.
pub(crate) fn write_pairs<'a>(out: &mut Vec<u8>, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
    write_list(out, pairs, |out, (key, value)| {
        write_string(out, key);
        write_string(out, value);
    });
}

/// Appends a list of keys with their lowest and highest version.
pub(crate) fn write_versions(out: &mut Vec<u8>, versions: impl IntoIterator<Item = (u16, u16, u16)>) {
    write_list(out, versions, |out, (key, low, high)| {
        for number in [key, low, high] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    #[test]
    fn null_strings_and_bytes_are_empty() {
        let mut reader = FieldReader::new(key::OPEN, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 7]);
        assert_eq!(reader.string("vhost"), Ok(""));
        assert_eq!(reader.long_bytes("response"), Ok(&[][..]));
        assert_eq!(reader.finish(), Err(DecodeError::Excess { key: key::OPEN, count: 1 }));
    }

    #[test]
    fn wrong_lengths_are_errors_that_name_the_field() {
        let key = key::OPEN;
        assert_eq!(
            FieldReader::new(key, &[0x80, 0]).string("vhost"),
            Err(DecodeError::Length { key, field: "vhost", received: -32_768 })
        );
        assert_eq!(
            FieldReader::new(key, &[0, 3, b'a']).string("vhost"),
            Err(DecodeError::Truncated { key, field: "vhost", needed: 3, available: 1 })
        );
        assert_eq!(
            FieldReader::new(key, &[0, 2, b'a', 0xFF]).string("vhost"),
            Err(DecodeError::NotUtf8 { key, field: "vhost", valid_up_to: 1 })
        );
        assert_eq!(
            FieldReader::new(key, &[0x7F, 0xFF, 0xFF, 0xFF]).long_bytes("response"),
            Err(DecodeError::Truncated { key, field: "response", needed: 0x7FFF_FFFF, available: 0 })
        );
    }

    #[test]
    #[should_panic(expected = "a string of 32768 bytes is too long")]
    fn a_string_that_does_not_fit_its_length_is_a_panic() {
        write_string(&mut Vec::new(), &"x".repeat(32_768));
    }
}
