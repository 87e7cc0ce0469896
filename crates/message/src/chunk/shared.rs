//! A chunk in memory, shared by all who read it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};

use super::{CHECKSUM_BYTES, ChunkBuilder, Entries, Entry};
use super::{Chunk, ChunkError, ChunkHeader, HEADER_BYTES, messages, stored_head_of};
use crate::batch::Batch;

/// A part of a file that isn't written any more.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// The file, as whoever lent it knows it. It exists as long as this.
    pub file: Arc<dyn Any + Send + Sync>,
    /// The position of its first byte.
    pub at: u64,
    /// Its length in bytes.
    pub length: u32,
}

/// Everything behind the header of a chunk.
#[derive(Debug)]
enum Rest {
    /// Bloom filter, entries and trailer.
    Memory(Bytes),
    /// The entries are in a file.
    File { bloom: Box<[u8]>, entries: FilePart },
}

/// The entries of a chunk on their way to a client.
#[derive(Debug, Clone, Copy)]
pub enum SentEntries<'a> {
    /// They are in memory.
    Memory(&'a [u8]),
    /// They are to be sent out of their file.
    File(&'a FilePart),
}

impl SentEntries<'_> {
    /// Their length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(part) => part.length as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A chunk: its bytes, as readers of the stream protocol get them, and its messages, which are decoded when somebody asks for them
/// first. The entries of one that is only sent may be in a file.
#[derive(Debug)]
pub struct SharedChunk {
    header: ChunkHeader,
    rest: Rest,
    /// Whether its messages can be decoded in little time: it has no sub-batches, which may become very long.
    is_plain: bool,
    /// The stream that it was published to, if it came over the stream protocol.
    stream: Option<Arc<str>>,
    messages: OnceLock<Arc<Batch>>,
}

impl From<Chunk> for SharedChunk {
    fn from(chunk: Chunk) -> Self {
        let (header, rest) = (*chunk.header(), Rest::Memory(chunk.rest().clone()));
        Self { header, rest, is_plain: !chunk.has_sub_batches(), stream: None, messages: OnceLock::new() }
    }
}

impl SharedChunk {
    /// The chunk that these bytes are. Its checksum isn't compared.
    ///
    /// # Errors
    /// [`ChunkError`] if they aren't exactly one chunk.
    pub fn decode(mut bytes: Bytes) -> Result<Self, ChunkError> {
        let header = ChunkHeader::decode(&bytes)?;
        header.check_length(bytes.len())?;
        bytes.advance(HEADER_BYTES);
        let rest = Rest::Memory(bytes);
        Ok(Self { header, rest, is_plain: false, stream: None, messages: OnceLock::new() })
    }

    /// A chunk that was published on another node, whose bytes these are. Its checksum isn't compared.
    ///
    /// # Errors
    /// [`ChunkError`] if they aren't exactly one chunk with the entries that its header says.
    pub fn published_elsewhere(bytes: Bytes, stream: Arc<str>) -> Result<Self, ChunkError> {
        let chunk = Self::decode(bytes)?;
        let (mut entries, mut messages, mut is_plain) =
            (Entries::within(chunk.entries(), chunk.header.entries), 0, true);
        while let Some(entry) = entries.next_entry()? {
            messages += match entry {
                Entry::Message(_) => 1,
                Entry::SubBatch(sub_batch) => {
                    is_plain = false;
                    u32::from(sub_batch.messages)
                }
            };
        }
        let (need, have) = (u64::from(chunk.header.messages), u64::from(messages));
        if need != have || need == 0 {
            return Err(ChunkError::Length { need, have });
        }
        Ok(Self { is_plain, ..chunk }.published_to(stream))
    }

    /// A chunk whose stored form, with its checksum, is a part of a file; nothing but its header and its Bloom filter was read. It can
    /// only be sent.
    ///
    /// # Errors
    /// [`ChunkError`] if its length isn't the part's.
    pub fn in_file(header: ChunkHeader, bloom: &[u8], stored: &FilePart) -> Result<Self, ChunkError> {
        header.check_length((stored.length as usize).saturating_sub(CHECKSUM_BYTES))?;
        let at = stored.at + (CHECKSUM_BYTES + header.data_at()) as u64;
        let entries = FilePart { file: stored.file.clone(), at, length: header.data_length };
        let rest = Rest::File { bloom: bloom.into(), entries };
        Ok(Self { header, rest, is_plain: false, stream: None, messages: OnceLock::new() })
    }

    /// A chunk that has nothing but these entries behind its header.
    pub(super) fn in_memory(header: ChunkHeader, entries: Bytes) -> Self {
        Self { header, rest: Rest::Memory(entries), is_plain: false, stream: None, messages: OnceLock::new() }
    }

    /// Whether its entries are in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.rest, Rest::Memory(_))
    }

    /// The same chunk, which comes over the stream protocol to this stream.
    #[must_use]
    pub fn published_to(self, stream: Arc<str>) -> Self {
        Self { stream: Some(stream), ..self }
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

    /// Whether it is known to have no sub-batches, of which a chunk has a limited number of bytes.
    pub fn is_plain(&self) -> bool {
        self.is_plain
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
        match &self.rest {
            Rest::Memory(rest) => &rest[..usize::from(self.header.filter_length)],
            Rest::File { bloom, .. } => bloom,
        }
    }

    /// Everything behind the header, as it is stored.
    ///
    /// # Panics
    /// If it is in a file.
    pub fn rest(&self) -> &Bytes {
        match &self.rest {
            Rest::Memory(rest) => rest,
            Rest::File { .. } => unreachable!("a chunk in a file is only sent"),
        }
    }

    /// The first bytes of its stored form, up to [`rest`](Self::rest), if its first message has this offset.
    pub fn stored_head(&self, first: u64) -> [u8; CHECKSUM_BYTES + HEADER_BYTES] {
        stored_head_of(&ChunkHeader { first, ..self.header }, self.bloom())
    }

    /// The chunk as clients of the stream protocol get it, if its first message has this offset: without the trailer, which is the
    /// broker's own, and without the Bloom filter, whose length the header still says. RabbitMQ sends the same.
    pub fn sent(&self, first: u64) -> ([u8; HEADER_BYTES], SentEntries<'_>) {
        let head = ChunkHeader { first, trailer_length: 0, ..self.header }.encode();
        match &self.rest {
            Rest::Memory(_) => (head, SentEntries::Memory(self.entries())),
            Rest::File { entries, .. } => (head, SentEntries::File(entries)),
        }
    }

    /// Its entries.
    ///
    /// # Panics
    /// If they are in a file.
    pub fn entries(&self) -> &[u8] {
        let at = usize::from(self.header.filter_length);
        &self.rest()[at..at + self.header.data_length as usize]
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
    ///
    /// # Panics
    /// If it is in a file.
    pub fn messages(&self) -> Result<&Arc<Batch>, ChunkError> {
        match self.messages.get() {
            Some(messages) => Ok(messages),
            None => {
                let decoded =
                    Arc::new(messages::decode(&self.header, self.rest(), self.stream.as_deref().unwrap_or_default())?);
                Ok(self.messages.get_or_init(|| decoded))
            }
        }
    }

    /// The chunk without its first messages, of which there are so many, to be sent. A sub-batch that has some of them stays whole: its
    /// messages are compressed together.
    ///
    /// # Errors
    /// [`ChunkError`] if it is damaged.
    ///
    /// # Panics
    /// If it is in a file.
    pub fn without_first(&self, messages: u64) -> Result<Self, ChunkError> {
        let data = self.entries();
        // The new checksum would make damage valid.
        self.header.check_entries(data)?;
        let mut entries = Entries::within(data, self.header.entries);
        let (mut at, mut passed, mut left_out) = (0, 0, 0);
        while let Some(entry) = entries.next_entry()? {
            let behind = left_out
                + match entry {
                    Entry::Message(_) => 1,
                    Entry::SubBatch(sub_batch) => u32::from(sub_batch.messages),
                };
            if u64::from(behind) > messages {
                break;
            }
            (at, passed, left_out) = (entries.at() as usize, passed + 1, behind);
        }
        let data = data[at..].to_vec();
        let header = ChunkHeader {
            first: self.header.first + u64::from(left_out),
            entries: self.header.entries - passed,
            messages: self.header.messages - left_out,
            data_length: data.len() as u32,
            filter_length: 0,
            trailer_length: 0,
            crc: crc32fast::hash(&data),
            ..self.header
        };
        Ok(Self::in_memory(header, data.into()))
    }

    /// Memory that it uses at present, in bytes.
    pub fn memory(&self) -> u64 {
        let messages = self.messages.get().map_or(0, |messages| messages.memory());
        size_of::<Self>() as u64 + self.held_bytes() + messages as u64
    }

    /// Bytes of the chunk that are in memory.
    pub fn held_bytes(&self) -> u64 {
        match &self.rest {
            Rest::Memory(rest) => rest.len() as u64,
            Rest::File { bloom, .. } => bloom.len() as u64,
        }
    }
}
