//! Messages on their way into a queue that changes them: that of a delayed exchange gives each the time at which it is due, and one
//! that drops what is sent again notes by what it compares each.

use std::sync::Arc;

use leveret_message::headers::{Header, Headers};
use leveret_message::{Added, Batch, BatchBuilder, BatchPart, ComparedBy};
use leveret_model::Queue;
use leveret_queue::{LedgerQueue, Offered, QueueState};
use leveret_routing::delay_ms;

use crate::headers::MessageHeaders;
use crate::id_hash::hash;
use crate::publisher_sequence::numbered;

/// Messages as the queue takes them.
pub(crate) struct Held {
    pub batch: Arc<Batch>,
    /// By what they are compared, if the queue drops what is sent again.
    pub compared: Option<Vec<Option<Offered>>>,
}

/// The messages of an offered batch that weren't sent before.
pub(crate) struct Fresh {
    pub batch: Arc<Batch>,
    compared: Vec<Option<Offered>>,
    /// Their places among those that were offered.
    places: Vec<u32>,
    offered: u32,
}

impl Fresh {
    /// Compares the messages of a batch with those that the queue knows.
    pub(crate) fn of(queue: &mut LedgerQueue, batch: &Arc<Batch>, all: &[Option<Offered>]) -> Self {
        let offered = all.len() as u32;
        // One that doesn't run accepts none.
        let places = if *queue.state() == QueueState::Running { queue.fresh(all) } else { None };
        let places = places.unwrap_or_else(|| (0..offered).collect());
        if places.len() == all.len() {
            return Self { batch: batch.clone(), compared: all.to_vec(), places, offered };
        }
        let mut builder = BatchBuilder::default();
        places.iter().for_each(|place| builder.push_copy(&batch.message(*place as usize)));
        let compared = places.iter().map(|place| all[*place as usize]).collect();
        Self { batch: Arc::new(builder.finish()), compared, places, offered }
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

    /// By what the first ones are compared.
    pub(crate) fn compared(&self, taken: u32) -> impl Iterator<Item = Option<Offered>> {
        self.compared.iter().take(taken as usize).copied()
    }
}

/// The messages that are offered to a queue, as it takes them, if it changes them.
#[inline]
pub(crate) fn held(queue: &Queue, part: BatchPart<'_>) -> Option<Held> {
    // Of nearly all queues, one look is enough.
    (queue.options.changes_messages && part.count > 0).then(|| changed(queue, part))
}

#[cold]
fn changed(queue: &Queue, part: BatchPart<'_>) -> Held {
    let options = &queue.options;
    match &options.deduplication {
        Some(rules) => {
            let id = |headers: &Headers<'_>| headers.lookup(&rules.header).and_then(id_of);
            let id = |headers: &Headers<'_>| Some(ComparedBy { id: id(headers)?, sequence: None });
            compared(id, options.releases, part)
        }
        // Publishers were told what is wrong. It may have come from another exchange or queue.
        None if options.numbers_publishers => compared(|headers| numbered(headers).ok().flatten(), false, part),
        None => Held { batch: with_times(part), compared: None },
    }
}

/// These messages, each with its due time and its negated delay. The time counts from when the message
/// was received.
fn with_times(part: BatchPart<'_>) -> Arc<Batch> {
    let mut builder = BatchBuilder::default();
    for at in part.indexes() {
        let message = part.batch.message(at as usize);
        let view = message.view();
        let delay_ms = delay_ms(&MessageHeaders(Headers::stored(&view))).unwrap_or(1);
        let due_ms = view.envelope.received_ms.saturating_add(delay_ms.into());
        builder.push_annotated(&message, &Added::of_delay(due_ms, delay_ms));
    }
    Arc::new(builder.finish())
}

/// The same messages with what `by` compares them by. Those that an exchange is to route are due at once.
fn compared(by: impl Fn(&Headers<'_>) -> Option<ComparedBy>, releases: bool, part: BatchPart<'_>) -> Held {
    let (mut builder, mut compared) = (BatchBuilder::default(), Vec::with_capacity(part.count as usize));
    for at in part.indexes() {
        let message = part.batch.message(at as usize);
        let view = message.view();
        let received_ms = view.envelope.received_ms;
        let due = releases.then(|| Added::of_time(received_ms.saturating_add(1)));
        let by = by(&Headers::stored(&view));
        match (by, &due) {
            (Some(by), due) => builder.push_compared(&message, by, due.as_ref()),
            (None, Some(due)) => builder.push_annotated(&message, due),
            (None, None) => builder.push_copy(&message),
        }
        // A message that was in such a queue before comes back as a dead letter, or because somebody moved it.
        let is_compared = view.overlay.compared_by().is_none();
        compared.push(by.map(|by| Offered { by, at_ms: received_ms, is_compared }));
    }
    Held { batch: Arc::new(builder.finish()), compared: Some(compared) }
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
