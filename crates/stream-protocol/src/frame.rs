//! Frames: a size of 32 bits, then a key, a version and the content.

use crate::FrameError;
use crate::limits::{FRAME_MIN, RESPONSE_BIT, SIZE_FIELD};

/// A frame, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its key, without bit 15.
    pub key: u16,
    /// Whether bit 15 of the key is set.
    pub is_response: bool,
    /// The version of the command.
    pub version: u16,
    /// The bytes behind the version.
    pub content: &'a [u8],
}

/// The first frame of `input`, and its length with the size field. `None` if more bytes are needed.
///
/// `frame_max` limits the size of a frame without its size field; 0 is no limit.
///
/// # Errors
/// The frame is larger than `frame_max`, or has no room for a key and a version. Four bytes are enough to see it.
#[inline]
pub fn next_frame(input: &[u8], frame_max: u32) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((size, rest)) = input.split_first_chunk::<SIZE_FIELD>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*size);
    if frame_max != 0 && size > frame_max {
        return Err(FrameError::TooLarge { size, max: frame_max });
    }
    if size < FRAME_MIN {
        return Err(FrameError::TooSmall { size });
    }
    let Some((&[key_high, key_low, version_high, version_low], content)) =
        rest.get(..size as usize).and_then(|frame| frame.split_first_chunk())
    else {
        return Ok(None);
    };
    let key = u16::from_be_bytes([key_high, key_low]);
    let frame = Frame {
        key: key & !RESPONSE_BIT,
        is_response: key & RESPONSE_BIT != 0,
        version: u16::from_be_bytes([version_high, version_low]),
        content,
    };
    Ok(Some((frame, SIZE_FIELD + size as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_complete_with_its_last_byte() {
        let input = [0, 0, 0, 6, 0x80, 13, 0, 1, 7, 8, 9];
        for end in 0..10 {
            assert_eq!(next_frame(&input[..end], 0), Ok(None), "{end} bytes");
        }
        let frame = Frame { key: 13, is_response: true, version: 1, content: &[7, 8] };
        assert_eq!(next_frame(&input, 6), Ok(Some((frame, 10))));
    }

    #[test]
    fn sizes_out_of_range_are_errors_after_four_bytes() {
        assert_eq!(next_frame(&[0, 0, 0, 7], 6), Err(FrameError::TooLarge { size: 7, max: 6 }));
        assert_eq!(next_frame(&[0, 0, 0, 3], 0), Err(FrameError::TooSmall { size: 3 }));
        assert_eq!(next_frame(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 2, 0, 1], 0), Ok(None));
    }
}
