//! Messages on their way into the queue of a delayed exchange: each gets the time at which it is due.

use std::sync::Arc;

use leveret_message::headers::Headers;
use leveret_message::{Added, Batch, BatchBuilder};
use leveret_model::{Queue, QueueType};
use leveret_routing::delay_ms;

use crate::headers::MessageHeaders;

/// The messages that are offered to a queue with the times at which they are due, if they wait there for a delayed exchange.
#[inline]
pub(crate) fn held(queue: &Queue, batch: &Batch, index: u32, count: u32) -> Option<Arc<Batch>> {
    // Of other types, one look is enough.
    let releases = queue.queue_type == QueueType::Quorum && queue.options.releases;
    (releases && count > 0).then(|| with_times(batch, index, count))
}

/// `count` messages of a batch from `index` on, each with its due time and its negated delay. The time counts from when the message
/// was received.
#[cold]
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
