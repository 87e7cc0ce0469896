//! Messages on their way into a queue that changes them: that of a delayed exchange gives each the time at which it is due, and one
//! that drops duplicates notes the id by which it compares each.

use std::sync::Arc;

use leveret_message::headers::{Header, Headers};
use leveret_message::{Added, Batch, BatchBuilder};
use leveret_model::{Deduplication, Queue};
use leveret_queue::{OfferedId, Queue as Machine, QueueState};
use leveret_routing::delay_ms;

use crate::headers::MessageHeaders;

/// Messages as the queue takes them.
pub(crate) struct Held {
    pub batch: Arc<Batch>,
    /// Their ids, if the queue drops duplicates.
    pub ids: Option<Vec<Option<OfferedId>>>,
}

/// The messages of an offered batch that aren't duplicates.
pub(crate) struct Fresh {
    pub batch: Arc<Batch>,
    ids: Vec<Option<OfferedId>>,
    /// Their places among those that were offered.
    places: Vec<u32>,
    offered: u32,
}

impl Fresh {
    /// Compares the ids of a batch with those that the queue knows.
    pub(crate) fn of(queue: &mut Machine, batch: &Arc<Batch>, ids: &[Option<OfferedId>]) -> Self {
        let offered = ids.len() as u32;
        // One that doesn't run accepts none.
        let places = if *queue.state() == QueueState::Running { queue.fresh(ids) } else { None };
        let places = places.unwrap_or_else(|| (0..offered).collect());
        if places.len() == ids.len() {
            return Self { batch: batch.clone(), ids: ids.to_vec(), places, offered };
        }
        let mut builder = BatchBuilder::default();
        places.iter().for_each(|place| builder.push_copy(&batch.message(*place as usize)));
        let ids = places.iter().map(|place| ids[*place as usize]).collect();
        Self { batch: Arc::new(builder.finish()), ids, places, offered }
    }

    /// Their number.
    pub(crate) fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// Number of messages that were offered.
    pub(crate) fn offered(&self) -> u32 {
        self.offered
    }

    /// Number of offered messages that are accepted, counted from the first one, if the queue takes so many of these.
    pub(crate) fn accepted(&self, taken: u32) -> u32 {
        self.places.get(taken as usize).copied().unwrap_or(self.offered)
    }

    /// The ids of the first ones.
    pub(crate) fn ids(&self, taken: u32) -> impl Iterator<Item = Option<OfferedId>> {
        self.ids.iter().take(taken as usize).copied()
    }
}

/// The messages that are offered to a queue, as it takes them, if it changes them.
#[inline]
pub(crate) fn held(queue: &Queue, batch: &Batch, index: u32, count: u32) -> Option<Held> {
    // Of nearly all queues, one look is enough.
    (queue.options.changes_messages && count > 0).then(|| changed(queue, batch, index, count))
}

#[cold]
fn changed(queue: &Queue, batch: &Batch, index: u32, count: u32) -> Held {
    match &queue.options.deduplication {
        None => Held { batch: with_times(batch, index, count), ids: None },
        Some(rules) => with_ids(rules, queue.options.releases, batch, index, count),
    }
}

/// `count` messages of a batch from `index` on, each with its due time and its negated delay. The time counts from when the message
/// was received.
fn with_times(batch: &Batch, index: u32, count: u32) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for at in index..index + count {
        let message = batch.message(at as usize);
        let view = message.view();
        let delay_ms = delay_ms(&MessageHeaders(Headers::stored(&view))).unwrap_or(1);
        let due_ms = view.envelope.received_ms.saturating_add(delay_ms.into());
        builder.push_annotated(&message, &Added::of_delay(due_ms, delay_ms));
    }
    Arc::new(builder.finish())
}

/// The same messages with their ids. Those that an exchange is to route are due at once.
fn with_ids(rules: &Deduplication, releases: bool, batch: &Batch, index: u32, count: u32) -> Held {
    let (mut builder, mut ids) = (BatchBuilder::default(), Vec::with_capacity(count as usize));
    for at in index..index + count {
        let message = batch.message(at as usize);
        let view = message.view();
        let received_ms = view.envelope.received_ms;
        let due = releases.then(|| Added::of_time(received_ms.saturating_add(1)));
        let id = Headers::stored(&view).lookup(&rules.header).and_then(id_of);
        match (id, &due) {
            (Some(id), due) => builder.push_deduplicated(&message, id, due.as_ref()),
            (None, Some(due)) => builder.push_annotated(&message, due),
            (None, None) => builder.push_copy(&message),
        }
        // A message that was in such a queue before comes back as a dead letter, or because somebody moved it.
        let is_compared = view.overlay.deduplicated().is_none();
        ids.push(id.map(|id| OfferedId { id, at_ms: received_ms, is_compared }));
    }
    Held { batch: Arc::new(builder.finish()), ids: Some(ids) }
}

/// The id that a header is; `None` if it is empty, or a list or table.
fn id_of(header: Header<'_>) -> Option<u128> {
    Some(match header {
        Header::Bytes(text) => hash(0, text),
        Header::Uuid(bytes) => hash(1, &bytes[..]),
        Header::Integer(value) => hash(2, &value.to_le_bytes()),
        Header::Timestamp(time_ms) => hash(3, &time_ms.to_le_bytes()),
        Header::Double(value) => hash(4, &value.to_bits().to_le_bytes()),
        Header::Bool(value) => hash(5, &[value.into()]),
        Header::Void | Header::Complex(_) => return None,
    })
}

/// FNV-1a with 128 bits. Its values are stored, so they stay the same for good.
fn hash(kind: u8, bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    [kind].iter().chain(bytes).fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of these values makes messages of before a restart look new.
    #[test]
    fn ids_stay_the_same_for_good() {
        assert_eq!(hash(b'a', b""), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964, "FNV-1a of \"a\" by its specification");
        assert_ne!(id_of(Header::Bytes(b"1")), id_of(Header::Integer(1)));
        assert_eq!(id_of(Header::Void), None);
    }
}
