//! Writes chunks.

use std::ops::Range;

use bytes::Bytes;
use leveret_amqp10 as amqp10;
use leveret_amqp10::message::{BeforeBare, Sections};
use leveret_amqp091 as amqp091;
use thiserror::Error;

use super::bloom::Bloom;
use super::entries::{SUB_BATCH, SubBatch};
use super::writer::ChunkWriter;
use super::{CHUNK_BYTES_MAX, ChunkError, ChunkHeader, HEADER_BYTES, MESSAGES_MAX, X_STREAM_FILTER_VALUE, messages};
use crate::batch::{Batch, MessageRef};
use crate::deliver::{Delivery, write_body, write_start};
use crate::envelope::Encoding;
use crate::hub::{BodyForm, foreign};
use crate::mqtt::MqttHead;
use crate::overlay::Overlay;
use crate::stored::{StoredMessage, tell_the_same, times};

/// The term of the writer: a stream has one writer as long as it is on one node.
const EPOCH: u64 = 1;
/// Longest chunk without its header and its Bloom filter, in bytes.
const DATA_BYTES_MAX: usize = CHUNK_BYTES_MAX - HEADER_BYTES - u8::MAX as usize;
/// Bytes of an entry, without message, that are reserved with it: its length, and the beginning of a data section.
const ENTRY_BYTES: usize = 16;
/// Most messages with different sections before their bodies that are remembered.
const CONVERTED_MAX: usize = 8;

/// Collects messages for a [`Chunk`].
#[derive(Debug)]
pub struct ChunkBuilder {
    data: Vec<u8>,
    entries: u32,
    messages: u32,
    has_sub_batches: bool,
    timestamp_ms: u64,
    filter: Bloom,
    /// The messages that were converted last. The sections before the body of the next one mostly are the same as those of
    /// one of them, and are copied from there.
    converted: Vec<Converted>,
    /// How many of them are in this chunk; the others are only kept for their memory.
    known: usize,
    /// Index of the one that the last message was like.
    last: usize,
    /// Index of the one that is replaced next.
    oldest: usize,
    /// Bytes of the last chunk: the next one is probably no longer.
    last_bytes: usize,
}

/// A message that was converted.
#[derive(Debug)]
struct Converted {
    head: Vec<u8>,
    /// Range in the data of its sections before the body.
    start: Range<usize>,
    /// How its body was read.
    form: BodyForm,
}

/// A message can't be a part of the chunk, which is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAdded {
    /// The chunk has too many messages or bytes. An empty one would take the message.
    #[error("a chunk has at most {MESSAGES_MAX} messages and {CHUNK_BYTES_MAX} bytes")]
    Full,
    /// It is longer than any chunk.
    #[error("a message of {0} bytes can't be stored in a chunk, which has at most {CHUNK_BYTES_MAX}")]
    TooLong(usize),
    /// Its body is in a file of its own.
    #[error("a message whose body is in a file can't be a part of a chunk")]
    BodyInFile,
}

impl ChunkBuilder {
    /// An empty builder of chunks whose Bloom filter has `filter_bytes` bytes: 16 to 255, less counts as 16.
    pub fn new(filter_bytes: u8) -> Self {
        Self {
            data: Vec::new(),
            entries: 0,
            messages: 0,
            has_sub_batches: false,
            timestamp_ms: 0,
            filter: Bloom::new(filter_bytes),
            converted: Vec::new(),
            known: 0,
            last: 0,
            oldest: 0,
            last_bytes: 0,
        }
    }

    /// Adds a message, converted to AMQP 1.0. The chunk's timestamp is when the latest of its messages was received.
    ///
    /// # Errors
    /// [`NotAdded`]; the chunk is unchanged then.
    #[inline]
    pub fn push(&mut self, message: &MessageRef<'_>) -> Result<(), NotAdded> {
        if message.file.is_some() {
            return Err(NotAdded::BodyInFile);
        }
        let (head, body) = message.parts();
        let at = self.begin(1)?;
        match self.converted[..self.known].get(self.last) {
            Some(converted) if converted.is_like(head) => self.push_alike(at, self.last, head, body),
            _ => self.push_another(at, head, body),
        }
    }

    /// Adds messages of a batch, as [`push`](Self::push) does, and reserves memory for all of them at once.
    ///
    /// # Errors
    /// [`NotAdded`]; the messages before the one that can't be added are a part of the chunk then.
    ///
    /// # Panics
    /// If the range isn't one of the batch.
    pub fn push_all(&mut self, batch: &Batch, messages: Range<usize>) -> Result<(), NotAdded> {
        let Some(first) = messages.clone().next() else { return Ok(()) };
        let before = self.data.len();
        self.push(&batch.message(first))?;
        let besides_body = (self.data.len() - before).saturating_sub(batch.body_length(first) as usize);
        let others = messages.len() - 1;
        let bodies = batch.body_bytes(first + 1, others) as usize;
        // The last message, too, asks for a little more than it takes: without that, all of them would be copied once more.
        self.data.reserve((others * besides_body + bodies).min(DATA_BYTES_MAX) + ENTRY_BYTES);
        messages.skip(1).try_for_each(|index| self.push(&batch.message(index)))
    }

    /// Adds a message with the same sections before its body as one that was converted.
    #[inline]
    fn push_alike(&mut self, at: usize, like: usize, head: &[u8], body: &[u8]) -> Result<(), NotAdded> {
        let Converted { start, form, .. } = &self.converted[like];
        let (start, form) = (start.clone(), *form);
        self.data.reserve(start.len() + body.len() + ENTRY_BYTES);
        self.data.extend_from_slice(&[0; 4]);
        self.data.extend_from_within(start);
        write_body(form, body, &mut self.data);
        self.end(at)?;
        // The filter has its value already.
        self.timestamp_ms = self.timestamp_ms.max(times(head).0);
        self.last = like;
        Ok(())
    }

    #[inline(never)]
    fn push_another(&mut self, at: usize, head: &[u8], body: &[u8]) -> Result<(), NotAdded> {
        match self.converted[..self.known].iter().position(|converted| converted.is_like(head)) {
            Some(like) => self.push_alike(at, like, head, body),
            None => self.convert(at, head, body),
        }
    }

    fn convert(&mut self, at: usize, head: &[u8], body: &[u8]) -> Result<(), NotAdded> {
        let message = StoredMessage::from_parts(head, body);
        let received_ms = message.envelope.received_ms;
        if self.data.is_empty() {
            self.data.reserve(self.last_bytes);
        }
        self.data.extend_from_slice(&[0; 4]);
        let start = self.data.len();
        let delivery = Delivery { now_ms: received_ms, ..Delivery::default() };
        let mut form = write_start(&message, &delivery, &mut self.data);
        if !message.overlay.is_empty() && BeforeBare::read(&self.data[start..]).is_err() {
            // The annotations of publisher, consumers and broker are within the limits of the codec, and all of them in one
            // section aren't. The message is worth more than its history.
            self.data.truncate(start);
            let alone = StoredMessage { overlay: Overlay::default(), ..message };
            form = write_start(&alone, &delivery, &mut self.data);
        }
        let start = start..self.data.len();
        write_body(form, body, &mut self.data);
        self.end(at)?;
        self.timestamp_ms = self.timestamp_ms.max(received_ms);
        self.filter.insert(filter_value(&message));
        self.note(head, start, form);
        Ok(())
    }

    /// Notes a message that was converted.
    fn note(&mut self, head: &[u8], start: Range<usize>, form: BodyForm) {
        if self.known < CONVERTED_MAX {
            self.last = self.known;
            self.known += 1;
        } else {
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % CONVERTED_MAX;
        }
        if self.last == self.converted.len() {
            self.converted.push(Converted { head: Vec::new(), start: 0..0, form });
        }
        let converted = &mut self.converted[self.last];
        converted.head.clear();
        converted.head.extend_from_slice(head);
        (converted.start, converted.form) = (start, form);
    }

    /// Adds a message that is encoded as sections of AMQP 1.0, unchanged. Chunks whose messages aren't can't be
    /// [decoded](super::decode).
    ///
    /// # Errors
    /// [`NotAdded`]; the chunk is unchanged then.
    pub fn push_sections(&mut self, sections: &[u8], filter: Option<&[u8]>, received_ms: u64) -> Result<(), NotAdded> {
        let at = self.begin(1)?;
        self.data.extend_from_slice(&[0; 4]);
        self.data.extend_from_slice(sections);
        self.end(at)?;
        self.timestamp_ms = self.timestamp_ms.max(received_ms);
        self.filter.insert(filter);
        Ok(())
    }

    /// Adds a sub-batch unchanged, whose messages all have this filter value.
    ///
    /// # Errors
    /// [`NotAdded`]; the chunk is unchanged then.
    pub fn push_sub_batch(
        &mut self,
        sub_batch: &SubBatch<'_>,
        filter: Option<&[u8]>,
        received_ms: u64,
    ) -> Result<(), NotAdded> {
        let at = self.begin(sub_batch.messages.into())?;
        let length = sub_batch.bytes.len();
        if at + length > DATA_BYTES_MAX {
            return Err(self.too_long(at, length));
        }
        self.has_sub_batches = true;
        self.data.push(SUB_BATCH | (sub_batch.compression & 7) << 4);
        self.data.extend_from_slice(&sub_batch.messages.to_be_bytes());
        self.data.extend_from_slice(&sub_batch.uncompressed_length.to_be_bytes());
        self.data.extend_from_slice(&(length as u32).to_be_bytes());
        self.data.extend_from_slice(sub_batch.bytes);
        self.entries += 1;
        self.messages += u32::from(sub_batch.messages);
        self.timestamp_ms = self.timestamp_ms.max(received_ms);
        self.filter.insert(filter);
        Ok(())
    }

    /// Adds an entry as it is encoded, a message or a sub-batch of `messages` messages. Its filter value is
    /// [noted](Self::note_filter) by the caller.
    ///
    /// # Errors
    /// [`NotAdded`]; the chunk is unchanged then.
    #[inline]
    pub fn push_entry(&mut self, entry: &[u8], messages: u16) -> Result<(), NotAdded> {
        let at = self.begin(messages.into())?;
        if at + entry.len() > DATA_BYTES_MAX {
            return Err(self.too_long(at, entry.len()));
        }
        self.has_sub_batches |= entry.first().is_some_and(|first| *first >= SUB_BATCH);
        self.data.extend_from_slice(entry);
        self.entries += 1;
        self.messages += u32::from(messages);
        Ok(())
    }

    /// Adds the filter value of an entry to the Bloom filter; an empty one stands for none.
    pub fn note_filter(&mut self, value: &[u8]) {
        self.filter.insert(Some(value));
    }

    /// Whether the Bloom filter has this value; an empty one stands for none.
    pub fn has_filter(&self, value: &[u8]) -> bool {
        self.filter.has(value)
    }

    /// Sets the size of the Bloom filter in bytes; less than 16 counts as 16.
    ///
    /// # Panics
    /// If it isn't empty.
    pub fn set_filter_bytes(&mut self, filter_bytes: u8) {
        assert!(self.is_empty(), "values were noted already");
        self.filter = Bloom::new(filter_bytes);
    }

    /// Notes when messages were received, in milliseconds since the Unix epoch.
    pub fn note_time(&mut self, received_ms: u64) {
        self.timestamp_ms = self.timestamp_ms.max(received_ms);
    }

    /// Where the next entry begins, if there is room for its messages.
    #[inline]
    fn begin(&self, messages: u32) -> Result<usize, NotAdded> {
        // There are no more entries than messages, but for empty sub-batches.
        if self.messages + messages > MESSAGES_MAX || self.entries >= MESSAGES_MAX {
            return Err(NotAdded::Full);
        }
        Ok(self.data.len())
    }

    /// Ends the message that begins at byte `at` of the data with four bytes for its length.
    #[inline]
    fn end(&mut self, at: usize) -> Result<(), NotAdded> {
        let length = self.data.len() - at - 4;
        if self.data.len() > DATA_BYTES_MAX {
            self.data.truncate(at);
            return Err(self.too_long(at, length));
        }
        self.data[at..at + 4].copy_from_slice(&(length as u32).to_be_bytes());
        self.entries += 1;
        self.messages += 1;
        Ok(())
    }

    #[cold]
    fn too_long(&self, at: usize, length: usize) -> NotAdded {
        if at == 0 { NotAdded::TooLong(length) } else { NotAdded::Full }
    }

    /// Whether a sub-batch was added.
    pub fn has_sub_batches(&self) -> bool {
        self.has_sub_batches
    }

    /// Number of messages so far.
    pub fn len(&self) -> usize {
        self.messages as usize
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the entries so far.
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }

    /// Returns the chunk, whose first offset is 0 as yet, and begins an empty one.
    pub fn finish(&mut self) -> Chunk {
        self.finish_of(None)
    }

    /// As [`finish`](Self::finish), of a publisher whose sequence is kept with the chunk.
    pub fn finish_of(&mut self, writer: Option<&ChunkWriter<'_>>) -> Chunk {
        let mut rest = std::mem::take(&mut self.data);
        self.last_bytes = rest.len();
        let filter = self.filter.as_bytes();
        let header = ChunkHeader {
            entries: self.entries as u16,
            messages: self.messages,
            timestamp_ms: self.timestamp_ms.cast_signed(),
            epoch: EPOCH,
            first: 0,
            crc: crc32fast::hash(&rest),
            data_length: rest.len() as u32,
            trailer_length: writer.map_or(0, ChunkWriter::trailer_bytes),
            filter_length: filter.len() as u8,
        };
        if !filter.is_empty() {
            rest.splice(0..0, filter.iter().copied());
        }
        if let Some(writer) = writer {
            writer.write_trailer(&mut rest);
        }
        // Large bodies refer to it, and may wait in memory for long: unused memory is returned.
        if rest.capacity() > rest.len() + rest.len() / 8 + 64 {
            rest.shrink_to_fit();
        }
        self.filter.clear();
        (self.entries, self.messages, self.timestamp_ms) = (0, 0, 0);
        (self.known, self.last, self.oldest) = (0, 0, 0);
        let has_sub_batches = std::mem::take(&mut self.has_sub_batches);
        Chunk { head: header.encode(), header, rest: Bytes::from(rest), has_sub_batches }
    }
}

impl Converted {
    /// Whether a message with this head has the same sections before its body.
    #[inline]
    fn is_like(&self, head: &[u8]) -> bool {
        tell_the_same(&self.head, head) && {
            let ((received_ms, expiry_ms), (last_ms, _)) = (times(head), times(&self.head));
            // The sections have the time to live, and heads its end.
            expiry_ms == 0 || received_ms == last_ms
        }
    }
}

/// The text by which a message can be filtered.
fn filter_value<'a>(message: &StoredMessage<'a>) -> Option<&'a [u8]> {
    match message.encoding {
        Encoding::Amqp091 => match amqp091::headers(message.properties)?.lookup(X_STREAM_FILTER_VALUE)? {
            amqp091::Value::LongString(text) if std::str::from_utf8(text).is_ok() => Some(text),
            _ => None,
        },
        Encoding::Amqp10 if message.properties.is_empty() => None,
        Encoding::Amqp10 => {
            match Sections::message_annotations_of(message.properties)?.lookup(X_STREAM_FILTER_VALUE)? {
                amqp10::Value::String(text) => Some(text.as_bytes()),
                _ => None,
            }
        }
        Encoding::Mqtt => {
            let mut user = MqttHead::read(message.properties)?.properties.user();
            user.find(|(name, _)| *name == X_STREAM_FILTER_VALUE).map(|(_, value)| value.as_bytes())
        }
        Encoding::Foreign(id) => {
            let value = foreign::entry(id, message.properties, X_STREAM_FILTER_VALUE)?;
            value.as_text().map(str::as_bytes)
        }
    }
}

/// A complete chunk: [head](Self::head), then [rest](Self::rest).
#[derive(Debug, Clone)]
pub struct Chunk {
    header: ChunkHeader,
    head: [u8; HEADER_BYTES],
    rest: Bytes,
    has_sub_batches: bool,
}

impl Chunk {
    /// Sets the offset of the first message: its place in the stream is known only under the queue's lock.
    pub fn set_first(&mut self, first: u64) {
        self.header.first = first;
        self.head = self.header.encode();
    }

    /// The header.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// The header as encoded.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Everything behind the header.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }

    /// Number of messages.
    pub fn messages(&self) -> u16 {
        // The builder takes no more.
        self.header.messages as u16
    }

    /// Whether it has sub-batches, which may become very long when they are decompressed.
    pub(super) fn has_sub_batches(&self) -> bool {
        self.has_sub_batches
    }

    /// Length of the chunk in bytes.
    pub fn chunk_bytes(&self) -> u32 {
        self.header.chunk_bytes() as u32
    }

    /// The messages, as [`decode`](super::decode) reads them.
    ///
    /// # Errors
    /// [`ChunkError`] if an entry that was added as it is has no sections of AMQP 1.0.
    pub fn batch(&self) -> Result<Batch, ChunkError> {
        messages::decode(&self.header, &self.rest, "")
    }

    /// The whole chunk in one piece, copied.
    pub fn to_bytes(&self) -> Bytes {
        [self.head(), &self.rest].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchBuilder;
    use crate::envelope::Envelope;

    #[test]
    fn memory_for_a_batch_is_reserved_once() {
        let mut batch = BatchBuilder::default();
        (0..100).for_each(|_| batch.push(&Envelope::default(), b"\0\0", &[7; 1000]));
        let mut builder = ChunkBuilder::new(16);
        builder.push_all(&batch.finish(), 0..100).expect("they fit");
        let unused = builder.data.capacity() - builder.data.len();
        assert!(unused <= 2 * ENTRY_BYTES, "{unused} bytes too many of {}", builder.data.len());
    }
}
