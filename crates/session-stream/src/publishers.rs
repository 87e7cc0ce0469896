//! The publishers of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use leveret_broker::queue_handle::{StreamQueueRef, WriterSequence};
use leveret_broker::wait_for::WaitFor;
use rustc_hash::FxHashMap;

/// Longest name of a publisher or a consumer, in bytes. RabbitMQ allows 255 characters.
pub(crate) const REFERENCE_BYTES_MAX: usize = leveret_message::chunk::WRITER_NAME_BYTES_MAX;

/// A publisher.
pub(crate) struct DeclaredPublisher {
    stream: Arc<str>,
    queue: StreamQueueRef,
    /// Its name; without one its messages aren't numbered.
    reference: Option<Arc<str>>,
    /// Tells it from an earlier publisher with its id.
    serial: u64,
    /// The number of its last message, as far as this connection knows.
    last: Option<u64>,
    /// The condition of its last chunk's confirm, if its stream is on another node, which says later whether it took the chunk.
    last_wait: Option<WaitFor>,
    filter_bytes: u8,
    counts: PublisherCounts,
}

/// Numbers of a publisher's messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublisherCounts {
    pub published: u64,
    pub confirmed: u64,
    pub errored: u64,
}

impl DeclaredPublisher {
    /// A publisher to a stream, by this name.
    pub(crate) fn new(stream: Arc<str>, queue: StreamQueueRef, reference: Option<Arc<str>>) -> Self {
        let filter_bytes = queue.effective().options(queue.info()).stream_filter_bytes;
        let (last, last_wait, counts) = (None, None, PublisherCounts::default());
        Self { stream, queue, reference, serial: 0, last, last_wait, filter_bytes, counts }
    }

    pub(crate) fn stream(&self) -> &Arc<str> {
        &self.stream
    }

    pub(crate) fn queue(&self) -> &StreamQueueRef {
        &self.queue
    }

    /// Its name, if its messages are numbered.
    pub(crate) fn reference(&self) -> Option<&Arc<str>> {
        self.reference.as_ref()
    }

    /// Tells it from an earlier publisher with its id.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Size of the Bloom filters of its stream's chunks, in bytes.
    pub(crate) fn filter_bytes(&self) -> u8 {
        self.filter_bytes
    }

    pub(crate) fn counts(&self) -> PublisherCounts {
        self.counts
    }

    /// Asks its stream for the number of the last message of its name, if that isn't known. An answer that comes later isn't waited for: a
    /// stream leaves out what it has, only not as early.
    pub(crate) fn find_last(&mut self) {
        if let Some(name) = self.reference.as_ref().filter(|_| self.last.is_none()) {
            self.last = self.queue.ask(WriterSequence(name.clone())).now().and_then(|(last, _)| last);
        }
    }

    /// Whether a numbered message is in the stream already. If not, it is its last one from now on.
    pub(crate) fn knows(&mut self, id: u64) -> bool {
        let is_known = self.last.is_some_and(|last| id <= last);
        if !is_known {
            self.last = Some(id);
        }
        is_known
    }

    /// The condition of its last chunk's confirm, if its stream is on another node.
    pub(crate) fn last_wait(&self) -> Option<&WaitFor> {
        self.last_wait.as_ref()
    }

    /// Its last chunk was offered to a stream on another node.
    pub(crate) fn waits_for(&mut self, wait: WaitFor) {
        self.last_wait = Some(wait);
    }

    /// Its messages go to the stream.
    pub(crate) fn published(&mut self, count: u64) {
        self.counts.published += count;
    }

    /// Its messages are confirmed.
    pub(crate) fn confirmed(&mut self, count: u64) {
        self.counts.confirmed += count;
    }

    /// A message is refused before its stream sees it.
    pub(crate) fn message_refused(&mut self) {
        self.counts.errored += 1;
    }

    /// The stream doesn't take these messages, which may be sent again.
    pub(crate) fn not_taken(&mut self, count: u64) {
        self.counts.errored += count;
        self.last = None;
    }
}

/// Publishers by their ids.
#[derive(Default)]
pub(crate) struct Publishers {
    known: BTreeMap<u8, DeclaredPublisher>,
    /// Number of publishers so far.
    serials: u64,
}

impl Publishers {
    /// Adds a publisher.
    pub(crate) fn insert(&mut self, id: u8, publisher: DeclaredPublisher) {
        self.serials += 1;
        self.known.insert(id, DeclaredPublisher { serial: self.serials, ..publisher });
    }

    /// Removes a publisher.
    pub(crate) fn remove(&mut self, id: u8) -> Option<DeclaredPublisher> {
        self.known.remove(&id)
    }

    /// The publisher with this id.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u8) -> Option<&mut DeclaredPublisher> {
        self.known.get_mut(&id)
    }

    /// The publisher with this id, if it is still the one with this serial number.
    pub(crate) fn same(&mut self, id: u8, serial: u64) -> Option<&mut DeclaredPublisher> {
        self.known.get_mut(&id).filter(|known| known.serial == serial)
    }

    /// Whether there is one with this id, or one of the stream with this name.
    pub(crate) fn has(&self, id: u8, stream: &str, reference: &str) -> bool {
        let same =
            |known: &DeclaredPublisher| &*known.stream == stream && known.reference.as_deref() == Some(reference);
        self.known.contains_key(&id) || self.known.values().any(same)
    }

    /// Whether there ever was one.
    pub(crate) fn have_been(&self) -> bool {
        self.serials > 0
    }

    /// All ids.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &u8> {
        self.known.keys()
    }

    /// All publishers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &DeclaredPublisher> {
        self.known.values()
    }

    /// All publishers with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u8, &DeclaredPublisher)> {
        self.known.iter()
    }
}

/// Streams that the client publishes to: the key of the registration, and the number of publishers.
#[derive(Default)]
pub(crate) struct Watched(FxHashMap<Arc<str>, (u64, usize)>);

impl Watched {
    /// Counts a publisher of a stream. False if the stream isn't watched yet.
    pub(crate) fn add(&mut self, stream: &str) -> bool {
        let Some((_, count)) = self.0.get_mut(stream) else { return false };
        *count += 1;
        true
    }

    /// Watches a stream for its first publisher.
    pub(crate) fn begin(&mut self, stream: Arc<str>, key: u64) {
        self.0.insert(stream, (key, 1));
    }

    /// A publisher of a stream is gone. If it was the last one, the key of the registration, which ends.
    pub(crate) fn remove(&mut self, stream: &str) -> Option<u64> {
        let (key, count) = self.0.get_mut(stream)?;
        *count -= 1;
        let (key, is_last) = (*key, *count == 0);
        if is_last {
            self.0.remove(stream);
        }
        is_last.then_some(key)
    }

    /// The stream whose registration has this key.
    pub(crate) fn stream(&self, key: u64) -> Option<Arc<str>> {
        self.0.iter().find(|(_, (watched, _))| *watched == key).map(|(stream, _)| stream.clone())
    }
}
