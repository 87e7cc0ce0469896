//! Frames of a data link: the length of what follows (4), a kind (1), and fields. All integers are little endian.
//!
//! Unlike the frames of other links these aren't cut into parts: what one channel does to one queue stays in order.

use thiserror::Error;

/// A frame: its kind, its fields, and how many bytes it has.
pub type DataFrame<'a> = (u8, &'a [u8], usize);

/// Most bytes behind the length: a message of the largest size, with its properties and room for the rest.
const FRAME_BYTES_MAX: usize = (512 << 20) + (2 << 20);

/// Bytes of a link that aren't frames of this version. The link has to end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DataFrameError {
    /// It is longer than any.
    #[error("a frame of {0} bytes is longer than any of this version")]
    TooLong(usize),
    /// Its fields aren't those of its kind.
    #[error("a frame of kind {0} that isn't one of this version")]
    Malformed(u8),
    /// It says something that can't be.
    #[error("a frame that doesn't fit to those before it: {0}")]
    Unfit(&'static str),
}

/// Appends a frame of this kind, whose fields are written by `fields`.
pub(crate) fn encode(to: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = to.len();
    to.extend([0, 0, 0, 0, kind]);
    fields(to);
    let length = (to.len() - at - 4) as u32;
    to[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// The first frame. `None` if it isn't complete.
///
/// # Errors
/// It is no frame.
pub fn decode(input: &[u8]) -> Result<Option<DataFrame<'_>>, DataFrameError> {
    let Some((length, rest)) = input.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(DataFrameError::TooLong(length));
    }
    if length == 0 {
        return Err(DataFrameError::Malformed(0));
    }
    Ok(rest.get(..length).map(|frame| (frame[0], &frame[1..], 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_and_too_long_ones_are_refused() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, |to| to.extend(b"abc"));
        encode(&mut bytes, 8, |_| ());
        assert_eq!(decode(&bytes[..4]), Ok(None));
        assert_eq!(decode(&bytes[..7]), Ok(None));
        assert_eq!(decode(&bytes), Ok(Some((7, &b"abc"[..], 8))));
        assert_eq!(decode(&bytes[8..]), Ok(Some((8, &b""[..], 5))));
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 1]), Err(DataFrameError::TooLong(0xffff_ffff)));
        assert_eq!(decode(&[0; 9]), Err(DataFrameError::Malformed(0)));
    }
}
