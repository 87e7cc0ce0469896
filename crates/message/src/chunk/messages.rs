//! Reads the messages of a chunk into a batch.

use bytes::Bytes;
use leveret_amqp10::message::BeforeBare;
use leveret_amqp10::{MapRef, Value, descriptor};

use super::entries::{Entries, Entry, MESSAGE_HEAD, SubBatch};
use super::{ChunkError, ChunkHeader, Compression, INFLATED_BYTES_MAX, MESSAGES_MAX, SUB_BATCH_BYTES_MAX};
use crate::added::raw_pairs;
use crate::annotations::{X_EXCHANGE, X_ROUTING_KEY};
use crate::batch::{Absent, Batch, BatchBuilder, INLINE_BELOW};
use crate::deliver::MapWriter;
use crate::envelope::{Encoding, Envelope, TIME_MS_MAX};
use crate::overlay::Overlay;
use crate::stored::StoredMessage;

/// The beginning of a data section (AMQP 1.0, 3.2.6) of any length, before the length.
const DATA_SECTION: &[u8] = b"\0\x53\x75\xb0";
/// Longest name of an exchange, and longest routing key, in bytes.
const NAME_BYTES_MAX: usize = u8::MAX as usize;
/// Most messages with different sections before their bare message that are remembered.
const PARSED_MAX: usize = 8;

/// Reads the bytes behind a chunk's header, whose length was compared with it. The routing key of messages that have come to no exchange,
/// since they were published over the stream protocol, is the name of the `stream`, as in RabbitMQ.
pub(super) fn decode(header: &ChunkHeader, rest: &Bytes, stream: &str) -> Result<Batch, ChunkError> {
    if header.messages > MESSAGES_MAX {
        return Err(ChunkError::TooManyMessages(header.messages));
    }
    let received_ms = u64::try_from(header.timestamp_ms).ok().filter(|ms| *ms <= TIME_MS_MAX);
    let received_ms = received_ms.ok_or(ChunkError::Timestamp(header.timestamp_ms))?;
    let filter_length = usize::from(header.filter_length);
    let data = rest.slice(filter_length..filter_length + header.data_length as usize);
    let mut messages = Messages::new(header, stream, received_ms);
    let mut entries = Entries::new(&data, header.data_at() as u64, header.entries);
    loop {
        let at = entries.at();
        match entries.next_entry()? {
            Some(Entry::Message(message)) => messages.add(&data, message),
            Some(Entry::SubBatch(sub_batch)) => messages.add_all(&data, &sub_batch, at)?,
            None => break,
        }
    }
    messages.finish(&rest[..filter_length])
}

/// The messages read so far.
struct Messages<'h> {
    header: &'h ChunkHeader,
    stream: &'h str,
    received_ms: u64,
    builder: BatchBuilder,
    /// The messages that were parsed last. The sections before the bare message of the next one mostly are the same as
    /// those of one of them, and aren't parsed again.
    parsed: Vec<Parsed>,
    /// Index of the one that the last message was like.
    last: usize,
    /// Index of the one that is replaced next.
    oldest: usize,
    /// Kept for its memory.
    annotations: Vec<u8>,
    inflated: usize,
    /// Messages of sub-batches that can't be read.
    absent: Vec<Absent>,
}

/// A message that was parsed.
#[derive(Default)]
struct Parsed {
    /// The sections before its bare message.
    before_bare: Vec<u8>,
    /// Its index in the batch.
    index: usize,
}

impl Parsed {
    /// The bare message of another message, if the same sections precede it.
    #[inline]
    fn bare_of<'m>(&self, message: &'m [u8]) -> Option<&'m [u8]> {
        message.strip_prefix(&*self.before_bare).filter(|bare| begins_bare(bare))
    }
}

impl<'h> Messages<'h> {
    fn new(header: &'h ChunkHeader, stream: &'h str, received_ms: u64) -> Self {
        let builder = BatchBuilder::default();
        let (parsed, annotations, absent) = (Vec::new(), Vec::new(), Vec::new());
        Self { header, stream, received_ms, builder, parsed, last: 0, oldest: 0, annotations, inflated: 0, absent }
    }

    /// Adds a message that is a part of `source`.
    #[inline]
    fn add(&mut self, source: &Bytes, message: &[u8]) {
        let last = self.parsed.get(self.last).and_then(|parsed| Some((parsed.index, parsed.bare_of(message)?)));
        match last {
            Some((index, bare)) => self.builder.push_alike(index, bare, || source.slice_ref(bare)),
            None => self.add_another(source, message),
        }
    }

    #[inline(never)]
    fn add_another(&mut self, source: &Bytes, message: &[u8]) {
        for (place, parsed) in self.parsed.iter().enumerate() {
            if let Some(bare) = parsed.bare_of(message) {
                self.builder.push_alike(parsed.index, bare, || source.slice_ref(bare));
                self.last = place;
                return;
            }
        }
        self.parse(source, message);
    }

    #[inline(never)]
    fn parse(&mut self, source: &Bytes, message: &[u8]) {
        let Ok(found) = BeforeBare::read(message) else { return self.add_opaque(message) };
        let header = found.header.unwrap_or_default();
        let annotations = found.message_annotations.unwrap_or(MapRef::EMPTY);
        self.annotations.clear();
        let (exchange, routing_key) = split_annotations(annotations, &mut self.annotations);
        let is_routed = !exchange.is_empty() || !routing_key.is_empty();
        let routing_key = if is_routed { routing_key } else { self.stream.as_bytes() };
        let received_ms = self.received_ms;
        let stored = StoredMessage {
            encoding: Encoding::Amqp10,
            envelope: Envelope {
                durable: header.durable.unwrap_or(false),
                priority: header.priority,
                exchange,
                routing_key,
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
        let before_bare = &message[..message.len() - found.bare.len()];
        self.note(before_bare);
        if self.builder.len() == 1 {
            let (messages, bytes) = (self.header.messages as usize, self.header.data_length as usize);
            self.builder.reserve_alike(before_bare.len() + MESSAGE_HEAD, messages, bytes);
        }
    }

    /// Adds a message that has no sections of AMQP 1.0: clients of the stream protocol may publish any bytes, which others get as its
    /// body.
    #[cold]
    fn add_opaque(&mut self, message: &[u8]) {
        let mut body = Vec::with_capacity(DATA_SECTION.len() + 4 + message.len());
        body.extend_from_slice(DATA_SECTION);
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
        let routing_key = self.stream.as_bytes();
        let envelope = Envelope { durable: true, routing_key, received_ms: self.received_ms, ..Envelope::default() };
        let stored = StoredMessage {
            encoding: Encoding::Amqp10,
            envelope,
            overlay: Overlay::default(),
            properties: &[],
            body: &body,
        };
        self.builder.push_message(&stored);
    }

    /// Notes the sections before the bare message that was added last.
    fn note(&mut self, before_bare: &[u8]) {
        if self.parsed.len() < PARSED_MAX {
            self.last = self.parsed.len();
            self.parsed.push(Parsed::default());
        } else {
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % PARSED_MAX;
        }
        let parsed = &mut self.parsed[self.last];
        parsed.before_bare.clear();
        parsed.before_bare.extend_from_slice(before_bare);
        parsed.index = self.builder.len() - 1;
    }

    /// Adds the messages of a sub-batch that begins at byte `at` and is a part of `source`. If they can't all be read, they are absent
    /// from the batch: they have offsets all the same, and publishers of the stream protocol aren't checked for what they compress.
    #[inline(never)]
    fn add_all(&mut self, source: &Bytes, sub_batch: &SubBatch<'_>, at: u64) -> Result<(), ChunkError> {
        // Checked before they are read: a small chunk could announce four billion messages in all.
        let end = self.builder.len() + usize::from(sub_batch.messages);
        if end > self.header.messages as usize {
            return Err(ChunkError::Messages { header: self.header.messages, found: end as u64 });
        }
        let begin = self.builder.len();
        if let Err(reason) = self.add_readable(source, sub_batch, at) {
            self.absent.push(Absent {
                first: begin as u32,
                count: sub_batch.messages.into(),
                reason: reason.to_string(),
            });
            while self.builder.len() < end {
                self.add_opaque(&[]);
            }
        }
        Ok(())
    }

    /// Adds the messages of a sub-batch, all of them or none.
    fn add_readable(&mut self, source: &Bytes, sub_batch: &SubBatch<'_>, at: u64) -> Result<(), ChunkError> {
        let code = sub_batch.compression;
        let compression = Compression::from_code(code).ok_or(ChunkError::UnknownCompression { at, code })?;
        let inflated = match compression {
            Compression::None => source.slice_ref(sub_batch.bytes),
            _ => self.inflate(compression, sub_batch, at)?,
        };
        check_messages(Entries::new(&inflated, at, sub_batch.messages))?;
        let mut entries = Entries::new(&inflated, at, sub_batch.messages);
        while let Some(Entry::Message(message)) = entries.next_entry()? {
            self.add(&inflated, message);
        }
        Ok(())
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
        Ok(self.builder.finish_chunk(self.header.chunk_bytes() as u32, bloom, self.absent))
    }
}

/// Checks that these entries are whole messages, and that nothing follows them.
fn check_messages(mut entries: Entries<'_>) -> Result<(), ChunkError> {
    loop {
        let at = entries.at();
        match entries.next_entry()? {
            Some(Entry::Message(_)) => {}
            Some(Entry::SubBatch(_)) => return Err(ChunkError::Nested { at }),
            None => return Ok(()),
        }
    }
}

/// Whether these bytes begin with a section of a bare message, in one of the encodings that clients use.
#[inline]
fn begins_bare(bytes: &[u8]) -> bool {
    matches!(bytes, [0x00, 0x53, 0x73..=0x77, ..] | [0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x73..=0x77, ..])
}

/// Returns exchange and routing key, and appends the section of all other annotations; nothing if there are none.
fn split_annotations<'a>(annotations: MapRef<'a>, out: &mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
    let Some((exchange, routing_key, others)) = split_first_two(annotations.as_bytes()) else {
        keep_annotations(annotations, out);
        return (name(annotations, X_EXCHANGE), name(annotations, X_ROUTING_KEY));
    };
    if !others.is_empty() {
        let mut map = MapWriter::section(out, descriptor::MESSAGE_ANNOTATIONS);
        map.raw(out, 2 * (annotations.len() - 2) as u32, others);
        map.finish(out);
    }
    (exchange, routing_key)
}

/// Exchange, routing key and the encoded rest of a map that begins with both, as the builder writes it.
fn split_first_two(items: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let after_exchange = items.strip_prefix(b"\xa3\x0ax-exchange\xa1")?;
    let (exchange, rest) = after_exchange.split_first().and_then(|(n, rest)| rest.split_at_checked((*n).into()))?;
    let after_key = rest.strip_prefix(b"\xa3\x0dx-routing-key\xa1")?;
    let (routing_key, rest) = after_key.split_first().and_then(|(n, rest)| rest.split_at_checked((*n).into()))?;
    Some((exchange, routing_key, rest))
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
