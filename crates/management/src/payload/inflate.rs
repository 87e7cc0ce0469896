//! Decompression with limits.

use std::io::Read;

use super::BUDGET;

/// A body may become this many times as long ...
const RATIO_MAX: usize = 200;
/// ... or this long, whatever its ratio.
const ALWAYS_ALLOWED: usize = 64 << 10;
/// Largest window of zstd, which is reserved before the first byte; what its own documentation asks decoders to support.
const ZSTD_WINDOW_MAX: u64 = 8 << 20;

/// A compression, recognised by its magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// LZ4 in its frame format.
    Lz4,
}

/// The result, or the part of it before an error or a limit.
pub(super) struct Inflated {
    pub(super) bytes: Vec<u8>,
    /// Whether there would be more than [`BUDGET`].
    pub(super) is_cut: bool,
    /// The reason why it ended early; bytes before it are there.
    pub(super) error: Option<String>,
}

impl Compression {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [4, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    pub(super) fn inflate(self, packed: &[u8]) -> Inflated {
        let nothing = |error: String| Inflated { bytes: Vec::new(), is_cut: false, error: Some(error) };
        let most = packed.len().saturating_mul(RATIO_MAX).clamp(ALWAYS_ALLOWED, BUDGET);
        match self {
            Self::Gzip => self.read(flate2::read::MultiGzDecoder::new(packed), most),
            Self::Lz4 => self.read(lz4_flex::frame::FrameDecoder::new(packed), most),
            Self::Zstd => match zstd_window(packed) {
                Some(window) if window <= ZSTD_WINDOW_MAX => match ruzstd::decoding::StreamingDecoder::new(packed) {
                    Ok(decoder) => self.read(decoder, most),
                    Err(error) => nothing(format!("damaged zstd: {error}")),
                },
                Some(window) => {
                    nothing(format!("zstd with a window of {window} bytes; at most {ZSTD_WINDOW_MAX} are allowed"))
                }
                None => nothing("damaged zstd: its header is cut".to_owned()),
            },
        }
    }

    fn read(self, mut reader: impl Read, most: usize) -> Inflated {
        let mut bytes = Vec::new();
        // One more, which shows that there are more.
        let ended = reader.by_ref().take(most as u64 + 1).read_to_end(&mut bytes);
        let mut error = ended.err().map(|error| format!("damaged {}: {error}", self.name()));
        let is_over = bytes.len() > most;
        bytes.truncate(most);
        if is_over && most < BUDGET {
            error = Some(format!("it becomes over {RATIO_MAX} times as long; the rest isn't decompressed"));
        }
        Inflated { bytes, is_cut: is_over, error }
    }
}

/// The window that the first frame asks for, in bytes; `None` if its header isn't there.
fn zstd_window(packed: &[u8]) -> Option<u64> {
    let descriptor = *packed.get(4)?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = *packed.get(5)?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is as long as the content.
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut number = [0; 8];
    number[..length].copy_from_slice(packed.get(at..at + length)?);
    Some(u64::from_le_bytes(number) + if length == 2 { 256 } else { 0 })
}
