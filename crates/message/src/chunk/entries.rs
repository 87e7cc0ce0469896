//! The entries of a chunk as they are encoded.

use super::{ChunkError, ChunkHeader, Compression};

/// Bit 0 of the first byte of an entry: it is a sub-batch.
pub(super) const SUB_BATCH: u8 = 0x80;
/// Bytes before the message of an entry.
pub(super) const MESSAGE_HEAD: usize = 4;
/// Bytes before the messages of a sub-batch.
pub(super) const SUB_BATCH_HEAD: usize = 11;

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A message.
    Message(&'a [u8]),
    /// Several messages.
    SubBatch(SubBatch<'a>),
}

/// Several messages that were published together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubBatch<'a> {
    /// The number of the [compression](super::Compression).
    pub compression: u8,
    /// Number of messages.
    pub messages: u16,
    /// Length of the messages when they are decompressed, in bytes.
    pub uncompressed_length: u32,
    /// The messages, each as an entry, compressed.
    pub bytes: &'a [u8],
}

impl SubBatch<'_> {
    /// Whether its messages can be what it announces, as far as can be said without decompressing them: readers can do nothing with
    /// others.
    pub fn is_plausible(&self) -> bool {
        let shortest = MESSAGE_HEAD as u64 * u64::from(self.messages);
        let is_whole = || {
            let mut messages = Entries::within(self.bytes, self.messages);
            let is_message = |entry| matches!(entry, Ok(Some(Entry::Message(_))));
            (0..self.messages).all(|_| is_message(messages.next_entry())) && messages.next_entry() == Ok(None)
        };
        match Compression::from_code(self.compression) {
            None => false,
            Some(Compression::None) => {
                self.messages > 0 && self.bytes.len() as u64 == u64::from(self.uncompressed_length) && is_whole()
            }
            Some(compression) => {
                self.messages > 0 && u64::from(self.uncompressed_length) >= shortest && compression.begins(self.bytes)
            }
        }
    }
}

/// The entries of a chunk, in order.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in the chunk.
    at: u64,
    left: u16,
}

impl<'a> Entries<'a> {
    /// The header and the entries of a chunk.
    ///
    /// # Errors
    /// [`ChunkError`] if the header is damaged, or its lengths are wrong.
    pub fn of(chunk: &'a [u8]) -> Result<(ChunkHeader, Self), ChunkError> {
        let header = ChunkHeader::decode(chunk)?;
        header.check_length(chunk.len())?;
        let data = &chunk[header.data_at()..][..header.data_length as usize];
        Ok((header, Self::new(data, header.data_at() as u64, header.entries)))
    }

    /// The `count` entries that these bytes are. Places are counted from their beginning.
    pub fn within(data: &'a [u8], count: u16) -> Self {
        Self::new(data, 0, count)
    }

    /// The `count` entries in `data`, which begins at byte `at` of its chunk.
    pub(super) fn new(data: &'a [u8], at: u64, count: u16) -> Self {
        Self { rest: data, at, left: count }
    }

    /// Where the next entry begins in the chunk.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The next entry.
    ///
    /// # Errors
    /// [`ChunkError`] if it is cut, or if bytes follow the last one.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry<'a>>, ChunkError> {
        if self.left == 0 {
            return if self.rest.is_empty() { Ok(None) } else { Err(self.excess()) };
        }
        self.left -= 1;
        match self.rest {
            [a @ ..SUB_BATCH, b, c, d, rest @ ..] => {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                let Some((message, behind)) = rest.split_at_checked(length) else {
                    return Err(self.truncated("message", MESSAGE_HEAD + length));
                };
                self.rest = behind;
                self.at += (MESSAGE_HEAD + length) as u64;
                Ok(Some(Entry::Message(message)))
            }
            _ => self.next_sub_batch(),
        }
    }

    #[inline(never)]
    fn next_sub_batch(&mut self) -> Result<Option<Entry<'a>>, ChunkError> {
        let [code, m, n, t, u, v, w, a, b, c, d, rest @ ..] = self.rest else {
            let need =
                if self.rest.first().is_some_and(|first| *first >= SUB_BATCH) { SUB_BATCH_HEAD } else { MESSAGE_HEAD };
            return Err(self.truncated("entry", need));
        };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some((bytes, behind)) = rest.split_at_checked(length) else {
            return Err(self.truncated("sub-batch", SUB_BATCH_HEAD + length));
        };
        self.rest = behind;
        self.at += (SUB_BATCH_HEAD + length) as u64;
        Ok(Some(Entry::SubBatch(SubBatch {
            compression: code >> 4 & 7,
            messages: u16::from_be_bytes([*m, *n]),
            uncompressed_length: u32::from_be_bytes([*t, *u, *v, *w]),
            bytes,
        })))
    }

    #[cold]
    fn truncated(&self, part: &'static str, need: usize) -> ChunkError {
        ChunkError::Truncated { part, at: self.at, need: need as u64, have: self.rest.len() as u64 }
    }

    #[cold]
    fn excess(&self) -> ChunkError {
        ChunkError::Excess { at: self.at, count: self.rest.len() as u64 }
    }
}
