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

/// Reads one byte more than the limit at most, so that the caller sees that there are more.
fn read_limited(reader: impl Read, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
    reader.take(length as u64 + 1).read_to_end(out).map(drop)
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
