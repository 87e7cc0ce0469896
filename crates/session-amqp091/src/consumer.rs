//! A consumer of a connection.

use std::sync::Arc;

use leveret_queue::ConsumerId;

use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::QueueRef;

/// A consumer of this connection.
pub(crate) struct Consumer {
    pub id: ConsumerId,
    pub channel: u16,
    pub tag: Arc<[u8]>,
    pub queue: QueueRef,
    pub no_ack: bool,
    /// The time for which its client may leave deliveries unsettled.
    pub timeout: Option<ConsumerTimeout>,
    /// Index of the source in its channel.
    pub source: u32,
    /// The queue was notified that the socket isn't keeping up.
    pub starved: bool,
}

impl Consumer {
    /// The consumer as events name it.
    pub(crate) fn event(&self) -> ConsumerEvent<'_> {
        ConsumerEvent { channel: self.channel, tag: &self.tag, queue: &self.queue.info().name }
    }
}
