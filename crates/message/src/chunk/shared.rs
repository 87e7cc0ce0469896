//! A chunk in memory, shared by all who read it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{CHECKSUM_BYTES, ChunkBuilder};
use super::{Chunk, ChunkError, ChunkHeader, HEADER_BYTES, messages, stored_head_of};
use crate::batch::Batch;

/// A chunk in memory: its bytes, as readers of the stream protocol get them, and its messages, which are decoded when somebody asks for
/// them first.
#[derive(Debug)]
pub struct SharedChunk {
    header: ChunkHeader,
    /// Bloom filter, entries and trailer.
    rest: Bytes,
    /// Whether its messages can be decoded in little time: it has no sub-batches, which may become very long.
    is_plain: bool,
    messages: OnceLock<Arc<Batch>>,
}

impl From<Chunk> for SharedChunk {
    fn from(chunk: Chunk) -> Self {
        let (header, rest) = (*chunk.header(), chunk.rest().clone());
        Self { header, rest, is_plain: !chunk.has_sub_batches(), messages: OnceLock::new() }
    }
}

impl SharedChunk {
    /// The chunk that these bytes are. Its checksum isn't compared.
    ///
    /// # Errors
    /// [`ChunkError`] if they aren't exactly one chunk.
    pub fn decode(bytes: &Bytes) -> Result<Self, ChunkError> {
        let header = ChunkHeader::decode(bytes)?;
        header.check_length(bytes.len())?;
        Ok(Self { header, rest: bytes.slice(HEADER_BYTES..), is_plain: false, messages: OnceLock::new() })
    }

    /// The chunk of one batch, for tests.
    ///
    /// # Panics
    /// If the messages don't fit into a chunk.
    pub fn of(batch: &Batch) -> Self {
        let mut builder = ChunkBuilder::new(0);
        builder.push_all(batch, 0..batch.len()).expect("they fit into a chunk");
        builder.finish().into()
    }

    /// The header, in which the first offset is valid only if the chunk was read from disk.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Number of messages.
    pub fn len(&self) -> u64 {
        self.header.messages.into()
    }

    /// Whether it has no messages.
    pub fn is_empty(&self) -> bool {
        self.header.messages == 0
    }

    /// Length of the chunk in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.header.chunk_bytes()
    }

    /// When the latest of its messages was received, in milliseconds since the Unix epoch.
    pub fn received_ms(&self) -> u64 {
        self.header.timestamp_ms.max(0).cast_unsigned()
    }

    /// Its Bloom filter, empty without one.
    pub fn bloom(&self) -> &[u8] {
        &self.rest[..usize::from(self.header.filter_length)]
    }

    /// Everything behind the header, as it is stored.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }

    /// The first bytes of its stored form, up to [`rest`](Self::rest), if its first message has this offset.
    pub fn stored_head(&self, first: u64) -> [u8; CHECKSUM_BYTES + HEADER_BYTES] {
        stored_head_of(&ChunkHeader { first, ..self.header }, self.bloom())
    }

    /// The chunk as clients of the stream protocol get it, if its first message has this offset: without the trailer, which is the
    /// broker's own, and without the Bloom filter, whose length the header still says. RabbitMQ sends the same.
    pub fn sent(&self, first: u64) -> ([u8; HEADER_BYTES], &[u8]) {
        let head = ChunkHeader { first, trailer_length: 0, ..self.header }.encode();
        let at = usize::from(self.header.filter_length);
        (head, &self.rest[at..at + self.header.data_length as usize])
    }

    /// Its messages, if they are decoded already, or if that takes no longer than to copy them. Sub-batches may become very long, and are
    /// left to [`messages`](Self::messages) on a thread that may take its time.
    pub fn messages_at_once(&self) -> Option<&Arc<Batch>> {
        if self.is_plain { self.messages().ok() } else { self.messages.get() }
    }

    /// Its messages. Those that can't be read have a body of their bytes as they are.
    ///
    /// # Errors
    /// [`ChunkError`] if the chunk is damaged.
    pub fn messages(&self) -> Result<&Arc<Batch>, ChunkError> {
        match self.messages.get() {
            Some(messages) => Ok(messages),
            None => {
                let decoded = Arc::new(messages::decode(&self.header, &self.rest)?);
                Ok(self.messages.get_or_init(|| decoded))
            }
        }
    }

    /// Memory that it uses at present, in bytes.
    pub fn memory(&self) -> u64 {
        let messages = self.messages.get().map_or(0, |messages| messages.memory());
        (size_of::<Self>() + self.rest.len() + messages) as u64
    }
}
