//! Chunks: the form in which a stream stores messages.
//!
//! A chunk holds consecutive messages of a stream in the layout of RabbitMQ's stream protocol, which that protocol's
//! clients receive byte for byte. [`ChunkBuilder`] writes one, [`decode`] reads one into a [`Batch`], and [`may_match`]
//! says by a chunk's Bloom filter alone whether it can be skipped.
//!
//! All integers are big endian. The header:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | magic 5 in the upper half, version 0 in the lower |
//! | 1 | 1 | type: 0 = messages of users |
//! | 2 | 2 | number of entries |
//! | 4 | 4 | number of messages |
//! | 8 | 8 | timestamp, milliseconds since the Unix epoch |
//! | 16 | 8 | epoch |
//! | 24 | 8 | offset of the first message in the stream |
//! | 32 | 4 | CRC-32 of the entries |
//! | 36 | 4 | length of the entries |
//! | 40 | 4 | length of the trailer |
//! | 44 | 1 | length of the Bloom filter, 0 without one |
//! | 45 | 3 | zero |
//!
//! The Bloom filter, the entries and the trailer follow. An entry is a message, or several with one compression:
//!
//! | size | field of a message | field of a sub-batch |
//! |---|---|---|
//! | 1 bit | 0 | 1 |
//! | | 31 bits: length of the message | 3 bits: [compression](Compression), 4 bits: 0 |
//! | 2 | | number of messages |
//! | 4 | | length of the messages, uncompressed |
//! | 4 | | length of the messages as they are |
//! | | the message | the messages, each as an entry of its own |
//!
//! A message is encoded as all sections of AMQP 1.0 (part 3.2), whatever protocol it was published over.

mod bloom;
mod builder;
mod compression;
mod entries;
mod error;
mod header;
mod joined;
mod messages;
mod shared;
mod stored;
mod stored_join;
mod writer;

use bytes::Bytes;

use crate::batch::Batch;

pub use bloom::{FILTER_BYTES_DEFAULT, FILTER_BYTES_MAX, FILTER_BYTES_MIN, bloom, may_match};
pub use builder::{Chunk, ChunkBuilder, NotAdded};
pub use compression::Compression;
pub use entries::{Entries, Entry, SubBatch};
pub use error::ChunkError;
pub use header::{ChunkHeader, HEADER_BYTES};
pub use joined::{Joined, Joining};
pub use shared::{FilePart, SentEntries, SharedChunk};
pub use stored::{CHECKSUM_BYTES, SKIM_BYTES, of_stored, skim, stored_head, within_stored};
pub use stored_join::{MIXED_MESSAGES_MAX, complete_joined, join_stored};
pub use writer::{ChunkWriter, WRITER_NAME_BYTES_MAX, writer};

use entries::SUB_BATCH;
use stored::stored_head_of;

/// Most messages of a chunk: a record of the log counts no more.
pub const MESSAGES_MAX: u32 = u16::MAX as u32;
/// Longest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;
/// Most bytes of the messages of one sub-batch, uncompressed.
pub const SUB_BATCH_BYTES_MAX: usize = 64 << 20;
/// Most bytes of the messages of all compressed sub-batches of a chunk, uncompressed.
pub const INFLATED_BYTES_MAX: usize = 4 * SUB_BATCH_BYTES_MAX;

/// The annotation, or header of AMQP 0-9-1, by whose text the messages of a stream can be filtered.
pub const X_STREAM_FILTER_VALUE: &str = "x-stream-filter-value";

/// Reads the messages of a chunk of a stream with this name, in order. Each was received at the chunk's timestamp. Large bodies refer to
/// `payload`.
///
/// The checksum isn't compared, because the log has one of its own: [`ChunkHeader::check`] does that.
///
/// # Errors
/// [`ChunkError`] if the payload isn't exactly one chunk of messages.
pub fn decode(payload: &Bytes, stream: &str) -> Result<Batch, ChunkError> {
    let header = ChunkHeader::decode(payload)?;
    header.check_length(payload.len())?;
    messages::decode(&header, &payload.slice(HEADER_BYTES..), stream)
}
