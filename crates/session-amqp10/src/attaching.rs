//! A consumer that a queue was asked for by an attach: the frame is handled again once the queue has answered.

use leveret_broker::asked::Later;
use leveret_broker::queue_handle::{NoConsumer, QueueRef};
use leveret_queue::ConsumerId;
use leveret_session::early_signals::EarlySignals;

/// The consumer of the held attach.
pub(crate) struct Attaching {
    /// Channel and handle of the link.
    pub link: (u16, u32),
    pub queue: QueueRef,
    pub id: ConsumerId,
    pub answer: Later<Result<(), NoConsumer>>,
    pub early: EarlySignals,
}
