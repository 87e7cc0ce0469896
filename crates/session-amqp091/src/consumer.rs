//! A consumer of a connection.

use std::sync::Arc;

use leveret_queue::ConsumerId;

use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::QueueRef;

/// A consumer of this connection.
pub(crate) struct Consumer {
    id: ConsumerId,
    channel: u16,
    tag: Arc<[u8]>,
    queue: QueueRef,
    no_ack: bool,
    timeout: Option<ConsumerTimeout>,
    source: u32,
}

impl Consumer {
    /// A consumer with this tag of a channel, whose deliveries have this source there.
    pub(crate) fn new(
        id: ConsumerId,
        (channel, tag): (u16, Arc<[u8]>),
        queue: QueueRef,
        no_ack: bool,
        (source, timeout): (u32, Option<ConsumerTimeout>),
    ) -> Self {
        Self { id, channel, tag, queue, no_ack, timeout, source }
    }

    #[inline]
    pub(crate) fn id(&self) -> ConsumerId {
        self.id
    }

    #[inline]
    pub(crate) fn channel(&self) -> u16 {
        self.channel
    }

    #[inline]
    pub(crate) fn tag(&self) -> &Arc<[u8]> {
        &self.tag
    }

    #[inline]
    pub(crate) fn queue(&self) -> &QueueRef {
        &self.queue
    }

    /// Deliveries are acknowledged by being sent.
    #[inline]
    pub(crate) fn no_ack(&self) -> bool {
        self.no_ack
    }

    /// The time for which its client may leave deliveries unsettled.
    pub(crate) fn timeout(&self) -> Option<ConsumerTimeout> {
        self.timeout
    }

    /// Index of its source in its channel.
    #[inline]
    pub(crate) fn source(&self) -> u32 {
        self.source
    }

    /// Its deliveries come from this queue from now on, and have this source in its channel.
    pub(crate) fn moved(&mut self, queue: QueueRef, source: u32) {
        (self.queue, self.source) = (queue, source);
    }

    /// The consumer as events name it.
    pub(crate) fn event(&self) -> ConsumerEvent<'_> {
        ConsumerEvent { channel: self.channel, tag: &self.tag, queue: &self.queue.info().name }
    }
}
