//! Reads the messages of a chunk into a batch.

use bytes::Bytes;
use leveret_amqp10::message::BeforeBare;
use leveret_amqp10::{MapRef, Value, descriptor};

use super::entries::{Entries, Entry, SubBatch};
use super::{ChunkError, ChunkHeader, Compression, INFLATED_BYTES_MAX, MESSAGES_MAX, SUB_BATCH_BYTES_MAX};
use crate::added::raw_pairs;
use crate::annotations::{X_EXCHANGE, X_ROUTING_KEY};
use crate::batch::{Batch, BatchBuilder, INLINE_BELOW};
use crate::deliver::MapWriter;
use crate::envelope::{Encoding, Envelope, TIME_MS_MAX};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// Longest name of an exchange, and longest routing key, in bytes.
const NAME_BYTES_MAX: usize = u8::MAX as usize;

/// Reads the bytes behind a chunk's header, whose length was compared with it.
pub(super) fn decode(header: &ChunkHeader, rest: &Bytes) -> Result<Batch, ChunkError> {
    if header.messages > MESSAGES_MAX {
        return Err(ChunkError::TooManyMessages(header.messages));
    }
    let received_ms = u64::try_from(header.timestamp_ms).ok().filter(|ms| *ms <= TIME_MS_MAX);
    let received_ms = received_ms.ok_or(ChunkError::Timestamp(header.timestamp_ms))?;
    let filter_length = usize::from(header.filter_length);
    let data = rest.slice(filter_length..filter_length + header.data_length as usize);
    let mut messages = Messages::new(header, received_ms);
    let mut entries = Entries::new(&data, header.data_at() as u64, header.entries);
    loop {
        let at = entries.at();
        match entries.next_entry()? {
            Some(Entry::Message(message)) => messages.add(&data, message, at)?,
            Some(Entry::SubBatch(sub_batch)) => messages.add_all(&data, &sub_batch, at)?,
            None => break,
        }
    }
    messages.finish(&rest[..filter_length])
}

/// The messages read so far.
struct Messages<'h> {
    header: &'h ChunkHeader,
    received_ms: u64,
    builder: BatchBuilder,
    /// The sections before the bare message of the last message that was parsed. Those of the next one mostly are the
    /// same, and aren't parsed again.
    before_bare: Vec<u8>,
    /// Kept for its memory.
    annotations: Vec<u8>,
    inflated: usize,
}

impl<'h> Messages<'h> {
    fn new(header: &'h ChunkHeader, received_ms: u64) -> Self {
        let builder = BatchBuilder::default();
        Self { header, received_ms, builder, before_bare: Vec::new(), annotations: Vec::new(), inflated: 0 }
    }

    /// Adds a message that is a part of `source`.
    #[inline]
    fn add(&mut self, source: &Bytes, message: &[u8], at: u64) -> Result<(), ChunkError> {
        match message.strip_prefix(&*self.before_bare) {
            Some(bare) if begins_bare(bare) && !self.builder.is_empty() => {
                self.builder.push_alike(bare, || source.slice_ref(bare));
                Ok(())
            }
            _ => self.add_another(source, message, at),
        }
    }

    #[inline(never)]
    fn add_another(&mut self, source: &Bytes, message: &[u8], at: u64) -> Result<(), ChunkError> {
        let found = BeforeBare::read(message).map_err(|problem| ChunkError::Message { at, problem })?;
        let header = found.header.unwrap_or_default();
        let annotations = found.message_annotations.unwrap_or(MapRef::EMPTY);
        self.annotations.clear();
        keep_annotations(annotations, &mut self.annotations);
        let received_ms = self.received_ms;
        let stored = StoredMessage {
            encoding: Encoding::Amqp10,
            envelope: Envelope {
                durable: header.durable.unwrap_or(false),
                priority: header.priority,
                exchange: name(annotations, X_EXCHANGE),
                routing_key: name(annotations, X_ROUTING_KEY),
                received_ms,
                expiry_ms: header.ttl.map_or(0, |ttl| Envelope::expiry(received_ms, ttl.into())),
            },
            overlay: Overlay::default(),
            properties: &self.annotations,
            body: found.bare,
        };
        if found.bare.len() < INLINE_BELOW {
            self.builder.push_message(&stored);
        } else {
            self.builder.push_large(&stored, source.slice_ref(found.bare));
        }
        let before = message.len() - found.bare.len();
        self.before_bare.clear();
        self.before_bare.extend_from_slice(&message[..before]);
        if self.builder.len() == 1 {
            self.builder.reserve_alike(
                before + super::entries::MESSAGE_HEAD,
                self.header.messages as usize,
                self.header.data_length as usize,
            );
        }
        Ok(())
    }

    /// Adds the messages of a sub-batch that begins at byte `at` and is a part of `source`.
    #[inline(never)]
    fn add_all(&mut self, source: &Bytes, sub_batch: &SubBatch<'_>, at: u64) -> Result<(), ChunkError> {
        let code = sub_batch.compression;
        let compression = Compression::from_code(code).ok_or(ChunkError::UnknownCompression { at, code })?;
        // Checked before they are read: a small chunk could announce four billion messages in all.
        let found = self.builder.len() as u64 + u64::from(sub_batch.messages);
        if found > self.header.messages.into() {
            return Err(ChunkError::Messages { header: self.header.messages, found });
        }
        let inflated = match compression {
            Compression::None => source.slice_ref(sub_batch.bytes),
            _ => self.inflate(compression, sub_batch, at)?,
        };
        let before = self.builder.len();
        let mut entries = Entries::new(&inflated, at, sub_batch.messages);
        let wrong_number =
            |found: usize| ChunkError::SubBatchMessages { at, expected: sub_batch.messages, found: found as u64 };
        loop {
            match entries.next_entry() {
                Ok(Some(Entry::Message(message))) => self.add(&inflated, message, at)?,
                Ok(None) => return Ok(()),
                Ok(Some(Entry::SubBatch(_))) => return Err(wrong_number(self.builder.len() - before)),
                Err(ChunkError::Excess { .. }) => return Err(wrong_number(usize::from(sub_batch.messages) + 1)),
                Err(ChunkError::Truncated { part, need, have, .. }) => {
                    return Err(ChunkError::Truncated { part, at, need, have });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn inflate(&mut self, compression: Compression, sub_batch: &SubBatch<'_>, at: u64) -> Result<Bytes, ChunkError> {
        let length = sub_batch.uncompressed_length as usize;
        self.inflated = self.inflated.saturating_add(length);
        if length > SUB_BATCH_BYTES_MAX || self.inflated > INFLATED_BYTES_MAX {
            return Err(ChunkError::SubBatchTooLong { at, length: length as u64 });
        }
        let inflated = compression.inflate(sub_batch.bytes, length);
        inflated.map(Bytes::from).map_err(|reason| ChunkError::Inflate { at, compression, reason })
    }

    fn finish(mut self, bloom: &[u8]) -> Result<Batch, ChunkError> {
        let found = self.builder.len() as u64;
        if found != self.header.messages.into() {
            return Err(ChunkError::Messages { header: self.header.messages, found });
        }
        Ok(self.builder.finish_chunk(self.header.chunk_bytes() as u32, bloom))
    }
}

/// Whether these bytes begin with a section of a bare message, in one of the encodings that clients use.
#[inline]
fn begins_bare(bytes: &[u8]) -> bool {
    matches!(bytes, [0x00, 0x53, 0x73..=0x77, ..] | [0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x73..=0x77, ..])
}

/// The text of an annotation that names an exchange or a routing key; empty without one, or if it is too long for one.
fn name<'a>(annotations: MapRef<'a>, key: &str) -> &'a [u8] {
    let name = match annotations.lookup(key) {
        Some(Value::String(text)) => text.as_bytes(),
        // A key of AMQP 0-9-1 that isn't UTF-8.
        Some(Value::Binary(bytes)) => bytes,
        _ => &[],
    };
    if name.len() <= NAME_BYTES_MAX { name } else { &[] }
}

/// Appends the section of all annotations but those that are stored in the envelope; nothing if there are no others.
fn keep_annotations(annotations: MapRef<'_>, out: &mut Vec<u8>) {
    let is_kept = |key: Option<&str>| !matches!(key, Some(X_EXCHANGE | X_ROUTING_KEY));
    let mut kept = raw_pairs(annotations).filter(|(key, _)| is_kept(*key)).peekable();
    if kept.peek().is_none() {
        return;
    }
    let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
    kept.for_each(|(_, raw)| map.raw(out, 2, raw));
    map.finish(out);
}
