//! Errors of chunks.

use thiserror::Error;

use super::{CHUNK_BYTES_MAX, Compression, INFLATED_BYTES_MAX, MESSAGES_MAX, SUB_BATCH_BYTES_MAX};

/// The bytes aren't a chunk of messages. Places are counted in bytes from the beginning of the chunk; those within a
/// compressed sub-batch are the place of the sub-batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// A part is longer than the bytes that are left for it.
    #[error("chunk: {part} at byte {at} has {need} bytes, and only {have} are left")]
    Truncated {
        /// The part.
        part: &'static str,
        /// Where it begins.
        at: u64,
        /// Its length.
        need: u64,
        /// Number of bytes that are left.
        have: u64,
    },
    /// It doesn't begin as a chunk.
    #[error("chunk: magic number is {0}, expected 5")]
    Magic(u8),
    /// Its version is unknown.
    #[error("chunk: version is {0}, expected 0")]
    Version(u8),
    /// It holds no messages.
    #[error("chunk: type is {0}, expected 0 (messages)")]
    Type(u8),
    /// Its header's lengths don't fit its length.
    #[error("chunk: header asks for {need} bytes, found {have}")]
    Length {
        /// Sum of the header's lengths.
        need: u64,
        /// Number of bytes.
        have: u64,
    },
    /// It is too long.
    #[error("chunk: header asks for {0} bytes, more than {CHUNK_BYTES_MAX}")]
    TooLong(u64),
    /// Its entries were changed.
    #[error("chunk: checksum of its entries is {found:08x}, the header has {expected:08x}")]
    Crc {
        /// The header's.
        expected: u32,
        /// The one computed.
        found: u32,
    },
    /// It has too many messages.
    #[error("chunk: header has {0} messages, more than {MESSAGES_MAX}")]
    TooManyMessages(u32),
    /// Its entries hold another number of messages.
    #[error("chunk: header has {header} messages, its entries have {found}")]
    Messages {
        /// The header's number.
        header: u32,
        /// The number found.
        found: u64,
    },
    /// Its timestamp can't be stored.
    #[error("chunk: timestamp {0} isn't between 1970 and 10889")]
    Timestamp(i64),
    /// Bytes are left behind the last entry.
    #[error("chunk: {count} bytes at byte {at} follow the last entry")]
    Excess {
        /// Where they begin.
        at: u64,
        /// Number of bytes.
        count: u64,
    },
    /// A sub-batch holds another one.
    #[error("chunk: sub-batch at byte {at} holds another sub-batch")]
    Nested {
        /// Where the sub-batch begins.
        at: u64,
    },
    /// The compression of a sub-batch is unknown.
    #[error("chunk: sub-batch at byte {at} has unknown compression {code}, expected 0 to 4")]
    UnknownCompression {
        /// Where the sub-batch begins.
        at: u64,
        /// The compression.
        code: u8,
    },
    /// The messages of a sub-batch are too long.
    #[error(
        "chunk: sub-batch at byte {at} has {length} bytes uncompressed, more than {SUB_BATCH_BYTES_MAX} \
         or than what is left of {INFLATED_BYTES_MAX} for the chunk"
    )]
    SubBatchTooLong {
        /// Where the sub-batch begins.
        at: u64,
        /// Its length, uncompressed.
        length: u64,
    },
    /// The messages of a sub-batch can't be decompressed.
    #[error("chunk: sub-batch at byte {at} can't be decompressed with {compression}: {reason}")]
    Inflate {
        /// Where the sub-batch begins.
        at: u64,
        /// The compression.
        compression: Compression,
        /// The library's error.
        reason: String,
    },
}
