//! Compression of sub-batches, as the clients of the stream protocol write them.

use std::fmt;
use std::io::{self, Read};

/// The compression of a sub-batch, by its number in the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// None.
    None = 0,
    /// gzip (RFC 1952).
    Gzip = 1,
    /// Snappy in its framing format.
    Snappy = 2,
    /// LZ4 in its frame format.
    Lz4 = 3,
    /// Zstandard (RFC 8878).
    Zstd = 4,
}

/// Memory that is reserved before the first byte is decompressed, at most.
const RESERVED_MAX: usize = 1 << 20;

impl Compression {
    /// The compression of this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// Whether compressed bytes begin as this compression has it.
    pub(super) fn begins(self, bytes: &[u8]) -> bool {
        let magic: &[u8] = match self {
            Self::None => b"",
            Self::Gzip => b"\x1f\x8b\x08",
            Self::Snappy => b"\xff\x06\x00\x00sNaPpY",
            Self::Lz4 => b"\x04\x22\x4d\x18",
            Self::Zstd => b"\x28\xb5\x2f\xfd",
        };
        bytes.starts_with(magic)
    }

    /// Decompresses to at most `length` bytes.
    ///
    /// # Errors
    /// The reason, if the bytes are damaged or become longer.
    pub(super) fn inflate(self, bytes: &[u8], length: usize) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(length.min(RESERVED_MAX));
        let read = match self {
            Self::None => read_limited(bytes, length, &mut out),
            Self::Gzip => read_limited(flate2::read::GzDecoder::new(bytes), length, &mut out),
            Self::Snappy => read_limited(snap::read::FrameDecoder::new(bytes), length, &mut out),
            Self::Lz4 => read_limited(lz4_flex::frame::FrameDecoder::new(bytes), length, &mut out),
            Self::Zstd => match ruzstd::decoding::StreamingDecoder::new(bytes) {
                Ok(decoder) => read_limited(decoder, length, &mut out),
                Err(error) => return Err(error.to_string()),
            },
        };
        match read {
            Err(error) => Err(error.to_string()),
            Ok(()) if out.len() > length => {
                Err(format!("it becomes longer than {length} bytes, its uncompressed length"))
            }
            Ok(()) => Ok(out),
        }
    }
}

/// Reads one byte more than the limit at most, so that the caller sees that there are more. The vector doubles up to that length, not
/// beyond it.
fn read_limited(mut reader: impl Read, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let most = length + 1;
    while out.len() < most {
        let room = out.len().max(RESERVED_MAX).min(most - out.len());
        out.reserve_exact(room);
        if reader.by_ref().take(room as u64).read_to_end(out)? < room {
            break;
        }
    }
    Ok(())
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no compression",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_behind_the_limit_and_reserves_no_more() {
        for length in [0, 1, 10, RESERVED_MAX, 5 * RESERVED_MAX + 7] {
            let mut out = Vec::new();
            read_limited(io::repeat(7), length, &mut out).unwrap();
            assert_eq!((out.len(), out.capacity()), (length + 1, length + 1));
            let inflated = Compression::None.inflate(&out[..length], length);
            assert_eq!(inflated.as_deref(), Ok(&out[..length]));
        }
        assert!(Compression::None.inflate(b"four", 3).unwrap_err().contains("longer than 3"));
    }
}
