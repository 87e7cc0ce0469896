//! Messages that the broker itself publishes, to exchanges of its own. No client waits for their confirms or is held back for them:
//! they are dropped where the log is full, and copies of clients' messages also while publishing is blocked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leveret_message::{Batch, BatchBuilder, BatchPart, Envelope, StoredMessage};

use crate::broker::Broker;
use crate::headers::MessageHeaders;
use crate::queue_handle::Audience;
use crate::registry::Snapshot;
use crate::route::{self, RouteQueues};
use crate::time::Now;
use crate::wait_for::WaitFor;

/// A batch that its queues were offered without a connection.
#[derive(Default)]
pub(crate) struct Offered {
    /// The condition under which it is safe.
    pub wait: WaitFor,
    /// Number of queues that are being deleted.
    pub gone: usize,
}

impl Broker {
    /// Hands a batch to queues, without a connection that applies it to them.
    pub(crate) fn hand_over(&self, queues: &RouteQueues, batch: &Arc<Batch>, persistent: bool, now: Now) -> Offered {
        let shared = self.shared.share(batch, queues.logs(), persistent, None);
        let mut offered = Offered::default();
        for queue in queues.iter() {
            let count = batch.len() as u32;
            let came =
                queue.publish(BatchPart::of(batch, 0, count), persistent, Audience::Unpaced(shared), now.monotonic);
            offered.gone += usize::from(came.is_gone);
            let synced = came.awaited.synced();
            offered.wait.and_publish(synced, &came.acceptance);
            if !synced.is_nothing() {
                self.streams.notify(synced, queue.waiter());
            }
        }
        self.streams.announce();
        offered
    }

    /// Whether messages of the broker itself may be published now; those that are `urgent`, despite alarms.
    fn takes_own_messages(&self, urgent: bool) -> bool {
        urgent || !self.alarms.publishing_blocked()
    }
}

/// Messages of the broker itself on their way to an exchange. Those that go to the same queues are handed over together.
pub(crate) struct OwnRun<'b> {
    broker: &'b Broker,
    snapshot: &'b Snapshot,
    vhost: &'b str,
    exchange: &'static str,
    persistent: bool,
    /// Whether they are published despite alarms, of which they may tell.
    is_urgent: bool,
    now: Now,
    queues: RouteQueues,
    builder: BatchBuilder,
}

impl<'b> OwnRun<'b> {
    /// Begins with no message.
    pub(crate) fn new(
        broker: &'b Broker,
        snapshot: &'b Snapshot,
        (vhost, exchange): (&'b str, &'static str),
        persistent: bool,
        now: Now,
    ) -> Self {
        let (queues, builder) = (RouteQueues::default(), BatchBuilder::default());
        Self { broker, snapshot, vhost, exchange, persistent, is_urgent: false, now, queues, builder }
    }

    /// Has the messages published despite alarms.
    pub(crate) fn make_urgent(&mut self) {
        self.is_urgent = true;
    }

    /// Publishes a message with this routing key; its envelope is replaced. A key of over 255 bytes is cut.
    pub(crate) fn push(&mut self, key: &[u8], message: &StoredMessage<'_>) {
        let key = &key[..key.len().min(usize::from(u8::MAX))];
        let headers = MessageHeaders(leveret_message::headers::Headers::stored(message));
        let Some(queues) = route::own(self.snapshot, self.vhost, self.exchange, key, &headers) else { return };
        if !queues.are_same(&self.queues) || self.builder.is_full() {
            self.flush();
            self.queues = queues;
        }
        if self.queues.is_empty() {
            return;
        }
        let envelope = Envelope {
            durable: self.persistent,
            exchange: self.exchange.as_bytes(),
            routing_key: key,
            received_ms: self.now.wall_ms,
            ..Envelope::default()
        };
        self.builder.push_message(&StoredMessage { envelope, ..*message });
    }

    fn flush(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let batch = Arc::new(self.builder.finish());
        // A queue whose log is full gets none. The others do.
        let roomy = self.queues.clone().filter(|queue| queue.stream().has_room());
        let is_taken = self.broker.takes_own_messages(self.is_urgent) && !roomy.is_empty();
        if is_taken {
            self.broker.hand_over(&roomy, &batch, self.persistent, self.now);
        }
        if !is_taken || roomy.len() < self.queues.len() {
            self.broker.own_dropped.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for OwnRun<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
