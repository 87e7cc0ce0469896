//! Fields that calls and replies share.

use std::sync::Arc;

use bytes::Bytes;
use leveret_broker::claims::{Claims, HandedOut};
use leveret_message::chunk::{ChunkHeader, SharedChunk};
use leveret_message::{Batch, BatchBuilder};
use leveret_peer::FieldReader;
use leveret_queue::{AttemptCounts, ConsumerId, PublishingIds, Run, Taken};

/// Writes fields.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);

    fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// A value, or that there is none.
    fn maybe<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// Values behind their number.
    fn all<T>(&mut self, values: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        self.u32(values.len() as u32);
        values.for_each(|value| put(self, value));
    }
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend(value.to_le_bytes());
    }
}

/// Bytes behind their length.
pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.u32(bytes.len() as u32);
    to.extend_from_slice(bytes);
}

pub(crate) fn put_runs(to: &mut Vec<u8>, runs: &[Run]) {
    to.all(runs.iter(), put_run);
}

fn put_run(to: &mut Vec<u8>, run: &Run) {
    to.u64(run.first);
    to.u64(run.last);
    to.u64(run.bytes);
    to.flag(run.durable);
}

/// Runs, each behind the term and the number of returns of [`HandedOut`].
pub(crate) fn put_claims(to: &mut Vec<u8>, claims: &Claims) {
    to.u32(claims.runs().len() as u32);
    for (at, run) in claims.iter() {
        to.u64(at.term);
        to.u32(at.returns);
        put_run(to, &run);
    }
}

pub(crate) fn put_consumer(to: &mut Vec<u8>, consumer: Option<ConsumerId>) {
    to.maybe(consumer, |to, id| to.u64(id.0));
}

pub(crate) fn put_held(to: &mut Vec<u8>, held: &[(Option<ConsumerId>, Vec<Run>)]) {
    to.all(held.iter(), |to, (consumer, runs)| {
        put_consumer(to, *consumer);
        put_runs(to, runs);
    });
}

/// Messages of a batch in their stored form. `last_body` is the body of the last one, if that is in a file.
pub(crate) fn put_messages(to: &mut Vec<u8>, batch: &Batch, index: u32, count: u32, last_body: Option<&Bytes>) {
    for at in index..index + count {
        let message = batch.message(at as usize);
        let body = message.file.and(last_body).or(message.large);
        to.u32((message.head.len() + body.map_or(0, Bytes::len)) as u32);
        to.extend_from_slice(message.head);
        body.iter().for_each(|body| to.extend_from_slice(body));
    }
}

/// A chunk whose first message has this offset, behind its length.
pub(crate) fn put_chunk(to: &mut Vec<u8>, first: u64, chunk: &SharedChunk) {
    to.u32(chunk.chunk_bytes() as u32);
    to.extend(ChunkHeader { first, ..*chunk.header() }.encode());
    to.extend_from_slice(chunk.rest());
}

/// Numbers of messages, as runs: the first one, and how many there are.
pub(crate) fn put_numbers(to: &mut Vec<u8>, numbers: &PublishingIds) {
    to.all(numbers.runs().iter(), |to, (first, count)| {
        to.u64(*first);
        to.u32(*count);
    });
}

/// Messages that were taken; see [`put_messages`].
pub(crate) fn put_taken(to: &mut Vec<u8>, taken: &Taken, last_body: Option<&Bytes>) {
    let Taken { batch, index, count, first, redelivered, attempts, durable } = taken;
    to.u64(*first);
    to.u32(*count);
    to.flag(*redelivered);
    to.u32(attempts.acquired);
    to.u32(attempts.failed);
    to.flag(*durable);
    put_messages(to, batch, *index, *count, last_body);
}

/// Reads fields; `None` if they aren't of this form.
pub(crate) trait Get {
    fn consumer(&mut self) -> Option<Option<ConsumerId>>;
    fn run(&mut self) -> Option<Run>;
    fn runs(&mut self) -> Option<Vec<Run>>;
    fn claims(&mut self) -> Option<Claims>;
    fn held(&mut self) -> Option<Vec<(Option<ConsumerId>, Vec<Run>)>>;
    fn behind_length(&mut self) -> Option<&[u8]>;
    fn long_text(&mut self) -> Option<Arc<str>>;
    fn messages(&mut self, count: u32) -> Option<Arc<Batch>>;
    fn numbers(&mut self) -> Option<PublishingIds>;
    fn taken(&mut self) -> Option<Taken>;
}

/// Values behind their number, each of which has at least so many bytes.
pub(crate) fn get_all<'a, T>(
    from: &mut FieldReader<'a>,
    bytes_min: usize,
    mut get: impl FnMut(&mut FieldReader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = from.u32()? as usize;
    if count > from.0.len() / bytes_min {
        return None;
    }
    (0..count).map(|_| get(from)).collect()
}

/// A value, or that there is none.
pub(crate) fn get_maybe<'a, T>(
    from: &mut FieldReader<'a>,
    get: impl FnOnce(&mut FieldReader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if from.flag()? { get(from).map(Some) } else { Some(None) }
}

impl Get for FieldReader<'_> {
    fn consumer(&mut self) -> Option<Option<ConsumerId>> {
        get_maybe(self, |from| from.u64().map(ConsumerId))
    }

    fn run(&mut self) -> Option<Run> {
        let run = Run { first: self.u64()?, last: self.u64()?, bytes: self.u64()?, durable: self.flag()? };
        (run.first <= run.last && run.last < u64::MAX).then_some(run)
    }

    fn runs(&mut self) -> Option<Vec<Run>> {
        get_all(self, 25, Self::run)
    }

    fn claims(&mut self) -> Option<Claims> {
        let claim = |from: &mut FieldReader<'_>| {
            let at = HandedOut { term: from.u64()?, returns: from.u32()? };
            Some((at, from.run()?))
        };
        Some(get_all(self, 37, claim)?.into_iter().collect())
    }

    fn held(&mut self) -> Option<Vec<(Option<ConsumerId>, Vec<Run>)>> {
        get_all(self, 5, |from| Some((from.consumer()?, from.runs()?)))
    }

    fn behind_length(&mut self) -> Option<&[u8]> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    fn long_text(&mut self) -> Option<Arc<str>> {
        std::str::from_utf8(self.behind_length()?).ok().map(Arc::from)
    }

    fn messages(&mut self, count: u32) -> Option<Arc<Batch>> {
        if count == 0 {
            return None;
        }
        let mut builder = BatchBuilder::default();
        for _ in 0..count {
            let stored = self.behind_length()?;
            builder.push_stored(&Bytes::copy_from_slice(stored)).ok()?;
        }
        Some(Arc::new(builder.finish()))
    }

    fn numbers(&mut self) -> Option<PublishingIds> {
        get_all(self, 12, |from| Some((from.u64()?, from.u32()?))).map(PublishingIds::from_runs)
    }

    fn taken(&mut self) -> Option<Taken> {
        let (first, count, redelivered) = (self.u64()?, self.u32()?, self.flag()?);
        let attempts = AttemptCounts { acquired: self.u32()?, failed: self.u32()? };
        let durable = self.flag()?;
        let batch = self.messages(count)?;
        first.checked_add(u64::from(count))?;
        Some(Taken { batch, index: 0, count, first, redelivered, attempts, durable })
    }
}
