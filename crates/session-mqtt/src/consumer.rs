//! A consumer of a queue of the session.

use leveret_broker::asked::Later;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::QueueRef;
use leveret_queue::{ConsumerId, NoConsumer};

/// The tag of all consumers, as in RabbitMQ.
pub(crate) const TAG: &str = "mqtt";

/// A consumer of a queue of the session.
pub(crate) struct Consumer {
    pub id: ConsumerId,
    pub queue: QueueRef,
    /// The queue was told that the client can't take more before it acknowledges something.
    pub is_parked: bool,
    /// The queue's answer, if it comes later.
    pub asked: Option<Later<Result<(), NoConsumer>>>,
}

impl Consumer {
    /// The consumer as events name it.
    pub(crate) fn event(&self) -> ConsumerEvent<'_> {
        ConsumerEvent { channel: 0, tag: TAG.as_bytes(), queue: &self.queue.info().name }
    }
}
